"""Grids, regions and folded blocks before they had operators."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.counting import (
    Length,
    as_type,
    axis_length,
    count_scalar,
    element,
    minus,
    plus,
    quotient,
    times,
    upto,
    vector,
)

_F = ir.DataType.FLOAT


@lowers("AffineGrid", below=20)
def affine_grid(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The even grid as homogeneous coordinates, times the matrices."""
    given, size = op.needed(0), op.needed(1)
    rows = given.shape[1] if given.shape is not None else None
    if not isinstance(rows, int) or given.dtype is None:
        raise Refusal("the number of rows of its matrices is not known")
    kind = given.dtype if given.dtype == ir.DataType.DOUBLE else _F
    count = rows
    sizes = [element(op, size, at + 2) for at in range(count)]
    everywhere = vector(op, *sizes, 1)
    columns = []
    for at in range(count):
        # Twice the distance from the middle, a whole number, over the number of steps from edge to edge.
        twice = op.Sub(op.Mul(upto(op, sizes[at]), op.i64(2)), count_scalar(op, minus(op, sizes[at], 1)))
        steps = sizes[at]
        if op.attr_int("align_corners", 0):
            less = minus(op, sizes[at], 1)
            steps = max(less, 1) if isinstance(less, int) else op.Max(less, op.i64(1))
        place = op.Div(op.cast(twice, kind), as_type(op, steps, kind))
        columns.append(op.Expand(op.unsqueeze(place, list(range(1, count - at + 1))), everywhere))
    # The first coordinate belongs to the last axis.
    ones = op.Expand(op.full(1, kind, [1]), everywhere)
    base = op.Reshape(op.Concat(*reversed(columns), ones, axis=count), op.i64([-1, count + 1]))
    grid = op.MatMul(base, op.Transpose(op.cast(given, kind), perm=[0, 2, 1]))
    return op.cast(op.Reshape(grid, vector(op, 0, *sizes, count)), given.dtype)


@lowers("Col2Im", below=18)
def folded_blocks(op: RuleBuilder, node: ir.Node) -> Replacement:
    """A transposed convolution whose kernel puts each element of a block in its place."""
    data = op.needed(0)
    block = op.integers(2, "the shape of the blocks")
    if block is None or data.dtype is None or not data.dtype.is_floating_point():
        raise Refusal("it adds up blocks that are not of floats")
    count, taps = len(block), int(np.prod(block))
    image = [element(op, op.needed(1), at) for at in range(count)]
    strides, dilations = (_each(node, name, count, 1) for name in ("strides", "dilations"))
    pads = _each(node, "pads", 2 * count, 0)
    rows = data.shape[1] if data.shape is not None else None
    if not isinstance(rows, int):
        raise Refusal("its number of channels is not known")
    channels = rows // taps
    covered = [step * (size - 1) + 1 for step, size in zip(dilations, block, strict=True)]
    padded = [plus(op, size, pads[at] + pads[at + count]) for at, size in enumerate(image)]
    blocks = [plus(op, quotient(op, minus(op, padded[at], covered[at]), strides[at]), 1) for at in range(count)]
    spread = op.Reshape(data, vector(op, 0, rows, *blocks))
    kernel = np.tile(np.eye(taps).reshape(taps, 1, *block), (channels, 1, *[1] * count))
    canvas = op.ConvTranspose(
        spread,
        op.literal(kernel.astype(data.dtype.numpy()), data.dtype),
        group=channels,
        kernel_shape=block,
        strides=strides,
        dilations=dilations,
    )
    # Blocks need not reach to the end of the image.
    reached = [plus(op, times(op, minus(op, blocks[at], 1), strides[at]), covered[at]) for at in range(count)]
    missing = [minus(op, padded[at], reached[at]) for at in range(count)]
    if any(amount != 0 for amount in missing):
        canvas = op.Pad(canvas, vector(op, *[0] * (count + 4), *missing))
    if not any(pads):
        return canvas
    begin = op.i64(pads[:count])
    end = vector(op, *(plus(op, size, pads[at]) for at, size in enumerate(image)))
    return op.Slice(canvas, begin, end, op.i64([at + 2 for at in range(count)]))


def _each(node: ir.Node, name: str, count: int, default: int) -> list[int]:
    return list(node.attributes[name].as_ints()) if name in node.attributes else [default] * count


