"""Values that depend on weights and constants only, computed with onnx's reference evaluator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxport.graphs import bodies
from onnxport.onnx_build.operators import RANDOM
from onnxport.optimize.scope import Array


class ConstantValues:
    """Which values of a graph are constant, what they are made of, and what they are.

    An initializer is constant unless it is an input as well, or has no content; a node if all that it reads is.
    """

    def __init__(self) -> None:
        self._sources: dict[ir.Value, frozenset[ir.Value] | None] = {}

    def sources(self, value: ir.Value) -> frozenset[ir.Value] | None:
        """The initializers that a value is computed from; None if it depends on anything else."""
        if value not in self._sources:
            self._sources[value] = self._find_sources(value)
        return self._sources[value]

    def _find_sources(self, value: ir.Value) -> frozenset[ir.Value] | None:
        if value.is_initializer():
            tensor = value.const_value
            held = tensor is not None and getattr(tensor, "has_content", True)
            return frozenset([value]) if held and not value.is_graph_input() else None
        node = value.producer()
        if node is None or node.domain != "" or node.op_type in RANDOM or bodies(node):
            return None
        found: set[ir.Value] = set()
        for one in node.inputs:
            if one is not None:
                behind = self.sources(one)
                if behind is None:
                    return None
                found |= behind
        return frozenset(found)


class Extracted:
    """A part of a graph by itself, from some values and from weights to one value; it outlasts changes of the graph."""

    def __init__(self, value: ir.Value, opset: int, cuts: Sequence[ir.Value] = ()) -> None:
        nodes: dict[ir.Node, None] = {}
        starts: dict[ir.Value, None] = dict.fromkeys(cuts)
        _collect(value, nodes, starts)
        copies = {one: ir.Value(name=f"start{number}", type=one.type) for number, one in enumerate(starts)}
        inputs = list(copies.values())
        made = []
        for node in nodes:
            outputs = [ir.Value(name=f"value{len(copies) + at}", type=one.type) for at, one in enumerate(node.outputs)]
            copies.update(zip(node.outputs, outputs, strict=True))
            read = [None if one is None else copies[one] for one in node.inputs]
            made.append(ir.Node("", node.op_type, read, list(node.attributes.values()), outputs=outputs))
        graph = ir.Graph(inputs, [copies[value]], nodes=made, opset_imports={"": opset}, name="extracted")
        self._model = ir.serde.serialize_model(ir.Model(graph, ir_version=10)) if made else None
        self._cuts = [str(copies[cut].name) for cut in cuts]
        self._held = {str(copies[one].name): one.const_value for one in starts if one not in cuts}
        self._result = str(copies[value].name)

    def run(self, *given: Array) -> Array:
        """The value, for the content of the values at which it was cut off."""
        feeds = dict(zip(self._cuts, given, strict=True))
        feeds |= {name: tensor.numpy() for name, tensor in self._held.items() if tensor is not None}
        if self._model is None:
            return feeds[self._result]
        # A second or so to import, which models without packed weights don't pay.
        from onnx.reference import ReferenceEvaluator

        results = ReferenceEvaluator(self._model).run([self._result], feeds)
        assert isinstance(results, list)
        return np.asarray(results[0])


def _collect(value: ir.Value, nodes: dict[ir.Node, None], starts: dict[ir.Value, None]) -> None:
    """The nodes that compute a value, in order, and what they start from."""
    if value in starts:
        return
    node = value.producer()
    if node is None:
        starts[value] = None
    elif node not in nodes:
        for one in node.inputs:
            if one is not None:
                _collect(one, nodes, starts)
        nodes[node] = None
