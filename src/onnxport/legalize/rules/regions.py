"""Branches and loops, and what they pass on (sequences, bfloat16), in opsets that want more or take less."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graphs import bodies
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder

_B, _F = ir.DataType.BFLOAT16, ir.DataType.FLOAT


@lowers("Identity", below=14)
def identity(op: RuleBuilder, node: ir.Node) -> Replacement:
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
def carries(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Branches and loops pass on tensors only."""
    values: list[Sequence[ir.Value | None]] = [node.inputs, node.outputs, *(body.outputs for body in bodies(node))]
    if any(value is not None and isinstance(value.type, ir.SequenceType) for some in values for value in some):
        raise Refusal("it passes on a list of tensors whose length only run time knows")
    return None


@lowers("Loop", below=11)
def stateless_loop(op: RuleBuilder, node: ir.Node) -> Replacement:
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


def _is_short(value: ir.Value | None) -> bool:
    return value is not None and isinstance(value.type, ir.TensorType) and value.dtype == _B


@lowers("If", "Loop", "Scan", below=16)
def passed_on_as_floats(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Through the edges of a body bfloat16 travels as float, which holds all of its values."""
    for graph in bodies(node):
        _enter(op, graph)
        _leave(op, graph)
    if node.graph is None:
        return None
    for position, value in enumerate(node.inputs):
        if value is not None and _is_short(value):
            node.replace_input_with(position, op.cast(value, _F))
    node.graph.insert_before(node, op.nodes)
    op.nodes = []
    for output in node.outputs:
        if _is_short(output):
            _back(op, node, output)
    return None


def _enter(op: RuleBuilder, graph: ir.Graph) -> None:
    """What the body takes is a float, cast back at once."""
    with op.subgraph() as casts:
        for value in graph.inputs:
            if _is_short(value):
                inner = op.Cast(value, to=int(_B))
                value.replace_all_uses_with(inner)
                value.type = ir.TensorType(_F)
                inner.shape = value.shape
                (cast,) = casts[-1:]
                cast.replace_input_with(0, value)
    first = next(iter(graph), None)
    if first is None:
        graph.extend(casts)
    elif casts:
        graph.insert_before(first, casts)


def _leave(op: RuleBuilder, graph: ir.Graph) -> None:
    """What the body gives is cast to a float last."""
    with op.subgraph() as casts:
        for position, value in enumerate(graph.outputs):
            if _is_short(value):
                outer = op.Cast(value, to=int(_F))
                outer.shape = value.shape
                graph.outputs[position] = outer
    graph.extend(casts)


def _back(op: RuleBuilder, node: ir.Node, output: ir.Value) -> None:
    assert node.graph is not None
    with op.subgraph() as casts:
        output.type = ir.TensorType(_F)
        short = op.Cast(output, to=int(_B))
        short.shape = output.shape
        (cast,) = casts
    short.metadata_props.update(output.metadata_props)
    output.replace_all_uses_with(short, replace_graph_outputs=True)
    cast.replace_input_with(0, output)
    short.name, output.name = output.name, short.name
    node.graph.insert_after(node, casts)
