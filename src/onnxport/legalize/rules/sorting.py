"""TopK where it only took the largest of floats, as many as an attribute says, and sums over what came before."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize.known import constant_integers
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.counting import axis_length, number, upto
from onnxport.legalize.rules.index import gathered_elements
from onnxport.legalize.rules.recent import accumulated

_LONG = (ir.DataType.INT64, ir.DataType.UINT64)
# Up to this size, running sums are one product with a triangle of ones.
_SMALL = 256


@lowers("TopK", below=11)
def largest_first(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The smallest are the largest of what is negated; long integers are put in order by counting."""
    data, count, axis = op.needed(0), op.needed(1), op.axis(op.needed(0), op.attr_int("axis", -1))
    kind = data.dtype
    if kind is None:
        raise Refusal("the element type of its input is not known")
    smallest = not op.attr_int("largest", 1)
    if kind in _LONG:
        return _by_rank(op, data, count, axis, smallest)
    if kind.is_integer():
        data = op.cast(data, ir.DataType.DOUBLE)
    values, indices = op.emit_many("TopK", 2, [op.Neg(data) if smallest else data, count], {"axis": axis})
    return op.cast(op.Neg(values) if smallest else values, kind), indices


@lowers("TopK", below=10)
def top_constant(op: RuleBuilder, node: ir.Node) -> Replacement:
    """How many to take was an attribute; of all in order the first, where only run time knows how many."""
    data, count = op.needed(0), constant_integers(op.needed(1))
    axis = op.axis(data, op.attr_int("axis", -1))
    size = axis_length(op, data, axis)
    if count is not None:
        return op.emit_many("TopK", 2, [data], {"axis": axis, "k": count[0]})
    if isinstance(size, int):
        first = upto(op, number(op, op.needed(1)))
        values, indices = op.emit_many("TopK", 2, [data], {"axis": axis, "k": size})
        return op.Gather(values, first, axis=axis), op.Gather(indices, first, axis=axis)
    return _by_rank(op, data, op.needed(1), axis, smallest=False)


def _by_rank(op: RuleBuilder, data: ir.Value, count: ir.Value, axis: int, smallest: bool) -> tuple[ir.Value, ir.Value]:
    """Each element's place is how many come before it: those beyond it, and those equal to it on its left.

    That compares all pairs along the axis, which is the price of an order without an operator for it.
    """
    rank = op.rank(data)
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    moved = data if axis == rank - 1 else op.Transpose(data, perm=perm)
    own, other = op.unsqueeze(moved, [rank]), op.unsqueeze(moved, [rank - 1])
    beyond = op.Less(other, own) if smallest else op.Greater(other, own)
    behind = op.Less(own, other) if smallest else op.Less(other, own)
    equal = op.Not(op.Or(beyond, behind))
    if data.dtype is not None and data.dtype.is_floating_point():
        # NaN comes before all others if the largest do, and is neither beyond nor behind by comparing.
        nan, others = op.IsNaN(own), op.IsNaN(other)
        equal = op.And(equal, op.Not(op.Xor(nan, others)))
        first = op.And(others, op.Not(nan)) if not smallest else op.And(nan, op.Not(others))
        beyond = op.Or(beyond, first)
    every = upto(op, axis_length(op, moved, rank - 1))
    left = op.Less(every, op.unsqueeze(every, [1]))
    before = op.cast(op.Or(beyond, op.And(equal, left)), ir.DataType.INT64)
    place = op.reduce("ReduceSum", before, [rank], keepdims=False)
    wanted = upto(op, number(op, count))
    here = op.Equal(op.unsqueeze(place, [rank - 1]), op.unsqueeze(wanted, [1]))
    indices = op.reduce("ReduceSum", op.Mul(op.cast(here, ir.DataType.INT64), every), [rank], keepdims=False)
    values = gathered_elements(op, moved, indices, rank - 1)
    if axis == rank - 1:
        return values, indices
    return op.Transpose(values, perm=perm), op.Transpose(indices, perm=perm)


@lowers("CumSum", below=11)
def cumulative_sum(op: RuleBuilder, node: ir.Node) -> Replacement:
    """A product with a triangle of ones while that is small, else one after the other."""
    data = op.needed(0)
    axes = op.integers(1, "the axis")
    axis = op.axis(data, axes[0] if axes else 0)
    size = data.shape[axis] if data.shape is not None else None
    if data.dtype is None:
        raise Refusal("the element type of its input is not known")
    if not isinstance(size, int) or size > _SMALL:
        return accumulated(op, data, axis, "Add", op.like(0, data))
    exclusive = op.attr_int("exclusive", 0)
    ones = np.ones((size, size))
    triangle = np.tril(ones, -exclusive) if op.attr_int("reverse", 0) else np.triu(ones, exclusive)
    weights = op.literal(triangle.astype(data.dtype.numpy()), data.dtype)
    perm = list(range(op.rank(data)))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    if axis == len(perm) - 1:
        return op.MatMul(data, weights)
    return op.Transpose(op.MatMul(op.Transpose(data, perm=perm), weights), perm=perm)
