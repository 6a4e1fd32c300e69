"""Resizing: the older operators where they do the same, else the interpolation as a product with its weights."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxport.legalize import infer
from onnxport.legalize.builder import Builder, Refusal
from onnxport.legalize.engine import Replacement, lowers


@lowers("Resize", below=19)
def resize_symmetric(op: Builder, node: ir.Node) -> Replacement:
    """Symmetric half pixels, and keeping the aspect ratio, came with opsets 19 and 18."""
    if op.attr_string("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refusal("it keeps the aspect ratio")
    node.attributes.pop("keep_aspect_ratio_policy", None)
    if op.attr_string("coordinate_transformation_mode", "half_pixel") == "half_pixel_symmetric":
        return _interpolated(op)
    return None


@lowers("Resize", below=18)
def resize_all_axes(op: Builder, node: ir.Node) -> Replacement:
    """Sizes were given for all axes, and nothing was smoothed before shrinking."""
    if op.attr_int("antialias", 0):
        return _interpolated(op)
    drop = ["antialias", "axes"]
    if "axes" not in node.attributes:
        node.attributes.pop("antialias", None)
        return None
    data = op.needed(0)
    rank = op.rank(data)
    axes = [axis % rank for axis in node.attributes["axes"].as_ints()]
    scales, sizes = op.input(2), op.input(3)
    if scales is not None:
        wanted = op.constant(2, "the list of scales")
        whole = np.ones(rank, np.float32)
        whole[axes] = np.asarray(wanted, np.float32)
        return op.again(data, op.input(1), op.literal(whole), drop=drop)
    if sizes is None:
        raise Refusal("it is given neither scales nor sizes")
    parts = [
        op.slice(sizes, 0, axes.index(axis), axes.index(axis) + 1) if axis in axes else op.dim(data, axis)
        for axis in range(rank)
    ]
    known = infer.integers(sizes)
    static = [dim for dim in data.shape or () if isinstance(dim, int)]
    if known is not None and len(static) == rank:
        for axis, size in zip(axes, known, strict=True):
            static[axis] = size
        return op.again(data, op.input(1), None, op.i64(static), drop=drop)
    return op.again(data, op.input(1), None, op.Concat(*parts, axis=0), drop=drop)


@lowers("Resize", below=13)
def resize_all_inputs(op: Builder, node: ir.Node) -> Replacement:
    """The region and the scales could be empty but not absent."""
    empty = op.literal(np.zeros(0, np.float32))
    region, scales = op.input(1), op.input(2)
    if region is not None and scales is not None:
        return None
    return op.again(op.needed(0), empty if region is None else region, empty if scales is None else scales, op.input(3))


@lowers("Resize", below=11)
def resize_plain(op: Builder, node: ir.Node) -> Replacement:
    """Only scales, from the corner, to the floor: whole factors of nearest neighbours are the same in most modes."""
    data, mode = op.needed(0), op.attr_string("mode", "nearest")
    scales = infer.constant(op.input(2))
    place = op.attr_string("coordinate_transformation_mode", "half_pixel")
    if scales is not None and scales.size and mode != "cubic":
        factors = [float(factor) for factor in scales.reshape(-1)]
        rounding = op.attr_string("nearest_mode", "round_prefer_floor")
        from_corner = place == "asymmetric" and (mode == "linear" or rounding == "floor")
        whole = all(factor == int(factor) >= 1 for factor in factors)
        same = mode == "nearest" and whole and rounding == "round_prefer_floor" and "half_pixel" in place
        if from_corner or same:
            return op.Resize(data, op.literal(np.asarray(factors, np.float32)), mode=mode)
    return _interpolated(op)


@lowers("Resize", below=10)
def upsample(op: Builder, node: ir.Node) -> Replacement:
    """It was called Upsample, and did not shrink."""
    scales = op.constant(1, "the list of scales")
    if scales is None or bool((np.asarray(scales, np.float32) < 1).any()):
        raise Refusal("it makes the tensor smaller")
    return op.Upsample(op.needed(0), op.needed(1), mode=op.attr_string("mode", "nearest"))


@lowers("Upsample", below=9)
def upsample_attributes(op: Builder, node: ir.Node) -> Replacement:
    """The scales were an attribute."""
    scales = op.constant(1, "the list of scales")
    assert scales is not None
    return op.again(op.needed(0), scales=[float(scale) for scale in scales.reshape(-1)])


def _interpolated(op: Builder) -> ir.Value:
    """A product with the weights along each resized axis; nearest neighbours are gathered."""
    data = op.needed(0)
    dims = infer.sizes(data)
    if dims is None:
        raise Refusal("it interpolates a tensor whose sizes are not all known")
    axes = list(range(len(dims)))
    if "axes" in op.node.attributes:
        axes = [axis % len(dims) for axis in op.node.attributes["axes"].as_ints()]
    scales, sizes = infer.constant(op.input(2)), infer.integers(op.input(3))
    result = data
    for position, axis in enumerate(axes):
        before = dims[axis]
        if sizes:
            after, scale = sizes[position], sizes[position] / before
        elif scales is not None and scales.size:
            scale = float(scales.reshape(-1)[position])
            after = math.floor(before * scale)
        else:
            raise Refusal("its sizes are computed at run time")
        if after == before and scale == 1:
            continue
        result = _along(op, result, axis, before, after, scale)
    return result


def _along(op: Builder, value: ir.Value, axis: int, before: int, after: int, scale: float) -> ir.Value:
    places = _places(op, before, after, scale)
    if op.attr_string("mode", "nearest") == "nearest":
        return op.Gather(value, op.i64(_nearest(op, places, before)), axis=axis)
    if value.dtype is None or not value.dtype.is_floating_point():
        raise Refusal("it interpolates integers")
    weights = _weights(op, places, before, scale).astype(value.dtype.numpy())
    rank = op.rank(value)
    if axis == rank - 1:
        return op.MatMul(value, op.literal(weights.T, value.dtype))
    if axis == rank - 2:
        return op.MatMul(op.literal(weights, value.dtype), value)
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    product = op.MatMul(op.Transpose(value, perm=perm), op.literal(weights.T, value.dtype))
    return op.Transpose(product, perm=perm)


def _places(op: Builder, before: int, after: int, scale: float) -> npt.NDArray[np.float64]:
    """Where in the input each element of the output lies."""
    place = op.attr_string("coordinate_transformation_mode", "half_pixel")
    index = np.arange(after, dtype=np.float64)
    if place == "asymmetric":
        return index / scale
    if place == "align_corners":
        return index * ((before - 1) / (after - 1)) if after > 1 else index * 0
    if place == "pytorch_half_pixel" and after == 1:
        return index * 0
    centred = (index + 0.5) / scale - 0.5
    if place == "half_pixel_symmetric":
        return centred + before / 2 * (1 - after / (scale * before))
    if place in ("half_pixel", "pytorch_half_pixel"):
        return centred
    raise Refusal(f"it places pixels by {place}")


def _nearest(op: Builder, places: npt.NDArray[np.float64], before: int) -> list[int]:
    rounding = op.attr_string("nearest_mode", "round_prefer_floor")
    rounded = {
        "round_prefer_floor": lambda: np.ceil(places - 0.5),
        "round_prefer_ceil": lambda: np.floor(places + 0.5),
        "floor": lambda: np.floor(places),
        "ceil": lambda: np.ceil(places),
    }[rounding]()
    return [int(place) for place in np.clip(rounded, 0, before - 1)]


def _weights(op: Builder, places: npt.NDArray[np.float64], before: int, scale: float) -> npt.NDArray[np.float64]:
    """How much each input element counts in each output element."""
    cubic = op.attr_string("mode", "nearest") == "cubic"
    smooth = bool(op.attr_int("antialias", 0))
    narrow = scale if smooth and scale < 1 else 1.0
    inside_only = smooth or bool(op.attr_int("exclude_outside", 0))
    reach = math.ceil((2 if cubic else 1) / narrow) + 1
    first = np.floor(places).astype(np.int64)
    weights = np.zeros((len(places), before))
    rows = np.arange(len(places))
    for tap in range(-reach, reach + 1):
        at = first + tap
        share = _kernel((places - at) * narrow, cubic, op.attr_float("cubic_coeff_a", -0.75))
        if inside_only:
            share = np.where((at >= 0) & (at < before), share, 0.0)
        np.add.at(weights, (rows, np.clip(at, 0, before - 1)), share)
    return weights / weights.sum(axis=1, keepdims=True) if inside_only else weights


def _kernel(distance: npt.NDArray[np.float64], cubic: bool, a: float) -> npt.NDArray[np.float64]:
    d = np.abs(distance)
    if not cubic:
        return np.maximum(0.0, 1.0 - d)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
