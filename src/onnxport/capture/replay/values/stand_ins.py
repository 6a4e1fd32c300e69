"""What stands in a replay for values that Python does not have: numbers in tensors, bools not yet known, runs of items.

Everything else of a script is what it is in Python: tensors, numbers, strings, lists, dicts, tuples, modules.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from onnxport.errors import CaptureError
from onnxport.torch_internals.symbolic_sizes import truth_in_range

ReplayValue: TypeAlias = object
"""Any value of a script while it is replayed; its type in the graph says which."""

Plain = int | float | bool | complex | torch.SymInt | torch.SymFloat | torch.SymBool


@dataclass(frozen=True, eq=False)
class Number:
    """A number that the tracer keeps in a tensor without axes, such as a size that was read.

    It stays a number as long as only numbers are computed from it: then sizes stay sizes.
    """

    value: Plain
    dtype: torch.dtype

    @classmethod
    def of(cls, value: Plain) -> Number:
        """A number with the type that TorchScript gives its tensor."""
        if isinstance(value, bool | torch.SymBool):
            return cls(value, torch.bool)
        if isinstance(value, int | torch.SymInt):
            return cls(value, torch.int64)
        return cls(value, torch.complex128 if isinstance(value, complex) else torch.float64)

    def tensor(self) -> torch.Tensor:
        """The tensor it stands for."""
        if isinstance(self.value, torch.SymBool):
            return torch.scalar_tensor(torch.sym_ite(self.value, 1, 0), dtype=torch.bool)
        return torch.scalar_tensor(self.value, dtype=self.dtype)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Truth:
    """A bool that a tensor without axes will hold at run time; ``symbols`` are those of the sizes that it compares."""

    tensor: torch.Tensor
    symbols: Collection[object] = ()


@dataclass(frozen=True, eq=False)
class Optionally:
    """A tensor or None, as ``is_there``, a tensor without axes, tells at run time. Any tensor stands for None."""

    is_there: torch.Tensor
    tensor: torch.Tensor


@dataclass(frozen=True, eq=False)
class FreeRank:
    """A tensor whose number of axes only run time knows: all that can be done with it is to return it.

    ``handle`` is the tensor that carries it.
    """

    handle: torch.Tensor


@dataclass(frozen=True, eq=False)
class ItemType:
    """What the tensors of a list have in common: their dtype and sizes.

    A size that differs, or that only run time knows, is None; ``sizes`` is None if not even the ranks are the same.
    ``is_number`` says that they hold the numbers of a list of numbers.
    """

    dtype: torch.dtype
    sizes: tuple[int | torch.SymInt | None, ...] | None
    is_number: bool = False


@dataclass(frozen=True, eq=False)
class Stacked:
    """Items of a list, tensors of one shape, whose number only run time knows: one tensor, with the items along axis 0.

    It stands in the list for all of them. The items may be numbers: then it has no other axis.
    """

    tensor: torch.Tensor
    is_number: bool = False

    def joined(self, axis: int) -> torch.Tensor:
        """The items one after another along an axis of theirs."""
        axis = axis % (self.tensor.dim() - 1)
        return self.tensor.movedim(0, axis).flatten(axis, axis + 1)

    def stacked(self, axis: int) -> torch.Tensor:
        """The items along a new axis."""
        return self.tensor.movedim(0, axis)


@dataclass(frozen=True, eq=False)
class Sequenced:
    """Items of a list whose number only run time knows, as a sequence of tensors; it stands for all of them.

    ``handle`` is the tensor that carries the sequence; ``item_type`` is None as long as there is nothing in it.
    """

    handle: torch.Tensor
    item_type: ItemType | None


@dataclass(frozen=True, eq=False)
class Growing:
    """A tensor that a loop lengthens by one piece in each iteration and does nothing else with."""

    piece: torch.Tensor | None = None
    axis: int = 0


SHAPES_CHANGE = (
    "A tensor changes its shape or type from one iteration to the next of a loop whose length only run time knows. "
    "Append to a list and concatenate it after the loop, or write into a tensor of the full size."
)


class ShapesChange(CaptureError):
    """A loop does with a tensor that changes what can't be told apart from what it is given."""


class Uninitialized:
    """What a variable holds on a path that never reads it."""


UNINITIALIZED = Uninitialized()


def materialized(value: ReplayValue) -> Any:
    """A value with real tensors in place of what stands for them; also inside lists, tuples and dicts."""
    if type(value) is Number:
        return value.tensor()
    if type(value) is Truth:
        return value.tensor
    if type(value) is Growing:
        raise ShapesChange(SHAPES_CHANGE)
    if type(value) is Optionally:
        raise CaptureError(
            "A branch that only run time takes decides whether this is a tensor or None, and an operator takes it as "
            "it is. Ask for `is None` first, and call the operator in both branches."
        )
    if type(value) is FreeRank:
        raise CaptureError(
            "How many axes this tensor has, only run time knows, and what is computed from it depends on that. "
            "Name the axes that squeeze removes, or give both branches the same number of axes."
        )
    if type(value) is Stacked or type(value) is Sequenced:
        raise CaptureError(
            "An operator takes a list of tensors whose length only run time knows, and ONNX needs to know how many "
            "there are. Stack or concatenate the list first."
        )
    if type(value) is list or type(value) is dict or isinstance(value, tuple):
        return rebuilt(value, [materialized(part) for part in parts_of(value)])
    return value


def plain_number(value: ReplayValue) -> Any:
    """A number as Python has it; one that only run time knows is read from its tensor."""
    if isinstance(value, Number):
        return value.value
    if isinstance(value, Truth):
        return value.tensor.item()
    if isinstance(value, torch.Tensor):
        return value.item()
    return value


def known_truth(value: ReplayValue) -> bool | torch.SymBool | Truth:
    """A condition as a bool, if it is certain; else as it is."""
    value = value.value if isinstance(value, Number) else value
    if isinstance(value, torch.SymBool):
        # What operators found out about sizes is no answer to what the script asks of them.
        known = truth_in_range(value.node)
        return value if known is None else known
    return value if isinstance(value, Truth) else bool(value)


def truth_tensor(value: ReplayValue) -> torch.Tensor:
    """A bool as the tensor that holds it."""
    if isinstance(value, Truth):
        return value.tensor
    if isinstance(value, torch.SymBool):
        return Number.of(value).tensor()
    return torch.scalar_tensor(plain_number(value), dtype=torch.bool)


def rebuilt(like: ReplayValue, parts: Sequence[ReplayValue]) -> Any:
    """A list, tuple or dict like another with other parts."""
    if isinstance(like, dict):
        return dict(zip(like, parts, strict=True))
    if isinstance(like, tuple):
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)  # type: ignore[arg-type]
    return list(parts)


def parts_of(container: Any) -> list[ReplayValue]:
    """What is in a list, tuple or dict, in order."""
    return list(container.values() if isinstance(container, dict) else container)


def with_own_containers(value: ReplayValue) -> Any:
    """A value with lists, tuples and dicts of its own, and the same things in them."""
    if isinstance(value, list | tuple | dict):
        return rebuilt(value, [with_own_containers(part) for part in parts_of(value)])
    return value
