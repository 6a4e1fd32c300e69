"""Shapes of results: for each operator that rules emit, how its first output's follows from its inputs.

An operator that is not in a table here leaves its outputs without a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnxport.legalize.known import Dims, constant_integers, dims_of
from onnxport.onnx_build.operators import BROADCASTING, SAME_SHAPE

_COUNTED = (ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64)


def unknown() -> ir.SymbolicDim:
    """A size of which nothing is known, not even whether it equals another."""
    return ir.SymbolicDim(None)


def broadcast_dims(shapes: Sequence[Dims]) -> Dims:
    """The shape of an elementwise result."""
    shapes = [shape for shape in shapes if shape]
    if not shapes:
        return []
    if len(shapes) == 1 or all(shape == shapes[0] for shape in shapes):
        return list(shapes[0])
    length = max(len(shape) for shape in shapes)
    result: Dims = []
    for position in range(length):
        column = [shape[position - length + len(shape)] for shape in shapes if position - length + len(shape) >= 0]
        result.append(_merge([dim for dim in column if dim != 1]))
    return result


def _merge(dims: Dims) -> int | ir.SymbolicDim:
    if not dims:
        return 1
    for dim in dims:
        if isinstance(dim, int):
            return dim
    first = dims[0]
    return first if all(dim == first for dim in dims) and first != ir.SymbolicDim(None) else unknown()


def _axes(node: ir.Node, position: int) -> list[int] | None:
    if "axes" in node.attributes:
        return list(node.attributes["axes"].as_ints())
    if len(node.inputs) > position and node.inputs[position] is not None:
        return constant_integers(node.inputs[position])
    return []


def _matmul(node: ir.Node) -> Dims | None:
    left, right = dims_of(node.inputs[0]), dims_of(node.inputs[1])
    if left is None or right is None or not left or not right:
        return None
    tail: Dims = []
    if len(left) > 1:
        tail.append(left[-2])
    if len(right) > 1:
        tail.append(right[-1])
    return broadcast_dims([left[:-2], right[:-2]]) + tail


def _transpose(node: ir.Node) -> Dims | None:
    dims = dims_of(node.inputs[0])
    if dims is None:
        return None
    perm = node.attributes["perm"].as_ints() if "perm" in node.attributes else range(len(dims))[::-1]
    return [dims[axis] for axis in perm]


def _reshape(node: ir.Node) -> Dims | None:
    wanted = constant_integers(node.inputs[1])
    if wanted is None:
        shape = dims_of(node.inputs[1])
        return [unknown() for _ in range(shape[0])] if shape and isinstance(shape[0], int) else None
    dims = dims_of(node.inputs[0])
    copies = not node.attributes.get_int("allowzero", 0)
    result: Dims = []
    for position, size in enumerate(wanted):
        if size == 0 and copies:
            result.append(dims[position] if dims is not None and position < len(dims) else unknown())
        else:
            result.append(unknown() if size == -1 else size)
    known = [dim for dim in result if isinstance(dim, int)]
    if -1 in wanted and len(known) == len(result) - 1 and dims is not None:
        static = [dim for dim in dims if isinstance(dim, int)]
        rest = int(np.prod(known))
        if len(static) == len(dims) and rest:
            result[wanted.index(-1)] = int(np.prod(static)) // rest
    return result


def _unsqueeze(node: ir.Node) -> Dims | None:
    dims, axes = dims_of(node.inputs[0]), _axes(node, 1)
    if dims is None or axes is None:
        return None
    length = len(dims) + len(axes)
    for axis in sorted(axis % length for axis in axes):
        dims.insert(axis, 1)
    return dims


def _squeeze(node: ir.Node) -> Dims | None:
    dims, axes = dims_of(node.inputs[0]), _axes(node, 1)
    if dims is None or not axes:
        return None
    gone = {axis % len(dims) for axis in axes}
    return [dim for axis, dim in enumerate(dims) if axis not in gone]


def _reduce(node: ir.Node) -> Dims | None:
    dims = dims_of(node.inputs[0])
    if dims is None:
        return None
    if node.op_type in ("ArgMax", "ArgMin"):
        axes: list[int] | None = [node.attributes.get_int("axis", 0)]
    else:
        axes = _axes(node, 1)
    keep = bool(node.attributes.get_int("keepdims", 1))
    if axes is None:
        return [unknown() for _ in dims] if keep else None
    gone = {axis % len(dims) for axis in axes} if dims else set()
    if not axes:
        gone = set() if node.attributes.get_int("noop_with_empty_axes", 0) else set(range(len(dims)))
    return [1 if axis in gone else dim for axis, dim in enumerate(dims) if keep or axis not in gone]


def _concat(node: ir.Node) -> Dims | None:
    shapes = [dims_of(value) for value in node.inputs]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return None
    result = list(known[0])
    axis = node.attributes["axis"].as_int() % len(result)
    parts = [shape[axis] for shape in known]
    static = [part for part in parts if isinstance(part, int)]
    result[axis] = sum(static) if len(static) == len(shapes) else unknown()
    return result


def _slice(node: ir.Node) -> Dims | None:
    dims = dims_of(node.inputs[0])
    if dims is None:
        return None
    if "starts" in node.attributes:
        starts: list[int] | None = list(node.attributes["starts"].as_ints())
        ends: list[int] | None = list(node.attributes["ends"].as_ints())
        axes, steps = _axes(node, 9), None
    else:
        starts, ends = constant_integers(node.inputs[1]), constant_integers(node.inputs[2])
        axes = _axes(node, 3)
        steps = constant_integers(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else None
    if axes is None:
        return [unknown() for _ in dims]
    if not axes and starts is not None:
        axes = list(range(len(starts)))
    for position, axis in enumerate(axes):
        dim = dims[axis]
        if isinstance(dim, int) and starts is not None and ends is not None:
            step = steps[position] if steps else 1
            dims[axis] = len(range(*slice(starts[position], ends[position], step).indices(dim)))
        else:
            dims[axis] = unknown()
    return dims


def _gather(node: ir.Node) -> Dims | None:
    data, picked = dims_of(node.inputs[0]), dims_of(node.inputs[1])
    if data is None or picked is None:
        return None
    axis = node.attributes.get_int("axis", 0) % len(data)
    return data[:axis] + picked + data[axis + 1 :]


def _expand(node: ir.Node) -> Dims | None:
    dims, wanted = dims_of(node.inputs[0]), constant_integers(node.inputs[1])
    if wanted is not None and dims is not None:
        return broadcast_dims([dims, list(wanted)])
    shape = dims_of(node.inputs[1])
    if dims is None or not shape or not isinstance(shape[0], int):
        return None
    return [unknown() for _ in range(max(len(dims), shape[0]))]


def _filled(node: ir.Node) -> Dims | None:
    wanted = constant_integers(node.inputs[0])
    if wanted is not None:
        return list(wanted)
    shape = dims_of(node.inputs[0])
    return [unknown() for _ in range(shape[0])] if shape and isinstance(shape[0], int) else None


def _rows(node: ir.Node) -> Dims | None:
    dims = dims_of(node.inputs[0])
    if dims is None:
        return None
    end = node.attributes["end"].as_int() if "end" in node.attributes else None
    return [len(dims[node.attributes.get_int("start", 0) : end])]


def _any_sizes(node: ir.Node) -> Dims | None:
    """As many dimensions, of any size."""
    dims = dims_of(node.inputs[0])
    return None if dims is None else [unknown() for _ in dims]


def _any_along_axis(node: ir.Node) -> Dims | None:
    """Split and TopK: the first input's shape, of another size along one axis."""
    dims = dims_of(node.inputs[0])
    if dims:
        dims[node.attributes.get_int("axis", -1 if node.op_type == "TopK" else 0)] = unknown()
    return dims


