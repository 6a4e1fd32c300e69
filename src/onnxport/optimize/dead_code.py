"""Dead code: nodes nobody reads, initializers nobody reads, functions nobody calls."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnxport.graphs import bodies, detach
from onnxport.optimize.scope import Scope

#: Operators whose last outputs may be left out, and how many they must have. Recurrent ones are none of them: readers
#: that translate those take all outputs by name (OpenCV, MNN).
OPTIONAL_OUTPUTS = {
    "BatchNormalization": 1,
    "Dropout": 1,
    "LayerNormalization": 1,
    "MaxPool": 1,
    "Unique": 1,
}


def remove_dead_code(scope: Scope) -> None:
    """Take out every node whose outputs reach no graph output, and count the uses of what stays.

    ``a = Relu(x); b = Exp(x) -> (b)`` becomes ``b = Exp(x) -> (b)``

    One walk backwards: all readers of a value have been seen, and counted if they live, before the node that makes it.
    """
    _sweep(scope.graph, scope)
    _drop_unread(scope)


def remove_marked_dead(scope: Scope) -> None:
    """Take out the nodes that other passes have marked, and the outputs and initializers that only those read.

    The counts of uses have been kept up to date since the walk backwards, so nothing else is looked at.
    """
    marked: dict[ir.Graph, list[ir.Node]] = {}
    for node in scope.dead:
        detach(node)
        if node.graph is not None:
            marked.setdefault(node.graph, []).append(node)
    for graph, nodes in marked.items():
        graph.remove(nodes, safe=True)
        scope.tally["dead node"] += len(nodes)
    _drop_unread(scope)


def remove_unread_initializers(graph: ir.Graph) -> None:
    """Take out the initializers that no node reads, and nothing else.

    >>> import numpy as np, onnx_ir as ir
    >>> x, w = ir.val("x", ir.DataType.FLOAT, [2]), ir.Value(name="w", const_value=ir.tensor(np.ones(2), name="w"))
    >>> relu = ir.node("Relu", [x])
    >>> graph = ir.Graph([x], relu.outputs, nodes=[relu], initializers=[w])
    >>> remove_unread_initializers(graph)
    >>> list(graph.initializers)
    []
    """
    unread = [
        name
        for name, value in graph.initializers.items()
        if not value.uses() and not value.is_graph_output() and not value.is_graph_input()
    ]
    for name in unread:
        del graph.initializers[name]


def remove_uncalled_functions(model: ir.Model, tally: Counter[str]) -> None:
    """Take out the local functions that the graph doesn't reach, directly or through other functions."""
    if not model.functions:
        return
    reached: set[ir.OperatorIdentifier] = set()
    pending = [model.graph]
    while pending:
        for node in pending.pop():
            identifier = node.op_identifier()
            if identifier in model.functions and identifier not in reached:
                reached.add(identifier)
                pending.append(model.functions[identifier].graph)
            pending.extend(bodies(node))
    for identifier in [identifier for identifier in model.functions if identifier not in reached]:
        del model.functions[identifier]
        tally["function nobody calls"] += 1


def _sweep(graph: ir.Graph, scope: Scope) -> None:
    dead = []
    counts = scope.counts
    scope.tally["visits"] += len(graph)
    for node in reversed(graph):
        outputs = node.outputs
        for output in outputs:
            if output in counts or output.is_graph_output():
                break
        else:
            dead.append(node)
            continue
        if len(outputs) > 1 and node.op_type in OPTIONAL_OUTPUTS and node.domain == "":
            scope.generous.append(node)
        for body in bodies(node):
            scope.nested.append(body)
            _sweep(body, scope)
        for value in node.inputs:
            if value is not None:
                counts[value] = counts.get(value, 0) + 1
    if dead:
        for node in dead:
            detach(node)
        graph.remove(dead, safe=True)
        scope.tally["dead node"] += len(dead)


def _drop_unread(scope: Scope) -> None:
    for node in scope.generous:
        if node not in scope.dead:
            _drop_outputs(node, scope)
    for graph in (scope.graph, *scope.nested):
        _drop_initializers(graph, scope)


def _drop_outputs(node: ir.Node, scope: Scope) -> None:
    """Leave out the last outputs of a node that nobody reads.

    ``values, indices = MaxPool(x)`` becomes ``values = MaxPool(x)``, for which runtimes have faster kernels.
    """
    kept = len(node.outputs)
    while kept > OPTIONAL_OUTPUTS.get(node.op_type, kept):
        last = node.outputs[kept - 1]
        if scope.counts.get(last) or last.is_graph_output():
            break
        kept -= 1
    if kept < len(node.outputs):
        scope.tally["unused output"] += len(node.outputs) - kept
        node.resize_outputs(kept)


def _drop_initializers(graph: ir.Graph, scope: Scope) -> None:
    unused = [
        name
        for name, value in graph.initializers.data.items()
        if not scope.counts.get(value) and not value.is_graph_output() and not value.is_graph_input()
    ]
    for name in unused:
        del graph.initializers[name]
    if unused:
        scope.tally["unused initializer"] += len(unused)
