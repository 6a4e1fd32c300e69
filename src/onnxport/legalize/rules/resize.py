"""Resizing: the older operators where they do the same, else what they compute."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize.known import constant_array, constant_integers
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.interpolation import Way, interpolated, way_of


@lowers("Resize", below=19)
def resize_symmetric(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Symmetric half pixels, and keeping the aspect ratio, came with opsets 19 and 18."""
    if op.attr_string("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refusal("it keeps the aspect ratio")
    node.attributes.pop("keep_aspect_ratio_policy", None)
    if op.attr_string("coordinate_transformation_mode", "half_pixel") == "half_pixel_symmetric":
        return interpolated(op, way_of(op), op.input(2), op.input(3))
    return None


@lowers("Resize", below=18)
def resize_all_axes(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Sizes were given for all axes, and nothing was smoothed before shrinking."""
    if op.attr_int("antialias", 0):
        return interpolated(op, way_of(op), op.input(2), op.input(3))
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
    known = constant_integers(sizes)
    static = [dim for dim in data.shape or () if isinstance(dim, int)]
    if known is not None and len(static) == rank:
        for axis, size in zip(axes, known, strict=True):
            static[axis] = size
        return op.again(data, op.input(1), None, op.i64(static), drop=drop)
    return op.again(data, op.input(1), None, op.Concat(*parts, axis=0), drop=drop)


@lowers("Resize", below=13)
def resize_all_inputs(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The region and the scales could be empty but not absent."""
    empty = op.literal(np.zeros(0, np.float32))
    region, scales = op.input(1), op.input(2)
    if region is not None and scales is not None:
        return None
    return op.again(op.needed(0), empty if region is None else region, empty if scales is None else scales, op.input(3))


@lowers("Resize", below=11)
def resize_plain(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Only scales, from the corner, to the floor: whole factors of nearest neighbours are the same in most modes."""
    data, mode = op.needed(0), op.attr_string("mode", "nearest")
    scales = constant_array(op.input(2))
    place = op.attr_string("coordinate_transformation_mode", "half_pixel")
    if scales is not None and scales.size and mode != "cubic":
        factors = [float(factor) for factor in scales.reshape(-1)]
        rounding = op.attr_string("nearest_mode", "round_prefer_floor")
        from_corner = place == "asymmetric" and (mode == "linear" or rounding == "floor")
        whole = all(factor == int(factor) >= 1 for factor in factors)
        same = mode == "nearest" and whole and rounding == "round_prefer_floor" and "half_pixel" in place
        if from_corner or same:
            return op.Resize(data, op.literal(np.asarray(factors, np.float32)), mode=mode)
    return interpolated(op, way_of(op), op.input(2), op.input(3))


@lowers("Resize", below=10)
def upsample(op: RuleBuilder, node: ir.Node) -> Replacement:
    """It was called Upsample, and did not shrink."""
    mode = op.attr_string("mode", "nearest")
    scales = constant_array(op.input(1))
    if scales is not None and bool((np.asarray(scales, np.float32) < 1).any()):
        return interpolated(op, Way(mode, "asymmetric", "floor"), op.input(1), None)
    return op.Upsample(op.needed(0), op.needed(1), mode=mode)


@lowers("Upsample", below=9)
def upsample_attributes(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The scales were an attribute."""
    scales = op.constant(1, "the list of scales")
    assert scales is not None
    return op.again(op.needed(0), scales=[float(scale) for scale in scales.reshape(-1)])