def _counted(node: ir.Node) -> Dims:
    """Range: as many as there are between numbers that are known."""
    known = [
        constant_integers(value) if value is not None and value.dtype in _COUNTED else None for value in node.inputs
    ]
    start, limit, step = ((one[0] if one else None) for one in known[:3])
    if start is None or limit is None or not step:
        return [unknown()]
    return [len(range(start, limit, step))]


def split_lengths(node: ir.Node) -> list[int] | None:
    """The sizes along the axis of the results of a Split, if they are known."""
    attribute = node.attributes.get("split")
    if attribute is not None:
        return list(attribute.as_ints())
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return constant_integers(node.inputs[1])
    dims, count = dims_of(node.inputs[0]), len(node.outputs)
    size = dims[node.attributes.get_int("axis", 0)] if dims else None
    if not isinstance(size, int):
        return None
    part = -(-size // count)
    return [*[part] * (count - 1), size - part * (count - 1)]


def _transform(node: ir.Node) -> Dims | None:
    """DFT: another size along the axis, and pairs at the end; the axis is an attribute before opset 20."""
    dims = dims_of(node.inputs[0])
    if not dims:
        return dims
    if "axis" in node.attributes and "onesided" not in node.attributes and len(node.inputs) == 1:
        return [*dims[:-1], 2]
    real = node.attributes.get_int("inverse", 0) and node.attributes.get_int("onesided", 0)
    return [*(unknown() for _ in dims[:-1]), 1 if real else 2]


def _pad(node: ir.Node) -> Dims | None:
    """Other sizes along the padded axes only, known if all that is added is."""
    dims = dims_of(node.inputs[0])
    if dims is None:
        return None
    pads = list(node.attributes["pads"].as_ints()) if "pads" in node.attributes else constant_integers(node.inputs[1])
    has_axes = len(node.inputs) > 3 and node.inputs[3] is not None
    axes = constant_integers(node.inputs[3]) if has_axes else list(range(len(dims)))
    if axes is None:
        return [unknown() for _ in dims]
    for position, axis in enumerate(axes):
        added = None if pads is None else pads[position] + pads[position + len(axes)]
        before = dims[axis]
        if added != 0:
            dims[axis] = before + added if isinstance(before, int) and added is not None else unknown()
    return dims


def _gather_nd(node: ir.Node) -> Dims | None:
    """A row of the data for each tuple of indices, whose length must be known."""
    data, indices = dims_of(node.inputs[0]), dims_of(node.inputs[1])
    width = indices[-1] if indices else None
    if data is None or indices is None or not isinstance(width, int):
        return None
    return indices[:-1] + data[node.attributes.get_int("batch_dims", 0) + width :]


def _non_zero(node: ir.Node) -> Dims | None:
    """A row for each axis."""
    dims = dims_of(node.inputs[0])
    return None if dims is None else [len(dims), unknown()]


def _constant(node: ir.Node) -> Dims | None:
    tensor = ir.convenience.get_const_tensor(node.outputs[0])
    return None if tensor is None else [*tensor.shape]


def _random(node: ir.Node) -> Dims | None:
    """The shape of the input, or of the attribute."""
    if "shape" in node.attributes:
        return [*node.attributes["shape"].as_ints()]
    return dims_of(node.inputs[0]) if node.inputs else None


_SHAPES: dict[str, Callable[[ir.Node], Dims | None]] = {
    "MatMul": _matmul,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Concat": _concat,
    "Slice": _slice,
    "Gather": _gather,
    "Expand": _expand,
    "ConstantOfShape": _filled,
    "Shape": _rows,
    "Size": lambda node: [],
    "Gemm": lambda node: [unknown(), unknown()],
    "Range": _counted,
    "GatherElements": lambda node: dims_of(node.inputs[1]),
    "Pad": _pad,
    "Tile": _any_sizes,
    "Resize": _any_sizes,
    "Upsample": _any_sizes,
    "Conv": _any_sizes,
    "ConvTranspose": _any_sizes,
    "TopK": _any_along_axis,
    "Split": _any_along_axis,
    "DFT": _transform,
    "NonZero": _non_zero,
    "Constant": _constant,
    "GatherND": _gather_nd,
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli"), _random),
}


def result_dims(node: ir.Node) -> Dims | None:
    """The dimensions of a node's first output, if known; those of Split differ along its axis."""
    kind = node.op_type
    if kind in SAME_SHAPE:
        return dims_of(node.inputs[0])
    if kind in BROADCASTING:
        shapes = [dims_of(value) for value in node.inputs if value is not None]
        known = [shape for shape in shapes if shape is not None]
        return broadcast_dims(known) if len(known) == len(shapes) else None
    if kind.startswith("Reduce") or kind in ("ArgMax", "ArgMin"):
        return _reduce(node)
    rule = _SHAPES.get(kind)
    return None if rule is None else rule(node)
