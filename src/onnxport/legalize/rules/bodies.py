"""Element types that branches and loops did not pass on yet, although what is in them computes with these."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.legalize.builder import Builder
from onnxport.legalize.engine import Replacement, lowers

_B, _F = ir.DataType.BFLOAT16, ir.DataType.FLOAT


def _graphs(node: ir.Node) -> list[ir.Graph]:
    return [one.as_graph() for one in node.attributes.values() if one.type == ir.AttributeType.GRAPH]


def _is_short(value: ir.Value | None) -> bool:
    return value is not None and isinstance(value.type, ir.TensorType) and value.dtype == _B


@lowers("If", "Loop", "Scan", below=16)
def passed_on_as_floats(op: Builder, node: ir.Node) -> Replacement:
    """Through the edges of a body bfloat16 travels as float, which holds all of its values."""
    for graph in _graphs(node):
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


def _enter(op: Builder, graph: ir.Graph) -> None:
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


def _leave(op: Builder, graph: ir.Graph) -> None:
    """What the body gives is cast to a float last."""
    with op.subgraph() as casts:
        for position, value in enumerate(graph.outputs):
            if _is_short(value):
                outer = op.Cast(value, to=int(_F))
                outer.shape = value.shape
                graph.outputs[position] = outer
    graph.extend(casts)


def _back(op: Builder, node: ir.Node, output: ir.Value) -> None:
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
