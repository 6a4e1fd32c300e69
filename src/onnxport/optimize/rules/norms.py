"""Normalisations that models write out by hand, as the one operator they are."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from onnxport.optimize.rules.pattern import Rule, made_by
from onnxport.optimize.scope import Scope

_FIRST_OPSET = 23


def _is_square(value: ir.Value | None, of: ir.Value | None, scope: Scope) -> bool:
    product = made_by(value, "Mul")
    if product is not None:
        return product.inputs[0] is of and product.inputs[1] is of
    power = made_by(value, "Pow")
    exponent = scope.array(power.inputs[1]) if power is not None else None
    return power is not None and power.inputs[0] is of and exponent is not None and exponent.size == 1 and exponent == 2


def _mean_square(value: ir.Value | None, of: ir.Value | None, scope: Scope) -> bool:
    """Whether ``value`` is the mean of the squares of ``of`` along its last axis, kept as a dimension."""
    mean = made_by(value, "ReduceMean")
    if mean is None or of is None or of.shape is None or len(mean.inputs) < 2:
        return False
    kept = mean.attributes.get_int("keepdims", 1)
    return (
        kept == 1
        and scope.ints(mean.inputs[1]) in ([-1], [of.shape.rank() - 1])
        and _is_square(mean.inputs[0], of, scope)
    )


def _epsilon(value: ir.Value | None, of: ir.Value | None, scope: Scope) -> float | None:
    """The epsilon if ``value`` is ``1 / sqrt(mean(of²) + epsilon)``."""
    reciprocal = made_by(value, "Reciprocal")
    root = made_by(reciprocal.inputs[0], "Sqrt") if reciprocal is not None else None
    total = made_by(root.inputs[0], "Add") if root is not None else None
    if total is None:
        return None
    for mean, constant in (total.inputs, reversed(total.inputs)):
        array = scope.array(constant)
        if array is not None and array.size == 1 and _mean_square(mean, of, scope):
            return float(array.reshape(-1)[0])
    return None


def _fits(x: ir.Value, scale: ir.Value) -> bool:
    return x.shape is not None and scale.shape is not None and x.shape[-1] == scale.shape[0] and x.dtype == scale.dtype


def _rms_norm(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``w * (x * 1/sqrt(mean(x²) + ε))`` for a vector ``w``: RMSNormalization(x, w)."""
    if scope.graph.opset_imports.get("", 0) < _FIRST_OPSET or scope.in_function:
        return None
    for scale, normed in (node.inputs, reversed(node.inputs)):
        scaled = made_by(normed, "Mul")
        if scaled is None or scale is None or scale.shape is None or scale.shape.rank() != 1:
            continue
        for x, factor in (scaled.inputs, reversed(scaled.inputs)):
            epsilon = _epsilon(factor, x, scope)
            if epsilon is not None and x is not None and _fits(x, scale):
                attributes = [ir.AttrInt64("axis", -1), ir.AttrFloat32("epsilon", epsilon)]
                scope.become(node, "RMSNormalization", [x, scale], attributes)
                return True
    return None


RULES = [Rule("root mean square norm", "Mul", _rms_norm)]
