"""What a mask of attention forbids for sure: later positions, and those behind a window."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxport.optimize.rules.pattern import made_by
from onnxport.optimize.scope import Scope, known_dims

Dim = int | ir.SymbolicDim
_QUERIES, _KEYS = 2, 3
"""The axes of a mask over batch, heads, queries and keys."""


@dataclass(frozen=True)
class Forbidden:
    """What a mask forbids: keys behind the query, and keys so many places before it, if any."""

    later: bool = False
    window: int | None = None

    def both(self, other: Forbidden) -> Forbidden:
        """What two masks forbid together."""
        windows = [one.window for one in (self, other) if one.window is not None]
        return Forbidden(self.later or other.later, min(windows, default=None))


def forbidden(mask: ir.Value | None, past: ir.Value, queries: Dim, scope: Scope) -> Forbidden:
    """What a mask surely forbids where so many queries stand behind ``past``, whose third axis counts positions.

    ``And(a, b)`` forbids what either does; ``LessOrEqual(k, q)`` and ``Greater(k, q - window)`` forbid by position,
    with ``k`` counting from 0 along the axis of keys and ``q`` from the length of the past along that of queries.
    """
    if (both := made_by(mask, "And")) is not None:
        first, second = (forbidden(value, past, queries, scope) for value in both.inputs)
        return first.both(second)
    for op_type, key, query in (("LessOrEqual", 0, 1), ("GreaterOrEqual", 1, 0)):
        node = made_by(mask, op_type)
        if node is None or not _are_keys(node.inputs[key], scope):
            continue
        if _are_queries(node.inputs[query], past, queries, scope):
            return Forbidden(later=True)
    for op_type, key, query in (("Greater", 0, 1), ("Less", 1, 0)):
        node = made_by(mask, op_type)
        bound = None if node is None else made_by(node.inputs[query], "Sub")
        size = None if bound is None else scope.ints(bound.inputs[1])
        if node is None or bound is None or size is None or len(size) != 1 or size[0] < 1:
            continue
        if _are_keys(node.inputs[key], scope) and _are_queries(bound.inputs[0], past, queries, scope):
            return Forbidden(window=size[0])
    return Forbidden()


def _are_keys(value: ir.Value | None, scope: Scope) -> bool:
    return _counts_from_zero(_along(value, _KEYS), scope)


def _are_queries(value: ir.Value | None, past: ir.Value, queries: Dim, scope: Scope) -> bool:
    """Whether a value counts along the queries from the length of the past on."""
    total = made_by(_along(value, _QUERIES), "Add")
    if total is None:
        return False
    first, second = total.inputs
    return any(
        (_counts_from_zero(count, scope) or _is_count(count, queries, scope)) and _is_length(start, past)
        for count, start in ((first, second), (second, first))
    )


def _along(value: ir.Value | None, axis: int) -> ir.Value | None:
    """``x`` of ``Unsqueeze(x)``, where ``x`` has one axis and stands for this one of a mask's four."""
    wide = made_by(value, "Unsqueeze")
    dims = known_dims(value)
    if wide is None or dims is None or len(dims) != _KEYS + 1:
        return None
    inner = known_dims(wide.inputs[0])
    others = [dim for index, dim in enumerate(dims) if index != axis]
    if inner is None or len(inner) != 1 or any(dim != 1 for dim in others):
        return None
    return wide.inputs[0]


def _counts_from_zero(value: ir.Value | None, scope: Scope) -> bool:
    counted = made_by(value, "Range")
    return counted is not None and [scope.ints(counted.inputs[index]) for index in (0, 2)] == [[0], [1]]


def _is_count(value: ir.Value | None, size: Dim, scope: Scope) -> bool:
    """Whether a constant counts so many places."""
    return isinstance(size, int) and scope.ints(value) == list(range(size))


def _is_length(value: ir.Value | None, past: ir.Value) -> bool:
    """Whether a number is the size of the past's axis of positions, read from it or from another past of that size."""
    number = made_by(value, "Squeeze")
    size = None if number is None else made_by(number.inputs[0], "Shape")
    if size is None:
        return False
    dims, expected = known_dims(size.inputs[0]), known_dims(past)
    start, end = size.attributes.get_int("start", 0), size.attributes.get_int("end", 0)
    return dims is not None and expected is not None and end == start + 1 and dims[start] == expected[2]
