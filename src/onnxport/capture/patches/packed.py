"""Packed sequences, whose sizes only run time knows.

How many rows a ``PackedSequence`` has and how many steps follows from the lengths, so torch can't pack fake tensors.
While capturing, packing and padding are opaque operators of ours, whose results have as many rows and steps as there
will be. The number of sequences is the one thing that stays known: it is the first of the batch sizes, which
recurrent layers read again and again, and each time another number without example would come of it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn.utils import rnn

from onnxport.capture.patches.replacing import attributes_replaced, code_replaced, items_replaced
from onnxport.torch_internals.fake_tensors import FakeTensor, FakeTensorMode, fake_behind, op_implementations_dict
from onnxport.torch_internals.layers import variable_functions as _VF
from onnxport.torch_internals.operators import OpOverload

Pair = tuple[torch.Tensor, torch.Tensor]
Count = int | torch.SymInt
_ITEMS = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)
# torch releases a library's operators with the object.
_LIBRARIES: list[torch.library.Library] = []


class _FirstNumbers:
    """The first number of tensors, by their memory: the number of sequences where they are batch sizes.

    A memory that is known here is not reused. One that was written to since holds something else.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[torch.UntypedStorage, int, Count]] = {}
        #: Whether there is a packed sequence at all.
        self.in_use = False

    def note(self, tensor: torch.Tensor, number: Count) -> None:
        """This is the first number of a tensor."""
        storage = tensor.untyped_storage()
        self._known[storage._cdata] = (storage, tensor._version, number)

    def of(self, first: torch.Tensor) -> Count | None:
        """The number, if it is known."""
        known = self._known.get(first.untyped_storage()._cdata)
        return known[2] if known is not None and known[1] == first._version else None


@contextlib.contextmanager
def sequences_packed() -> Iterator[None]:
    """While this is open, sequences are packed and padded by opaque operators, and their number stays known."""
    numbers = _FirstNumbers()
    rows: list[tuple[object, str, object]] = [
        (_VF, "_pack_padded_sequence", _packing(_VF._pack_padded_sequence, numbers)),
        (_VF, "_pad_packed_sequence", _padding(_VF._pad_packed_sequence)),
        (rnn, "_packed_sequence_init_args", _of_anything(rnn._packed_sequence_init_args, numbers)),
    ]
    rows += [
        (kind, name, _expecting(getattr(kind, name)))
        for kind, name in ((nn.RNNBase, "get_expected_hidden_size"), (nn.LSTM, "get_expected_cell_size"))
    ]
    # run_decompositions takes the rule of a composite operator away for good.
    known = [operator for operator in _ITEMS if operator in op_implementations_dict]
    rules = {operator: _known_item(op_implementations_dict[operator], numbers) for operator in known}
    # Models hold the function itself, so putting another in its module is not enough.
    padded = code_replaced(rnn.pad_packed_sequence, _pad_packed_sequence.__code__)  # type: ignore[arg-type]
    with attributes_replaced(rows), items_replaced(op_implementations_dict, rules), padded:
        yield


def _pad_packed_sequence(
    sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> Pair:
    """``pad_packed_sequence`` without asking whether the total length is enough; it runs among the names of its module.

    Whether it is depends on the lengths: a model for which it is not fails in eager mode.
    """
    padded, lengths = _VF._pad_packed_sequence(
        sequence.data,
        sequence.batch_sizes,
        batch_first,
        padding_value,
        total_length,  # type: ignore[arg-type]
    )
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def _packing(original: Callable[..., Pair], numbers: _FirstNumbers) -> Callable[..., Pair]:
    def pack(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Pair:
        if fake_behind(input) is None:
            return original(input, lengths, batch_first)
        numbers.in_use = True
        steps, count = input.shape[:2] if not batch_first else (input.shape[1], input.shape[0])
        torch._check(
            lengths.shape[0] == count,
            lambda: f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.shape[0]} and {count}",
        )
        data, batch_sizes = _operator("pack_padded_sequence")(input, lengths, batch_first)
        torch._check(batch_sizes.shape[0] <= steps)
        fake = fake_behind(batch_sizes)
        if fake is not None and not fake.is_inference():
            numbers.note(fake, count)
        return data, batch_sizes

    return pack


def _padding(original: Callable[..., Pair]) -> Callable[..., Pair]:
    def pad(
        data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, total: Count | None
    ) -> Pair:
        if fake_behind(data) is not None:
            # Scripts state it always.
            total = None if total is not None and statically_known_true(total == batch_sizes.shape[0]) else total
            count = batch_sizes[0].item()
            return _operator("pad_packed_sequence")(data, batch_sizes, count, batch_first, padding_value, total)
        longest = batch_sizes.size(0)
        if total is not None and total < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total} and max sequence length being {longest}"
            )
        return original(data, batch_sizes, batch_first, padding_value, longest if total is None else total)

    return pad


