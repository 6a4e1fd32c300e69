"""Graphs inside graphs: the branches of an If, the body of a Loop or Scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

_GRAPH, _GRAPHS = ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS


def bodies(node: ir.Node) -> Sequence[ir.Graph]:
    """The graphs a node carries."""
    # The plain dictionary inside, and identity: this is asked of every node, several times.
    attributes = node.attributes.data
    if not attributes:
        return ()
    found: list[ir.Graph] | None = None
    for attribute in attributes.values():
        kind = attribute.type
        if (kind is _GRAPH or kind is _GRAPHS) and not attribute.is_ref():
            found = [] if found is None else found
            found.extend([attribute.as_graph()] if kind is _GRAPH else attribute.as_graphs())
    return () if found is None else found


def graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """The main graph, those of functions, and all that are inside them, outer ones before inner ones."""
    pending = [model.graph, *(function.graph for function in model.functions.values())]
    while pending:
        graph = pending.pop()
        yield graph
        for node in graph:
            pending.extend(bodies(node))


def detach(node: ir.Node) -> None:
    """Withdraw the uses a dead node and its bodies make of values, which would keep their producers in the graph."""
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)
    for body in bodies(node):
        for inner in body:
            detach(inner)
