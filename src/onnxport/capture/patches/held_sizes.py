"""Sizes that code holds in tensors without axes: ``torch.div(x.shape[1], 4, rounding_mode="trunc") - 1`` is one.

Read from the tensor it would be a number of data, of which nothing is known. So the size is kept beside the tensor as
long as nothing writes to that, and what is computed of such tensors is computed of the sizes as well.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

_KEPT = "_onnxport_size"
_Size = int | torch.SymInt


def _reflected(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: operation(other, one)


_NAMES = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv}
_OPERATIONS: dict[object, Callable[[Any, Any], Any]] = {
    **{getattr(torch.Tensor, f"__{name}__"): operation for name, operation in _NAMES.items()},
    **{getattr(torch.Tensor, f"__r{name}__"): _reflected(operation) for name, operation in _NAMES.items()},
    **{getattr(owner, name): _NAMES[name] for owner in (torch, torch.Tensor) for name in ("add", "sub", "mul")},
}
_DIVISIONS = (torch.div, torch.Tensor.div, torch.divide, torch.Tensor.divide)
_TAKING_SIZES = frozenset(
    getattr(torch.Tensor, name)
    for name in ("view", "reshape", "expand", "repeat", "new_zeros", "new_ones", "new_empty", "new_full", "as_strided")
)


def held_size(value: object) -> _Size | None:
    """The size that a tensor holds, or that a number is; None where none is known."""
    if isinstance(value, torch.Tensor):
        size, version = getattr(value, _KEPT, (None, -1))
        return size if version == value._version else None
    return value if isinstance(value, int | torch.SymInt) and not isinstance(value, bool) else None


def with_held_sizes(function: object, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a function that takes sizes, with those in the place of tensors that hold them."""
    return tuple(map(_read, args)) if function in _TAKING_SIZES else args


def _read(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(_read(one) for one in value)
    size = held_size(value) if isinstance(value, torch.Tensor) else None
    return value if size is None else size


def size_computed(function: object, args: Sequence[Any], kwargs: Mapping[str, object]) -> _Size | None:
    """The size that a function of two sizes computes into a tensor; None where it does another thing."""
    if function in _DIVISIONS and kwargs.get("rounding_mode") in ("trunc", "floor"):
        options, operation = {"rounding_mode"}, operator.floordiv
    elif function in _OPERATIONS:
        options, operation = set(), _OPERATIONS[function]
    else:
        return None
    if len(args) != 2 or set(kwargs) != options:
        return None
    one, other = map(held_size, args)
    if one is None or other is None or not any(isinstance(size, torch.SymInt) for size in (one, other)):
        return None
    if options and not (statically_known_true(one >= 0) and statically_known_true(other >= 1)):
        return None
    size: _Size = operation(one, other)
    return size


def keeping(size: _Size, call: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """How a function is called whose result holds a size."""

    def kept(*args: object, **kwargs: object) -> torch.Tensor:
        made = call(*args, **kwargs)
        if made.dim() == 0 and made.dtype == torch.int64:
            setattr(made, _KEPT, (size, made._version))
        return made

    return kept
