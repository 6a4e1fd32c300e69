"""Specs: how values of a script become tensors and values again, on the way into and out of branches and loop bodies.

The higher-order operators (``cond``, ``while_loop``, ``scan``) pass tensors only. A spec is to a script's variable what
``pytree.TreeSpec`` is to a tree of tensors; it also knows numbers, bools that only run time knows, and sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from onnxport.capture.replay.values.items import (
    Symbols,
    common_type,
    handle_of,
    has_run_time_length,
    is_inner,
    item_type_of,
    says_the_same,
    without_inner_sizes,
)
from onnxport.capture.replay.values.sequences import handle_operator
from onnxport.capture.replay.values.stand_ins import (
    SHAPES_CHANGE,
    UNINITIALIZED,
    FreeRank,
    ItemType,
    Number,
    Optionally,
    ReplayValue,
    Sequenced,
    Truth,
    Uninitialized,
    materialized,
    parts_of,
    rebuilt,
)
from onnxport.errors import CaptureError, with_article

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
    """Of a tensor: itself. ``symbols`` are the unbacked symbols that sizes may refer to outside of a branch."""

    example: torch.Tensor
    symbols: Symbols = ()

    def flatten(self, value: ReplayValue) -> list[torch.Tensor]:
        """The tensor in the dtype of the example; zeros if no one will read it."""
        if isinstance(value, Uninitialized):
            return [_stand_in(self.example, self.symbols)]
        tensor: torch.Tensor = materialized(value)
        # A branch may not return one of its operands as it is.
        return [tensor.clone() if tensor.dtype == self.example.dtype else tensor.to(self.example.dtype)]

    def unflatten(self, tensors: Iterator[torch.Tensor]) -> ReplayValue:
        """The tensor."""
        return next(tensors)


def _stand_in(example: torch.Tensor, symbols: Symbols) -> torch.Tensor:
    """What is given in the place of a tensor that no one will read."""
    sizes = [1 if is_inner(size, symbols) else size for size in example.shape]
    return torch.zeros(sizes, dtype=example.dtype)


@dataclass
class OptionalSpec(ValueSpec):
    """Of a tensor that may be None: whether it is there, and the tensor."""

    tensor: TensorSpec

    def flatten(self, value: ReplayValue) -> list[torch.Tensor]:
        """Whether it is there, and the tensor or what stands for it."""
        if isinstance(value, Optionally):
            return [value.is_there.clone(), *self.tensor.flatten(value.tensor)]
        is_there = value is not None and not isinstance(value, Uninitialized)
        given = value if is_there else UNINITIALIZED
        return [torch.scalar_tensor(is_there, dtype=torch.bool), *self.tensor.flatten(given)]

    def unflatten(self, tensors: Iterator[torch.Tensor]) -> ReplayValue:
        """The tensor, if it is there."""
        return Optionally(next(tensors), next(tensors))


@dataclass
class FreeRankSpec(ValueSpec):
    """Of a tensor that has another number of axes on another path: what carries any."""

    dtype: torch.dtype

    def flatten(self, value: ReplayValue) -> list[torch.Tensor]:
        """The handle of the tensor."""
        if isinstance(value, FreeRank):
            return [value.handle.clone()]
        tensor = torch.zeros([], dtype=self.dtype) if isinstance(value, Uninitialized) else materialized(value)
        return [handle_operator("of_any_rank")(tensor.to(self.dtype))]

    def unflatten(self, tensors: Iterator[torch.Tensor]) -> ReplayValue:
        """The tensor by its handle."""
        return FreeRank(next(tensors))


@dataclass
class AnySizeSpec(FreeRankSpec):
    """Of a tensor whose sizes on two paths torch can't compare, or that each iteration may change.

    It is passed on by a handle, and -1 are sizes to be read.
    """

    sizes: Sequence[int | torch.SymInt]

    def unflatten(self, tensors: Iterator[torch.Tensor]) -> ReplayValue:
        """The tensor, with sizes that only run time knows."""
        return handle_operator("of_any_size")(next(tensors), self.sizes)

    def widen(self, value: ReplayValue, symbols: Symbols) -> bool:
        """Keep only the sizes that the tensor has after another iteration too."""
        after: torch.Tensor = materialized(value)
        if after.dim() != len(self.sizes):
            raise CaptureError(SHAPES_CHANGE)
        before = list(self.sizes)
        self.sizes = [size if _certainly_same(size, now) else -1 for size, now in zip(before, after.shape, strict=True)]
        return [_is_open(size) for size in self.sizes] != [_is_open(size) for size in before]


def any_size_spec(before: torch.Tensor, after: torch.Tensor, symbols: Symbols) -> AnySizeSpec:
    """The spec of a tensor that has other sizes after a branch or an iteration than before it, or on another path."""
    sizes = [one if _certainly_same(one, other) else -1 for one, other in zip(before.shape, after.shape, strict=True)]
    return AnySizeSpec(before.dtype, [-1 if is_inner(size, symbols) else size for size in sizes])


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


class UnlikeRanks(UnlikeBranches):
    """Two branches give tensors that have not the same number of axes."""


def spec_of(
    a: ReplayValue, b: ReplayValue, symbols: Symbols = (), in_loop: bool = False, returned: bool = False
) -> ValueSpec:
    """The spec of a variable that is ``a`` after one branch and ``b`` after the other, or around an iteration.

    ``symbols`` are the unbacked symbols that sizes may refer to outside. In a loop, numbers are taken to change even if
    they are the same after one iteration. ``returned`` says that nothing is done with tensors any more
    but to return them, so that they may have any number of axes.
    """
    if isinstance(a, Uninitialized) or isinstance(b, Uninitialized):
        return _of_one(b if isinstance(a, Uninitialized) else a, symbols)
    a, b = (value.tensor() if isinstance(value, Number) else value for value in (a, b))
    if isinstance(a, FreeRank) or isinstance(b, FreeRank):
        return FreeRankSpec((a.handle if isinstance(a, FreeRank) else materialized(a)).dtype)
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dim() != b.dim() and returned:
            return FreeRankSpec(a.dtype)
        if not in_loop and a.dim() == b.dim() and _are_uneven(a, b):
            return any_size_spec(a, b, symbols)
        if a.dim() != b.dim() and not in_loop:
            raise UnlikeRanks(
                f"One branch gives a tensor of {a.dim()} axes and the other one of {b.dim()}, and which is taken "
                "only run time knows. Give both the same number of axes."
            )
        return TensorSpec(a, symbols)
    if _may_be_none(a, b):
        present = next(value for value in (a, b) if isinstance(value, torch.Tensor | Optionally))
        return OptionalSpec(TensorSpec(present.tensor if isinstance(present, Optionally) else present, symbols))
    if isinstance(a, _BOOLS) and isinstance(b, _BOOLS):
        return ValueSpec(a) if _agree(a, b) and not in_loop else NumberSpec(is_bool=True)
    if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
        return ValueSpec(a) if _agree(a, b) and not in_loop else NumberSpec(is_bool=False)
    if isinstance(a, list) and isinstance(b, list) and not _alike(a, b):
        return _sequence(common_type(item_type_of(a), item_type_of(b)), symbols)
    if _alike(a, b):
        pairs = zip(parts_of(a), parts_of(b), strict=True)
        return ContainerSpec(a, [spec_of(one, other, symbols, in_loop, returned) for one, other in pairs])
    if a is b or (type(a) is type(b) and not isinstance(a, list | tuple | dict) and a == b):
        return ValueSpec(a)
    raise UnlikeBranches(
        f"One branch gives {_describe(a)} and the other {_describe(b)}, and which is taken depends on the data; "
        "ONNX can choose between tensors only. Give both branches tensors."
    )


def _are_uneven(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether sizes differ, one of which is no product of others: torch can't tell the strides then."""
    if all(_certainly_same(*pair) for pair in zip(a.shape, b.shape, strict=True)):
        return False
    factors = (*a.stride(), *b.stride(), *a.shape[1:], *b.shape[1:])
    return any(isinstance(factor, torch.SymInt) and factor.node.expr.has(sympy.Function) for factor in factors)


def _is_open(size: int | torch.SymInt) -> bool:
    return isinstance(size, int) and size < 0


def _certainly_same(one: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    return statically_known_true(one == other)


def _may_be_none(a: ReplayValue, b: ReplayValue) -> bool:
    """Whether two values are a tensor and None, or such that only run time knows which of these they are."""
    known = all(value is None or isinstance(value, torch.Tensor | Optionally) for value in (a, b))
    return known and (a is None) + (b is None) < 2 and not all(isinstance(value, torch.Tensor) for value in (a, b))


def _of_one(value: ReplayValue, symbols: Symbols) -> ValueSpec:
    """The spec of a variable that only one of two branches has."""
    if isinstance(value, Uninitialized):
        return ValueSpec(UNINITIALIZED)
    if isinstance(value, torch.Tensor):
        return TensorSpec(value, symbols)
    if isinstance(value, Optionally):
        return OptionalSpec(TensorSpec(value.tensor, symbols))
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
    return "None" if value is None else with_article(type(value).__name__)
