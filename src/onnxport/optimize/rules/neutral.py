"""Operations that change nothing: Identity, Dropout in inference, x * 1, Concat of one …"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.optimize.rules.pattern import Rewrite, Rule, rules_for
from onnxport.optimize.scope import Array, Scope, surely_same_shape


def _first_input(node: ir.Node, scope: Scope) -> ir.Value | None:
    return node.inputs[0]


def _only_input(node: ir.Node, scope: Scope) -> ir.Value | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _dropout_in_inference(node: ir.Node, scope: Scope) -> ir.Value | None:
    if any(scope.counts.get(mask, 0) or mask.is_graph_output() for mask in node.outputs[1:]):
        return None
    training = node.inputs[2] if len(node.inputs) > 2 else None
    if training is not None:
        flag = scope.array(training)
        if flag is None or flag.any():
            return None
    return node.inputs[0]


def _keeps_shape(scope: Scope, node: ir.Node, value: ir.Value, other: ir.Value) -> bool:
    """Whether broadcasting ``value`` with ``other`` has ``value``'s own shape."""
    if surely_same_shape(node.outputs[0], value):
        return True
    array = scope.array(other)
    if array is None or array.size != 1:
        return False
    return array.ndim == 0 or (value.shape is not None and array.ndim <= value.shape.rank())


def _is_one(array: Array) -> bool:
    return bool((array == 1).all())


def _is_zero(array: Array, negative: bool) -> bool:
    """All zeros; for floats only those of the given sign, since ``-0.0 + 0.0`` is ``0.0``."""
    if array.dtype.kind in "iu":
        return not array.any()
    if array.dtype.kind != "f":
        return False
    return not array.any() and bool((np.signbit(array) == negative).all())


def _one_on_the_right(node: ir.Node, scope: Scope) -> ir.Value | None:
    value, other = node.inputs[:2]
    array = scope.array(other)
    if value is None or other is None or array is None or not _is_one(array):
        return None
    return value if _keeps_shape(scope, node, value, other) else None


def _one_on_the_left(node: ir.Node, scope: Scope) -> ir.Value | None:
    other, value = node.inputs[:2]
    array = scope.array(other)
    if value is None or other is None or array is None or not _is_one(array):
        return None
    return value if _keeps_shape(scope, node, value, other) else None


def _add_zero(node: ir.Node, scope: Scope) -> ir.Value | None:
    for value, other in (node.inputs[:2], node.inputs[1::-1]):
        array = scope.array(other)
        if value is None or other is None or array is None or not _is_zero(array, negative=True):
            continue
        if _keeps_shape(scope, node, value, other):
            return value
    return None


def _subtract_zero(node: ir.Node, scope: Scope) -> ir.Value | None:
    value, other = node.inputs[:2]
    array = scope.array(other)
    if value is None or other is None or array is None or not _is_zero(array, negative=False):
        return None
    return value if _keeps_shape(scope, node, value, other) else None


def _neutral_bool(neutral: bool) -> Rewrite:
    """``x and True``, ``x or False``."""

    def rewrite(node: ir.Node, scope: Scope) -> ir.Value | None:
        for value, other in (node.inputs[:2], node.inputs[1::-1]):
            array = scope.array(other)
            if value is None or other is None or array is None or not (array == neutral).all():
                continue
            if _keeps_shape(scope, node, value, other):
                return value
        return None

    return rewrite


def _decided_where(node: ir.Node, scope: Scope) -> ir.Value | None:
    condition = scope.array(node.inputs[0])
    if condition is None or not condition.size:
        return None
    if condition.all():
        chosen = node.inputs[1]
    elif not condition.any():
        chosen = node.inputs[2]
    else:
        return None
    return chosen if surely_same_shape(chosen, node.outputs[0]) else None


def _pad_nothing(node: ir.Node, scope: Scope) -> ir.Value | None:
    pads = scope.ints(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if pads is None or any(pads) else node.inputs[0]


def _clip_without_bounds(node: ir.Node, scope: Scope) -> ir.Value | None:
    return node.inputs[0] if not any(bound is not None for bound in node.inputs[1:]) else None


RULES: list[Rule] = [
    Rule("identity", "Identity", _first_input),
    Rule("dropout in inference", "Dropout", _dropout_in_inference),
    *rules_for("operation on a single input", "Concat Sum Mean Max Min", _only_input),
    *rules_for("multiplication or division by one", "Mul Div", _one_on_the_right),
    Rule("multiplication or division by one", "Mul", _one_on_the_left),
    Rule("power of one", "Pow", _one_on_the_right),
    Rule("addition of zero", "Add", _add_zero),
    Rule("addition of zero", "Sub", _subtract_zero),
    Rule("and with true", "And", _neutral_bool(True)),
    Rule("or with false", "Or", _neutral_bool(False)),
    Rule("decided where", "Where", _decided_where),
    Rule("pad by nothing", "Pad", _pad_nothing),
    Rule("clip without bounds", "Clip", _clip_without_bounds),
]
