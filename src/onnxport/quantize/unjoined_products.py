"""One product of several weights side by side as a product of each: what is asked for is said of each by its name."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.graphs import graphs
from onnxport.quantize.candidates import left_by_pattern, state_dict_names
from onnxport.quantize.graph_edits import GraphEdits
from onnxport.quantize.scheme import Quantization
from onnxport.weights.arrangement import weights_behind


def unjoin_products(edits: GraphEdits, quantization: Quantization, *, always: bool) -> None:
    """Let ``MatMul(x, Concat(Q, K, V))`` be ``Concat(MatMul(x, Q), MatMul(x, K), MatMul(x, V))``, in place.

    It is done where patterns take some of the weights only, or ``always``: where products of one input are joined
    afterwards, integers are made of the weights where torch has them.
    """
    for graph in graphs(edits.model):
        for node in list(graph):
            if node.op_type != "MatMul" or node.domain != "" or node.outputs[0].shape is None:
                continue
            parts = _side_by_side(node.inputs[1])
            reasons = {left_by_pattern(state_dict_names([part[1]]), quantization) for part in parts}
            if parts and (always or ("" in reasons and len(reasons) > 1)):
                _unjoin(edits, node, [part[0] for part in parts])


def _side_by_side(value: ir.Value | None) -> list[tuple[ir.Value, ir.Value]]:
    """The matrices that a matrix has side by side, each with the weight that it is; empty if it is no such."""
    node = None if value is None else value.producer()
    if (
        node is None
        or node.op_type != "Concat"
        or node.domain != ""
        or node.attributes.get_int("axis", 0) not in (1, -1)
    ):
        return []
    found = []
    for one in node.inputs:
        arranged = None if one is None else weights_behind(one)
        if one is None or arranged is None or len(arranged.shape) != 2 or len(arranged.sources) != 1:
            return []
        found.append((one, next(iter(arranged.sources))))
    return found


def _unjoin(edits: GraphEdits, node: ir.Node, parts: list[ir.Value]) -> None:
    result = node.outputs[0]
    assert result.dtype is not None and result.shape is not None
    lead = list(result.shape)[:-1]
    products = [
        edits.add(
            node,
            "MatMul",
            [node.inputs[0], part],
            name=f"{result.name}_part",
            dtype=result.dtype,
            shape=[*lead, 0 if part.shape is None else part.shape[1]],
        )
        for part in parts
    ]
    joined = edits.add(
        node,
        "Concat",
        products,
        {"axis": len(lead)},
        name=f"{result.name}_parts",
        dtype=result.dtype,
        shape=result.shape,
    )
    edits.replace(node, joined)
