"""Activations that models write out by hand, as the one operator they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnxport.optimize.rules.pattern import Rule, made_by, rules_for
from onnxport.optimize.scope import Scope

_FIRST_OPSET = 20
_CUBE = 0.044715
_LIMITING = ("Add", "Clip", "Max", "Min")
_Pair = tuple[ir.Value, ir.Value]


def _number(value: ir.Value | None, scope: Scope) -> float | None:
    """The number that a value is; one without axes, which leaves shapes as they are."""
    array = scope.array(value)
    return float(array) if array is not None and array.ndim == 0 and array.dtype.kind == "f" else None


def _is_number(value: ir.Value | None, number: float, scope: Scope) -> bool:
    """Whether a value is a number, to as many places as people write one with."""
    found = _number(value, scope)
    return found is not None and math.isclose(found, number, rel_tol=1e-5)


def _pairs(value: ir.Value | None, op_type: str) -> Iterator[_Pair]:
    """The operands of a value that an operator of two makes, in either order."""
    node = made_by(value, op_type)
    if node is not None and node.inputs[0] is not None and node.inputs[1] is not None:
        yield node.inputs[0], node.inputs[1]
        yield node.inputs[1], node.inputs[0]


def _without(value: ir.Value | None, op_type: str, number: float, scope: Scope) -> ir.Value | None:
    """``x`` of ``x * number``, or of ``x + number``."""
    return next((rest for rest, other in _pairs(value, op_type) if _is_number(other, number, scope)), None)


def _is_erf(value: ir.Value | None, of: ir.Value, scope: Scope) -> bool:
    """Whether ``value`` is ``erf(of / √2)``."""
    erf = made_by(value, "Erf")
    if erf is None:
        return False
    division = made_by(erf.inputs[0], "Div")
    if division is not None:
        return division.inputs[0] is of and _is_number(division.inputs[1], math.sqrt(2), scope)
    return _without(erf.inputs[0], "Mul", math.sqrt(0.5), scope) is of


def _is_power(value: ir.Value | None, of: ir.Value, exponent: int, scope: Scope) -> bool:
    power = made_by(value, "Pow")
    if power is not None:
        return power.inputs[0] is of and _is_number(power.inputs[1], exponent, scope)
    if exponent == 1:
        return value is of
    return any(_is_power(one, of, exponent - 1, scope) and other is of for one, other in _pairs(value, "Mul"))


def _is_curve(value: ir.Value | None, of: ir.Value, scope: Scope) -> bool:
    """Whether ``value`` is ``tanh(√(2/π) (of + 0.044715 of³))``."""
    tanh = made_by(value, "Tanh")
    if tanh is None:
        return False
    factor = math.sqrt(2 / math.pi)
    inner = _without(tanh.inputs[0], "Mul", factor, scope)
    for one, other in _pairs(inner, "Add"):
        if one is of and _is_power(_without(other, "Mul", _CUBE, scope), of, 3, scope):
            return True
    # As of √(2/π) (1 + 0.044715 of²), in either order of the products.
    for one, other in _pairs(tanh.inputs[0], "Mul"):
        rest = _without(_without(other, "Add", 1.0, scope), "Mul", _CUBE, scope)
        squared = _is_power(rest, of, 2, scope) or _is_scaled_square(other, of, scope)
        if squared and _without(one, "Mul", factor, scope) is of:
            return True
    return False


def _is_scaled_square(value: ir.Value | None, of: ir.Value, scope: Scope) -> bool:
    """Whether ``value`` is ``1 + (0.044715 of) of``."""
    product = _without(value, "Add", 1.0, scope)
    return any(other is of and _without(one, "Mul", _CUBE, scope) is of for one, other in _pairs(product, "Mul"))


def _factors(node: ir.Node, scope: Scope) -> Iterator[_Pair]:
    """``a, b`` of ``0.5 a b``, however it is written."""
    product = node.outputs[0]
    half_of = _without(product, "Mul", 0.5, scope)
    if half_of is not None:
        yield from _pairs(half_of, "Mul")
    for one, other in _pairs(product, "Mul"):
        rest = _without(one, "Mul", 0.5, scope)
        if rest is not None:
            yield rest, other
            yield other, rest


def _gelu(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``0.5 x (1 + erf(x / √2))`` becomes ``Gelu(x)``, and the form with tanh ``Gelu<approximate = "tanh">(x)``."""
    if scope.graph.opset_imports.get("", 0) < _FIRST_OPSET or scope.in_function:
        return None
    for x, rest in _factors(node, scope):
        curve = _without(rest, "Add", 1.0, scope)
        if curve is None:
            continue
        for kind, matches in (("none", _is_erf), ("tanh", _is_curve)):
            if matches(curve, x, scope):
                scope.become(node, "Gelu", [x], [ir.AttrString("approximate", kind)])
                return True
    return None


