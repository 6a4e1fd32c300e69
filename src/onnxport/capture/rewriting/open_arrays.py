"""Arrays of numpy of which only run time knows the sizes: torch's own numpy computes with them, in tensors.

``np.ones((n, n))`` wants plain numbers. Where a rewritten function asks numpy for an array whose sizes vary, or gives
it such an array, the result is an array of ``torch._numpy``; ``torch.from_numpy`` takes the tensor out of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from onnxport.capture.patches.tensor_numbers import ListedTensor
from onnxport.capture.rewriting.open_lists import ModelFunction, ModelValue, OpenItems, OpenList, OpenRange, stacked
from onnxport.capture.rewriting.open_numbers import as_tensor
from onnxport.torch_internals.arrays import Array, array_functions, dtype_of_arrays

_OPEN_NUMBERS = (torch.SymInt, torch.SymFloat)
_OPEN = (*_OPEN_NUMBERS, torch.Tensor, ListedTensor, OpenItems, OpenList)


def _filled(fill: Callable[..., torch.Tensor]) -> ModelFunction:
    def make(shape: ModelValue, dtype: ModelValue = float, order: str = "C") -> torch.Tensor:
        return fill(_sizes(shape), dtype=dtype_of_arrays(dtype))

    return make


def _full(shape: ModelValue, fill_value: ModelValue, dtype: ModelValue = None, order: str = "C") -> torch.Tensor:
    value = as_tensor(fill_value)
    own = value.to(torch.float64) if value.dtype.is_floating_point else value
    return own.to(own.dtype if dtype is None else dtype_of_arrays(dtype)).expand(_sizes(shape)).clone()


def _sizes(shape: ModelValue) -> list[ModelValue]:
    return list(shape) if isinstance(shape, Sequence) else [shape]


def _arange(start: ModelValue, stop: ModelValue = None, step: ModelValue = 1, dtype: ModelValue = None) -> torch.Tensor:
    start, stop = (0, start) if stop is None else (start, stop)
    whole = all(isinstance(one, int | torch.SymInt) for one in (start, stop, step))
    made = torch.arange(start, stop, step, dtype=torch.int64 if whole else torch.float64)
    return made if dtype is None else made.to(dtype_of_arrays(dtype))


def _linspace(
    start: ModelValue, stop: ModelValue, num: ModelValue = 50, endpoint: bool = True, dtype: ModelValue = None
) -> torch.Tensor:
    points = torch.linspace(start, stop, num if endpoint else num + 1, dtype=torch.float64)
    points = points if endpoint else points[:num]
    return points if dtype is None else points.to(dtype_of_arrays(dtype))


def _on_diagonals(relation: Callable[..., torch.Tensor]) -> ModelFunction:
    """1 where the column stands to the row, moved by ``k``, in a relation, and 0 elsewhere."""

    def make(N: ModelValue, M: ModelValue = None, k: ModelValue = 0, dtype: ModelValue = float) -> torch.Tensor:
        rows, columns = torch.arange(N), torch.arange(N if M is None else M)
        return relation(columns, rows.unsqueeze(1) + k).to(dtype_of_arrays(dtype))

    return make


def _array(items: ModelValue, dtype: ModelValue = None, **_: ModelValue) -> torch.Tensor:
    return _shared_array(items.clone() if isinstance(items, torch.Tensor) else items, dtype)


def _shared_array(items: ModelValue, dtype: ModelValue = None, **_: ModelValue) -> torch.Tensor:
    if isinstance(items, torch.Tensor):
        made = items
    elif isinstance(items, OpenRange):
        made = items.numbers
    elif isinstance(items, ListedTensor):
        made = items.tensor.to(torch.float64) if items.tensor.dtype.is_floating_point else items.tensor
    elif isinstance(items, OpenList):
        made = _in_rows(items)
    else:
        made = torch.tensor(items, dtype=torch.float64 if _has_float(items) else None)
    return made if dtype is None else made.to(dtype_of_arrays(dtype))


def _in_rows(items: OpenList) -> torch.Tensor:
    """What a loop collected, numbers or arrays, along axis 0."""
    rows = items.rows
    if rows is not None and isinstance(rows.like, Array):
        return rows.columns[0]
    found = items.table
    return found.tensor if isinstance(found, ListedTensor) else stacked(items)


def _stacked_arrays(arrays: OpenList, axis: int = 0) -> torch.Tensor:
    return _in_rows(arrays).movedim(0, axis)


def _joined_arrays(arrays: OpenList, axis: int = 0) -> torch.Tensor:
    whole = _in_rows(arrays)
    axis = axis % (whole.dim() - 1)
    return whole.movedim(0, axis).flatten(axis, axis + 1)


def _has_float(items: ModelValue) -> bool:
    if isinstance(items, list | tuple):
        return any(map(_has_float, items))
    return isinstance(items, float | torch.SymFloat)


_MAKING: Mapping[object, ModelFunction] = {
    np.ones: _filled(torch.ones),
    np.zeros: _filled(torch.zeros),
    np.empty: _filled(torch.zeros),
    np.full: _full,
    np.arange: _arange,
    np.linspace: _linspace,
    np.eye: _on_diagonals(torch.eq),
    np.identity: _on_diagonals(torch.eq),
    np.tri: _on_diagonals(torch.le),
    np.array: _array,
    np.asarray: _shared_array,
    np.stack: _stacked_arrays,
    np.concatenate: _joined_arrays,
}
"""What makes arrays of numbers, with what makes tensors of numbers that run time knows."""


def array_function(function: ModelValue) -> ModelValue:
    """A function of numpy that takes sizes and arrays of sizes that only run time knows; others as they are."""
    making = _MAKING.get(function)
    ours = array_functions().get(function)
    return function if making is None and ours is None else functools.partial(_called, function, making, ours)


def _called(
    function: ModelFunction,
    making: ModelFunction | None,
    ours: ModelFunction | None,
    *given: ModelValue,
    **options: ModelValue,
) -> ModelValue:
    leaves = list(_leaves([given, options]))
    kinds = _OPEN if function not in (np.stack, np.concatenate) else (OpenList,)
    if making is not None and any(isinstance(leaf, kinds) and _is_open(leaf) for leaf in leaves):
        return Array(making(*given, **options))
    if ours is None or not any(isinstance(leaf, Array) for leaf in leaves):
        return function(*given, **options)
    if "dtype" in options:
        options["dtype"] = options["dtype"] and np.dtype(options["dtype"]).name
    return ours(*given, **options)


def _is_open(value: ModelValue) -> bool:
    return not isinstance(value, OpenList) or value.has_open_length


def _leaves(value: ModelValue) -> Any:
    if type(value) in (list, tuple):
        for part in value:
            yield from _leaves(part)
    elif type(value) is dict:
        yield from _leaves(list(value.values()))
    else:
        yield value
