"""Reductions: where the axes are given, and what they may be."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.counting import axis_length, count_scalar, minus, upto

_IDENTITY_WHEN_EMPTY = frozenset({"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"})


#: Reductions whose axes became an input in opset 18.
AXES_GIVEN = (
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
)


@lowers(*AXES_GIVEN, below=18)
@lowers("ReduceSum", below=13)
def axes_to_attribute(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Axes were an attribute, whose absence means all."""
    data = op.needed(0)
    axes = op.integers(1, "the list of axes")
    if not axes and op.attr_int("noop_with_empty_axes", 0):
        if node.op_type not in _IDENTITY_WHEN_EMPTY:
            raise Refusal("it reduces over no axis")
        return op.Identity(data)
    return op.again(data, axes=axes if axes else None, drop=["noop_with_empty_axes"])


@lowers("ArgMax", "ArgMin", below=12)
def first_index(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Before opset 12 the first of equal elements was always taken: the last is the first of what is turned around."""
    if not op.attr_int("select_last_index", 0):
        node.attributes.pop("select_last_index", None)
        return None
    data = op.needed(0)
    axis = op.axis(data, op.attr_int("axis", 0))
    last = count_scalar(op, minus(op, axis_length(op, data, axis), 1))
    turned = op.Gather(data, op.Sub(last, upto(op, axis_length(op, data, axis))), axis=axis)
    return op.Sub(last, op.again(turned, axis=axis, drop=["select_last_index"]))
