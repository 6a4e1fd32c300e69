"""Branches and loops, and the sequences of tensors that they pass on, in opsets that want more or take less."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.legalize.builder import Builder, Refusal
from onnxport.legalize.engine import Replacement, lowers


@lowers("Identity", below=14)
def identity(op: Builder, node: ir.Node) -> Replacement:
    """A sequence that gets an item and loses it again is the same, as another value."""
    sequence = op.needed(0)
    if not isinstance(sequence.type, ir.SequenceType):
        return None
    longer = op.SequenceInsert(sequence, op.full(0, sequence.dtype))
    longer.type = sequence.type
    same = op.SequenceErase(longer, op.i64(-1))
    same.type = sequence.type
    return same


@lowers("If", "Loop", below=13)
def carries(op: Builder, node: ir.Node) -> Replacement:
    """Branches and loops pass on tensors only."""
    graphs = (one for one in node.attributes.values() if one.type == ir.AttributeType.GRAPH)
    values: list[Sequence[ir.Value | None]] = [node.inputs, node.outputs, *(one.as_graph().outputs for one in graphs)]
    if any(value is not None and isinstance(value.type, ir.SequenceType) for some in values for value in some):
        raise Refusal("it passes on a list of tensors whose length only run time knows")
    return None


@lowers("Loop", below=11)
def stateless_loop(op: Builder, node: ir.Node) -> Replacement:
    """A loop has a state, be it one that no one reads."""
    if len(node.inputs) > 2:
        return None
    start = op.i64(0)
    body = node.attributes["body"].as_graph()
    state = ir.Value(name=op.name("state"), type=start.type, shape=start.shape)
    with op.subgraph() as nodes:
        same = op.Identity(state)
    same.type, same.shape = start.type, start.shape
    body.inputs.append(state)
    body.extend(nodes)
    body.outputs.insert(1, same)
    inputs = [*node.inputs, *[None] * (2 - len(node.inputs)), start]
    return op.emit_many("Loop", len(node.outputs) + 1, inputs, {"body": ir.AttrGraph("body", body)})[1:]
