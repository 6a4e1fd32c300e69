"""Transpositions around operations on single elements: the operation is done before both, and they become one."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from onnxport.onnx_build.operators import operator_set
from onnxport.optimize.rules.pattern import Rule, made_by, rules_for
from onnxport.optimize.scope import Scope, surely_same_shape

_BY_ELEMENT = operator_set(
    "Abs Cast Ceil Celu Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Mish Neg Not Reciprocal Relu "
    "Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Tan Tanh ThresholdedRelu"
)
_WITH_NUMBER = operator_set("Add Div Mul Pow Sub")


def _operand(node: ir.Node, scope: Scope) -> int | None:
    """Which input an operation on single elements takes its shape from; the other, if any, is one number."""
    if node.domain != "" or node.version is not None:
        return None
    if node.op_type in _BY_ELEMENT:
        return 0
    if node.op_type not in _WITH_NUMBER:
        return None
    for index in (0, 1):
        number = scope.array(node.inputs[1 - index])
        if number is not None and number.ndim == 0:
            return index
    return None


def _around_elements(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``Transpose(Relu(Transpose(x)))`` becomes ``Transpose(Relu(x))``, or ``Relu(x)`` where the two cancel.

    Only where nothing else reads what lies between, so that nothing is computed twice.
    """
    between: list[tuple[ir.Node, int]] = []
    value = node.inputs[0]
    while value is not None and scope.counts.get(value, 0) == 1 and not value.is_graph_output():
        producer = value.producer()
        if producer is None or producer.graph is not node.graph:
            return None
        if producer.op_type == "Transpose" and producer.domain == "" and between:
            return _moved(node, between, producer, scope)
        index = _operand(producer, scope)
        if index is None:
            return None
        between.append((producer, index))
        value = producer.inputs[index]
    return None


def _moved(node: ir.Node, between: list[tuple[ir.Node, int]], first: ir.Node, scope: Scope) -> Literal[True] | None:
    inner, outer = first.attributes.get("perm"), node.attributes.get("perm")
    source = first.inputs[0]
    if inner is None or outer is None or source is None or source.shape is None:
        return None
    for operation, _ in between:
        operation.outputs[0].shape = ir.Shape(source.shape.dims)
    operation, index = between[-1]
    scope.set_input(operation, index, source)
    order = [inner.as_ints()[axis] for axis in outer.as_ints()]
    node.attributes.add(ir.AttrInt64s("perm", order))
    return True


def _of_both(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``Add(Transpose(x), Transpose(y))`` becomes ``Transpose(Add(x, y))`` where both have all axes and one order."""
    first, second = (made_by(value, "Transpose") for value in node.inputs)
    if first is None or second is None or scope.in_function:
        return None
    values = [value for value in node.inputs if value is not None]
    # One transposition less, unless something else reads one of the two.
    if values[0] is values[1] or any(scope.counts.get(value, 0) != 1 or value.is_graph_output() for value in values):
        return None
    order, other = first.attributes.get("perm"), second.attributes.get("perm")
    left, right, result = first.inputs[0], second.inputs[0], node.outputs[0]
    if order is None or other is None or order.as_ints() != other.as_ints() or left is None or right is None:
        return None
    if left.shape is None or not surely_same_shape(left, right) or result.dtype is None:
        return None
    attributes = list(node.attributes.values())
    inner = scope.insert_before(node, node.op_type, [left, right], result.dtype, list(left.shape), attributes)
    scope.become(node, "Transpose", [inner], [ir.AttrInt64s("perm", order.as_ints())])
    return True


RULES = [
    *rules_for("transposes of both operands", "Add Div Mul Sub", _of_both),
    Rule("transposes around operations on elements", "Transpose", _around_elements),
]
