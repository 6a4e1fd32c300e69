"""Older forms as newer ones: what files of other writers hold, and a later opset reads otherwise.

Translations write the canonical opset, so that nothing of theirs passes here on its way to an older one.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize.known import constant_array
from onnxport.legalize.rewriter import Replacement, raises
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.reduction import AXES_GIVEN


def _integers(op: RuleBuilder, node: ir.Node, name: str) -> ir.Value | None:
    """An attribute of integers as an input."""
    attribute = node.attributes.get(name)
    if attribute is None:
        return None
    if attribute.is_ref():
        raise Refusal(f"its attribute {name} is a parameter of the function around it, where an input is needed")
    items = [attribute.as_int()] if attribute.type is ir.AttributeType.INT else list(attribute.as_ints())
    return op.literal(np.asarray(items, dtype=np.int64))


@raises(*AXES_GIVEN, since=18)
@raises("ReduceSum", "Squeeze", "Unsqueeze", since=13)
def axes_to_input(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The axes are an input."""
    axes = _integers(op, node, "axes")
    return None if axes is None else op.again(op.needed(0), axes, drop=["axes"])


@raises("Slice", since=10)
def bounds_to_inputs(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Starts, ends and axes are inputs."""
    names = ("starts", "ends", "axes")
    return op.again(op.needed(0), *(_integers(op, node, name) for name in names), drop=names)


@raises("TopK", since=10)
def count_to_input(op: RuleBuilder, node: ir.Node) -> Replacement:
    """How many are wanted is an input."""
    kept = {"axis": op.attr_int("axis", -1)}
    return op.emit_many("TopK", 2, [op.needed(0), _integers(op, node, "k")], kept)


@raises("Clip", since=11)
def limits_to_inputs(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The limits are inputs, scalars of the data's type."""
    data = op.needed(0)
    names = ("min", "max")
    limits = [op.like(op.attr_float(name, 0.0), data) if name in node.attributes else None for name in names]
    return op.again(data, *limits, drop=names)


@raises("Pad", since=11)
def pads_to_inputs(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Sizes and value of the padding are inputs."""
    data = op.needed(0)
    value = op.like(op.attr_float("value", 0.0), data)
    return op.again(data, _integers(op, node, "pads"), value, drop=["pads", "value"])


@raises("Dropout", since=12)
def ratio_to_input(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The share that is dropped is an input; in inference nothing is."""
    if op.wants(1):
        raise Refusal("its mask is read, which is of another type there")
    return op.Dropout(op.needed(0), op.full(op.attr_float("ratio", 0.5), ir.DataType.FLOAT))


@raises("Split", since=13)
def parts_to_input(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The sizes of the parts are an input."""
    parts = _integers(op, node, "split")
    if parts is None:
        return None
    return op.emit_many("Split", len(node.outputs), [op.needed(0), parts], {"axis": op.attr_int("axis", 0)})


@raises("Split", since=18)
def number_of_parts(op: RuleBuilder, node: ir.Node) -> Replacement:
    """How many equal parts there are is said, and no longer counted by the outputs."""
    if op.has_input(1):
        return None
    count = len(node.outputs)
    return op.emit_many("Split", count, [op.needed(0)], {"axis": op.attr_int("axis", 0), "num_outputs": count})


@raises("Softmax", "LogSoftmax", "Hardmax", since=13)
def along_one_axis(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Before 13, all axes from the given one on were taken as one."""
    data = op.needed(0)
    axis = op.attr_int("axis", 1)
    rank = None if data.shape is None else len(data.shape)
    if axis == -1 or (rank is not None and axis % max(rank, 1) == rank - 1):
        return op.again(data, axis=-1)
    rows = op.Flatten(data, axis=axis)
    rows.shape = ir.Shape([None, None])
    return op.Reshape(op.again(rows, axis=-1), op.Shape(data))


@raises("Upsample", since=9)
def scales_to_input(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The scales are an input."""
    scales = np.asarray(node.attributes["scales"].as_floats(), dtype=np.float32)
    return op.again(op.needed(0), op.literal(scales), drop=["scales"])


@raises("Upsample", since=10)
def upsample_as_resize(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Resize took its place."""
    return op.Resize(op.needed(0), op.needed(1), mode=op.attr_string("mode", "nearest"))


@raises("Resize", since=11)
def resize_from_the_corner(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Positions were counted from the corner, and rounded down; later this has to be said."""
    nothing = op.literal(np.zeros(0, dtype=np.float32))
    return op.again(
        op.needed(0), nothing, op.needed(1), coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )


@raises("Resize", since=13)
def known_positions(op: RuleBuilder, node: ir.Node) -> Replacement:
    """One way to count positions is gone."""
    if op.attr_string("coordinate_transformation_mode", "half_pixel") == "tf_half_pixel_for_nn":
        raise Refusal("positions are counted as tf_half_pixel_for_nn, which later opsets have not")
    return None


@raises("Scatter", since=11)
def scatter_as_elements(op: RuleBuilder, node: ir.Node) -> Replacement:
    """ScatterElements is its name."""
    return op.ScatterElements(*(op.needed(at) for at in range(3)), axis=op.attr_int("axis", 0))


@raises("BatchNormalization", since=9)
def spatial_only(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Each channel has one mean; before 9 each element could have one."""
    if not op.attr_int("spatial", 1):
        raise Refusal("it has a mean for each element (spatial=0)")
    node.attributes.pop("spatial", None)
    return None


@raises("BatchNormalization", since=14)
def inference_only(op: RuleBuilder, node: ir.Node) -> Replacement:
    """What is computed in training moved to other outputs."""
    if any(op.wants(at) for at in range(1, len(node.outputs))):
        raise Refusal("its running mean and variance are read, which is training")
    return op.again(*node.inputs) if len(node.outputs) > 1 else None


@raises("RoiAlign", since=16)
def output_half_pixel(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Regions are shifted by half a pixel unless it is said otherwise."""
    return op.again(*node.inputs, coordinate_transformation_mode="output_half_pixel")


@raises("GridSample", since=20)
def modes_renamed(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The modes have the names that they have in Resize."""
    mode = op.attr_string("mode", "bilinear")
    return op.again(*node.inputs, mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))


@raises("DFT", since=20)
def axis_to_input(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The axis is an input; without one it was the second."""
    axis = op.literal(np.asarray(op.attr_int("axis", 1), dtype=np.int64))
    return op.again(op.needed(0), op.input(1), axis, drop=["axis"])


@raises("GroupNormalization", since=21)
def scale_of_channels(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Scale and bias have an element for each channel, not for each group."""
    data, groups = op.needed(0), op.attr_int("num_groups", 1)
    channels = None if data.shape is None else data.shape[1]
    if not isinstance(channels, int):
        raise Refusal("the number of its channels is not known")

    def spread(value: ir.Value) -> ir.Value:
        known = constant_array(value)
        if known is not None:
            return op.literal(np.repeat(known, channels // groups), value.dtype)
        column = op.Reshape(value, op.i64([groups, 1]))
        return op.Reshape(op.Expand(column, op.i64([groups, channels // groups])), op.i64([channels]))

    return op.again(data, spread(op.needed(1)), spread(op.needed(2)))


@raises("Scan", since=9)
def batched_scan(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Scans of opset 8 had a batch of their own."""
    raise Refusal("it scans a batch, as only opset 8 did")
