"""Reading a tensor between its elements: GridSample and DeformConv before they had operators."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.counting import Length, as_type, axis_length, count_scalar, times, upto, vector

_FORMER_MODES = {"linear": "bilinear", "cubic": "bicubic"}
_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@dataclass(frozen=True)
class _Axis:
    """One spatial axis: its size, also as a number of the element type, and the positions sampled along it."""

    size: Length
    length: ir.Value
    places: ir.Value


Tap = tuple[ir.Value, ir.Value | None]
"""A whole position, and its weight if it is not one."""


@lowers("GridSample", below=20)
def grid_sample_names(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The modes had other names, and the tensor two spatial axes."""
    mode = op.attr_string("mode", "linear")
    mode = _FORMER_MODES.get(mode, mode)
    if op.rank(op.needed(0)) != 4:
        return _sampled(op, mode)
    node.attributes["mode"] = ir.AttrString("mode", mode)
    return None


@lowers("GridSample", below=16)
def grid_sample(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The neighbours of each place, gathered from the flattened image and summed by their weights."""
    return _sampled(op, op.attr_string("mode", "bilinear"))


def _widened(op: RuleBuilder, value: ir.Value) -> ir.Value:
    """The input in a type that tells neighbouring positions apart."""
    return op.cast(value, ir.DataType.FLOAT) if value.dtype in _HALF else value


def _sampled(op: RuleBuilder, mode: str) -> ir.Value:
    given, grid = op.needed(0), op.needed(1)
    data = _widened(op, given)
    count = op.rank(data) - 2
    points = op.Reshape(op.cast(grid, data.dtype), op.i64([0, -1, count]))
    # The last coordinate of a point is the one along the first spatial axis.
    axes = [_axis(op, data, at, op.Gather(points, op.i64(count - 1 - at), axis=2), mode) for at in range(count)]
    taps = {"bilinear": _linear, "nearest": _nearest, "bicubic": _cubic}[mode]
    padding = op.attr_string("padding_mode", "zeros")
    if padding == "reflection" and mode != "bicubic":
        padding = "border"
    flat = op.Reshape(data, op.i64([0, 0, -1]))
    result = _gathered(op, flat, axes, [list(taps(op, axis)) for axis in axes], padding)
    sizes = [axis_length(op, grid, at + 1) for at in range(count)]
    return op.cast(op.Reshape(result, vector(op, 0, 0, *sizes)), given.dtype)


def _gathered(
    op: RuleBuilder, flat: ir.Value, axes: Sequence[_Axis], taps: Sequence[Sequence[Tap]], padding: str
) -> ir.Value:
    """For each sample and channel, the sum over all combinations of taps, at as many points as the axes have."""
    spread = vector(op, 1, axis_length(op, flat, 1), 1)
    known = [
        [(*_padded(op, axis, place, padding), weight) for place, weight in row]
        for axis, row in zip(axes, taps, strict=True)
    ]
    total: ir.Value | None = None
    for combination in itertools.product(*known):
        place, weight = combination[0][0], None
        for axis, (own, _, _) in zip(axes[1:], combination[1:], strict=True):
            place = op.Add(op.Mul(place, count_scalar(op, axis.size)), own)
        for _, inside, share in combination:
            for factor in (share, inside):
                if factor is not None:
                    weight = factor if weight is None else op.Mul(weight, factor)
        picked = op.GatherElements(flat, op.Expand(op.unsqueeze(place, [1]), spread), axis=2)
        if weight is not None:
            picked = op.Mul(picked, op.unsqueeze(weight, [1]))
        total = picked if total is None else op.Add(total, picked)
    assert total is not None
    return total


def _axis(op: RuleBuilder, data: ir.Value, at: int, places: ir.Value, mode: str) -> _Axis:
    """Places between -1 and 1 as positions between the first and the last element."""
    if data.dtype is None:
        raise Refusal("the element type of its input is not known")
    size = axis_length(op, data, at + 2)
    whole = as_type(op, size, data.dtype)
    one, half = op.like(1, data), op.like(0.5, data)
    moved = op.Add(places, one)
    if op.attr_int("align_corners", 0):
        moved = op.Mul(moved, op.Mul(op.Sub(whole, one), half))
    else:
        moved = op.Sub(op.Mul(moved, op.Mul(whole, half)), half)
    found = _Axis(size, whole, moved)
    if mode == "bicubic":
        return found
    padding = op.attr_string("padding_mode", "zeros")
    if padding == "reflection":
        moved = _reflected(op, found, moved)
    if padding != "zeros":
        moved = _clamped(op, found, moved)
    return _Axis(size, whole, moved)


def _clamped(op: RuleBuilder, axis: _Axis, places: ir.Value) -> ir.Value:
    last = op.Sub(axis.length, op.like(1, places))
    return op.Min(op.Max(places, op.like(0, places)), last)


def _reflected(op: RuleBuilder, axis: _Axis, places: ir.Value) -> ir.Value:
    """Mirrored at the centres of the outer elements, or at their outer edges."""
    corners = bool(op.attr_int("align_corners", 0))
    low, one = op.like(0.0 if corners else -0.5, places), op.like(1, places)
    # A single element has no distance between its mirrors; any will do, as all places are clamped to it.
    span = op.Max(op.Sub(axis.length, one), one) if corners else axis.length
    beyond = op.Abs(op.Sub(places, low))
    turns = op.Floor(op.Div(beyond, span))
    rest = op.Sub(beyond, op.Mul(turns, span))
    halved = op.Mul(turns, op.like(0.5, places))
    odd = op.Greater(op.Sub(halved, op.Floor(halved)), op.like(0, places))
    return op.Add(op.where(odd, op.Sub(span, rest), rest), low)


def _padded(op: RuleBuilder, axis: _Axis, places: ir.Value, padding: str) -> tuple[ir.Value, ir.Value | None]:
    """A position that exists, as an index, and whether to count it."""
    inside: ir.Value | None = None
    if padding == "zeros":
        within = op.And(
            op.Greater(places, op.like(-0.5, places)), op.Less(places, op.Sub(axis.length, op.like(0.5, places)))
        )
        inside = op.cast(within, places.dtype)
    elif padding == "reflection":
        places = _reflected(op, axis, places)
    return op.cast(_clamped(op, axis, places), ir.DataType.INT64), inside


def _linear(op: RuleBuilder, axis: _Axis) -> Iterator[Tap]:
    floor = op.Floor(axis.places)
    rest = op.Sub(axis.places, floor)
    yield floor, op.Sub(op.like(1, rest), rest)
    yield op.Add(floor, op.like(1, floor)), rest


def _nearest(op: RuleBuilder, axis: _Axis) -> Iterator[Tap]:
    yield op.Round(axis.places), None


def _cubic(op: RuleBuilder, axis: _Axis) -> Iterator[Tap]:
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


@lowers("DeformConv", below=19)
def deformable_convolution(op: RuleBuilder, node: ir.Node) -> Replacement:
    """What each tap of the kernel reads, gathered between the elements, then a matrix product."""
    given, weights, offsets, bias, mask = (*map(op.needed, range(3)), op.input(3), op.input(4))
    data = _widened(op, given)
    count = op.rank(data) - 2
    known = [dim for dim in weights.shape or () if isinstance(dim, int)]
    if len(known) != count + 2 or data.dtype is None:
        raise Refusal("the shape of its kernel is not known")
    kernel, taps = known[2:], int(np.prod(known[2:]))
    strides, dilations = (_each(node, name, count, 1) for name in ("strides", "dilations"))
    pads = _each(node, "pads", 2 * count, 0)
    groups, parts = op.attr_int("group", 1), op.attr_int("offset_group", 1)
    channels = known[1] * groups
    batch, after = axis_length(op, data, 0), [axis_length(op, offsets, at + 2) for at in range(count)]
    points = _product(op, after)
    rows, columns = times(op, batch, parts), times(op, points, taps)
    moved = op.Reshape(op.cast(offsets, data.dtype), vector(op, 0, parts, taps, count, *after))
    axes = []
    for at in range(count):
        steps = (np.indices(kernel)[at].reshape(taps, *[1] * count) * dilations[at] - pads[at]).astype(np.int64)
        begin = op.Mul(upto(op, after[at]), op.i64(strides[at]))
        begin = op.unsqueeze(begin, list(range(1, count - at))) if at < count - 1 else begin
        base = op.cast(op.Add(op.literal(steps), begin), data.dtype)
        places = op.Add(op.Gather(moved, op.i64(at), axis=3), base)
        size = axis_length(op, data, at + 2)
        axes.append(_Axis(size, as_type(op, size, data.dtype), op.Reshape(places, vector(op, rows, columns))))
    flat = op.Reshape(data, vector(op, rows, channels // parts, _product(op, [axis.size for axis in axes])))
    read = _gathered(op, flat, axes, [list(_linear(op, axis)) for axis in axes], "zeros")
    if mask is not None:
        read = op.Mul(read, op.Reshape(op.cast(mask, data.dtype), vector(op, rows, 1, columns)))
    read = op.Reshape(read, vector(op, batch, groups, channels // groups * taps, points))
    matrix = op.Reshape(op.cast(weights, data.dtype), op.i64([groups, known[0] // groups, channels // groups * taps]))
    result = op.Reshape(op.MatMul(matrix, read), vector(op, batch, known[0], *after))
    if bias is not None:
        result = op.Add(result, op.unsqueeze(op.cast(bias, data.dtype), list(range(1, count + 1))))
    return op.cast(result, given.dtype)


def _product(op: RuleBuilder, sizes: Sequence[Length]) -> Length:
    product: Length = 1
    for size in sizes:
        product = times(op, product, size)
    return product


def _each(node: ir.Node, name: str, count: int, default: int) -> list[int]:
    return list(node.attributes[name].as_ints()) if name in node.attributes else [default] * count
