"""Values that a TorchScript graph has and Python code would not: numbers in tensors, truths not yet known, nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.errors import CaptureError

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
    """A bool that a tensor without axes will hold at run time."""

    tensor: torch.Tensor


@dataclass(frozen=True, eq=False)
class Stacked:
    """Items of a list, tensors of one shape, whose number only run time knows: one tensor, with the items along axis 0.

    It stands in the list for all of them.
    """

    tensor: torch.Tensor

    def joined(self, axis: int) -> torch.Tensor:
        """The items one after another along an axis of theirs."""
        axis = axis % (self.tensor.dim() - 1)
        return self.tensor.movedim(0, axis).flatten(axis, axis + 1)

    def stacked(self, axis: int) -> torch.Tensor:
        """The items along a new axis."""
        return self.tensor.movedim(0, axis)


@dataclass(frozen=True, eq=False)
class Kind:
    """What the tensors of a list have in common: their element type and sizes.

    A size that differs, or that only run time knows, is None; ``sizes`` is None if not even the ranks are the same.
    """

    dtype: torch.dtype
    sizes: tuple[int | torch.SymInt | None, ...] | None


@dataclass(frozen=True, eq=False)
class Sequenced:
    """Items of a list whose number only run time knows, as a sequence of tensors; it stands for all of them.

    ``handle`` is the tensor that carries the sequence; ``kind`` is None as long as there is nothing in it.
    """

    handle: torch.Tensor
    kind: Kind | None


@dataclass(frozen=True, eq=False)
class Growing:
    """A tensor that a loop lengthens by one piece in each iteration and does nothing else with."""

    piece: torch.Tensor | None = None
    axis: int = 0


SHAPES_CHANGE = (
    "A tensor changes its shape or type from one iteration to the next of a loop whose length only run time knows. "
    "Append to a list and concatenate it after the loop, or write into a tensor of the full size."
)


class Uninitialized:
    """What a variable holds on a path that never reads it."""


UNINITIALIZED = Uninitialized()


def materialized(value: Any) -> Any:
    """A value with real tensors in place of what stands for them; also inside lists, tuples and dicts."""
    kind = type(value)
    if kind is Number:
        return value.tensor()
    if kind is Truth:
        return value.tensor
    if kind is Growing:
        raise CaptureError(SHAPES_CHANGE)
    if kind is Stacked or kind is Sequenced:
        raise CaptureError(
            "An operator takes a list of tensors whose length only run time knows, and ONNX needs to know how many "
            "there are. Stack or concatenate the list first."
        )
    if kind is list or kind is dict or isinstance(value, tuple):
        return rebuilt(value, [materialized(part) for part in parts_of(value)])
    return value


def rebuilt(like: Any, parts: Sequence[Any]) -> Any:
    """A list, tuple or dict like another with other parts."""
    if isinstance(like, dict):
        return dict(zip(like, parts, strict=True))
    if isinstance(like, tuple):
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
    return list(parts)


def parts_of(value: Any) -> list[Any]:
    """What is in a container, in order."""
    return list(value.values() if isinstance(value, dict) else value)


def copied(value: Any) -> Any:
    """A value with containers of its own, and the same things in them."""
    if isinstance(value, list | tuple | dict):
        return rebuilt(value, [copied(part) for part in parts_of(value)])
    return value


def plain(value: Any) -> Any:
    """A number as Python has it; one that only run time knows is read from its tensor."""
    if isinstance(value, Number):
        return value.value
    if isinstance(value, Truth):
        return value.tensor.item()
    if isinstance(value, torch.Tensor):
        return value.item()
    return value
