"""NumPy kernels with ONNX's semantics for the operators that shape arithmetic and small constants are made of.

A kernel takes the node and its inputs as arrays and gives the result, or None where it won't say: where ONNX leaves
the result open (division by zero, a float that fits no integer) the node is left for the runtime. Kernels that can
return much more than they were given are paired with a function that says how many elements, before any is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.optimize.scope import Array

Inputs = Sequence[Array]
Kernel = Callable[[ir.Node, Inputs], Array | None]

_T = ir.DataType
_CASTABLE = frozenset(
    {_T.BOOL, _T.INT8, _T.INT16, _T.INT32, _T.INT64, _T.UINT8, _T.UINT16, _T.UINT32, _T.UINT64}
    | {_T.FLOAT16, _T.BFLOAT16, _T.FLOAT, _T.DOUBLE}
)


def _broadcast_size(node: ir.Node, inputs: Inputs) -> int:
    return math.prod(np.broadcast_shapes(*(array.shape for array in inputs)))


@dataclass(frozen=True)
class Folding:
    """A kernel, and the number of elements of its result where that isn't bounded by its inputs'."""

    kernel: Kernel
    size: Callable[[ir.Node, Inputs], int] | None = None


def _pointwise(function: Callable[..., Array]) -> Folding:
    return Folding(lambda node, inputs: np.asarray(function(*inputs)), _broadcast_size)


def _reduced(function: Callable[..., Array]) -> Callable[[ir.Node, Inputs], Array]:
    """A function of two arrays over any number of them, as Max and Min take."""

    def kernel(node: ir.Node, inputs: Inputs) -> Array:
        result = inputs[0]
        for array in inputs[1:]:
            result = function(result, array)
        return np.asarray(result)

    return kernel


def _divide(node: ir.Node, inputs: Inputs) -> Array | None:
    left, right = inputs
    if left.dtype.kind not in "iu":
        return np.asarray(left / right)
    if not right.all():
        return None
    quotient = left // right
    # NumPy rounds towards minus infinity, ONNX towards zero.
    inexact_negative = ((left < 0) != (right < 0)) & (left % right != 0)
    return np.asarray(quotient + inexact_negative.astype(left.dtype))


def _modulo(node: ir.Node, inputs: Inputs) -> Array | None:
    left, right = inputs
    if left.dtype.kind in "iu" and not right.all():
        return None
    return np.asarray(np.fmod(left, right) if node.attributes.get_int("fmod", 0) else np.mod(left, right))


def _power(node: ir.Node, inputs: Inputs) -> Array | None:
    base, exponent = inputs
    if base.dtype.kind in "iu" and (exponent.dtype.kind not in "iu" or (exponent < 0).any()):
        return None
    return np.asarray(np.power(base, exponent)).astype(base.dtype)


def cast(array: Array, target: ir.DataType) -> Array | None:
    """An array as another type, or None where the conversion is not defined for all elements.

    >>> cast(np.array([1.9, -1.9]), ir.DataType.INT64)
    array([ 1, -1])
    >>> cast(np.array([1e30]), ir.DataType.INT32) is None
    True
    """
    if target not in _CASTABLE or array.dtype.kind == "S":
        return None
    dtype = target.numpy()
    if array.dtype.kind not in "biu" and dtype.kind in "iu":
        array = array.astype(np.float64)
        bounds = np.iinfo(dtype)
        # The upper bound itself is not a float for 64 bits; the next float below it is what counts.
        if not ((array > float(bounds.min) - 1) & (array < float(bounds.max))).all():
            return None
    if array.dtype == np.float64 and target in (_T.FLOAT16, _T.BFLOAT16):
        array = array.astype(np.float32)
    return array.astype(dtype)


def _cast(node: ir.Node, inputs: Inputs) -> Array | None:
    return cast(inputs[0], ir.DataType(node.attributes["to"].as_int()))


def _cast_like(node: ir.Node, inputs: Inputs) -> Array | None:
    return cast(inputs[0], ir.DataType.from_numpy(inputs[1].dtype))


def _axes(node: ir.Node, inputs: Inputs) -> list[int] | None:
    """Axes as the operator gives them: an input from opset 13 or 18 on, an attribute before."""
    if len(inputs) > 1:
        return [int(axis) for axis in inputs[1].reshape(-1)]
    given = node.attributes.get_ints("axes")
    return None if given is None else list(given)


def _squeeze(node: ir.Node, inputs: Inputs) -> Array:
    axes = _axes(node, inputs)
    return inputs[0].squeeze() if axes is None else inputs[0].squeeze(tuple(axes))


def _unsqueeze(node: ir.Node, inputs: Inputs) -> Array:
    return np.expand_dims(inputs[0], tuple(_axes(node, inputs) or ()))


def _reduce(function: Callable[..., Array]) -> Folding:
    def kernel(node: ir.Node, inputs: Inputs) -> Array:
        axes = _axes(node, inputs)
        if not axes:
            if node.attributes.get_int("noop_with_empty_axes", 0):
                return inputs[0]
            axes = None
        keep = bool(node.attributes.get_int("keepdims", 1))
        result = function(inputs[0], axis=None if axes is None else tuple(axes), keepdims=keep)
        return np.asarray(result).astype(inputs[0].dtype)

    return Folding(kernel)


def _concat(node: ir.Node, inputs: Inputs) -> Array:
    return np.concatenate(inputs, axis=node.attributes["axis"].as_int())


def _slice(node: ir.Node, inputs: Inputs) -> Array:
    data, *rest = inputs
    starts, ends = rest[0].tolist(), rest[1].tolist()
    axes = rest[2].tolist() if len(rest) > 2 else list(range(len(starts)))
    steps = rest[3].tolist() if len(rest) > 3 else [1] * len(starts)
    index = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        length = data.shape[axis]
        if step < 0:
            # An end at or before the first element, counted from either side, means: down to it and with it.
            start = min(start + length if start < 0 else start, length - 1)
            end = end + length if end < 0 else end
            index[axis] = slice(start, None, step) if end < 0 else slice(start, end, step)
            if start < 0:
                index[axis] = slice(0, 0)
        else:
            index[axis] = slice(start, end, step)
    return data[tuple(index)]


def _gather(node: ir.Node, inputs: Inputs) -> Array | None:
    data, indices = inputs
    axis = node.attributes.get_int("axis", 0)
    length = data.shape[axis]
    if ((indices < -length) | (indices >= length)).any():
        return None
    return np.take(data, indices, axis=axis)


def _gather_size(node: ir.Node, inputs: Inputs) -> int:
    data, indices = inputs
    length = data.shape[node.attributes.get_int("axis", 0)]
    return int(indices.size * data.size // max(length, 1))


def _reshape(node: ir.Node, inputs: Inputs) -> Array:
    data, shape = inputs
    dims = [int(dim) for dim in shape]
    if not node.attributes.get_int("allowzero", 0):
        dims = [data.shape[index] if dim == 0 else dim for index, dim in enumerate(dims)]
    return data.reshape(dims)


def _transpose(node: ir.Node, inputs: Inputs) -> Array:
    return inputs[0].transpose(node.attributes.get_ints("perm"))


def _expand(node: ir.Node, inputs: Inputs) -> Array:
    data, shape = inputs
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(shape.tolist())))


def _expand_size(node: ir.Node, inputs: Inputs) -> int:
    return math.prod(np.broadcast_shapes(inputs[0].shape, tuple(inputs[1].tolist())))


def _constant_of_shape(node: ir.Node, inputs: Inputs) -> Array:
    given = node.attributes.get_tensor("value")
    fill = np.zeros(1, dtype=np.float32) if given is None else given.numpy()
    return np.full(tuple(inputs[0].tolist()), fill.reshape(-1)[0], dtype=fill.dtype)


def _constant_of_shape_size(node: ir.Node, inputs: Inputs) -> int:
    return math.prod(int(dim) for dim in inputs[0])


def _range_size(node: ir.Node, inputs: Inputs) -> int:
    start, limit, delta = (float(array.item()) for array in inputs)
    return max(math.ceil((limit - start) / delta), 0) if delta else 0


def _range(node: ir.Node, inputs: Inputs) -> Array | None:
    start, limit, delta = (array.item() for array in inputs)
    dtype = inputs[0].dtype
    if not delta or dtype.kind != "i":
        return None
    return np.arange(start, limit, delta, dtype=dtype)


def _rounded_once(function: Callable[[Array], Array]) -> Folding:
    """A function whose results are not exact: computed in double precision, then rounded, as near as any runtime's."""

    def kernel(node: ir.Node, inputs: Inputs) -> Array | None:
        (x,) = inputs
        # What double precision gives has no more precise form to be rounded from, and runtimes differ in its last bit.
        return function(x.astype(np.float64)).astype(x.dtype) if x.dtype in (np.float16, np.float32) else None

    return Folding(kernel)


