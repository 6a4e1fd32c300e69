"""Operators that give a tensor another shape or take part of it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize.known import constant_array, constant_integers, known_rank
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.counting import axis_length, places, upto
from onnxport.onnx_build.literals import INT64_MAX


@lowers("Shape", below=15)
def shape_part(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The whole shape, then the part that was asked for."""
    if "start" not in node.attributes and "end" not in node.attributes:
        return None
    data = op.needed(0)
    start, end = op.attr_int("start", 0), op.attr_int("end", INT64_MAX)
    rank = known_rank(data)
    if rank is not None:
        start, end, _ = slice(start, end).indices(rank)
        dims = list(data.shape or ())[start:end]
        static = [dim for dim in dims if isinstance(dim, int)]
        if len(static) == len(dims):
            return op.i64(static)
    return op.slice(op.Shape(data), 0, start, end)


@lowers("Reshape", below=14)
def reshape(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Before opset 14 a zero always meant the size the input has there."""
    if not op.attr_int("allowzero", 0):
        node.attributes.pop("allowzero", None)
        return None
    data, wanted = op.needed(0), constant_integers(op.needed(1))
    dims = list(data.shape) if data.shape is not None else []
    copied = [at for at, size in enumerate(wanted or ()) if size == 0 and not (at < len(dims) and dims[at] == 0)]
    if copied and data.dtype is not None:
        # An empty tensor has no contents to keep.
        return op.ConstantOfShape(op.needed(1), value=ir.Tensor(np.zeros(1, data.dtype.numpy()), data.dtype))
    node.attributes.pop("allowzero")
    return None


@lowers("Squeeze", "Unsqueeze", below=13)
def squeezed_axes(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Axes were an attribute."""
    return op.again(op.needed(0), axes=op.integers(1, "the list of axes"))


@lowers("Split", below=18)
def split_count(op: RuleBuilder, node: ir.Node) -> Replacement:
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
def split_sizes(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The sizes of the parts were an attribute; parts of sizes computed at run time are slices."""
    given = op.input(1)
    if given is not None and constant_array(given) is None:
        data, axis, begin, parts = op.needed(0), op.i64([op.attr_int("axis", 0)]), op.i64([0]), []
        for position in range(len(node.outputs)):
            size = op.Slice(given, op.i64([position]), op.i64([position + 1]), op.i64([0]))
            end = op.Add(begin, size)
            parts.append(op.Slice(data, begin, end, axis))
            begin = end
        return tuple(parts)
    sizes = op.integers(1, "the list of sizes")
    attributes = {"axis": op.attr_int("axis", 0), "split": sizes}
    return op.emit_many("Split", len(node.outputs), [op.needed(0)], attributes)


@lowers("Trilu", below=14)
def triangle(op: RuleBuilder, node: ir.Node) -> Replacement:
    """A choice between the tensor and zero by comparing row and column."""
    data, diagonal = op.needed(0), op.input(1)
    rank = op.rank(data)
    rows, columns = (upto(op, axis_length(op, data, axis)) for axis in (rank - 2, rank - 1))
    edge = op.unsqueeze(rows, [1])
    if diagonal is not None:
        edge = op.Add(edge, diagonal)
    outside = op.Less(columns, edge) if op.attr_int("upper", 1) else op.Greater(columns, edge)
    return op.where(outside, op.like(0, data), data)


@lowers("Range", below=11)
def counted(op: RuleBuilder, node: ir.Node) -> Replacement:
    """A literal, or the positions of the non-zero elements of as many ones."""
    start, limit, step = op.needed(0), op.needed(1), op.needed(2)
    known = [constant_array(value) for value in (start, limit, step)]
    if known[0] is not None and known[1] is not None and known[2] is not None:
        first, last, by = (array.reshape(-1)[0] for array in known if array is not None)
        return op.literal(np.arange(first, last, by).astype(known[0].dtype), start.dtype)
    if known[2] is None or start.dtype is None:
        raise Refusal("the step it counts by is computed at run time")
    by = known[2].reshape(-1)[0]
    length = op.Sub(limit, start)
    if start.dtype.is_floating_point():
        length = op.Ceil(op.Div(length, step))
    elif by != 1:
        # Division cuts towards zero, so what it should round up is moved on first.
        length = op.Div(op.Add(length, op.literal((by - np.sign(by)).astype(known[2].dtype), start.dtype)), step)
    length = op.unsqueeze(op.cast(length, ir.DataType.INT64), [0])
    length = op.where(op.Less(length, op.i64([0])), op.i64([0]), length)
    steps = op.cast(places(op, length), start.dtype)
    return op.Add(steps if by == 1 else op.Mul(steps, step), start)


@lowers("ConstantOfShape", below=9)
def filled(op: RuleBuilder, node: ir.Node) -> Replacement:
    """One element, expanded."""
    tensor = node.attributes["value"].as_tensor().numpy() if "value" in node.attributes else np.zeros(1, np.float32)
    shape = constant_integers(op.needed(0))
    if shape is not None:
        return op.literal(np.full(shape, tensor.reshape(-1)[0]))
    return op.Expand(op.literal(tensor.reshape(1)), op.needed(0))


@lowers("Expand", below=8)
def expand(op: RuleBuilder, node: ir.Node) -> Replacement:
    """A product with ones of that shape."""
    data, shape = op.needed(0), op.integers(1, "the shape")
    assert shape is not None
    return op.Mul(data, op.full(1, data.dtype, shape))


@lowers("Constant", below=12)
def constant_tensor(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Only whole tensors could be given."""
    if "value" in node.attributes or "sparse_value" in node.attributes:
        return None
    tensor = ir.convenience.get_const_tensor(node.outputs[0])
    if tensor is None:
        return None
    return op.Constant(value=ir.Tensor(tensor.numpy(), tensor.dtype))


@lowers("Constant", below=9)
def constant_float(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Only floats were constants; other literals are defaults of inputs."""
    tensor = node.attributes["value"].as_tensor() if "value" in node.attributes else None
    return None if tensor is None or tensor.dtype.is_floating_point() else op.literal(tensor.numpy(), tensor.dtype)
