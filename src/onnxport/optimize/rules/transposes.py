"""Transpositions around operations on single elements, done before both so that they become one, and of weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnxport.onnx_build.operators import operator_set
from onnxport.optimize.rules.pattern import Rule, made_by, rules_for
from onnxport.optimize.scope import Scope, known_dims, surely_same_shape

_BY_ELEMENT = operator_set(
    "Abs Cast Ceil Celu Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Mish Neg Not Reciprocal Relu "
    "Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Tan Tanh ThresholdedRelu"
)
_BROADCASTING = operator_set(
    "Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul Or Pow PRelu Sub Where Xor"
)
_MOST = 32
"""How many operations may lie between transpositions, so that looking for them takes a time that is bounded."""


@dataclass
class _Region:
    """Operations on elements between transpositions of one order and the transposition of what comes out."""

    order: list[int] | None = None
    nodes: list[ir.Node] = field(default_factory=list)
    #: The inputs, by node and index, that transpositions make.
    turned: list[tuple[ir.Node, int, ir.Value]] = field(default_factory=list)
    #: The inputs that are stretched along other axes than they seem to have once the rest is turned back.
    stretched: list[tuple[ir.Node, int, ir.Value]] = field(default_factory=list)
    uses: Counter[ir.Value] = field(default_factory=Counter)


def _enter(node: ir.Node, region: _Region) -> list[ir.Node] | None:
    """Take an operation into a region; the operations before it that must be in it too, None if it can't be in it."""
    if node.domain != "" or node.version is not None or len(region.nodes) == _MOST:
        return None
    if node.op_type not in _BY_ELEMENT | _BROADCASTING and node.op_type != "Clip":
        return None
    region.nodes.append(node)
    before: list[ir.Node] = []
    for index, value in enumerate(node.inputs):
        if value is None or (value.shape is not None and value.shape.rank() == 0):
            continue
        if node.op_type == "Clip" and index:
            return None
        producer, swap = value.producer(), made_by(value, "Transpose")
        if surely_same_shape(value, node.outputs[0]) and swap is not None and swap.graph is node.graph:
            order = swap.attributes.get("perm")
            source = swap.inputs[0]
            if order is None or source is None or source.shape is None:
                return None
            if region.order is not None and region.order != list(order.as_ints()):
                return None
            region.order = list(order.as_ints())
            region.turned.append((node, index, source))
        elif surely_same_shape(value, node.outputs[0]) and producer is not None and producer.graph is node.graph:
            region.uses[value] += 1
            before.append(producer)
        elif node.op_type in _BROADCASTING and node.op_type != "PRelu" and _is_row(value):
            region.stretched.append((node, index, value))
        else:
            return None
    return before


def _is_row(value: ir.Value) -> bool:
    """Whether a value is a weight or literal with one axis that is longer than one, or none."""
    source = value
    unsqueeze = made_by(value, "Unsqueeze")
    if unsqueeze is not None and unsqueeze.inputs[0] is not None:
        source = unsqueeze.inputs[0]
    dims = known_dims(value)
    return source.is_initializer() and dims is not None and sum(dim != 1 for dim in dims) <= 1


