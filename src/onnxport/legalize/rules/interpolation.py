"""Resizing as what it computes: nearest neighbours gathered, or along each axis a product with weights.

Tables of axes whose sizes are known are literals; of others they are computed in the graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxport.legalize.known import constant_array
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.counting import (
    Length,
    as_type,
    axis_length,
    count_scalar,
    element,
    minus,
    plus,
    times,
    upto,
    within,
)

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Way:
    """How to resize: where the elements of the result lie, and how those around them count."""

    mode: str
    place: str
    rounding: str
    cubic: float = -0.75
    smooth: bool = False
    inside_only: bool = False


@dataclass(frozen=True)
class _Change:
    """One axis: its size before and after, and the factor that says where elements lie."""

    before: Length
    after: Length
    scale: float | ir.Value


def way_of(op: RuleBuilder) -> Way:
    """What the attributes of a Resize say."""
    return Way(
        mode=op.attr_string("mode", "nearest"),
        place=op.attr_string("coordinate_transformation_mode", "half_pixel"),
        rounding=op.attr_string("nearest_mode", "round_prefer_floor"),
        cubic=op.attr_float("cubic_coeff_a", -0.75),
        smooth=bool(op.attr_int("antialias", 0)),
        inside_only=bool(op.attr_int("exclude_outside", 0)),
    )


def interpolated(op: RuleBuilder, way: Way, scales: ir.Value | None, sizes: ir.Value | None) -> ir.Value:
    """The data resized, axis by axis."""
    data = op.needed(0)
    rank = op.rank(data)
    axes = list(range(rank))
    if "axes" in op.node.attributes:
        axes = [axis % rank for axis in op.node.attributes["axes"].as_ints()]
    known = constant_array(scales)
    if known is not None and not known.size:
        scales = None
    if scales is None and sizes is None:
        raise Refusal("it is given neither scales nor sizes")
    result = data
    for position, axis in enumerate(axes):
        before = axis_length(op, data, axis)
        if scales is None and sizes is not None:
            if _is_kept(op.node, data, axis):
                continue
            change = _to_size(op, sizes, position, before)
        elif known is not None:
            scale = float(known.reshape(-1)[position])
            if scale == 1:
                continue
            change = _by_scale(op, scale, before)
        else:
            assert scales is not None
            change = _by_scale(op, op.squeeze(op.slice(scales, 0, position, position + 1), [0]), before)
        if change.scale != 1:
            result = _along(op, result, axis, way, change)
    return result


def _is_kept(node: ir.Node, data: ir.Value, axis: int) -> bool:
    """Whether an axis is known to be as long as before."""
    after = node.outputs[0].shape
    if after is None or data.shape is None or len(after) != len(data.shape):
        return False
    dim = data.shape[axis]
    return dim == after[axis] and (isinstance(dim, int) or dim.value is not None)


def _to_size(op: RuleBuilder, sizes: ir.Value, position: int, before: Length) -> _Change:
    after = element(op, sizes, position)
    if isinstance(before, int) and isinstance(after, int):
        return _Change(before, after, after / before if before else 1.0)
    kind = ir.DataType.FLOAT
    return _Change(before, after, op.Div(as_type(op, after, kind), as_type(op, before, kind)))


def _by_scale(op: RuleBuilder, scale: float | ir.Value, before: Length) -> _Change:
    if isinstance(before, int) and not isinstance(scale, ir.Value):
        return _Change(before, math.floor(before * scale), scale)
    kind = ir.DataType.FLOAT
    factor = scale if isinstance(scale, ir.Value) else op.full(scale, kind)
    after = op.cast(op.Floor(op.Mul(as_type(op, before, kind), factor)), ir.DataType.INT64)
    return _Change(before, after, factor)


def _along(op: RuleBuilder, value: ir.Value, axis: int, way: Way, change: _Change) -> ir.Value:
    before, after, scale = change.before, change.after, change.scale
    static = isinstance(before, int) and isinstance(after, int) and not isinstance(scale, ir.Value)
    if way.mode == "nearest":
        if static:
            assert isinstance(before, int) and isinstance(after, int) and not isinstance(scale, ir.Value)
            return op.Gather(value, op.i64(_nearest(way, _places(way, before, after, scale), before)), axis=axis)
        return op.Gather(value, _computed_nearest(op, way, change), axis=axis)
    if value.dtype is None or not value.dtype.is_floating_point():
        raise Refusal("it interpolates integers")
    if static:
        assert isinstance(before, int) and isinstance(after, int) and not isinstance(scale, ir.Value)
        table = _weights(way, _places(way, before, after, scale), before, scale)
        weights = op.literal(table.T.astype(value.dtype.numpy()), value.dtype)
    else:
        value, weights = _computed_weights(op, value, axis, way, change)
    rank = op.rank(value)
    if axis == rank - 1:
        return op.MatMul(value, weights)
    if axis == rank - 2:
        return op.MatMul(op.Transpose(weights, perm=[1, 0]) if not static else _transposed(op, weights), value)
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    return op.Transpose(op.MatMul(op.Transpose(value, perm=perm), weights), perm=perm)


def _transposed(op: RuleBuilder, literal: ir.Value) -> ir.Value:
    array = constant_array(literal)
    assert array is not None
    return op.literal(np.ascontiguousarray(array.T), literal.dtype)


def _places(way: Way, before: int, after: int, scale: float) -> Numbers:
    """Where in the input each element of the output lies."""
    index = np.arange(after, dtype=np.float64)
    if way.place == "asymmetric":
        return index / scale
    if way.place == "align_corners":
        return index * ((before - 1) / (after - 1)) if after > 1 else index * 0
    if way.place == "pytorch_half_pixel" and after == 1:
        return index * 0
    centred = (index + 0.5) / scale - 0.5
    if way.place == "half_pixel_symmetric":
        return centred + before / 2 * (1 - after / (scale * before))
    if way.place in ("half_pixel", "pytorch_half_pixel"):
        return centred
    raise Refusal(f"it places pixels by {way.place}")


def _nearest(way: Way, places: Numbers, before: int) -> list[int]:
    rounded = {
        "round_prefer_floor": lambda: np.ceil(places - 0.5),
        "round_prefer_ceil": lambda: np.floor(places + 0.5),
        "floor": lambda: np.floor(places),
        "ceil": lambda: np.ceil(places),
    }[way.rounding]()
    return [int(place) for place in np.clip(rounded, 0, before - 1)]


def _weights(way: Way, places: Numbers, before: int, scale: float) -> Numbers:
    """How much each input element counts in each output element."""
    cubic = way.mode == "cubic"
    narrow = scale if way.smooth and scale < 1 else 1.0
    reach = math.ceil((2 if cubic else 1) / narrow) + 1
    first = np.floor(places).astype(np.int64)
    weights = np.zeros((len(places), before))
    rows = np.arange(len(places))
    for tap in range(-reach, reach + 1):
        at = first + tap
        share = _kernel((places - at) * narrow, cubic, way.cubic)
        if way.inside_only:
            share = np.where((at >= 0) & (at < before), share, 0.0)
        np.add.at(weights, (rows, np.clip(at, 0, before - 1)), share)
    return weights / weights.sum(axis=1, keepdims=True) if way.inside_only or way.smooth else weights


def _kernel(distance: Numbers, cubic: bool, a: float) -> Numbers:
    d = np.abs(distance)
    if not cubic:
        return np.maximum(0.0, 1.0 - d)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _as_value(op: RuleBuilder, scale: float | ir.Value) -> ir.Value:
    return scale if isinstance(scale, ir.Value) else op.full(scale, ir.DataType.FLOAT)


def _computed_places(op: RuleBuilder, way: Way, change: _Change) -> ir.Value:
    """As :func:`_places`, in the graph and in the precision runtimes compute them in."""
    kind = ir.DataType.FLOAT
    index = op.cast(upto(op, change.after), kind)
    scale = _as_value(op, change.scale)
    zero, half, one = (op.full(number, kind) for number in (0, 0.5, 1))
    if way.place == "asymmetric":
        return op.Div(index, scale)
    if way.place == "align_corners":
        gaps = op.Max(as_type(op, minus(op, change.after, 1), kind), one)
        return op.Div(op.Mul(index, as_type(op, minus(op, change.before, 1), kind)), gaps)
    centred = op.Sub(op.Div(op.Add(index, half), scale), half)
    if way.place == "pytorch_half_pixel":
        several = op.Greater(as_type(op, change.after, kind), one)
        return op.where(several, centred, zero)
    if way.place == "half_pixel_symmetric":
        before, after = as_type(op, change.before, kind), as_type(op, change.after, kind)
        off = op.Sub(one, op.Div(after, op.Mul(scale, before)))
        return op.Add(centred, op.Mul(op.Mul(before, half), off))
    if way.place == "half_pixel":
        return centred
    raise Refusal(f"it places pixels by {way.place}")


def _computed_nearest(op: RuleBuilder, way: Way, change: _Change) -> ir.Value:
    kind = ir.DataType.FLOAT
    places, half = _computed_places(op, way, change), op.full(0.5, kind)
    if way.rounding == "round_prefer_floor":
        places = op.Ceil(op.Sub(places, half))
    elif way.rounding == "round_prefer_ceil":
        places = op.Floor(op.Add(places, half))
    else:
        places = op.Floor(places) if way.rounding == "floor" else op.Ceil(places)
    last = as_type(op, minus(op, change.before, 1), kind)
    return op.cast(op.Min(op.Max(places, op.full(0, kind)), last), ir.DataType.INT64)


def _computed_weights(
    op: RuleBuilder, value: ir.Value, axis: int, way: Way, change: _Change
) -> tuple[ir.Value, ir.Value]:
    """The weights of inputs (rows) in outputs (columns), and the data with what they count at its edges."""
    kind = ir.DataType.FLOAT
    places = _computed_places(op, way, change)
    zero, one = op.full(0, kind), op.full(1, kind)
    inputs = upto(op, change.before)
    narrow = None if not way.smooth else op.Min(_as_value(op, change.scale), one)
    if not way.inside_only and (way.mode == "cubic" or way.smooth):
        # As many more at each end as may count, which are those at the edges again.
        reach: Length = 2
        if narrow is not None:
            support = op.Div(op.full(2 if way.mode == "cubic" else 1, kind), narrow)
            reach = plus(op, op.cast(op.Ceil(support), ir.DataType.INT64), 1)
        inputs = op.Sub(upto(op, plus(op, change.before, times(op, reach, 2))), count_scalar(op, reach))
        value = op.Gather(value, within(op, inputs, count_scalar(op, minus(op, change.before, 1))), axis=axis)
    elif not way.inside_only:
        places = op.Min(op.Max(places, zero), as_type(op, minus(op, change.before, 1), kind))
    distance = op.Sub(places, op.unsqueeze(op.cast(inputs, kind), [1]))
    if narrow is not None:
        distance = op.Mul(distance, narrow)
    distance = op.Abs(distance)
    if way.mode == "cubic":
        shares = _computed_cubic(op, distance, way.cubic)
    else:
        shares = op.Max(op.Sub(one, distance), zero)
    if way.inside_only or way.smooth:
        shares = op.Div(shares, op.reduce("ReduceSum", shares, [0]))
    return value, op.cast(shares, value.dtype)


def _computed_cubic(op: RuleBuilder, distance: ir.Value, a: float) -> ir.Value:
    def polynomial(*factors: float) -> ir.Value:
        result = op.full(factors[0], ir.DataType.FLOAT)
        for factor in factors[1:]:
            result = op.Mul(result, distance)
            result = op.Add(result, op.full(factor, ir.DataType.FLOAT)) if factor else result
        return result

    near, far = polynomial(a + 2, -(a + 3), 0.0, 1.0), polynomial(a, -5 * a, 8 * a, -4 * a)
    one, two, zero = (op.full(number, ir.DataType.FLOAT) for number in (1, 2, 0))
    return op.where(op.Greater(distance, one), op.where(op.Less(distance, two), far, zero), near)
