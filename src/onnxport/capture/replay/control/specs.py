"""Specs: how values of a script become tensors and values again, on the way into and out of branches and loop bodies.

The higher-order operators (``cond``, ``while_loop``, ``scan``) pass tensors only. A spec is to a script's variable what
``pytree.TreeSpec`` is to a tree of tensors; it also knows numbers, bools that only run time knows, and sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from onnxport.capture.replay.values.items import (
    Symbols,
    common_type,
    handle_of,
    has_run_time_length,
    item_type_of,
    says_the_same,
    without_inner_sizes,
)
from onnxport.capture.replay.values.stand_ins import (
    UNINITIALIZED,
    ItemType,
    Number,
    ReplayValue,
    Sequenced,
    Truth,
    Uninitialized,
    materialized,
    parts_of,
    rebuilt,
)
from onnxport.errors import CaptureError

_NUMBERS = (int, float, torch.SymInt, torch.SymFloat)
_BOOLS = (bool, torch.SymBool, Truth)


class ValueSpec:
    """How one variable is flattened to tensors and put together again.

    This one is of a value that is the same on every path, such as a string or a number that no branch changes: it needs
    no tensors, and is put together from nothing.
    """

    def __init__(self, constant: ReplayValue) -> None:
        self.constant = constant

    def flatten(self, value: ReplayValue) -> list[torch.Tensor]:
        """The tensors of a value, on the way out of a block."""
        return []

    def unflatten(self, tensors: Iterator[torch.Tensor]) -> ReplayValue:
        """The value, from the next of the tensors."""
        return self.constant

    def widen(self, value: ReplayValue, symbols: Symbols) -> bool:
        """Admit what another iteration makes of the variable; tell whether that changed the spec."""
        return False

    def has_sequence(self) -> bool:
        """Whether there is a list whose length only run time knows in it."""
        return False


@dataclass
class TensorSpec(ValueSpec):
    """Of a tensor: itself."""

    example: torch.Tensor

    def flatten(self, value: ReplayValue) -> list[torch.Tensor]:
        """The tensor in the dtype of the example; zeros if no one will read it."""
        if isinstance(value, Uninitialized):
            return [torch.zeros(self.example.shape, dtype=self.example.dtype)]
        tensor: torch.Tensor = materialized(value)
        # A branch may not return one of its operands as it is.
        return [tensor.clone() if tensor.dtype == self.example.dtype else tensor.to(self.example.dtype)]

    def unflatten(self, tensors: Iterator[torch.Tensor]) -> ReplayValue:
        """The tensor."""
        return next(tensors)


@dataclass
class NumberSpec(ValueSpec):
    """Of a number or a bool: a tensor without axes."""

    is_bool: bool

    def flatten(self, value: ReplayValue) -> list[torch.Tensor]:
        """The number in its tensor."""
        if isinstance(value, Uninitialized):
            value = not self.is_bool and 0
        if isinstance(value, Truth):
            return [value.tensor.clone()]
        number = value if isinstance(value, Number) else Number.of(value)  # type: ignore[arg-type]
        return [number.tensor()]

    def unflatten(self, tensors: Iterator[torch.Tensor]) -> ReplayValue:
        """The number, read from its tensor; a bool when it is asked for."""
        tensor = next(tensors)
        return Truth(tensor) if self.is_bool else tensor.item()


@dataclass
class ContainerSpec(ValueSpec):
    """Of a tuple, dict or list that has the same parts everywhere: the tensors of all parts."""

    like: ReplayValue
    parts: Sequence[ValueSpec]

    def flatten(self, value: ReplayValue) -> list[torch.Tensor]:
        """The tensors of all parts."""
        values = [value] * len(self.parts) if isinstance(value, Uninitialized) else parts_of(value)
        return [tensor for spec, part in zip(self.parts, values, strict=True) for tensor in spec.flatten(part)]

    def unflatten(self, tensors: Iterator[torch.Tensor]) -> ReplayValue:
        """A container like the one it was."""
        return rebuilt(self.like, [spec.unflatten(tensors) for spec in self.parts])

    def widen(self, value: ReplayValue, symbols: Symbols) -> bool:
        """Of each part."""
        pairs = zip(self.parts, parts_of(value), strict=True)
        return True in [spec.widen(part, symbols) for spec, part in pairs]

    def has_sequence(self) -> bool:
        """Of any part."""
        return any(spec.has_sequence() for spec in self.parts)


@dataclass
class SequenceSpec(ValueSpec):
    """Of a list whose length only run time knows: the handle of its sequence."""

    item_type: ItemType

    def flatten(self, value: ReplayValue) -> list[torch.Tensor]:
        """The handle of the sequence."""
        items = [] if isinstance(value, Uninitialized) else parts_of(value)
        common_type(self.item_type, item_type_of(items))
        return [handle_of(items, self.item_type.dtype).clone()]

    def unflatten(self, tensors: Iterator[torch.Tensor]) -> ReplayValue:
        """A list of as many items as there will be."""
        return [Sequenced(next(tensors), self.item_type)]

    def widen(self, value: ReplayValue, symbols: Symbols) -> bool:
        """Keep of the sizes only those that still are the same."""
        found = without_inner_sizes(common_type(self.item_type, item_type_of(parts_of(value))), symbols)
        changed = not says_the_same(found, self.item_type)
        assert found is not None
        self.item_type = found
        return changed

    def has_sequence(self) -> bool:
        """It is one."""
        return True


class UnlikeBranches(CaptureError):
    """Two branches give what no one variable can hold."""


def spec_of(a: ReplayValue, b: ReplayValue, symbols: Symbols = (), in_loop: bool = False) -> ValueSpec:
    """The spec of a variable that is ``a`` after one branch and ``b`` after the other, or around an iteration.

    ``symbols`` are the unbacked symbols that sizes may refer to outside. In a loop, numbers are taken to change even if
    they are the same after one iteration.
    """
    if isinstance(a, Uninitialized) or isinstance(b, Uninitialized):
        return _of_one(b if isinstance(a, Uninitialized) else a, symbols)
    a, b = (value.tensor() if isinstance(value, Number) else value for value in (a, b))
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dim() != b.dim() and not in_loop:
            raise UnlikeBranches(
                f"One branch gives a tensor of {a.dim()} axes and the other one of {b.dim()}, and which is taken "
                "depends on the data. Give both the same number of axes."
            )
        return TensorSpec(a)
    if isinstance(a, _BOOLS) and isinstance(b, _BOOLS):
        return ValueSpec(a) if _agree(a, b) and not in_loop else NumberSpec(is_bool=True)
    if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
        return ValueSpec(a) if _agree(a, b) and not in_loop else NumberSpec(is_bool=False)
    if isinstance(a, list) and isinstance(b, list) and not _alike(a, b):
        return _sequence(common_type(item_type_of(a), item_type_of(b)), symbols)
    if _alike(a, b):
        pairs = zip(parts_of(a), parts_of(b), strict=True)
        return ContainerSpec(a, [spec_of(one, other, symbols, in_loop) for one, other in pairs])
    if a is b or (type(a) is type(b) and not isinstance(a, list | tuple | dict) and a == b):
        return ValueSpec(a)
    raise UnlikeBranches(
        f"One branch gives {_describe(a)} and the other {_describe(b)}, and which is taken depends on the data; "
        "ONNX can choose between tensors only. Give both branches tensors."
    )


def _of_one(value: ReplayValue, symbols: Symbols) -> ValueSpec:
    """The spec of a variable that only one of two branches has."""
    if isinstance(value, Uninitialized):
        return ValueSpec(UNINITIALIZED)
    if isinstance(value, torch.Tensor):
        return TensorSpec(value)
    if has_run_time_length(value):
        return _sequence(item_type_of(value), symbols)
    if isinstance(value, list | tuple | dict):
        return ContainerSpec(value, [_of_one(part, symbols) for part in parts_of(value)])
    return ValueSpec(value)


def _sequence(item_type: ItemType | None, symbols: Symbols) -> SequenceSpec:
    # What has never had an item in it may have any type.
    found = without_inner_sizes(item_type, symbols)
    return SequenceSpec(ItemType(torch.float32, None) if found is None else found)


def _agree(a: ReplayValue, b: ReplayValue) -> bool:
    if a is b:
        return not isinstance(a, torch.SymInt | torch.SymFloat)
    return type(a) is type(b) and isinstance(a, bool | int | float) and bool(a == b)


def _alike(a: ReplayValue, b: ReplayValue) -> bool:
    """Whether two containers have the same parts."""
    if type(a) is not type(b) or not isinstance(a, list | tuple | dict) or len(a) != len(parts_of(b)):
        return False
    if has_run_time_length(a) or has_run_time_length(b):
        return False
    return not isinstance(a, dict) or list(a) == list(b)  # type: ignore[call-overload]


def _describe(value: ReplayValue) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
