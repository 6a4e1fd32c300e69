"""Forms: how the values of a script pass in and out of branches and loop bodies, which know tensors only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.capture.replay.values.items import common, equal, handle_of, kind_of, varies, widened
from onnxport.capture.replay.values.kinds import (
    UNINITIALIZED,
    Kind,
    Number,
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


class Form:
    """How one value passes; this one is the same everywhere and does not."""

    def __init__(self, fixed: Any) -> None:
        self.fixed = fixed

    def leave(self, value: Any) -> list[torch.Tensor]:
        """A value as tensors, on the way out."""
        return []

    def enter(self, tensors: Iterator[torch.Tensor]) -> Any:
        """The next of the tensors as the value they stand for."""
        return self.fixed

    def settle(self, value: Any, around: Collection[Any]) -> bool:
        """Admit what another iteration makes of the value; tell whether the form has changed."""
        return False

    def has_list(self) -> bool:
        """Whether a list whose length only run time knows passes."""
        return False


@dataclass
class OneTensor(Form):
    """A tensor."""

    example: torch.Tensor

    def leave(self, value: Any) -> list[torch.Tensor]:
        """The tensor in the element type of the example; zeros if no one will read it."""
        if isinstance(value, Uninitialized):
            return [torch.zeros(self.example.shape, dtype=self.example.dtype)]
        tensor: torch.Tensor = materialized(value)
        # A branch may not return one of its operands as it is.
        return [tensor.clone() if tensor.dtype == self.example.dtype else tensor.to(self.example.dtype)]

    def enter(self, tensors: Iterator[torch.Tensor]) -> Any:
        """The tensor."""
        return next(tensors)


@dataclass
class OneNumber(Form):
    """A number or a bool, in a tensor without axes."""

    is_bool: bool

    def leave(self, value: Any) -> list[torch.Tensor]:
        """The number in its tensor."""
        if isinstance(value, Uninitialized):
            value = not self.is_bool and 0
        number = value if isinstance(value, Number | Truth) else Number.of(value)
        tensor = materialized(number)
        return [tensor.clone() if isinstance(number, Truth) else tensor]

    def enter(self, tensors: Iterator[torch.Tensor]) -> Any:
        """The number, read from its tensor; a bool when it is asked for."""
        tensor = next(tensors)
        return Truth(tensor) if self.is_bool else tensor.item()


@dataclass
class Several(Form):
    """A tuple, dict or list that has the same parts everywhere."""

    like: Any
    forms: Sequence[Form]

    def leave(self, value: Any) -> list[torch.Tensor]:
        """The tensors of all parts."""
        parts = [value] * len(self.forms) if isinstance(value, Uninitialized) else parts_of(value)
        return [tensor for form, part in zip(self.forms, parts, strict=True) for tensor in form.leave(part)]

    def enter(self, tensors: Iterator[torch.Tensor]) -> Any:
        """A container like the one it was."""
        return rebuilt(self.like, [form.enter(tensors) for form in self.forms])

    def settle(self, value: Any, around: Collection[Any]) -> bool:
        """Of each part."""
        pairs = zip(self.forms, parts_of(value), strict=True)
        return True in [form.settle(part, around) for form, part in pairs]

    def has_list(self) -> bool:
        """Of any part."""
        return any(form.has_list() for form in self.forms)


@dataclass
class Listed(Form):
    """A list whose length only run time knows: a sequence."""

    kind: Kind

    def leave(self, value: Any) -> list[torch.Tensor]:
        """The handle of the sequence."""
        items = [] if isinstance(value, Uninitialized) else value
        common(self.kind, kind_of(items))
        return [handle_of(items, self.kind.dtype).clone()]

    def enter(self, tensors: Iterator[torch.Tensor]) -> Any:
        """A list of as many items as there will be."""
        return [Sequenced(next(tensors), self.kind)]

    def settle(self, value: Any, around: Collection[Any]) -> bool:
        """Keep of the sizes only those that still are the same."""
        kind = widened(common(self.kind, kind_of(value)), around)
        changed = not equal(kind, self.kind)
        assert kind is not None
        self.kind = kind
        return changed

    def has_list(self) -> bool:
        """It is one."""
        return True


class UnlikeBranches(CaptureError):
    """Two branches give what no one variable can hold."""


def form_of(a: Any, b: Any, around: Collection[Any] = (), in_loop: bool = False) -> Form:
    """How what two branches make of one variable leaves them, or what an iteration makes of it.

    ``around`` are the symbols that sizes may refer to outside. In a loop, numbers are taken to change even if they
    are the same after one iteration.
    """
    if isinstance(a, Uninitialized) or isinstance(b, Uninitialized):
        return _of_one(b if isinstance(a, Uninitialized) else a, around)
    a, b = (value.tensor() if isinstance(value, Number) else value for value in (a, b))
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dim() != b.dim() and not in_loop:
            raise UnlikeBranches(
                f"One branch gives a tensor of {a.dim()} axes and the other one of {b.dim()}, and which is taken "
                "depends on the data. Give both the same number of axes."
            )
        return OneTensor(a)
    if isinstance(a, _BOOLS) and isinstance(b, _BOOLS):
        return Form(a) if _agree(a, b) and not in_loop else OneNumber(is_bool=True)
    if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
        return Form(a) if _agree(a, b) and not in_loop else OneNumber(is_bool=False)
    if isinstance(a, list) and isinstance(b, list) and not _alike(a, b):
        return _listed(common(kind_of(a), kind_of(b)), around)
    if _alike(a, b):
        pairs = zip(parts_of(a), parts_of(b), strict=True)
        return Several(a, [form_of(one, other, around, in_loop) for one, other in pairs])
    if a is b or (type(a) is type(b) and not isinstance(a, list | tuple | dict) and a == b):
        return Form(a)
    raise UnlikeBranches(
        f"One branch gives {_describe(a)} and the other {_describe(b)}, and which is taken depends on the data; "
        "ONNX can choose between tensors only. Give both branches tensors."
    )


def _of_one(value: Any, around: Collection[Any]) -> Form:
    """How a variable leaves that only one of two branches has."""
    if isinstance(value, Uninitialized):
        return Form(UNINITIALIZED)
    if isinstance(value, torch.Tensor):
        return OneTensor(value)
    if varies(value):
        return _listed(kind_of(value), around)
    if isinstance(value, list | tuple | dict):
        return Several(value, [_of_one(part, around) for part in parts_of(value)])
    return Form(value)


def _listed(kind: Kind | None, around: Collection[Any]) -> Listed:
    # What has never had an item in it may have any type.
    kind = widened(kind, around)
    return Listed(Kind(torch.float32, None) if kind is None else kind)


def _agree(a: Any, b: Any) -> bool:
    if a is b:
        return not isinstance(a, torch.SymInt | torch.SymFloat)
    return type(a) is type(b) and isinstance(a, bool | int | float) and bool(a == b)


def _alike(a: Any, b: Any) -> bool:
    """Whether two containers have the same parts."""
    if type(a) is not type(b) or not isinstance(a, list | tuple | dict) or len(a) != len(b):
        return False
    if varies(a) or varies(b):
        return False
    return not isinstance(a, dict) or list(a) == list(b)


def _describe(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
