"""Pooling, and depth to space."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnxport.legalize.known import static_sizes
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.counting import axis_length, count_scalar, plus, quotient, times, upto, vector


@lowers("MaxPool", "AveragePool", below=22)
def pool_drops_late_windows(op: RuleBuilder, node: ir.Node) -> Replacement:
    """A window that begins behind the data is none; before opset 22 it was one where sizes are rounded up.

    With as much padding as the last window needs nothing is left to round.
    """
    before, after = static_sizes(op.needed(0)), static_sizes(node.outputs[0])
    if not op.attr_int("ceil_mode", 0) or before is None or after is None:
        return None
    kernel = list(node.attributes["kernel_shape"].as_ints())
    count = len(kernel)
    strides, dilations = (_each(node, name, count, 1) for name in ("strides", "dilations"))
    pads = _each(node, "pads", 2 * count, 0)
    grown = list(pads)
    for at in range(count):
        reach = dilations[at] * (kernel[at] - 1) + 1
        whole = before[at + 2] + pads[at] + pads[at + count]
        if -(-(whole - reach) // strides[at]) + 1 > after[at + 2]:
            needed = (after[at + 2] - 1) * strides[at] + reach
            grown[at + count] = max(0, needed - before[at + 2] - pads[at])
    if grown != pads:
        node.attributes["pads"] = ir.AttrInt64s("pads", grown)
    return None


def _each(node: ir.Node, name: str, count: int, default: int) -> list[int]:
    return list(node.attributes[name].as_ints()) if name in node.attributes else [default] * count


@lowers("MaxPool", "AveragePool", below=10)
def pool_down(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Counting windows that reach over the end, by as much padding there as they need."""
    dilations = node.attributes.pop("dilations", None)
    if dilations is not None and any(step != 1 for step in dilations.as_ints()):
        raise Refusal("its window is dilated")
    rounds_up = node.attributes.pop("ceil_mode", None)
    if rounds_up is None or not rounds_up.as_int():
        return None
    kernel = list(node.attributes["kernel_shape"].as_ints())
    count = len(kernel)
    strides, pads = _each(node, "strides", count, 1), _each(node, "pads", 2 * count, 0)
    counted = node.op_type == "AveragePool" and bool(op.attr_int("count_include_pad", 0)) and any(pads)
    begin, end = ([0] * count, [0] * count) if counted else (pads[:count], pads[count:])
    grown = [*begin, *(more + step - 1 for more, step in zip(end, strides, strict=True))]
    whole = [0, 0, *pads[:count], 0, 0, *pads[count:]]
    if all(size > more for size, more in zip(kernel, grown[count:], strict=True)):
        # No window begins behind the padding, and all that one may lack is a step but one.
        if not counted:
            node.attributes["pads"] = ir.AttrInt64s("pads", grown)
            node.attributes.pop("count_include_pad", None)
            return None
        # The padding counts as zeros, but what a window reaches over the end does not.
        data = op.Pad(op.needed(0), pads=whole, value=0.0)
        return op.again(data, pads=grown, drop=["count_include_pad"])
    if node.op_type == "MaxPool" and not op.wants(1):
        return _without_late_windows(op, grown, strides)
    if _reaches_over(op, node) and node.op_type == "AveragePool" and op.attr_int("count_include_pad", 0):
        raise Refusal("it counts padding, but not what a window reaches over the end")
    return None


def _without_late_windows(op: RuleBuilder, pads: list[int], strides: list[int]) -> ir.Value:
    """The largest of each window over what is smaller than all, but for windows that begin behind the data."""
    data, count = op.needed(0), len(strides)
    wide = op.Pad(data, pads=[0, 0, *pads[:count], 0, 0, *pads[count:]], value=-math.inf)
    result = op.again(wide, drop=["pads", "auto_pad", "storage_order"])
    for at, step in enumerate(strides):
        places = plus(op, axis_length(op, data, at + 2), pads[at] - 1)
        windows = plus(op, quotient(op, places, step), 1)
        present = axis_length(op, result, at + 2)
        if isinstance(windows, int) and isinstance(present, int):
            result = result if windows >= present else op.slice(result, at + 2, 0, windows)
            continue
        one, other = count_scalar(op, windows), count_scalar(op, present)
        result = op.Gather(result, upto(op, op.where(op.Less(one, other), one, other)), axis=at + 2)
    return result


def _reaches_over(op: RuleBuilder, node: ir.Node) -> bool:
    """Add what the last windows need; whether that was anything."""
    before, after = static_sizes(op.needed(0)), static_sizes(node.outputs[0])
    if before is None or after is None:
        raise Refusal("it rounds up the size of its result, and its sizes are not all known")
    kernel = list(node.attributes["kernel_shape"].as_ints())
    count = len(kernel)
    strides, pads = _each(node, "strides", count, 1), _each(node, "pads", 2 * count, 0)
    grown = list(pads)
    for at in range(count):
        end = (after[at + 2] - 1) * strides[at] + kernel[at]
        grown[at + count] += max(0, end - (before[at + 2] + pads[at] + pads[at + count]))
    node.attributes["pads"] = ir.AttrInt64s("pads", grown)
    return grown != pads


@lowers("MaxPool", below=8)
def pool_without_indices(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Only the largest elements, not where they are, in rows."""
    if op.wants(1):
        raise Refusal("the positions of the largest elements are used")
    node.attributes.pop("storage_order", None)
    node.resize_outputs(1)
    return None


@lowers("DepthToSpace", below=11)
def depth_to_space(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Blocks were the first of the channels; where they are the last, by turning axes around."""
    if op.attr_string("mode", "DCR") == "DCR":
        node.attributes.pop("mode", None)
        return None
    data, block = op.needed(0), op.attr_int("blocksize", 1)
    sizes = [axis_length(op, data, axis) for axis in range(1, 4)]
    channels = quotient(op, sizes[0], block * block)
    split = op.Reshape(data, vector(op, 0, channels, block, block, *sizes[1:]))
    turned = op.Transpose(split, perm=[0, 1, 4, 2, 5, 3])
    return op.Reshape(turned, vector(op, 0, channels, *(times(op, size, block) for size in sizes[1:])))
