"""Casts: to the type a value has already, and through a type that can hold all of it."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from onnxport.optimize.rules.pattern import Rule, producer_of
from onnxport.optimize.scope import Scope

_T = ir.DataType
_INTEGERS = frozenset({_T.INT8, _T.INT16, _T.INT32, _T.INT64, _T.UINT8, _T.UINT16, _T.UINT32, _T.UINT64})
_FLOATS = frozenset({_T.FLOAT16, _T.BFLOAT16, _T.FLOAT, _T.DOUBLE})

#: Types that hold every value of the one on the left.
_WIDER: dict[ir.DataType, frozenset[ir.DataType]] = {
    _T.BOOL: _INTEGERS | _FLOATS,
    _T.INT8: frozenset({_T.INT16, _T.INT32, _T.INT64}) | _FLOATS,
    _T.UINT8: frozenset({_T.INT16, _T.INT32, _T.INT64, _T.UINT16, _T.UINT32, _T.UINT64}) | _FLOATS,
    _T.INT16: frozenset({_T.INT32, _T.INT64, _T.FLOAT, _T.DOUBLE}),
    _T.UINT16: frozenset({_T.INT32, _T.INT64, _T.UINT32, _T.UINT64, _T.FLOAT, _T.DOUBLE}),
    _T.INT32: frozenset({_T.INT64, _T.DOUBLE}),
    _T.UINT32: frozenset({_T.INT64, _T.UINT64, _T.DOUBLE}),
    _T.FLOAT16: frozenset({_T.FLOAT, _T.DOUBLE}),
    _T.BFLOAT16: frozenset({_T.FLOAT, _T.DOUBLE}),
    _T.FLOAT: frozenset({_T.DOUBLE}),
}


def passes_through(source: ir.DataType, middle: ir.DataType, target: ir.DataType) -> bool:
    """Whether casting ``source`` to ``middle`` to ``target`` is casting ``source`` to ``target``.

    >>> passes_through(ir.DataType.INT32, ir.DataType.INT64, ir.DataType.FLOAT)
    True
    >>> passes_through(ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.FLOAT)
    False
    """
    if middle not in _WIDER.get(source, ()):
        return False
    if target in _INTEGERS and source in _INTEGERS and middle in _FLOATS:
        # An integer wraps around when it doesn't fit, a float does as the platform likes.
        return target == source or target in _WIDER[source]
    return target in _INTEGERS or target in _FLOATS or target == _T.BOOL


def _same_type(node: ir.Node, scope: Scope) -> ir.Value | None:
    value = node.inputs[0]
    if value is None or value.dtype is None:
        return None
    return value if value.dtype == node.attributes["to"].as_int() else None


def _through_wider(node: ir.Node, scope: Scope) -> Literal[True] | None:
    source = producer_of(node).inputs[0]
    middle = node.inputs[0]
    if source is None or source.dtype is None or middle is None or middle.dtype is None:
        return None
    if not passes_through(source.dtype, middle.dtype, ir.DataType(node.attributes["to"].as_int())):
        return None
    scope.set_input(node, 0, source)
    return True


def _count_in_32_bits(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """CumSum(Cast(truths, int64)) → Cast(CumSum(Cast(truths, int32)), int64): no axis has as many as don't fit.

    tract 0.23 takes int64 made in a graph for sizes, which it does not sum up.
    """
    truths, axis, result = producer_of(node).inputs[0], node.inputs[1], node.outputs[0]
    if truths is None or axis is None or result.shape is None:
        return None
    if truths.dtype != _T.BOOL or result.dtype != _T.INT64:
        return None
    shape = list(result.shape)
    numbers = scope.insert_before(node, "Cast", [truths], _T.INT32, shape, [ir.AttrInt64("to", _T.INT32)])
    counts = scope.insert_before(node, "CumSum", [numbers, axis], _T.INT32, shape, list(node.attributes.values()))
    scope.become(node, "Cast", [counts], [ir.AttrInt64("to", _T.INT64)])
    return True


RULES: list[Rule] = [
    Rule("cast to the same type", "Cast", _same_type),
    Rule("cast through a wider type", "Cast(Cast)", _through_wider),
    Rule("count truths in 32 bits", "CumSum(Cast)", _count_in_32_bits),
]
