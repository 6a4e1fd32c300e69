"""Operators that pick or place elements by index."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize.known import static_sizes
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.counting import Length, axis_length, times, upto, vector
from onnxport.onnx_build.operators import operator_set

_AXIS_OPERATORS = operator_set(
    "Concat Flatten Gather Split Softmax LogSoftmax Hardmax ArgMax ArgMin Compress OneHot Unsqueeze Squeeze "
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
    "ReduceSumSquare"
)


@lowers(*sorted(_AXIS_OPERATORS), below=11)
def counted_from_the_front(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Axes were not negative before opset 11."""
    data = op.needed(0)
    extra = len(node.attributes["axes"].as_ints()) if node.op_type == "Unsqueeze" else int(node.op_type == "OneHot")
    if "axis" in node.attributes:
        axis = node.attributes["axis"].as_int()
        if axis < 0:
            node.attributes["axis"] = ir.AttrInt64("axis", axis + op.rank(data) + extra)
    elif node.op_type == "OneHot":
        node.attributes["axis"] = ir.AttrInt64("axis", op.rank(data))
    if "axes" in node.attributes:
        axes = node.attributes["axes"].as_ints()
        if any(axis < 0 for axis in axes):
            rank = op.rank(data) + extra
            node.attributes["axes"] = ir.AttrInt64s("axes", [axis % rank for axis in axes])
    return None


@lowers("ScatterElements", "ScatterND", below=18)
def scatter_extremes(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Keeping the larger or the smaller came with opset 18."""
    return _one_by_one(op, node) if op.attr_string("reduction", "none") in ("max", "min") else None


@lowers("ScatterElements", "ScatterND", below=16)
def scatter_sums(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Adding and multiplying came with opset 16."""
    if op.attr_string("reduction", "none") != "none":
        return _one_by_one(op, node)
    node.attributes.pop("reduction", None)
    return None


_COMBINE = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}


