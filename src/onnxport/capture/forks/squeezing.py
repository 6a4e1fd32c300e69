"""``squeeze`` on a way on which the code has asked whether an axis that varies has size 1, and it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

_SQUEEZING: tuple[Callable[..., Any], ...] = (torch.squeeze, torch.Tensor.squeeze)


def squeezed_as_known(known: Mapping[sympy.Basic, bool], func: Any, args: Sequence[Any]) -> Any:
    """The function to call in the place of one: where ``squeeze`` drops axes that are known to be 1, ours does."""
    if func not in _SQUEEZING or not isinstance(args[0], torch.Tensor):
        return func
    ones = {axis for axis, size in enumerate(args[0].shape) if isinstance(size, torch.SymInt) and _is_one(size, known)}
    return _without(ones) if ones else func


def _is_one(size: torch.SymInt, known: Mapping[sympy.Basic, bool]) -> bool:
    expression = size.node.expr
    return known.get(sympy.Eq(expression, 1), False) or not known.get(sympy.Ne(expression, 1), True)


def _without(ones: set[int]) -> Callable[..., torch.Tensor]:
    def squeeze(tensor: torch.Tensor, dim: int | Sequence[int] | None = None) -> torch.Tensor:
        count = tensor.dim()
        axes = range(count) if dim is None else [dim] if isinstance(dim, int) else dim
        for axis in sorted({axis % count for axis in axes}, reverse=True):
            tensor = tensor.select(axis, 0) if axis in ones else tensor.squeeze(axis)
        return tensor

    return squeeze