def _sign_of_zero_free(function: Callable[..., Array]) -> Folding:
    """Max and Min: over numbers that are ordered; NaN and the sign of zero are left to the runtime."""
    kernel = _reduced(function)

    def checked(node: ir.Node, inputs: Inputs) -> Array | None:
        return kernel(node, inputs) if all(array.dtype.kind in "iu" or array.all() for array in inputs) else None

    return Folding(checked, _broadcast_size)


KERNELS: dict[str, Folding] = {
    "Abs": _pointwise(np.abs),
    "Add": _pointwise(np.add),
    "And": _pointwise(np.logical_and),
    "Cast": Folding(_cast),
    "CastLike": Folding(_cast_like),
    "Ceil": _pointwise(np.ceil),
    "Concat": Folding(_concat),
    "ConstantOfShape": Folding(_constant_of_shape, _constant_of_shape_size),
    "Cos": _rounded_once(np.cos),
    "Div": Folding(_divide, _broadcast_size),
    "Equal": _pointwise(np.equal),
    "Exp": _rounded_once(np.exp),
    "Expand": Folding(_expand, _expand_size),
    "Floor": _pointwise(np.floor),
    "Gather": Folding(_gather, _gather_size),
    "Greater": _pointwise(np.greater),
    "GreaterOrEqual": _pointwise(np.greater_equal),
    "Less": _pointwise(np.less),
    "LessOrEqual": _pointwise(np.less_equal),
    "Log": _rounded_once(np.log),
    "Max": _sign_of_zero_free(np.maximum),
    "Min": _sign_of_zero_free(np.minimum),
    "Mod": Folding(_modulo, _broadcast_size),
    "Mul": _pointwise(np.multiply),
    "Neg": _pointwise(np.negative),
    "Not": _pointwise(np.logical_not),
    "Or": _pointwise(np.logical_or),
    "Pow": Folding(_power, _broadcast_size),
    "Range": Folding(_range, _range_size),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Reshape": Folding(_reshape),
    "Sin": _rounded_once(np.sin),
    "Slice": Folding(_slice),
    "Sqrt": _pointwise(np.sqrt),
    "Squeeze": Folding(_squeeze),
    "Sub": _pointwise(np.subtract),
    "Transpose": Folding(_transpose),
    "Unsqueeze": Folding(_unsqueeze),
    "Where": _pointwise(np.where),
    "Xor": _pointwise(np.logical_xor),
}