def _one_by_one(op: RuleBuilder, node: ir.Node) -> ir.Value:
    """A loop that gathers what stands at the place of one update, combines, and puts it back.

    Several updates may meet in one place, so they cannot be placed together.
    """
    data, indices, updates = op.needed(0), op.needed(1), op.needed(2)
    elements = node.op_type == "ScatterElements"
    axis = op.attr_int("axis", 0)
    if elements:
        # One slice along the scattered axis at a time: within it no two updates can meet.
        axis = op.axis(data, axis)
        steps = op.squeeze(op.dim(indices, axis), [0])
        places, additions = indices, updates
    else:
        width = indices.shape[-1] if indices.shape is not None else None
        rank = op.rank(data)
        if not isinstance(width, int):
            raise Refusal("the width of its indices is not known")
        places = op.Reshape(indices, op.i64([-1, width]))
        tail = [dim if isinstance(dim, int) else -1 for dim in list(data.shape or ())[width:]]
        if -1 in tail:
            part = op.slice(op.Shape(data), 0, width, rank)
            additions = op.Reshape(updates, op.Concat(op.i64([-1]), part, axis=0))
        else:
            additions = op.Reshape(updates, op.i64([-1, *tail]))
        axis = 0
        steps = op.squeeze(op.dim(places, 0), [0])
    combine = _COMBINE[op.attr_string("reduction", "none")]
    scatter, gather = ("ScatterElements", "GatherElements") if elements else ("ScatterND", "GatherND")
    along = {"axis": op.attr_int("axis", 0)} if elements else {}
    step = ir.Value(name=op.name("step"), type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([]))
    going = ir.Value(name=op.name("going"), type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    before = ir.Value(name=op.name("before"), type=data.type, shape=data.shape)
    with op.subgraph() as body:
        one = op.unsqueeze(step, [0])
        place = op.Gather(places, one, axis=axis)
        addition = op.Gather(additions, one, axis=axis)
        there = op.emit(gather, before, place, **along)
        after = op.emit(scatter, before, place, op.emit(combine, there, addition), **along)
        after.type, after.shape = data.type, data.shape
        still = op.Identity(going)
    graph = ir.Graph([step, going, before], [still, after], nodes=body, name=op.name("body"))
    always = op.literal(np.asarray(True))
    return op.Loop(steps, always, data, body=ir.AttrGraph("body", graph))


@lowers("ScatterElements", below=11)
def scatter(op: RuleBuilder, node: ir.Node) -> Replacement:
    """It was called Scatter."""
    data = op.needed(0)
    return op.Scatter(data, op.needed(1), op.needed(2), axis=op.axis(data, op.attr_int("axis", 0)))


@lowers("ScatterND", below=11)
def scatter_flat(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Rows of the tensor flattened over the indexed axes, each element of a row at its place."""
    data, indices, updates = op.needed(0), op.needed(1), op.needed(2)
    width = indices.shape[-1] if indices.shape is not None else None
    if not isinstance(width, int):
        raise Refusal("the width of its indices is not known")
    sizes = [axis_length(op, data, axis) for axis in range(op.rank(data))]
    row: Length = 1
    for size in sizes[width:]:
        row = times(op, row, size)
    places = op.Reshape(_flat_places(op, data, indices, width), op.i64([-1, 1]))
    rows = op.Reshape(updates, vector(op, -1, row))
    every = op.Expand(places, op.Shape(rows))
    flat = op.Scatter(op.Reshape(data, vector(op, -1, row)), every, rows, axis=0)
    return op.Reshape(flat, vector(op, *sizes))


@lowers("GatherElements", below=11)
def gather_elements(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Elements of the flattened tensor, by their position in it: the given index, and one's own along other axes."""
    data = op.needed(0)
    return gathered_elements(op, data, op.needed(1), op.axis(data, op.attr_int("axis", 0)))


def gathered_elements(op: RuleBuilder, data: ir.Value, indices: ir.Value, axis: int) -> ir.Value:
    """GatherElements where it does not exist."""
    rank = op.rank(data)
    strides, picked = _strides(op, data, rank), static_sizes(indices)
    along = op.slice(strides, 0, axis, axis + 1)
    places = _wrapped(op, op.cast(indices, ir.DataType.INT64), op.dim(data, axis))
    elsewhere = op.i64([int(at != axis) for at in range(rank)])
    own_strides = op.Mul(strides, elsewhere)
    flat = op.Reshape(data, op.i64([-1]))
    if picked is not None:
        coordinates = np.indices(picked).reshape(rank, -1)
        own = op.literal(coordinates.astype(np.int64))
    else:
        ones = op.ConstantOfShape(op.Shape(indices), value=ir.tensor(np.ones(1, np.int64)))
        own = op.NonZero(ones)
    own = op.reduce("ReduceSum", op.Mul(own, op.unsqueeze(own_strides, [1])), [0], keepdims=False)
    places = op.Add(op.Mul(op.Reshape(places, op.i64([-1])), along), own)
    return op.Reshape(op.Gather(flat, places, axis=0), op.Shape(indices) if picked is None else op.i64(picked))


def _strides(op: RuleBuilder, value: ir.Value, count: int) -> ir.Value:
    """How far apart neighbours along each of the first ``count`` axes lie, counted in what follows them."""
    dims = list(value.shape or ())[:count]
    static = [dim for dim in dims if isinstance(dim, int)]
    if len(static) == count:
        return op.i64([int(np.prod(static[at + 1 :])) for at in range(count)])
    steps = [op.i64([1])]
    for axis in range(count - 1, 0, -1):
        steps.append(op.Mul(steps[-1], op.dim(value, axis)))
    return op.Concat(*reversed(steps), axis=0)


def _wrapped(op: RuleBuilder, places: ir.Value, size: ir.Value) -> ir.Value:
    """Negative positions counted from the end."""
    return op.where(op.Less(places, op.i64(0)), op.Add(places, size), places)


@lowers("GatherND", below=12)
def gather_without_batch(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Batch dimensions came with opset 12: each index is told which sample it belongs to."""
    batch = op.attr_int("batch_dims", 0)
    if not batch:
        node.attributes.pop("batch_dims", None)
        return None
    data, indices = op.needed(0), op.needed(1)
    rank = op.rank(indices)
    sizes = [axis_length(op, indices, axis) for axis in range(rank - 1)]
    columns = []
    for axis in range(batch):
        own = upto(op, axis_length(op, data, axis))
        own = op.unsqueeze(own, [*range(axis), *range(axis + 1, rank)])
        columns.append(op.Expand(own, vector(op, *sizes, 1)))
    return op.GatherND(data, op.Concat(*columns, indices, axis=rank - 1))


@lowers("GatherND", below=11)
def gather_flat(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Rows of the tensor flattened over the indexed axes, by their position."""
    data, indices = op.needed(0), op.needed(1)
    width = indices.shape[-1] if indices.shape is not None else None
    if not isinstance(width, int):
        raise Refusal("the width of its indices is not known")
    rank = op.rank(data)
    places = _flat_places(op, data, indices, width)
    tail = [dim for dim in list(data.shape or ())[width:] if isinstance(dim, int)]
    if len(tail) == rank - width:
        rows = op.i64([-1, *tail])
    else:
        rows = op.Concat(op.i64([-1]), op.slice(op.Shape(data), 0, width, rank), axis=0)
    return op.Gather(op.Reshape(data, rows), places, axis=0)


def _flat_places(op: RuleBuilder, data: ir.Value, indices: ir.Value, width: int) -> ir.Value:
    """Which row of the tensor, flattened over its first axes, each tuple of indices means."""
    sizes = [op.dim(data, axis) for axis in range(width)]
    places = _wrapped(op, indices, op.Concat(*sizes, axis=0) if width > 1 else sizes[0])
    steps = op.Mul(places, _strides(op, data, width))
    return op.reduce("ReduceSum", steps, [op.rank(indices) - 1], keepdims=False)
