"""Element types and shapes of the nodes that rules emit.

A rule often needs the rank of what another rule emitted, and validation needs element types everywhere; onnx's own
inference works on serialized models, at a hundred times the cost. Only what the rules emit is covered: an unknown
operator leaves its outputs without a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxport.legalize.infer_many import infer_many

Dim = int | ir.SymbolicDim
Dims = list[Dim]


def names(text: str) -> frozenset[str]:
    """A set of operators, written as a sentence."""
    return frozenset(text.split())


_BOOLEAN = names("And Or Xor Not Equal Less LessOrEqual Greater GreaterOrEqual IsNaN IsInf OptionalHasElement")
_INTEGER = names("Shape Size NonZero ArgMax ArgMin")
_BROADCAST = names(
    "Add Sub Mul Div Pow Mod And Or Xor Equal Less LessOrEqual Greater GreaterOrEqual Where Max Min Mean Sum PRelu "
    "BitShift BitwiseAnd BitwiseOr BitwiseXor"
)
_SAME_SHAPE = names(
    "Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh CumSum "
    "Dropout Elu Erf Exp Floor Gelu GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization "
    "IsInf IsNaN LayerNormalization LeakyRelu Log LogSoftmax LRN Mish Neg Not RMSNormalization Reciprocal Relu Round "
    "Scatter ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan "
    "Tanh ThresholdedRelu Trilu MeanVarianceNormalization LpNormalization ReverseSequence"
)


def constant(value: ir.Value | None) -> npt.NDArray[np.generic] | None:
    """The array a value is known to hold, or None if it is computed at run time."""
    if value is None:
        return None
    if value.const_value is None and value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None else tensor.numpy()


def integers(value: ir.Value | None) -> list[int] | None:
    """The integers of a constant scalar or list, or None if it is computed at run time."""
    array = constant(value)
    return None if array is None else [int(item) for item in array.reshape(-1)]


def rank(value: ir.Value) -> int | None:
    """The number of dimensions, if known."""
    return None if value.shape is None else len(value.shape)


def sizes(value: ir.Value) -> list[int] | None:
    """All sizes, if every one is static."""
    if value.shape is None:
        return None
    dims = [dim for dim in value.shape if isinstance(dim, int)]
    return dims if len(dims) == len(value.shape) else None


def _unknown() -> ir.SymbolicDim:
    return ir.SymbolicDim(None)


def broadcast(shapes: Sequence[Dims]) -> Dims:
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


def _merge(dims: Dims) -> Dim:
    if not dims:
        return 1
    for dim in dims:
        if isinstance(dim, int):
            return dim
    first = dims[0]
    return first if all(dim == first for dim in dims) and first != ir.SymbolicDim(None) else _unknown()


def _dims(value: ir.Value | None) -> Dims | None:
    shape = None if value is None else value.shape
    return None if shape is None else list(shape.dims)


def _axes(node: ir.Node, position: int) -> list[int] | None:
    if "axes" in node.attributes:
        return list(node.attributes["axes"].as_ints())
    if len(node.inputs) > position and node.inputs[position] is not None:
        return integers(node.inputs[position])
    return []


def _matmul(node: ir.Node) -> Dims | None:
    left, right = _dims(node.inputs[0]), _dims(node.inputs[1])
    if left is None or right is None or not left or not right:
        return None
    tail: Dims = []
    if len(left) > 1:
        tail.append(left[-2])
    if len(right) > 1:
        tail.append(right[-1])
    return broadcast([left[:-2], right[:-2]]) + tail


def _transpose(node: ir.Node) -> Dims | None:
    dims = _dims(node.inputs[0])
    if dims is None:
        return None
    perm = node.attributes["perm"].as_ints() if "perm" in node.attributes else range(len(dims))[::-1]
    return [dims[axis] for axis in perm]


def _reshape(node: ir.Node) -> Dims | None:
    wanted = integers(node.inputs[1])
    if wanted is None:
        shape = _dims(node.inputs[1])
        return [_unknown() for _ in range(shape[0])] if shape and isinstance(shape[0], int) else None
    dims = _dims(node.inputs[0])
    copies = not node.attributes.get_int("allowzero", 0)
    result: Dims = []
    for position, size in enumerate(wanted):
        if size == 0 and copies:
            result.append(dims[position] if dims is not None and position < len(dims) else _unknown())
        else:
            result.append(_unknown() if size == -1 else size)
    known = [dim for dim in result if isinstance(dim, int)]
    if -1 in wanted and len(known) == len(result) - 1 and dims is not None:
        static = [dim for dim in dims if isinstance(dim, int)]
        rest = int(np.prod(known))
        if len(static) == len(dims) and rest:
            result[wanted.index(-1)] = int(np.prod(static)) // rest
    return result


def _unsqueeze(node: ir.Node) -> Dims | None:
    dims, axes = _dims(node.inputs[0]), _axes(node, 1)
    if dims is None or axes is None:
        return None
    length = len(dims) + len(axes)
    for axis in sorted(axis % length for axis in axes):
        dims.insert(axis, 1)
    return dims


def _squeeze(node: ir.Node) -> Dims | None:
    dims, axes = _dims(node.inputs[0]), _axes(node, 1)
    if dims is None or not axes:
        return None
    gone = {axis % len(dims) for axis in axes}
    return [dim for axis, dim in enumerate(dims) if axis not in gone]


def _reduce(node: ir.Node) -> Dims | None:
    dims = _dims(node.inputs[0])
    if dims is None:
        return None
    if node.op_type in ("ArgMax", "ArgMin"):
        axes: list[int] | None = [node.attributes.get_int("axis", 0)]
    else:
        axes = _axes(node, 1)
    keep = bool(node.attributes.get_int("keepdims", 1))
    if axes is None:
        return [_unknown() for _ in dims] if keep else None
    gone = {axis % len(dims) for axis in axes} if dims else set()
    if not axes:
        gone = set() if node.attributes.get_int("noop_with_empty_axes", 0) else set(range(len(dims)))
    return [1 if axis in gone else dim for axis, dim in enumerate(dims) if keep or axis not in gone]


def _concat(node: ir.Node) -> Dims | None:
    shapes = [_dims(value) for value in node.inputs]
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return None
    result = list(known[0])
    axis = node.attributes["axis"].as_int() % len(result)
    parts = [shape[axis] for shape in known]
    static = [part for part in parts if isinstance(part, int)]
    result[axis] = sum(static) if len(static) == len(shapes) else _unknown()
    return result


def _slice(node: ir.Node) -> Dims | None:
    dims = _dims(node.inputs[0])
    if dims is None:
        return None
    if "starts" in node.attributes:
        starts: list[int] | None = list(node.attributes["starts"].as_ints())
        ends: list[int] | None = list(node.attributes["ends"].as_ints())
        axes, steps = _axes(node, 9), None
    else:
        starts, ends = integers(node.inputs[1]), integers(node.inputs[2])
        axes = _axes(node, 3)
        steps = integers(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else None
    if axes is None:
        return [_unknown() for _ in dims]
    if not axes and starts is not None:
        axes = list(range(len(starts)))
    for position, axis in enumerate(axes):
        dim = dims[axis]
        if isinstance(dim, int) and starts is not None and ends is not None:
            step = steps[position] if steps else 1
            dims[axis] = len(range(*slice(starts[position], ends[position], step).indices(dim)))
        else:
            dims[axis] = _unknown()
    return dims


def _gather(node: ir.Node) -> Dims | None:
    data, picked = _dims(node.inputs[0]), _dims(node.inputs[1])
    if data is None or picked is None:
        return None
    axis = node.attributes.get_int("axis", 0) % len(data)
    return data[:axis] + picked + data[axis + 1 :]


def _expand(node: ir.Node) -> Dims | None:
    dims, wanted = _dims(node.inputs[0]), integers(node.inputs[1])
    if wanted is not None and dims is not None:
        return broadcast([dims, list(wanted)])
    shape = _dims(node.inputs[1])
    if dims is None or not shape or not isinstance(shape[0], int):
        return None
    return [_unknown() for _ in range(max(len(dims), shape[0]))]


def _filled(node: ir.Node) -> Dims | None:
    wanted = integers(node.inputs[0])
    if wanted is not None:
        return list(wanted)
    shape = _dims(node.inputs[0])
    return [_unknown() for _ in range(shape[0])] if shape and isinstance(shape[0], int) else None


def _rows(node: ir.Node) -> Dims | None:
    dims = _dims(node.inputs[0])
    if dims is None:
        return None
    end = node.attributes["end"].as_int() if "end" in node.attributes else None
    return [len(dims[node.attributes.get_int("start", 0) : end])]


def _padded(node: ir.Node) -> Dims | None:
    dims = _dims(node.inputs[0])
    return None if dims is None else [_unknown() for _ in dims]


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
    "Gemm": lambda node: [_unknown(), _unknown()],
    "Range": lambda node: [_unknown()],
    "GatherElements": lambda node: _dims(node.inputs[1]),
    "Pad": _padded,
    "Tile": _padded,
    "Resize": _padded,
    "Upsample": _padded,
    "Conv": _padded,
    "ConvTranspose": _padded,
}


_FIRST_INPUT_TYPE = (
    _SAME_SHAPE
    | _BROADCAST
    | frozenset(_SHAPES)
    | names(
        "TopK Split Einsum GatherND Compress AveragePool MaxPool GlobalAveragePool GlobalMaxPool LpPool Flatten "
        "DepthToSpace SpaceToDepth Attention RotaryEmbedding GridSample Col2Im LSTM GRU RNN Det DFT"
    )
)


def _shape(node: ir.Node) -> Dims | None:
    kind = node.op_type
    if kind in _SAME_SHAPE:
        return _dims(node.inputs[0])
    if kind in _BROADCAST:
        shapes = [_dims(value) for value in node.inputs if value is not None]
        known = [shape for shape in shapes if shape is not None]
        return broadcast(known) if len(known) == len(shapes) else None
    if kind.startswith("Reduce") or kind in ("ArgMax", "ArgMin"):
        return _reduce(node)
    infer = _SHAPES.get(kind)
    return None if infer is None else infer(node)


def _dtype(node: ir.Node) -> ir.DataType | None:
    kind = node.op_type
    if kind in _BOOLEAN:
        return ir.DataType.BOOL
    if kind in _INTEGER:
        return ir.DataType.INT64
    if kind == "Cast":
        return ir.DataType(node.attributes["to"].as_int())
    if kind in ("Where", "CastLike"):
        source = node.inputs[1]
    elif kind == "OneHot":
        source = node.inputs[2]
    elif kind == "Constant":
        tensor = ir.convenience.get_const_tensor(node.outputs[0])
        return None if tensor is None else tensor.dtype
    elif kind == "ConstantOfShape":
        return node.attributes["value"].as_tensor().dtype if "value" in node.attributes else ir.DataType.FLOAT
    elif kind in _FIRST_INPUT_TYPE or kind.startswith("Reduce"):
        source = next((value for value in node.inputs if value is not None), None)
    else:
        return None
    return None if source is None else source.dtype


def infer(node: ir.Node) -> None:
    """Fill in what is missing of the node's output types and shapes."""
    if node.domain not in ("", "ai.onnx"):
        return
    infer_many(node, infer)
    output = node.outputs[0]
    dims = _shape(node) if output.shape is None else None
    if dims is not None:
        output.shape = ir.Shape(dims)
    for position, value in enumerate(node.outputs):
        if value.type is not None:
            continue
        second_integer = position == 1 and node.op_type in ("TopK", "MaxPool")
        dtype = ir.DataType.INT64 if second_integer else _dtype(node)
        if dtype is not None:
            value.type = ir.TensorType(dtype)
