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
_MISH_SINCE = 18
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


def _polynomial(value: ir.Value | None, of: ir.Value, scope: Scope, depth: int = 6) -> dict[int, float] | None:
    """The coefficients of a polynomial of ``of`` by their powers, in whatever order it is written."""
    known, power = _number(value, scope), made_by(value, "Pow")
    if value is of or known is not None:
        return {1: 1.0} if value is of else {0: known if known is not None else 0.0}
    if power is not None:
        exponent = _number(power.inputs[1], scope)
        return {int(exponent): 1.0} if power.inputs[0] is of and exponent in (2, 3) else None
    total: dict[int, float] = {}
    for op_type in ("Add", "Mul", "Div"):
        made = made_by(value, op_type)
        if made is None or not depth:
            continue
        one, other = (_polynomial(operand, of, scope, depth - 1) for operand in made.inputs[:2])
        if one is None or other is None or (op_type == "Div" and other.get(0, 0.0) == 0.0):
            return None
        if op_type == "Add":
            return {power: one.get(power, 0.0) + other.get(power, 0.0) for power in {*one, *other}}
        if op_type == "Div":
            return {power: number / other[0] for power, number in one.items()} if len(other) == 1 else None
        for left, number in one.items():
            for right, factor in other.items():
                total[left + right] = total.get(left + right, 0.0) + number * factor
        return total
    return None


def _is_curve(value: ir.Value | None, of: ir.Value, factor: float, scope: Scope) -> bool:
    """Whether ``value`` is ``factor √(2/π) (of + 0.044715 of³)``."""
    found = _polynomial(value, of, scope)
    if found is None or {power for power, number in found.items() if number} != {1, 3}:
        return False
    slope = factor * math.sqrt(2 / math.pi)
    return math.isclose(found[1], slope, rel_tol=1e-5) and math.isclose(found[3], slope * _CUBE, rel_tol=1e-5)


def _gelu_of(curve: ir.Value, x: ir.Value, scope: Scope) -> str | None:
    """Which kind of Gelu of ``x`` has a curve between -1 and 1, if any has."""
    tanh = made_by(curve, "Tanh")
    if tanh is not None:
        return "tanh" if _is_curve(tanh.inputs[0], x, 1.0, scope) else None
    return "none" if _is_erf(curve, x, scope) else None


def _factors(value: ir.Value | None, depth: int = 3) -> Iterator[ir.Value]:
    """What a value is a product of: the operands of products and quotients, and theirs."""
    for op_type in ("Mul", "Div"):
        made = made_by(value, op_type)
        for operand in made.inputs if made is not None and depth else ():
            if operand is not None:
                yield operand
                yield from _factors(operand, depth - 1)


def _coefficient(value: ir.Value | None, x: ir.Value, other: ir.Value, scope: Scope) -> float | None:
    """``c`` of ``c * x * other``, in whatever order it is written; None if it is no such product."""
    met: list[ir.Value] = []
    number = 1.0
    rest = [value]
    while rest:
        one = rest.pop()
        if one is x or one is other:
            met.append(one)
            continue
        known, quotient, product = _number(one, scope), made_by(one, "Div"), made_by(one, "Mul")
        divisor = _number(quotient.inputs[1], scope) if quotient is not None else None
        if known is not None:
            number *= known
        elif quotient is not None and divisor:
            number /= divisor
            rest.append(quotient.inputs[0])
        elif product is not None:
            rest += product.inputs
        else:
            return None
    return number if len(met) == 2 and met[0] is not met[1] else None


def _gates(value: ir.Value, scope: Scope) -> Iterator[tuple[ir.Value, float]]:
    """``curve`` of ``curve + 1``, and of ``0.5 curve + 0.5``, with what makes it a half of the former."""
    curve = _without(value, "Add", 1.0, scope)
    if curve is not None:
        yield curve, 0.5
    curve = _without(_without(value, "Add", 0.5, scope), "Mul", 0.5, scope)
    if curve is not None:
        yield curve, 1.0


