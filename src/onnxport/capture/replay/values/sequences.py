"""Sequences of tensors as torch operators: what a list whose length only run time knows is in a captured graph.

A sequence is carried by one tensor, its handle, so that branches and loops can pass it on. While capturing, the handle
says no more than the element type of the items. When a captured program is run, it holds the items themselves, packed.
So are a tensor that may be None (a sequence of one item or none) and one whose number of axes only run time knows.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Sequence

import torch

from onnxport.capture.diagnosis.forced_sizes import note_size_of_item

_NAMESPACE = "onnxport"
# The size of every handle as far as a capture is concerned: loops want states that keep their shape.
_HANDLE = (1,)
# torch releases a library's operators with the object.
_LIBRARIES: list[torch.library.Library] = []


def pack(items: Sequence[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """The handle of a sequence with these items.

    >>> import torch
    >>> from onnxport.capture.replay.values.sequences import pack, unpack
    >>> unpack(pack([torch.ones(2), torch.ones(3)], torch.float32))
    [tensor([1., 1.]), tensor([1., 1., 1.])]
    """
    file = io.BytesIO()
    torch.save([item.detach().clone() for item in items], file)
    content = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
    if dtype == torch.bool:
        # A bool keeps one bit when it is copied.
        return content.unsqueeze(1).bitwise_and(_bits()).ne(0).flatten()
    # Whole elements; what follows an archive is not read.
    return torch.nn.functional.pad(content, (0, -len(content) % dtype.itemsize)).view(dtype)


def unpack(handle: torch.Tensor) -> list[torch.Tensor]:
    """The items of the sequence that a handle holds."""
    if handle.dtype == torch.bool:
        content = handle.reshape(-1, 8).mul(_bits()).sum(1, dtype=torch.uint8)
    else:
        content = handle.contiguous().view(torch.uint8)
    items: list[torch.Tensor] = torch.load(io.BytesIO(content.numpy().tobytes()), weights_only=True)
    return items


def _bits() -> torch.Tensor:
    # Made when it is used: this module may be loaded where new tensors are fake.
    return torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8)


def _empty(dtype: torch.dtype) -> torch.Tensor:
    return pack([], dtype)


def _construct(items: Sequence[torch.Tensor]) -> torch.Tensor:
    return pack(items, items[0].dtype)


def _unbind(x: torch.Tensor) -> torch.Tensor:
    return pack(x.unbind(0), x.dtype)


def _split(x: torch.Tensor, size: int, axis: int) -> torch.Tensor:
    return pack(x.split(size, axis), x.dtype)


def _insert(sequence: torch.Tensor, item: torch.Tensor, position: int | None) -> torch.Tensor:
    items = unpack(sequence)
    items.insert(len(items) if position is None else position, item)
    return pack(items, sequence.dtype)


def _erase(sequence: torch.Tensor, position: int) -> torch.Tensor:
    items = unpack(sequence)
    del items[position]
    return pack(items, sequence.dtype)


def _take(sequence: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    items = unpack(sequence)
    return pack([items[position] for position in positions.tolist()], sequence.dtype)


def _extend(sequence: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return pack([*unpack(sequence), *unpack(other)], sequence.dtype)


def _at(sequence: torch.Tensor, position: int, sizes: Sequence[int]) -> torch.Tensor:
    return unpack(sequence)[position]


def _length(sequence: torch.Tensor) -> torch.Tensor:
    return torch.tensor(len(unpack(sequence)))


def _join(sequence: torch.Tensor, axis: int, new_axis: bool, sizes: Sequence[int]) -> torch.Tensor:
    items = unpack(sequence)
    return torch.stack(items, axis) if new_axis else torch.cat(items, axis)


def _optional(tensor: torch.Tensor, is_there: torch.Tensor) -> torch.Tensor:
    return pack([tensor] if is_there else [], tensor.dtype)


def _of_any_rank(tensor: torch.Tensor) -> torch.Tensor:
    return pack([tensor], tensor.dtype)


def _of_any_size(handle: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    return unpack(handle)[0]


def _fake_handle(source: torch.dtype | torch.Tensor | Sequence[torch.Tensor], *_: object) -> torch.Tensor:
    """Of the element type of what it is made from: a dtype, a tensor, a list of them, or another handle."""
    if isinstance(source, torch.dtype):
        return torch.empty(_HANDLE, dtype=source)
    tensor = source if isinstance(source, torch.Tensor) else source[0]
    return tensor.new_empty(_HANDLE)


def _fake_item(sequence: torch.Tensor, *arguments: Sequence[int | torch.SymInt]) -> torch.Tensor:
    """The sizes come last; -1 is one that only run time knows."""
    return sequence.new_empty([_unknown() if isinstance(size, int) and size < 0 else size for size in arguments[-1]])


def _unknown() -> torch.SymInt:
    size: torch.SymInt = torch.library.get_ctx().new_dynamic_size()
    note_size_of_item(size)
    return size


def _fake_length(sequence: torch.Tensor) -> torch.Tensor:
    return sequence.new_empty([], dtype=torch.int64)


_OPERATORS: dict[str, tuple[str, Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = {
    "sequence_empty": ("(ScalarType dtype) -> Tensor", _empty, _fake_handle),
    "sequence_construct": ("(Tensor[] items) -> Tensor", _construct, _fake_handle),
    "sequence_unbind": ("(Tensor x) -> Tensor", _unbind, _fake_handle),
    "sequence_split": ("(Tensor x, SymInt size, int axis) -> Tensor", _split, _fake_handle),
    "sequence_insert": ("(Tensor sequence, Tensor item, SymInt? position) -> Tensor", _insert, _fake_handle),
    "sequence_erase": ("(Tensor sequence, SymInt position) -> Tensor", _erase, _fake_handle),
    "sequence_take": ("(Tensor sequence, Tensor positions) -> Tensor", _take, _fake_handle),
    "sequence_extend": ("(Tensor sequence, Tensor other) -> Tensor", _extend, _fake_handle),
    "sequence_at": ("(Tensor sequence, SymInt position, SymInt[] sizes) -> Tensor", _at, _fake_item),
    "sequence_length": ("(Tensor sequence) -> Tensor", _length, _fake_length),
    "optional": ("(Tensor tensor, Tensor is_there) -> Tensor", _optional, _fake_handle),
    "of_any_size": ("(Tensor handle, SymInt[] sizes) -> Tensor", _of_any_size, _fake_item),
    "of_any_rank": ("(Tensor tensor) -> Tensor", _of_any_rank, _fake_handle),
    "sequence_join": ("(Tensor sequence, int axis, bool new_axis, SymInt[] sizes) -> Tensor", _join, _fake_item),
}


@functools.cache
def _defined() -> object:
    # Defined when a model first needs them: registering a fake kernel reads the source of its caller.
    library = torch.library.Library(_NAMESPACE, "FRAGMENT")
    _LIBRARIES.append(library)
    for name, (schema, kernel, fake) in _OPERATORS.items():
        library.define(f"{name}{schema}")
        library.impl(name, kernel, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{_NAMESPACE}::{name}", fake, lib=library)
    return torch.ops.onnxport


def sequence_operator(name: str) -> Callable[..., torch.Tensor]:
    """The operator on sequences of this name, such as ``insert``."""
    return handle_operator(f"sequence_{name}")


def handle_operator(name: str) -> Callable[..., torch.Tensor]:
    """The operator on handles of this name, such as ``optional``."""
    overload: Callable[..., torch.Tensor] = getattr(_defined(), name).default
    return overload
