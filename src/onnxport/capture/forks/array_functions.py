"""Functions of numpy on numbers that only run time knows.

To numpy such a number is an object, which it compares and computes with as Python does: ``np.maximum(v, 2.0)`` gives
2.0 where ``v`` is NaN, and NaN of a plain float. Numbers of data are computed as tensors instead. Of an array that
holds a tensor (``rewriting/open_arrays.py``) numpy knows nothing: its functions are those of torch's numpy there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from onnxport.torch_internals.arrays import Array, array_functions, dtype_of_arrays

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
    """What numbers of data, and arrays that hold tensors, answer to numpy's functions: owner, name, method."""
    yield torch.SymFloat, "__array_ufunc__", _universal
    yield torch.SymFloat, "__array_function__", _function
    yield Array, "__array_ufunc__", _universal_of_tensors
    yield Array, "__array_function__", _function_of_tensors
    yield Array, "astype", lambda array, dtype, *_, **__: Array(array.tensor.to(dtype_of_arrays(dtype), copy=True))
    # Asked here and not in a file of torch's, what the model's code asks is a decision, and what it runs over a loop.
    for asked in (bool, int, float):
        yield Array, f"__{asked.__name__}__", _asked(asked)
    yield Array, "__iter__", lambda array: map(Array, array.tensor)
    for name in ("add", "sub", "mul", "truediv", "pow"):
        yield Array, f"__{name}__", _beside_tensors(getattr(Array, f"__{name}__"), getattr(operator, name))
        reflected = f"__r{name}__"
        yield Array, reflected, _beside_tensors(getattr(Array, reflected), _swapped(getattr(operator, name)))


def _asked(kind: Callable[[torch.Tensor], object]) -> Callable[[Any], object]:
    return lambda array: kind(array.tensor)


def _beside_tensors(original: Callable[..., object], join: Callable[[Any, Any], object]) -> Callable[..., object]:
    """An operation of an array and another, which makes a tensor with a tensor, as numpy's numbers and arrays do."""

    def apply(array: Any, other: object) -> object:
        return join(array.tensor, other) if isinstance(other, torch.Tensor) else original(array, other)

    return apply


def _swapped(join: Callable[[Any, Any], object]) -> Callable[[Any, Any], object]:
    return lambda one, other: join(other, one)


def _universal_of_tensors(array: object, function: np.ufunc, method: str, *given: Any, **options: Any) -> object:
    ours = array_functions().get(function)
    return NotImplemented if ours is None or method != "__call__" else ours(*given, **options)


def _function_of_tensors(
    array: object, function: Any, kinds: Sequence[type], given: Sequence[Any], options: Mapping[str, object]
) -> object:
    ours = array_functions().get(function)
    return NotImplemented if ours is None else ours(*given, **options)


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