def _gelu(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``0.5 x (1 + erf(x / √2))`` becomes ``Gelu(x)``, and the form with tanh ``Gelu<approximate = "tanh">(x)``."""
    if scope.graph.opset_imports.get("", 0) < _FIRST_OPSET or scope.in_function:
        return None
    product = node.outputs[0]
    for x, gate in _pairs(product, "Mul"):
        # The same as half of one plus the tanh of half of it.
        sigmoid = made_by(gate, "Sigmoid")
        if sigmoid is not None and _is_curve(sigmoid.inputs[0], x, 2.0, scope):
            scope.become(node, "Gelu", [x], [ir.AttrString("approximate", "tanh")])
            return True
    for gate in _factors(product):
        for curve, wanted in _gates(gate, scope):
            for x in _factors(product):
                kind = _gelu_of(curve, x, scope)
                found = _coefficient(product, x, gate, scope) if kind is not None else None
                if kind is not None and found is not None and math.isclose(found, wanted, rel_tol=1e-6):
                    scope.become(node, "Gelu", [x], [ir.AttrString("approximate", kind)])
                    return True
    return None


def _grown(value: ir.Value | None, scope: Scope) -> ir.Value | None:
    """``x`` of ``1 + exp(x)``."""
    exponential = made_by(_without(value, "Add", 1.0, scope), "Exp")
    return exponential.inputs[0] if exponential is not None else None


def _silu(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``x / (1 + exp(-x))`` becomes ``x * Sigmoid(x)``."""
    pairs = [(node.inputs[0], node.inputs[1])]
    if node.op_type == "Mul":
        reciprocals = [(x, made_by(other, "Reciprocal")) for x, other in _pairs(node.outputs[0], "Mul")]
        pairs = [(x, found.inputs[0]) for x, found in reciprocals if found is not None]
    for x, divisor in pairs:
        negative = made_by(_grown(divisor, scope), "Neg")
        if x is None or x.shape is None or negative is None or negative.inputs[0] is not x or scope.in_function:
            continue
        if x.dtype != ir.DataType.FLOAT:
            continue
        gate = scope.insert_before(node, "Sigmoid", [x], x.dtype, x.shape.dims)
        scope.become(node, "Mul", [x, gate])
        return True
    return None


def _mish(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``x * tanh(softplus(x))`` becomes ``Mish(x)``."""
    if scope.opset < _MISH_SINCE or scope.in_function:
        return None
    for x, gate in _pairs(node.outputs[0], "Mul"):
        tanh = made_by(gate, "Tanh")
        inner = tanh.inputs[0] if tanh is not None else None
        softplus, logarithm = made_by(inner, "Softplus"), made_by(inner, "Log")
        of = softplus.inputs[0] if softplus is not None else None
        if logarithm is not None:
            of = _grown(logarithm.inputs[0], scope)
        if of is x:
            scope.become(node, "Mish", [x])
            return True
    return None


def _clipped_line(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``min(max(a x + b, 0), 1)`` in float32 becomes ``HardSigmoid<alpha = a, beta = b>(x)``."""
    if len(node.inputs) != 3 or scope.in_function or node.outputs[0].dtype != ir.DataType.FLOAT:
        return None
    if not (_is_number(node.inputs[1], 0.0, scope) and _is_number(node.inputs[2], 1.0, scope)):
        return None
    for line, beta in _pairs(node.inputs[0], "Add"):
        middle, quotient = _number(beta, scope), made_by(line, "Div")
        divisor = _number(quotient.inputs[1], scope) if quotient is not None else None
        slopes = [(x, _number(slope, scope)) for x, slope in _pairs(line, "Mul")]
        if quotient is not None and quotient.inputs[0] is not None and divisor:
            slopes = [(quotient.inputs[0], 1 / divisor)]
        for x, slope in slopes:
            if middle is not None and slope is not None:
                scope.become(node, "HardSigmoid", [x], [ir.AttrFloat32("alpha", slope), ir.AttrFloat32("beta", middle)])
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
    *rules_for("gelu", "Mul Div", _gelu),
    *rules_for("silu", "Mul Div", _silu),
    Rule("mish", "Mul", _mish),
    Rule("clipped line", "Clip", _clipped_line),
    *rules_for("hard sigmoid", "Div Mul", _hard_sigmoid),
    Rule("hard swish", "Mul", _hard_swish),
]