def _hard_sigmoid_of(value: ir.Value | None, scope: Scope) -> ir.Value | None:
    """``x`` of ``min(max(x + 3, 0), 6)`` in float32, which is six times its hard sigmoid."""
    clip = made_by(value, "Clip")
    if clip is None or len(clip.inputs) != 3 or value is None or value.dtype != ir.DataType.FLOAT:
        return None
    if not (_is_number(clip.inputs[1], 0.0, scope) and _is_number(clip.inputs[2], 6.0, scope)):
        return None
    return _without(clip.inputs[0], "Add", 3.0, scope)


def _six_parts(node: ir.Node, scope: Scope) -> ir.Value | None:
    """``a`` of ``a / 6``, however it is written."""
    if node.op_type == "Div":
        return node.inputs[0] if _is_number(node.inputs[1], 6.0, scope) else None
    return _without(node.outputs[0], "Mul", 1 / 6, scope)


def _hard_sigmoid(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``relu6(x + 3) / 6`` becomes ``HardSigmoid(x)``, and ``x relu6(x + 3) / 6`` becomes ``HardSwish(x)``."""
    if scope.in_function:
        return None
    whole = _six_parts(node, scope)
    x = _hard_sigmoid_of(whole, scope)
    if x is not None:
        scope.become(node, "HardSigmoid", [x], [ir.AttrFloat32("alpha", 1 / 6), ir.AttrFloat32("beta", 0.5)])
        return True
    for one, other in _pairs(whole, "Mul"):
        if _hard_sigmoid_of(one, scope) is other:
            scope.become(node, "HardSwish", [other])
            return True
    return None


def _hard_swish(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``x * HardSigmoid(x)`` with a slope of 1/6 becomes ``HardSwish(x)``."""
    for one, other in _pairs(node.outputs[0], "Mul"):
        gate = made_by(one, "HardSigmoid")
        if gate is None or gate.inputs[0] is not other or scope.in_function:
            continue
        slope, middle = gate.attributes.get_float("alpha", 0.2), gate.attributes.get_float("beta", 0.5)
        if math.isclose(slope, 1 / 6, rel_tol=1e-6) and middle == 0.5:
            scope.become(node, "HardSwish", [other])
            return True
    return None


def _small_sigmoid(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``log(sigmoid(x))`` becomes ``-log(1 + exp(-x))``, also where a number is added or limits are set before.

    Runtimes compute a sigmoid to so many places after the point: onnxruntime's is 0 below -18, where its logarithm,
    its reciprocal and whether it is 0 are what matters.
    """
    if scope.in_function:
        return None
    between: list[ir.Node] = []
    value = node.inputs[0]
    while (step := next((made for kind in _LIMITING if (made := made_by(value, kind))), None)) is not None:
        moving = [operand for operand in step.inputs if operand is not None and scope.array(operand) is None]
        if len(moving) != 1 or step.outputs[0].shape is None:
            return None
        between.append(step)
        value = moving[0]
    sigmoid = made_by(value, "Sigmoid")
    if sigmoid is None or value is None or value.dtype != ir.DataType.FLOAT or value.shape is None:
        return None
    x, kind, dims = sigmoid.inputs[0], ir.DataType.FLOAT, value.shape.dims
    assert x is not None
    one = scope.literal(np.array(1, dtype=np.float32), kind, "scalar_f32_1")
    grown = scope.insert_before(node, "Exp", [scope.insert_before(node, "Neg", [x], kind, dims)], kind, dims)
    parts = scope.insert_before(node, "Add", [grown, one], kind, dims)
    if not between and node.op_type == "Log":
        scope.become(node, "Neg", [scope.insert_before(node, "Log", [parts], kind, dims)])
        return True
    exact = scope.insert_before(node, "Reciprocal", [parts], kind, dims)
    for step in reversed(between):
        operands = [value if value is None or scope.array(value) is not None else exact for value in step.inputs]
        again = ir.Node("", step.op_type, operands, step.attributes.values())
        again.outputs[0].type, again.outputs[0].shape = step.outputs[0].type, step.outputs[0].shape
        scope.insert_node_before(node, again)
        exact = again.outputs[0]
    scope.become(node, node.op_type, [exact])
    return True


RULES = [
    *rules_for("small sigmoid", "Log(Sigmoid|Add|Clip|Max|Min) Reciprocal(Sigmoid) Sign(Sigmoid)", _small_sigmoid),
    Rule("gelu", "Mul", _gelu),
    *rules_for("hard sigmoid", "Div Mul", _hard_sigmoid),
    Rule("hard swish", "Mul", _hard_swish),
]