def _around_elements(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``Transpose(Relu(Transpose(x)))`` becomes ``Transpose(Relu(x))``, or ``Relu(x)`` where the two cancel.

    The operations between may be several and read one another, and weights of one axis are turned along. Only where
    nothing else reads what lies between, so that nothing is computed twice.
    """
    outer, value = node.attributes.get("perm"), node.inputs[0]
    producer = value.producer() if value is not None else None
    if outer is None or value is None or producer is None or scope.in_function or producer.op_type == "Transpose":
        return None
    region = _Region()
    region.uses[value] += 1
    rest = [producer]
    while rest:
        one = rest.pop()
        if one in region.nodes:
            continue
        before = _enter(one, region) if one.graph is node.graph else None
        if before is None:
            return None
        rest += before
    if region.order is None:
        return None
    # Weights are turned by hand: that is worth it only where the large transpositions go.
    order = [region.order[axis] for axis in outer.as_ints()]
    if region.stretched and order != sorted(order):
        return None
    for made, uses in region.uses.items():
        if scope.counts.get(made, 0) != uses or made.is_graph_output():
            return None
    _turn_back(region, scope)
    node.attributes.add(ir.AttrInt64s("perm", order))
    return True


def _turn_back(region: _Region, scope: Scope) -> None:
    """Let the operations of a region work on what was transposed before them."""
    assert region.order is not None
    back = [region.order.index(axis) for axis in range(len(region.order))]
    for operation in region.nodes:
        result = operation.outputs[0]
        assert result.shape is not None
        result.shape = ir.Shape([result.shape[axis] for axis in back])
    for operation, index, value in region.stretched:
        scope.set_input(operation, index, _turned_row(operation, value, back, scope))
    for operation, index, source in region.turned:
        scope.set_input(operation, index, source)


def _turned_row(operation: ir.Node, value: ir.Value, back: list[int], scope: Scope) -> ir.Value:
    """What has one long axis, with that axis where it is after turning."""
    dims, kind = known_dims(value), value.dtype
    assert dims is not None and kind is not None
    full = [*[1] * (len(back) - len(dims)), *dims]
    turned = [full[axis] for axis in back]
    long = next((axis for axis, dim in enumerate(turned) if dim != 1), len(turned) - 1)
    unsqueeze = made_by(value, "Unsqueeze")
    source = unsqueeze.inputs[0] if unsqueeze is not None else value
    assert source is not None and source.shape is not None
    wanted = turned[long:]
    if list(source.shape) == wanted:
        return source
    array = scope.array(source)
    if array is not None:
        return scope.literal(array.reshape([dim for dim in wanted if isinstance(dim, int)]), kind, "literal_row")
    if source.shape.rank() == 1:
        axes = scope.int64s(*range(1, len(wanted)))
        return scope.insert_before(operation, "Unsqueeze", [source, axes], kind, wanted)
    shape = scope.int64s(*[dim if isinstance(dim, int) else -1 for dim in wanted])
    return scope.insert_before(operation, "Reshape", [source, shape], kind, wanted)


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


def _shared_weight(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``Gemm(x, w, transB=1)`` becomes ``Gemm(x, Transpose(w))`` where something else reads ``w`` too.

    onnxruntime's quantizers turn the weights of each such Gemm where they are, so that the next reader has them in the
    wrong order. A file has them turned once for all, see ``weights/arrangement.py``.
    """
    rows, weight = node.inputs[:2]
    if node.attributes.get_int("transB", 0) != 1 or scope.in_function:
        return None
    if rows is None or weight is None or weight.dtype is None:
        return None
    dims = known_dims(weight)
    if not weight.is_initializer() or dims is None or len(dims) != 2 or scope.counts.get(weight, 0) < 2:
        return None
    found, kind, array = weight, weight.dtype, scope.array(weight)
    order = [ir.AttrInt64s("perm", [1, 0])]
    if array is not None:
        turned = scope.literal(np.ascontiguousarray(array.T), kind, "literal_matrix")
    else:
        key = ("turned", weight, node.graph, None if scope.apart is None else scope.apart(node))
        turned = scope.once(key, lambda: scope.insert_before(node, "Transpose", [found], kind, dims[::-1], order))
    others = [attribute for name, attribute in node.attributes.items() if name != "transB"]
    rest = [value for value in node.inputs[2:] if value is not None]
    scope.become(node, "Gemm", [rows, turned, *rest], others)
    return True


RULES = [
    Rule("weights of several products", "Gemm", _shared_weight),
    *rules_for("transposes of both operands", "Add Div Mul Sub", _of_both),
    Rule("transposes around operations on elements", "Transpose", _around_elements),
]
