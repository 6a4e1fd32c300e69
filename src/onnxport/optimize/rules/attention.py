"""Attention as libraries call it: keys repeated for the heads that share them, masks that forbid nothing."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from onnxport.optimize.rules.pattern import Rule, made_by
from onnxport.optimize.scope import Scope, known_dims, surely_same_shape

_KEYS, _VALUES, _MASK, _PAST = 1, 2, 3, 4
_RESHAPING = ("Expand", "Unsqueeze", "Reshape", "Squeeze")


def _before_repeating(value: ir.Value | None, scope: Scope) -> ir.Value | None:
    """``k`` of ``Reshape(Expand(Unsqueeze(k, 2)))``, whose heads stand one for each head that reads them."""
    joined = made_by(value, "Reshape")
    repeated = made_by(joined.inputs[0], "Expand") if joined is not None else None
    apart = made_by(repeated.inputs[0], "Unsqueeze") if repeated is not None else None
    if joined is None or repeated is None or apart is None or len(apart.inputs) < 2:
        return None
    source = apart.inputs[0]
    before, after = known_dims(source), known_dims(value)
    between = known_dims(repeated.outputs[0])
    if before is None or after is None or between is None or len(before) != 4 or len(after) != 4:
        return None
    batch, heads, length, size = before
    if scope.ints(apart.inputs[1]) != [2] or len(between) != 5 or not isinstance(heads, int):
        return None
    times = between[2]
    if not isinstance(times, int) or between != (batch, heads, times, length, size):
        return None
    return source if after == (batch, heads * times, length, size) else None


def _keys_shared(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """Let heads share keys and values, which Attention does by itself.

    ``Attention(q, Reshape(Expand(Unsqueeze(k, 2))), Reshape(Expand(Unsqueeze(v, 2))))`` becomes ``Attention(q, k, v)``.
    """
    if any(value is not None for value in node.inputs[_PAST:]):
        return None
    if any(scope.counts.get(value, 0) or value.is_graph_output() for value in node.outputs[1:]):
        return None
    key, value = (_before_repeating(node.inputs[at], scope) for at in (_KEYS, _VALUES))
    if key is None or value is None or key.shape is None or value.shape is None or key.shape[1] != value.shape[1]:
        return None
    scope.set_input(node, _KEYS, key)
    scope.set_input(node, _VALUES, value)
    return True


def _count(value: ir.Value | None) -> ir.Node | None:
    """The Range behind a value that only has other axes than it."""
    producer = value.producer() if value is not None else None
    while producer is not None and producer.domain == "" and producer.op_type in _RESHAPING:
        value = producer.inputs[0]
        producer = value.producer() if value is not None else None
    return made_by(value, "Range")


def _surely_true(value: ir.Value | None, scope: Scope) -> bool:
    """Whether all elements are true whatever the inputs are: ``0, 1, … >= 0``, and such things spread over axes."""
    array = scope.array(value)
    if array is not None:
        return array.dtype == np.bool_ and bool(array.all())
    producer = value.producer() if value is not None else None
    if producer is None or producer.domain != "":
        return False
    match producer.op_type:
        case "Expand" | "Unsqueeze" | "Reshape" | "Squeeze":
            return _surely_true(producer.inputs[0], scope)
        case "GreaterOrEqual":
            counted, bound = producer.inputs[:2]
        case "LessOrEqual":
            bound, counted = producer.inputs[:2]
        case _:
            return False
    counting, least = _count(counted), scope.array(bound)
    if counting is None or least is None or not least.size:
        return False
    start, step = scope.array(counting.inputs[0]), scope.array(counting.inputs[2])
    return start is not None and step is not None and bool(step.item() > 0 and start.item() >= least.max())


def _mask_of_everything(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """A mask that forbids nothing is none: ``Attention(q, k, v, all true)`` becomes ``Attention(q, k, v)``."""
    if len(node.inputs) <= _MASK or node.inputs[_MASK] is None or not _surely_true(node.inputs[_MASK], scope):
        return None
    scope.set_input(node, _MASK, None)
    return True


def _and_with_everything(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``And(x, Range(…) >= 0)`` is ``x`` in the shape of both: ``Expand(x, Shape(Range(…) >= 0))``."""
    if scope.in_function:
        return None
    for mask, truth in (node.inputs[:2], node.inputs[1::-1]):
        if mask is None or truth is None or truth.shape is None or scope.array(truth) is not None:
            continue
        if _surely_true(truth, scope):
            shape = scope.insert_before(node, "Shape", [truth], ir.DataType.INT64, [truth.shape.rank()])
            scope.become(node, "Expand", [mask, shape])
            return True
    return None


def _softmax_of_everything(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``Softmax(Add(x, Where(all true, 0, y)))`` is ``Softmax(x)``, which does not tell one zero from the other."""
    added = made_by(node.inputs[0], "Add")
    for value, mask in () if added is None else (added.inputs[:2], added.inputs[1::-1]):
        chosen = made_by(mask, "Where")
        zero = None if chosen is None else scope.array(chosen.inputs[1])
        if added is None or chosen is None or value is None or zero is None or zero.any():
            continue
        if _surely_true(chosen.inputs[0], scope) and surely_same_shape(value, added.outputs[0]):
            scope.set_input(node, 0, value)
            return True
    return None


RULES = [
    Rule("softmax under a mask of everything", "Softmax(Add)", _softmax_of_everything),
    Rule("keys shared by heads", "Attention", _keys_shared),
    Rule("mask of everything", "Attention", _mask_of_everything),
    Rule("and with everything", "And", _and_with_everything),
]
