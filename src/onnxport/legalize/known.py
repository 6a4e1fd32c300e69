"""What is known of a value before the model runs: the array it holds, its rank, its sizes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

Dims = list[int | ir.SymbolicDim]


def constant_array(value: ir.Value | None) -> npt.NDArray[np.generic] | None:
    """The array a value is known to hold, or None if it is computed at run time."""
    if value is None:
        return None
    if value.const_value is None and value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None else tensor.numpy()


def constant_integers(value: ir.Value | None) -> list[int] | None:
    """The integers of a constant scalar or list, or None if it is computed at run time."""
    array = constant_array(value)
    return None if array is None else [int(item) for item in array.reshape(-1)]


def known_rank(value: ir.Value) -> int | None:
    """The number of dimensions, if known."""
    return None if value.shape is None else len(value.shape)


def static_sizes(value: ir.Value) -> list[int] | None:
    """All sizes, if every one is static."""
    if value.shape is None:
        return None
    dims = [dim for dim in value.shape if isinstance(dim, int)]
    return dims if len(dims) == len(value.shape) else None


def dims_of(value: ir.Value | None) -> Dims | None:
    """The dimensions, static or not, if their number is known."""
    shape = None if value is None else value.shape
    return None if shape is None else list(shape.dims)
