"""GridSample before it had an operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.legalize.builder import Builder
from onnxport.legalize.engine import Replacement, lowers


@dataclass(frozen=True)
class _Axis:
    """One spatial axis: its length, and the positions that are sampled along it."""

    length: ir.Value
    places: ir.Value


@lowers("GridSample", below=16)
def grid_sample(op: Builder, node: ir.Node) -> Replacement:
    """The neighbours of each place, gathered from the flattened image and summed by their weights."""
    data, grid = op.needed(0), op.needed(1)
    points = op.Reshape(grid, op.i64([0, -1, 2]))
    columns = _axis(op, data, 3, op.Gather(points, op.i64(0), axis=2))
    rows = _axis(op, data, 2, op.Gather(points, op.i64(1), axis=2))
    flat = op.Reshape(data, op.i64([0, 0, -1]))
    spread = op.Concat(op.i64([1]), op.dim(data, 1), op.i64([1]), axis=0)
    taps = {"bilinear": _linear, "nearest": _nearest, "bicubic": _cubic}[op.attr_string("mode", "bilinear")]
    total: ir.Value | None = None
    for row, row_weight in taps(op, rows):
        for column, column_weight in taps(op, columns):
            row_place, row_inside = _padded(op, rows, row)
            column_place, column_inside = _padded(op, columns, column)
            place = op.cast(op.Add(op.Mul(row_place, columns.length), column_place), ir.DataType.INT64)
            picked = op.GatherElements(flat, op.Expand(op.unsqueeze(place, [1]), spread), axis=2)
            weight: ir.Value | None = None
            for factor in (row_weight, column_weight, row_inside, column_inside):
                if factor is not None:
                    weight = factor if weight is None else op.Mul(weight, factor)
            if weight is not None:
                picked = op.Mul(picked, op.unsqueeze(weight, [1]))
            total = picked if total is None else op.Add(total, picked)
    assert total is not None
    sizes = op.Concat(op.i64([0, 0]), op.dim(grid, 1), op.dim(grid, 2), axis=0)
    return op.Reshape(total, sizes)


def _axis(op: Builder, data: ir.Value, axis: int, places: ir.Value) -> _Axis:
    """Places between -1 and 1 as positions between the first and the last element."""
    dim = data.shape[axis] if data.shape is not None else None
    length = op.like(dim, data) if isinstance(dim, int) else op.cast(op.squeeze(op.dim(data, axis), [0]), data.dtype)
    one, half = op.like(1, data), op.like(0.5, data)
    moved = op.Add(op.cast(places, data.dtype), one)
    if op.attr_int("align_corners", 0):
        moved = op.Mul(moved, op.Mul(op.Sub(length, one), half))
    else:
        moved = op.Sub(op.Mul(moved, op.Mul(length, half)), half)
    found = _Axis(length, moved)
    if op.attr_string("mode", "bilinear") == "bicubic":
        return found
    padding = op.attr_string("padding_mode", "zeros")
    if padding == "reflection":
        moved = _reflected(op, found, moved)
    if padding != "zeros":
        moved = _clamped(op, found, moved)
    return _Axis(length, moved)


def _clamped(op: Builder, axis: _Axis, places: ir.Value) -> ir.Value:
    last = op.Sub(axis.length, op.like(1, places))
    return op.Min(op.Max(places, op.like(0, places)), last)


def _reflected(op: Builder, axis: _Axis, places: ir.Value) -> ir.Value:
    """Mirrored at the centres of the outer elements, or at their outer edges."""
    corners = bool(op.attr_int("align_corners", 0))
    low = op.like(0.0 if corners else -0.5, places)
    span = op.Sub(axis.length, op.like(1, places)) if corners else axis.length
    beyond = op.Abs(op.Sub(places, low))
    times = op.Floor(op.Div(beyond, span))
    rest = op.Sub(beyond, op.Mul(times, span))
    halved = op.Mul(times, op.like(0.5, places))
    odd = op.Greater(op.Sub(halved, op.Floor(halved)), op.like(0, places))
    return op.Add(op.where(odd, op.Sub(span, rest), rest), low)


def _padded(op: Builder, axis: _Axis, places: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """A position that exists, and whether to count it."""
    padding = op.attr_string("padding_mode", "zeros")
    if padding == "zeros":
        inside = op.And(
            op.Greater(places, op.like(-0.5, places)), op.Less(places, op.Sub(axis.length, op.like(0.5, places)))
        )
        return _clamped(op, axis, places), op.cast(inside, places.dtype)
    if padding == "reflection" and op.attr_string("mode", "bilinear") == "bicubic":
        places = _reflected(op, axis, places)
    return _clamped(op, axis, places), None


def _linear(op: Builder, axis: _Axis) -> Iterator[tuple[ir.Value, ir.Value | None]]:
    floor = op.Floor(axis.places)
    rest = op.Sub(axis.places, floor)
    yield floor, op.Sub(op.like(1, rest), rest)
    yield op.Add(floor, op.like(1, floor)), rest


def _nearest(op: Builder, axis: _Axis) -> Iterator[tuple[ir.Value, ir.Value | None]]:
    yield op.Round(axis.places), None


def _cubic(op: Builder, axis: _Axis) -> Iterator[tuple[ir.Value, ir.Value | None]]:
    a = -0.75
    floor = op.Floor(axis.places)
    rest = op.Sub(axis.places, floor)
    for tap in (-1, 0, 1, 2):
        away = op.Abs(op.Sub(rest, op.like(tap, rest)))
        weights = (a + 2, -(a + 3), 0.0, 1.0) if tap in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
        weight = op.like(weights[0], rest)
        for factor in weights[1:]:
            weight = op.Add(op.Mul(weight, away), op.like(factor, rest))
        yield op.Add(floor, op.like(tap, floor)), weight
