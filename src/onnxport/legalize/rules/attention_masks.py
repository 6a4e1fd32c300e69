"""What newer opsets let Attention say by attribute or length, said by its mask: windows, and padded caches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import RuleBuilder

_WINDOWS = ("left_window_size", "right_window_size")
_MASK, _PAST_KEY, _LENGTHS = 3, 4, 6


@lowers("Attention", below=25)
def attention_without_window(op: RuleBuilder, node: ir.Node) -> Replacement:
    """A query sees from ``left`` keys before its own to ``right`` after it."""
    left, right = (op.attr_int(name, -1) for name in _WINDOWS)
    if left < 0 and right < 0:
        for name in _WINDOWS:
            node.attributes.pop(name, None)
        return None
    keys, own = _keys(op), _positions(op)
    seen = []
    if right >= 0:
        seen.append(op.Less(keys, op.Add(own, op.i64(right + 1))))
    if left >= 0:
        seen.append(op.Less(op.Sub(own, op.i64(left + 1)), keys))
    return _with_mask(op, seen, drop=_WINDOWS, inputs=7)


@lowers("Attention", below=24)
def attention_without_lengths(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Keys from the number of valid ones on are not seen; the queries are the last of the valid ones."""
    if not op.has_input(_LENGTHS):
        return None
    keys = _keys(op)
    seen = [op.Less(keys, _by_sample(op))]
    if op.attr_int("is_causal", 0):
        seen.append(op.Less(keys, op.Add(_positions(op), op.i64(1))))
    return _with_mask(op, seen, drop=("is_causal",), inputs=6)


def _with_mask(op: RuleBuilder, seen: Sequence[ir.Value], drop: Sequence[str], inputs: int) -> Sequence[ir.Value]:
    allowed = seen[0] if len(seen) == 1 else op.And(*seen)
    mask = op.input(_MASK)
    if mask is not None:
        mask = _padded(op, mask)
    if mask is None:
        mask = allowed
    elif mask.dtype == ir.DataType.BOOL:
        mask = op.And(mask, allowed)
    else:
        mask = op.Add(mask, op.where(allowed, op.like(0, mask), op.like(-math.inf, mask)))
    given = [mask if position == _MASK else op.input(position) for position in range(inputs)]
    kept = {name: value for name, value in op.node.attributes.items() if name not in drop}
    return op.emit_many("Attention", len(op.node.outputs), given, kept)


def _keys(op: RuleBuilder) -> ir.Value:
    """0, 1, … one number for each key, those of the past included."""
    return op.Range(op.i64(0), _length(op), op.i64(1))


def _length(op: RuleBuilder) -> ir.Value:
    length = op.dim(op.needed(1), -2)
    past = op.input(_PAST_KEY)
    return op.squeeze(length if past is None else op.Add(op.dim(past, 2), length), [0])


def _positions(op: RuleBuilder) -> ir.Value:
    """The position of each query among the keys, as a column; by sample where the lengths of samples differ."""
    rows = op.squeeze(op.dim(op.needed(0), -2), [0])
    column = op.unsqueeze(op.Range(op.i64(0), rows, op.i64(1)), [1])
    past = op.input(_PAST_KEY)
    if op.has_input(_LENGTHS):
        return op.Add(column, op.Sub(_by_sample(op), rows))
    return column if past is None else op.Add(column, op.dim(past, 2))


def _by_sample(op: RuleBuilder) -> ir.Value:
    return op.unsqueeze(op.needed(_LENGTHS), [1, 2, 3])


def _padded(op: RuleBuilder, mask: ir.Value) -> ir.Value:
    """A mask that ends before the keys do forbids the rest."""
    key, past = op.needed(1), op.input(_PAST_KEY)
    sizes = [mask.shape[-1] if mask.shape is not None and len(mask.shape) else None]
    sizes += [None if value.shape is None else value.shape[-2] for value in (key, past) if value is not None]
    if not all(isinstance(size, int) for size in sizes):
        return mask
    have, *lengths = (int(size) for size in sizes)  # type: ignore[arg-type]
    if have in (1, sum(lengths)):
        return mask
    pads = op.i64([0] * (2 * op.rank(mask) - 1) + [sum(lengths) - have])
    return op.Pad(mask, pads, op.like(False if mask.dtype == ir.DataType.BOOL else -math.inf, mask))
