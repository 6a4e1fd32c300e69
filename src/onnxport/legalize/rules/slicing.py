"""Slice where bounds were attributes: what does not fit is gathered."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.legalize.known import constant_integers
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.counting import places


@lowers("Slice", below=10)
def static_slice(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Bounds were attributes and there were no steps."""
    data = op.needed(0)
    starts, ends = constant_integers(op.needed(1)), constant_integers(op.needed(2))
    axes = op.integers(3, "the list of axes")
    if axes is None:
        axes = list(range(len(starts) if starts is not None else _static_length(op.needed(1))))
    axes = [op.axis(data, axis) for axis in axes]
    steps = constant_integers(op.input(4)) if op.has_input(4) else [1] * len(axes)
    result = data
    known = starts is not None and ends is not None and steps is not None
    plain = [at for at, step in enumerate(steps or ()) if step == 1] if known else []
    if plain and starts is not None and ends is not None:
        result = op.Slice(
            data,
            starts=[starts[at] for at in plain],
            ends=[ends[at] for at in plain],
            axes=[axes[at] for at in plain],
        )
    for at, axis in enumerate(axes):
        if at in plain:
            continue
        size = data.shape[axis] if data.shape is not None else None
        if isinstance(size, int) and starts is not None and ends is not None and steps is not None:
            picked = op.i64(_stepped(size, starts[at], ends[at], steps[at]))
        elif steps is not None and steps[at] == 1:
            picked = _between(op, data, axis, at)
        else:
            picked = _strided(op, data, axis, at)
        result = op.Gather(result, picked, axis=axis)
    return result


def _static_length(value: ir.Value) -> int:
    length = value.shape[0] if value.shape is not None and len(value.shape) else None
    if not isinstance(length, int):
        raise Refusal("the number of its bounds is not known")
    return length


def _stepped(size: int, start: int, end: int, step: int) -> list[int]:
    # An end below -size means "past the first element", which a Python slice writes as None.
    bounds = slice(start, None if step < 0 and end < -size else end, step)
    return list(range(*bounds.indices(size)))


def _between(op: RuleBuilder, data: ir.Value, axis: int, position: int) -> ir.Value:
    """The positions from a start to an end that are known only at run time."""
    size = op.dim(data, axis)
    start, end = (_clamped(op, _bound(op, given, position, size), op.i64([0]), size) for given in (1, 2))
    length = op.Sub(end, start)
    length = op.where(op.Less(length, op.i64([0])), op.i64([0]), length)
    return op.Add(places(op, length), start)


def _strided(op: RuleBuilder, data: ir.Value, axis: int, position: int) -> ir.Value:
    """The positions from a start to an end by steps, backwards too, any of which only run time knows."""
    size, zero, one = op.dim(data, axis), op.i64([0]), op.i64([1])
    step = op.cast(op.slice(op.needed(4), 0, position, position + 1), ir.DataType.INT64)
    forward = op.cast(op.Less(zero, step), ir.DataType.INT64)
    # Forwards from 0 to the size, backwards from the last element to before the first.
    back = op.Sub(forward, one)
    most = op.Add(size, back)
    start = _clamped(op, _bound(op, 1, position, size), zero, most)
    end = _clamped(op, _bound(op, 2, position, size), back, most)
    # Division cuts towards zero, so what it should round away from it is moved on by a step but one.
    length = op.Div(op.Sub(op.Add(op.Sub(end, start), step), op.Add(forward, back)), step)
    length = op.where(op.Less(length, zero), zero, length)
    return op.Add(op.Mul(places(op, length), step), start)


def _bound(op: RuleBuilder, given: int, position: int, size: ir.Value) -> ir.Value:
    """One bound, counted from the front."""
    bound = op.cast(op.slice(op.needed(given), 0, position, position + 1), ir.DataType.INT64)
    known = constant_integers(op.needed(given))
    if known is not None and known[position] >= 0:
        return bound
    return op.where(op.Less(bound, op.i64([0])), op.Add(bound, size), bound)


def _clamped(op: RuleBuilder, bound: ir.Value, least: ir.Value, most: ir.Value) -> ir.Value:
    bound = op.where(op.Less(bound, least), least, bound)
    return op.where(op.Less(most, bound), most, bound)
