"""Functions of numpy on numbers that only run time knows.

To numpy such a number is an object, which it compares and computes with as Python does: ``np.maximum(v, 2.0)`` gives
2.0 where ``v`` is NaN, and NaN of a plain float. Numbers of data are computed as tensors instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

_BY_TENSOR: Mapping[str, Callable[..., torch.Tensor]] = {
    name: getattr(torch, name)
    for name in (
        *("maximum", "minimum", "fmax", "fmin", "exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "square"),
        *("sin", "cos", "tan", "tanh", "sinh", "cosh", "floor", "ceil", "trunc", "sign", "abs", "negative"),
        *("isnan", "isinf", "isfinite", "add", "subtract", "multiply", "true_divide", "hypot", "logaddexp"),
        *("greater", "greater_equal", "less", "less_equal", "not_equal", "logical_and", "logical_or", "logical_not"),
    )
} | {"absolute": torch.abs, "fabs": torch.abs, "divide": torch.true_divide, "equal": torch.eq, "rint": torch.round}


def functions_of_numbers() -> Iterator[tuple[object, str, object]]:
    """What numbers of data answer to numpy's functions: owner, name, method."""
    yield torch.SymFloat, "__array_ufunc__", _universal
    yield torch.SymFloat, "__array_function__", _function


def _universal(number: torch.SymFloat, function: np.ufunc, method: str, *given: Any, **options: object) -> object:
    ours = _BY_TENSOR.get(function.__name__)
    if ours is None or method != "__call__" or options or not _are_numbers(given):
        return getattr(function, method)(*(_as_object(one) for one in given), **options)
    return ours(*(torch.scalar_tensor(one, dtype=torch.float64) for one in given)).item()


def _function(
    number: torch.SymFloat, function: Any, kinds: Sequence[type], given: Sequence[Any], options: Mapping[str, object]
) -> object:
    if function is np.clip and not options and len(given) == 3 and None not in given and _are_numbers(given):
        value, least, most = given
        return np.minimum(np.maximum(value, least), most)
    # As arrays of objects they are numpy's own, which asks nobody how to compute with them.
    return function(*map(_as_object, given), **{name: _as_object(value) for name, value in options.items()})


def _are_numbers(given: Sequence[object]) -> bool:
    """Whether all are numbers and only run time knows one of them."""
    if not all(isinstance(one, int | float | torch.SymInt | torch.SymFloat) for one in given):
        return False
    return any(isinstance(one, torch.SymFloat) and free_unbacked_symbols(one) for one in given)


def _as_object(value: Any) -> object:
    if type(value) in (list, tuple):
        # numpy asks the items of what it joins as well.
        return type(value)(map(_as_object, value))
    if not isinstance(value, torch.SymFloat):
        return value
    held = np.empty((), dtype=object)
    held[()] = value
    return held
