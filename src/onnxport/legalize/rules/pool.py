"""Pooling and sampling."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.legalize import infer
from onnxport.legalize.builder import Builder, Refusal
from onnxport.legalize.engine import Replacement, lowers


@lowers("MaxPool", "AveragePool", below=10)
def pool_down(op: Builder, node: ir.Node) -> Replacement:
    """Counting windows that reach over the end, by as much padding there as they need."""
    dilations = node.attributes.pop("dilations", None)
    if dilations is not None and any(step != 1 for step in dilations.as_ints()):
        raise Refusal("its window is dilated")
    if not node.attributes.pop("ceil_mode", None) or not _reaches_over(op, node):
        return None
    if node.op_type == "AveragePool" and op.attr_int("count_include_pad", 0):
        raise Refusal("it counts padding, but not what a window reaches over the end")
    return None


def _reaches_over(op: Builder, node: ir.Node) -> bool:
    """Add what the last windows need; whether that was anything."""
    before, after = infer.sizes(op.needed(0)), infer.sizes(node.outputs[0])
    if before is None or after is None:
        raise Refusal("it rounds up the size of its result, and its sizes are not all known")
    kernel = list(node.attributes["kernel_shape"].as_ints())
    count = len(kernel)
    strides = list(node.attributes["strides"].as_ints()) if "strides" in node.attributes else [1] * count
    pads = list(node.attributes["pads"].as_ints()) if "pads" in node.attributes else [0] * (2 * count)
    grown = list(pads)
    for at in range(count):
        end = (after[at + 2] - 1) * strides[at] + kernel[at]
        grown[at + count] += max(0, end - (before[at + 2] + pads[at] + pads[at + count]))
    node.attributes["pads"] = ir.AttrInt64s("pads", grown)
    return grown != pads


@lowers("MaxPool", below=8)
def pool_without_indices(op: Builder, node: ir.Node) -> Replacement:
    """Only the largest elements, not where they are, in rows."""
    if op.wants(1):
        raise Refusal("the positions of the largest elements are used")
    node.attributes.pop("storage_order", None)
    node.resize_outputs(1)
    return None


@lowers("Dropout", below=12)
def dropout(op: Builder, node: ir.Node) -> Replacement:
    """Nothing is dropped at inference, which is what the operator then did."""
    training = infer.constant(op.input(2))
    if op.has_input(2) and (training is None or bool(training.reshape(-1)[0])):
        raise Refusal("it drops elements (training mode)")
    if op.wants(1):
        raise Refusal("its mask is used")
    return op.Identity(op.needed(0))