@lowers("RoiAlign", below=16)
def aligned_at_pixel_centres(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Regions were not shifted by half a pixel, nor could they be smaller than one."""
    if op.attr_string("coordinate_transformation_mode", "half_pixel") == "half_pixel":
        return _aligned(op, centred=True)
    node.attributes.pop("coordinate_transformation_mode", None)
    return None


@lowers("RoiAlign", below=10)
def aligned_regions(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The mean over each bin is one product with weights of rows and one with weights of columns."""
    return _aligned(op, centred=False)


def _aligned(op: RuleBuilder, centred: bool) -> ir.Value:
    if op.attr_string("mode", "avg") != "avg":
        raise Refusal("it takes the largest of the samples")
    given, regions, images = op.needed(0), op.needed(1), op.needed(2)
    if given.dtype is None:
        raise Refusal("the element type of its input is not known")
    kind = given.dtype if given.dtype == ir.DataType.DOUBLE else _F
    corners = op.Mul(op.cast(regions, kind), op.full(op.attr_float("spatial_scale", 1.0), kind))
    if centred:
        corners = op.Sub(corners, op.full(0.5, kind))
    weights = []
    for at, name in ((1, "output_height"), (0, "output_width")):
        begin, end = (op.Gather(corners, op.i64([column]), axis=1) for column in (at, at + 2))
        extent = op.Sub(end, begin)
        if not centred:
            extent = op.Max(extent, op.full(1, kind))
        weights.append(_bins(op, begin, extent, op.attr_int(name, 1), axis_length(op, given, 3 - at)))
    data, (rows, columns) = op.cast(given, kind), weights
    only = given.shape[0] if given.shape is not None else None
    if only == 1:
        # All regions are of the one image: one product for all of them.
        count, wide = axis_length(op, regions, 0), op.attr_int("output_width", 1)
        channels, high, width = (axis_length(op, given, axis) for axis in (1, 2, 3))
        side = op.Reshape(op.Transpose(columns, perm=[2, 0, 1]), vector(op, width, times(op, count, wide)))
        across = op.MatMul(op.squeeze(data, [0]), side)
        across = op.Transpose(op.Reshape(across, vector(op, channels, high, count, wide)), perm=[2, 0, 1, 3])
    else:
        across = op.MatMul(op.Gather(data, images, axis=0), op.unsqueeze(op.Transpose(columns, perm=[0, 2, 1]), [1]))
    return op.cast(op.MatMul(op.unsqueeze(rows, [1]), across), given.dtype)


def _bins(op: RuleBuilder, begin: ir.Value, extent: ir.Value, bins: int, size: Length) -> ir.Value:
    """How much each element along an axis counts in each bin of each region: regions, bins, elements."""
    kind = begin.dtype
    assert kind is not None
    one, zero = op.full(1, kind), op.full(0, kind)
    ratio = op.attr_int("sampling_ratio", 0)
    wide = op.Div(extent, op.full(bins, kind))
    if ratio > 0:
        samples, most = op.full(ratio, kind), op.literal(np.arange(ratio, dtype=np.int64))
    else:
        samples = op.Ceil(wide)
        largest = op.reduce("ReduceMax", op.Concat(samples, op.full(1, kind, [1, 1]), axis=0), [0, 1], keepdims=False)
        most = upto(op, op.cast(largest, ir.DataType.INT64))
        samples = op.unsqueeze(samples, [2, 3])
    order = op.cast(most, kind)
    # From here on: regions, bins, samples, elements.
    step = op.Add(op.unsqueeze(order, [1]), op.full(0.5, kind))
    counted = op.literal(np.arange(bins).reshape(bins, 1, 1).astype(kind.numpy()), kind)
    within = op.Add(counted, op.Div(step, op.Max(samples, one)))
    place = op.Add(op.unsqueeze(begin, [2, 3]), op.Mul(within, op.unsqueeze(wide, [2, 3])))
    whole = as_type(op, size, kind)
    # A sample outside by more than a pixel counts nothing, and one up to there is that of the edge.
    outside = op.Or(op.Less(place, op.full(-1, kind)), op.Greater(place, whole))
    near = op.Min(op.Max(place, zero), op.Sub(whole, one))
    away = op.Abs(op.Sub(near, op.cast(upto(op, size), kind)))
    share = op.Max(op.Sub(one, away), zero)
    counts = op.Not(outside)
    if ratio <= 0:
        counts = op.And(counts, op.Less(op.unsqueeze(order, [1]), samples))
    share = op.Div(op.Mul(share, op.cast(counts, kind)), op.Max(samples, one))
    return op.reduce("ReduceSum", share, [2], keepdims=False)
