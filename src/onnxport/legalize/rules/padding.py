"""Pad: which axes, which modes, and by how much if only run time knows."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize.known import constant_array, constant_integers
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import RuleBuilder
from onnxport.legalize.rules.counting import (
    Length,
    axis_length,
    count_scalar,
    element,
    minus,
    plus,
    upto,
    vector,
    within,
)
from onnxport.onnx_build.literals import INT64_MAX


@lowers("Pad", below=19)
def pad_around(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Wrapping around is to count on from the other end."""
    if op.attr_string("mode", "constant") != "wrap":
        return None
    data = op.needed(0)
    rank = op.rank(data)
    axes = op.integers(3, "the list of axes")
    if axes is None:
        axes = list(range(rank))
    result = data
    for position, axis in enumerate(axes):
        before, after = _amount(op, position), _amount(op, position + len(axes))
        if before == 0 and after == 0:
            continue
        # What is cut off is cut off first.
        cut, more = _not_negative(op, _negated(op, before)), _not_negative(op, before)
        lost = plus(op, cut, _not_negative(op, _negated(op, after)))
        size = minus(op, axis_length(op, data, axis % rank), lost)
        count = plus(op, plus(op, more, size), _not_negative(op, after))
        if isinstance(count, int) and isinstance(more, int) and isinstance(size, int) and isinstance(cut, int):
            places = op.literal((np.arange(count) - more) % max(size, 1) + cut)
        else:
            places = op.Mod(op.Sub(upto(op, count), count_scalar(op, more)), count_scalar(op, size))
            places = op.Add(places, count_scalar(op, cut)) if cut != 0 else places
        result = op.Gather(result, places, axis=axis % rank)
    return result


def _amount(op: RuleBuilder, position: int) -> Length:
    return element(op, op.needed(1), position)


@lowers("Pad", below=18)
def pad_all_axes(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Pads were given for all axes, and constant, reflect and edge were the modes."""
    data, axes = op.needed(0), op.integers(3, "the list of axes")
    if axes is None:
        return None
    pads = constant_integers(op.needed(1))
    rank = op.rank(data)
    padded = [axis % rank for axis in axes]
    if pads is not None:
        whole = [0] * (2 * rank)
        for position, axis in enumerate(padded):
            whole[axis], whole[axis + rank] = pads[position], pads[position + len(axes)]
        return op.again(data, op.i64(whole), op.input(2))
    # The pad of each axis and end, and behind them a zero for what is not padded.
    given = op.Concat(op.needed(1), op.i64([0]), axis=0)
    order = [
        padded.index(axis) + end * len(axes) if axis in padded else 2 * len(axes)
        for end in (0, 1)
        for axis in range(rank)
    ]
    return op.again(data, op.Gather(given, op.i64(order), axis=0), op.input(2))


@lowers("Pad", below=11)
def pad_attributes(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Pads and the value to fill with were attributes, of floats only."""
    data = op.needed(0)
    pads, value = constant_integers(op.needed(1)), constant_array(op.input(2))
    is_float = data.dtype is None or data.dtype.is_floating_point()
    if is_float and pads is not None and (value is not None or not op.has_input(2)):
        filler = 0.0 if value is None or not value.size else float(value.reshape(-1)[0])
        return op.again(data, pads=pads, value=filler)
    mode = op.attr_string("mode", "constant")
    rank = op.rank(data)
    result = data
    for axis in range(rank):
        before, after = _amount(op, axis), _amount(op, axis + rank)
        if before == 0 and after == 0:
            continue
        if mode == "constant":
            result = _between_fillers(op, result, axis, before, after)
        else:
            result = op.Gather(result, _mirrored(op, axis_length(op, data, axis), before, after, mode), axis=axis)
    return result


def _mirrored(op: RuleBuilder, size: Length, before: Length, after: Length, mode: str) -> ir.Value:
    """Positions that do not leave the axis: those at its ends again, or back from there."""
    places = op.Sub(upto(op, plus(op, plus(op, before, size), after)), count_scalar(op, before))
    last = count_scalar(op, minus(op, size, 1))
    if mode == "edge":
        return within(op, places, last)
    return op.Sub(last, op.Abs(op.Sub(last, op.Abs(places))))


def _between_fillers(op: RuleBuilder, value: ir.Value, axis: int, before: Length, after: Length) -> ir.Value:
    """What is cut off if an amount is negative, then blocks of the value to fill with at both ends."""
    parts = []
    for amount in (before, after):
        sizes = [axis_length(op, value, at) for at in range(op.rank(value))]
        sizes[axis] = _not_negative(op, amount)
        given = op.input(2)
        filler = op.like(0, value) if given is None else op.Reshape(given, op.i64([1]))
        parts.append(None if sizes[axis] == 0 else op.Expand(filler, vector(op, *sizes)))
    begin = _not_negative(op, _negated(op, before))
    end: Length = INT64_MAX
    if not (isinstance(after, int) and after >= 0):
        end = minus(op, axis_length(op, value, axis), _not_negative(op, _negated(op, after)))
    if begin != 0 or end != INT64_MAX:
        value = op.Slice(value, vector(op, begin), vector(op, end), op.i64([axis]))
    pieces = [piece for piece in (parts[0], value, parts[1]) if piece is not None]
    return op.Concat(*pieces, axis=axis) if len(pieces) > 1 else value


def _not_negative(op: RuleBuilder, amount: Length) -> Length:
    if isinstance(amount, int):
        return max(amount, 0)
    return op.where(op.Less(amount, op.i64(0)), op.i64(0), amount)


def _negated(op: RuleBuilder, amount: Length) -> Length:
    return -amount if isinstance(amount, int) else op.Neg(amount)
