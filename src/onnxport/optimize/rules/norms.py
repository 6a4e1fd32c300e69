"""Normalisations that models write out by hand, as the one operator they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import onnx_ir as ir

from onnxport.optimize.rules.pattern import Rule, made_by, rules_for
from onnxport.optimize.scope import Scope

_LAYER_NORM_SINCE = 17
_RMS_NORM_SINCE = 23
_SQUARES_FIT = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def _is_square(value: ir.Value | None, of: ir.Value | None, scope: Scope) -> bool:
    product = made_by(value, "Mul")
    if product is not None:
        return product.inputs[0] is of and product.inputs[1] is of
    power = made_by(value, "Pow")
    exponent = scope.array(power.inputs[1]) if power is not None else None
    return power is not None and power.inputs[0] is of and exponent is not None and exponent.size == 1 and exponent == 2


def _mean_of(value: ir.Value | None, scope: Scope) -> ir.Value | None:
    """``a`` of its mean along the last axis, which is kept as a dimension."""
    mean = made_by(value, "ReduceMean")
    of = mean.inputs[0] if mean is not None else None
    if mean is None or of is None or of.shape is None or len(mean.inputs) < 2:
        return None
    kept = mean.attributes.get_int("keepdims", 1) == 1
    return of if kept and scope.ints(mean.inputs[1]) in ([-1], [of.shape.rank() - 1]) else None


def _is_power(value: ir.Value | None, exponent: float, scope: Scope) -> ir.Value | None:
    """``a`` of ``a`` to a power."""
    power = made_by(value, "Pow")
    number = scope.array(power.inputs[1]) if power is not None else None
    matches = power is not None and number is not None and number.size == 1 and number == exponent
    return power.inputs[0] if power is not None and matches else None


def _root(value: ir.Value | None, scope: Scope) -> ir.Value | None:
    """``a`` of its square root."""
    root = made_by(value, "Sqrt")
    return root.inputs[0] if root is not None else _is_power(value, 0.5, scope)


def _reciprocal_root(value: ir.Value | None, scope: Scope) -> ir.Value | None:
    """``a`` of one divided by its square root."""
    reciprocal = made_by(value, "Reciprocal")
    return _root(reciprocal.inputs[0], scope) if reciprocal is not None else _is_power(value, -0.5, scope)


def _normed(value: ir.Value | None, scope: Scope) -> tuple[ir.Value, float] | None:
    """``a`` and epsilon of ``a / sqrt(mean(a²) + epsilon)``, however it is written."""
    division, product = made_by(value, "Div"), made_by(value, "Mul")
    if division is not None:
        return _with_epsilon(division.inputs[0], _root(division.inputs[1], scope), scope)
    for x, factor in (product.inputs, reversed(product.inputs)) if product is not None else ():
        found = _with_epsilon(x, _reciprocal_root(factor, scope), scope)
        if found is not None:
            return found
    return None


def _with_epsilon(x: ir.Value | None, radicand: ir.Value | None, scope: Scope) -> tuple[ir.Value, float] | None:
    total = made_by(radicand, "Add")
    for mean, constant in (total.inputs, reversed(total.inputs)) if total is not None else ():
        array = scope.array(constant)
        if x is not None and array is not None and array.size == 1 and _is_square(_mean_of(mean, scope), x, scope):
            return x, float(array.reshape(-1)[0])
    return None


def _fits(x: ir.Value, vector: ir.Value | None) -> bool:
    """Whether a vector is as long as the last axis is known to be: runtimes refuse to normalise an empty one."""
    if x.shape is None or vector is None or vector.shape is None or vector.shape.rank() != 1:
        return False
    return isinstance(x.shape[-1], int) and x.shape[-1] == vector.shape[0] and x.dtype == vector.dtype


def _centred(value: ir.Value, scope: Scope) -> ir.Value | None:
    """``x`` of ``x - mean(x)``."""
    difference = made_by(value, "Sub")
    return difference.inputs[0] if difference is not None and _is_mean_of_first(difference, scope) else None


def _is_mean_of_first(difference: ir.Node, scope: Scope) -> bool:
    x = difference.inputs[0]
    return x is not None and _mean_of(difference.inputs[1], scope) is x


def _scaled(node: ir.Node, scope: Scope) -> Iterator[tuple[ir.Value | None, tuple[ir.Value, float] | None]]:
    """What may be ``w``, and ``x`` with epsilon, of ``w * (x / sqrt(mean(x²) + epsilon))`` in any order."""
    first, second = node.inputs[:2]
    if node.op_type == "Mul":
        for scale, value in ((first, second), (second, first)):
            yield scale, _normed(value, scope)
    for product, factor in ((first, second), (second, first)) if node.op_type == "Mul" else ((first, second),):
        inner = made_by(product, "Mul")
        if inner is None:
            continue
        radicand = _root(factor, scope) if node.op_type == "Div" else _reciprocal_root(factor, scope)
        for scale, x in (inner.inputs, reversed(inner.inputs)):
            yield scale, _with_epsilon(x, radicand, scope)


def _norm(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``w * (x / sqrt(mean(x²) + ε))`` for a vector ``w`` is RMSNormalization(x, w).

    Of ``x - mean(x)`` in the place of ``x`` it is LayerNormalization(x, w).
    """
    if scope.in_function:
        return None
    for scale, found in _scaled(node, scope):
        if found is None or scale is None or not _fits(found[0], scale):
            continue
        x, epsilon = found
        attributes = [ir.AttrInt64("axis", -1), ir.AttrFloat32("epsilon", epsilon)]
        before = _centred(x, scope)
        if before is not None and scope.opset >= _LAYER_NORM_SINCE:
            scope.become(node, "LayerNormalization", [before, scale], attributes)
            return True
        if before is None and scope.opset >= _RMS_NORM_SINCE:
            scope.become(node, "RMSNormalization", [x, scale], attributes)
            return True
    return None


