"""Operators that treat both parts of complex numbers alike: the real formula, once for each part."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onnxport.translate.tensor import Tensor

if TYPE_CHECKING:
    from onnxport.translate.builder import Builder

_FILLINGS = frozenset({"value", "fill"})
"""Numbers that become elements, so that they have parts too; others say where or how."""


def by_parts(formula: Callable[..., Any]) -> Callable[..., Tensor]:
    """The formula of a real operator as that of the complex one."""

    @functools.wraps(formula)
    def emit(op: Builder, **arguments: object) -> Tensor:
        across, up = (
            formula(op, **{name: _part(name, value, imaginary) for name, value in arguments.items()})
            for imaginary in (False, True)
        )
        shape = op.result_shapes()[0]
        return op.complex(across.with_shape(shape), up.with_shape(shape))

    return emit


def _part(name: str, argument: Any, imaginary: bool) -> Any:
    if isinstance(argument, Tensor):
        if argument.is_complex:
            return argument.imag if imaginary else argument.real
        # A real tensor among complex ones has no imaginary part; indices and masks are the same for both.
        return argument * 0 if imaginary and argument.is_float else argument
    if isinstance(argument, list):
        return [_part(name, item, imaginary) for item in argument]
    if name in _FILLINGS and argument is not None:
        return complex(argument).imag if imaginary else complex(argument).real
    return argument
