"""Shapes and types of what an If, a Loop or a Scan gives: those that its bodies give."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnxport.legalize.infer_shapes import unknown
from onnxport.legalize.known import Dims, dims_of

Infer = Callable[[ir.Node], None]


def _fill(value: ir.Value, dims: Dims | None, kind: ir.TypeProtocol | None) -> None:
    if value.shape is None and dims is not None:
        value.shape = ir.Shape(dims)
    if value.type is None and kind is not None:
        value.type = kind


def _body(node: ir.Node, name: str, infer: Infer) -> ir.Graph:
    graph = node.attributes[name].as_graph()
    for inner in graph:
        if inner.outputs and (inner.outputs[0].type is None or inner.outputs[0].shape is None):
            infer(inner)
    return graph


def _branches(node: ir.Node, infer: Infer) -> None:
    """If: what both branches have in common."""
    first, second = (_body(node, name, infer) for name in ("then_branch", "else_branch"))
    for output, one, other in zip(node.outputs, first.outputs, second.outputs, strict=False):
        left, right = dims_of(one), dims_of(other)
        common: Dims | None = None
        if left is not None and right is not None and len(left) == len(right):
            common = [a if a == b else unknown() for a, b in zip(left, right, strict=True)]
        _fill(output, common, one.type if one.type is not None else other.type)


def _loop(node: ir.Node, infer: Infer) -> None:
    """Loop: states are shaped as the body takes them, the rest is stacked."""
    body = _body(node, "body", infer)
    states = len(node.inputs) - 2
    for position, (output, inner) in enumerate(zip(node.outputs, body.outputs[1:], strict=False)):
        if position < states:
            taken = body.inputs[position + 2]
            _fill(output, dims_of(taken), taken.type if taken.type is not None else inner.type)
            continue
        row = dims_of(inner)
        _fill(output, None if row is None else [unknown(), *row], inner.type)


def _scan(node: ir.Node, infer: Infer) -> None:
    """Scan: as Loop, stacked along axes of choice."""
    body = _body(node, "body", infer)
    states = len(node.inputs) - node.attributes.get_int("num_scan_inputs", 1)
    axes = node.attributes["scan_output_axes"].as_ints() if "scan_output_axes" in node.attributes else None
    for position, (output, inner) in enumerate(zip(node.outputs, body.outputs, strict=False)):
        if position < states:
            taken = body.inputs[position]
            _fill(output, dims_of(taken), taken.type if taken.type is not None else inner.type)
            continue
        row = dims_of(inner)
        if row is not None:
            axis = 0 if axes is None else axes[position - states]
            row.insert(axis if axis >= 0 else axis + len(row) + 1, unknown())
        _fill(output, row, inner.type)


_WITH_BODIES: dict[str, Callable[[ir.Node, Infer], None]] = {"If": _branches, "Loop": _loop, "Scan": _scan}


def infer_by_bodies(node: ir.Node, infer: Infer) -> None:
    """Fill in what bodies tell of a node's results; the bodies are inferred with ``infer``, node by node."""
    rule = _WITH_BODIES.get(node.op_type)
    if rule is not None:
        rule(node, infer)