def _norm_with_bias(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``LayerNormalization(x, w) + b`` for a vector ``b`` is LayerNormalization(x, w, b)."""
    for bias, value in (node.inputs, reversed(node.inputs)):
        norm = made_by(value, "LayerNormalization")
        if norm is None or value is None or bias is None or scope.in_function or scope.counts.get(value, 0) != 1:
            continue
        x, scale = norm.inputs[:2]
        last = norm.attributes.get_int("axis", -1)
        if len(norm.inputs) > 2 or x is None or scale is None or value.is_graph_output() or not _fits(x, bias):
            continue
        if x.shape is not None and last in (-1, x.shape.rank() - 1) and value.graph is node.graph:
            scope.become(node, "LayerNormalization", [x, scale, bias], list(norm.attributes.values()))
            return True
    return None


def _divided_by_length_of_another(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``y / ReduceL2(x)`` as ``y / Sqrt(ReduceSumSquare(x))``.

    Up to opset 17 OpenCV 5.0 takes what is divided by ReduceL2 for the vector itself, and gives ``x / ReduceL2(x)``
    without a word. Files of newer opsets may be saved as older ones.
    """
    length = made_by(node.inputs[1], "ReduceL2")
    value = node.inputs[1]
    if length is None or value is None:
        return None
    x = length.inputs[0]
    if x is None or x is node.inputs[0] or value.dtype not in _SQUARES_FIT or value.shape is None:
        return None
    given = [one for one in length.inputs if one is not None]
    dims, attributes = list(value.shape), list(length.attributes.values())
    squares = scope.insert_before(node, "ReduceSumSquare", given, value.dtype, dims, attributes)
    scope.set_input(node, 1, scope.insert_before(node, "Sqrt", [squares], value.dtype, dims))
    return True


RULES = [
    *rules_for("norm", "Mul Div", _norm),
    Rule("bias of a norm", "Add", _norm_with_bias),
    Rule("length of another", "Div", _divided_by_length_of_another),
]
