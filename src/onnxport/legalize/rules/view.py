"""Operators that give a tensor another shape or take part of it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize import infer
from onnxport.legalize.builder import Builder, Refusal
from onnxport.legalize.engine import Replacement, lowers

_END = np.iinfo(np.int64).max


@lowers("Shape", below=15)
def shape_part(op: Builder, node: ir.Node) -> Replacement:
    """The whole shape, then the part that was asked for."""
    if "start" not in node.attributes and "end" not in node.attributes:
        return None
    data = op.needed(0)
    start, end = op.attr_int("start", 0), op.attr_int("end", _END)
    rank = infer.rank(data)
    if rank is not None:
        start, end, _ = slice(start, end).indices(rank)
        dims = list(data.shape or ())[start:end]
        static = [dim for dim in dims if isinstance(dim, int)]
        if len(static) == len(dims):
            return op.i64(static)
    return op.slice(op.Shape(data), 0, start, end)


@lowers("Reshape", below=14)
def reshape(op: Builder, node: ir.Node) -> Replacement:
    """Before opset 14 a zero always meant the size the input has there."""
    if not op.attr_int("allowzero", 0):
        node.attributes.pop("allowzero", None)
        return None
    data, wanted = op.needed(0), infer.integers(op.needed(1))
    dims = list(data.shape) if data.shape is not None else []
    copied = [at for at, size in enumerate(wanted or ()) if size == 0 and not (at < len(dims) and dims[at] == 0)]
    if copied and data.dtype is not None:
        # An empty tensor has no contents to keep.
        return op.ConstantOfShape(op.needed(1), value=ir.Tensor(np.zeros(1, data.dtype.numpy()), data.dtype))
    node.attributes.pop("allowzero")
    return None


@lowers("Squeeze", "Unsqueeze", below=13)
def squeezed_axes(op: Builder, node: ir.Node) -> Replacement:
    """Axes were an attribute."""
    return op.again(op.needed(0), axes=op.integers(1, "the list of axes"))


@lowers("Split", below=18)
def split_count(op: Builder, node: ir.Node) -> Replacement:
    """A number of parts was only implied, by the outputs, and they had to be equal."""
    count = op.attr_int("num_outputs", len(node.outputs))
    if "num_outputs" not in node.attributes:
        return None
    data, axis = op.needed(0), op.attr_int("axis", 0)
    size = data.shape[axis] if data.shape is not None else None
    if isinstance(size, int):
        part = -(-size // count)
        sizes = op.i64([part] * (count - 1) + [size - part * (count - 1)])
    else:
        whole = op.dim(data, axis)
        part_size = op.Div(op.Add(whole, op.i64([count - 1])), op.i64([count]))
        last = op.Sub(whole, op.Mul(part_size, op.i64([count - 1])))
        sizes = op.Concat(*[part_size] * (count - 1), last, axis=0)
    return op.emit_many("Split", len(node.outputs), [data, sizes], {"axis": axis})


@lowers("Split", below=13)
def split_sizes(op: Builder, node: ir.Node) -> Replacement:
    """The sizes of the parts were an attribute."""
    sizes = op.integers(1, "the list of sizes")
    attributes = {"axis": op.attr_int("axis", 0), "split": sizes}
    return op.emit_many("Split", len(node.outputs), [op.needed(0)], attributes)


@lowers("Slice", below=10)
def static_slice(op: Builder, node: ir.Node) -> Replacement:
    """Bounds were attributes, and there were no steps."""
    data = op.needed(0)
    starts, ends = op.integers(1, "where it starts"), op.integers(2, "where it ends")
    assert starts is not None and ends is not None
    axes = op.integers(3, "the list of axes")
    if axes is None:
        axes = list(range(len(starts)))
    axes = [op.axis(data, axis) for axis in axes]
    steps = op.integers(4, "the list of steps")
    if steps is None:
        steps = [1] * len(starts)
    plain = [position for position, step in enumerate(steps) if step == 1]
    result = data
    if plain:
        result = op.Slice(
            data,
            starts=[starts[position] for position in plain],
            ends=[ends[position] for position in plain],
            axes=[axes[position] for position in plain],
        )
    for position, step in enumerate(steps):
        if step == 1:
            continue
        size = data.shape[axes[position]] if data.shape is not None else None
        if not isinstance(size, int):
            raise Refusal("it steps through an axis whose size is not known")
        first, last = starts[position], ends[position]
        # An end below -size means "past the first element", which a Python slice writes as None.
        bounds = slice(first, None if step < 0 and last < -size else last, step)
        result = op.Gather(result, op.i64(list(range(*bounds.indices(size)))), axis=axes[position])
    return result


@lowers("Pad", below=18)
def pad_all_axes(op: Builder, node: ir.Node) -> Replacement:
    """Pads were given for all axes, and constant, reflect and edge were the modes."""
    data, axes = op.needed(0), op.integers(3, "the list of axes")
    if axes is None:
        return None
    pads = op.integers(1, "the padding")
    assert pads is not None
    rank = op.rank(data)
    whole = [0] * (2 * rank)
    for position, axis in enumerate(axes):
        whole[axis % rank] = pads[position]
        whole[axis % rank + rank] = pads[position + len(axes)]
    return op.again(data, op.i64(whole), op.input(2))


@lowers("Pad", below=19)
def pad_around(op: Builder, node: ir.Node) -> Replacement:
    """Wrapping around is the tensor between its own ends."""
    if op.attr_string("mode", "constant") != "wrap":
        return None
    data, pads = op.needed(0), op.integers(1, "the padding")
    assert pads is not None
    rank = op.rank(data)
    axes = op.integers(3, "the list of axes")
    if axes is None:
        axes = list(range(rank))
    result = data
    for position, axis in enumerate(axes):
        before, after = pads[position], pads[position + len(axes)]
        if before < 0 or after < 0:
            raise Refusal("it wraps around by a negative amount")
        parts = [op.slice(result, axis % rank, -before, _END)] if before else []
        parts.append(result)
        if after:
            parts.append(op.slice(result, axis % rank, 0, after))
        if len(parts) > 1:
            result = op.Concat(*parts, axis=axis % rank)
    return result


@lowers("Pad", below=11)
def pad_attributes(op: Builder, node: ir.Node) -> Replacement:
    """Pads and the value to fill with were attributes."""
    pads, value = op.integers(1, "the padding"), op.constant(2, "the value to pad with")
    filler = 0.0 if value is None or not value.size else float(value.reshape(-1)[0])
    return op.again(op.needed(0), pads=pads, value=filler)


@lowers("Trilu", below=14)
def triangle(op: Builder, node: ir.Node) -> Replacement:
    """A choice between the tensor and zero by comparing row and column."""
    data, diagonal = op.needed(0), op.input(1)
    rank = op.rank(data)
    rows = _counted(op, data, rank - 2, negated=False)
    columns = _counted(op, data, rank - 1, negated=False)
    edge = op.unsqueeze(rows, [1])
    if diagonal is not None:
        edge = op.Add(edge, diagonal)
    outside = op.Less(columns, edge) if op.attr_int("upper", 1) else op.Greater(columns, edge)
    return op.where(outside, op.like(0, data), data)


def _counted(op: Builder, value: ir.Value, axis: int, negated: bool) -> ir.Value:
    """0, 1, 2 … as many as the axis is long."""
    dim = value.shape[axis] if value.shape is not None else None
    length = op.i64(dim) if isinstance(dim, int) else op.squeeze(op.dim(value, axis), [0])
    return op.Range(op.i64(0), length, op.i64(1))


@lowers("Range", below=11)
def counted(op: Builder, node: ir.Node) -> Replacement:
    """A literal, or the positions of the non-zero elements of as many ones."""
    start, limit, step = op.needed(0), op.needed(1), op.needed(2)
    known = [infer.constant(value) for value in (start, limit, step)]
    if known[0] is not None and known[1] is not None and known[2] is not None:
        first, last, by = (array.reshape(-1)[0] for array in known if array is not None)
        return op.literal(np.arange(first, last, by).astype(known[0].dtype), start.dtype)
    by_one = known[2] is not None and known[2].reshape(-1)[0] == 1
    if not by_one or start.dtype != ir.DataType.INT64:
        raise Refusal("it counts between bounds known only at run time, and not by one")
    length = op.Sub(limit, start)
    ones = op.ConstantOfShape(op.unsqueeze(length, [0]), value=ir.tensor(np.ones(1, np.int64)))
    return op.Add(op.squeeze(op.NonZero(ones), [0]), start)


@lowers("ConstantOfShape", below=9)
def filled(op: Builder, node: ir.Node) -> Replacement:
    """One element, expanded."""
    tensor = node.attributes["value"].as_tensor().numpy() if "value" in node.attributes else np.zeros(1, np.float32)
    shape = infer.integers(op.needed(0))
    if shape is not None:
        return op.literal(np.full(shape, tensor.reshape(-1)[0]))
    return op.Expand(op.literal(tensor.reshape(1)), op.needed(0))


@lowers("Expand", below=8)
def expand(op: Builder, node: ir.Node) -> Replacement:
    """A product with ones of that shape."""
    data, shape = op.needed(0), op.integers(1, "the shape")
    assert shape is not None
    return op.Mul(data, op.full(1, data.dtype, shape))


@lowers("Constant", below=12)
def constant_tensor(op: Builder, node: ir.Node) -> Replacement:
    """Only whole tensors could be given."""
    if "value" in node.attributes or "sparse_value" in node.attributes:
        return None
    tensor = ir.convenience.get_const_tensor(node.outputs[0])
    if tensor is None:
        return None
    return op.Constant(value=ir.Tensor(tensor.numpy(), tensor.dtype))