def _expecting(original: Callable[..., tuple[Count, ...]]) -> Callable[..., tuple[Count, ...]]:
    """The sizes that a layer asks of its states; torch makes a plain number of the first batch size."""

    def expected(self: nn.RNNBase, input: torch.Tensor, batch_sizes: torch.Tensor | None) -> tuple[Count, ...]:
        if batch_sizes is None or fake_behind(batch_sizes) is None:
            return original(self, input, batch_sizes)
        # As of an input with one sequence, in each of the layer's ways to order axes.
        states, _, width = original(self, input.new_empty(1, 1, self.input_size), None)
        count: Any = batch_sizes[0].item()
        return states, count, width

    return expected


def _of_anything(
    original: Callable[..., tuple[object, ...]], numbers: _FirstNumbers
) -> Callable[..., tuple[object, ...]]:
    """Let packed sequences hold anything: torch.export puts together ones of what it knows about each tensor."""

    def parts(data: object, batch_sizes: object = None, *indices: object, **named: object) -> tuple[object, ...]:
        numbers.in_use = True
        if not isinstance(data, torch.Tensor | list | tuple) and len(indices) == 2:
            return data, batch_sizes, *indices
        return original(data, batch_sizes, *indices, **named)

    return parts


def _known_item(original: Callable[..., Any], numbers: _FirstNumbers) -> Callable[..., object]:
    """Read the first of the same batch sizes as the same number, however often it is looked up."""

    def item(mode: FakeTensorMode, operator: OpOverload, tensor: FakeTensor) -> object:
        if tensor.dtype != torch.int64 or tensor.dim() > 0 or tensor.is_inference():
            return original(mode, operator, tensor)
        if not statically_known_true(tensor.storage_offset() == 0):
            return original(mode, operator, tensor)
        number = numbers.of(tensor)
        if number is None:
            number = original(mode, operator, tensor)
            # Scripts read batch sizes by code of their own: the first of several, which is a view.
            if numbers.in_use and tensor._is_view():
                numbers.note(tensor, number)
        return number

    return item


def _real_pad(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch: int, batch_first: bool, value: float, total: int | None
) -> Pair:
    longest = batch_sizes.shape[0] if total is None else total
    pair: Pair = torch.ops.aten._pad_packed_sequence(data, batch_sizes, batch_first, value, longest)
    return pair


def _fake_pack(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Pair:
    context = torch.library.get_ctx()
    rows, steps = context.new_dynamic_size(min=1), context.new_dynamic_size(min=1)
    return input.new_empty([rows, *input.shape[2:]]), lengths.new_empty([steps])


def _fake_pad(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch: Count, batch_first: bool, value: float, total: Count | None
) -> Pair:
    steps = batch_sizes.shape[0] if total is None else total
    leading = [batch, steps] if batch_first else [steps, batch]
    return data.new_empty([*leading, *data.shape[1:]]), batch_sizes.new_empty([batch])


def _operator(name: str) -> Callable[..., Pair]:
    overload: Callable[..., Pair] = getattr(_defined(), name).default
    return overload


@functools.cache
def _defined() -> object:
    # Defined when a model first needs them: registering a fake kernel reads the source of its caller.
    library = torch.library.Library("onnxport", "FRAGMENT")
    _LIBRARIES.append(library)
    for schema, kernel, fake in (
        (
            "pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)",
            torch.ops.aten._pack_padded_sequence.default,
            _fake_pack,
        ),
        (
            "pad_packed_sequence(Tensor data, Tensor batch_sizes, SymInt batch, bool batch_first, "
            "Scalar padding_value, SymInt? total_length) -> (Tensor, Tensor)",
            _real_pad,
            _fake_pad,
        ),
    ):
        library.define(schema)
        name = schema.partition("(")[0]
        library.impl(name, kernel, "CompositeExplicitAutograd")
        torch.library.register_fake(f"onnxport::{name}", fake, lib=library)
    return torch.ops.onnxport
