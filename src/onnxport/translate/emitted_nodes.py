"""Whether nodes that a user's translation emitted fit together, by ONNX's own rules for types and shapes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx
import onnx_ir as ir
import torch

from onnxport.graphs import bodies
from onnxport.onnx_build.opsets import CANONICAL_OPSET, ONNX_DOMAINS
from onnxport.translate.tensor import Tensor

_LITERAL_ELEMENTS = 64
# The names of nodes and checks that onnx puts around what it says.
_AROUND = re.compile(r"\[\w+Error\]|\(op_type:(\w+), node name: [^)]*\):?|Inference error\(s\):|In op of name \S*,?")


def fault_of_nodes(nodes: Sequence[ir.Node], results: Sequence[object], expected: Sequence[object]) -> str | None:
    """What is wrong with the nodes, or with the shapes of what they result in; None if nothing is.

    Nodes of other domains or opsets, and those with graphs inside, are taken for right.
    """
    known = [
        node
        for node in nodes
        if node.domain in ONNX_DOMAINS and node.version in (None, CANONICAL_OPSET) and not list(bodies(node))
    ]
    made = {value.name for node in known for value in node.outputs}
    given = {str(value.name): value for node in known for value in node.inputs if value and value.name not in made}
    outputs = [result._value for result in results if isinstance(result, Tensor) and result._value.name in made]
    literals = [
        ir.serde.serialize_tensor(value.const_value)
        for value in given.values()
        if value.const_value is not None and value.const_value.size <= _LITERAL_ELEMENTS
    ]
    graph = onnx.helper.make_graph(
        [ir.serde.serialize_node(node) for node in known],
        "emitted",
        [ir.serde.serialize_value(value) for value in given.values()],
        [onnx.helper.make_empty_tensor_value_info(str(value.name)) for value in outputs],
        [literal for literal in literals if literal.name],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", CANONICAL_OPSET)])
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        return _said(str(error))
    types = {value.name: value.type for value in inferred.graph.output}
    for result, value in zip(results, expected, strict=False):
        if isinstance(result, Tensor) and isinstance(value, torch.Tensor) and not value.dtype.is_complex:
            fault = _shape_fault(types.get(str(result._value.name)), value)
            if fault is not None:
                return fault
    return None


def _said(message: str) -> str:
    """onnx's message in one line, with the operator before it."""
    operator = re.search(r"op_type:(\w+)", message)
    text = " ".join(_AROUND.sub(" ", message).split()).strip(" ,:")
    return f"{operator[1]}: {text}" if operator else text


def _shape_fault(found: onnx.TypeProto | None, value: torch.Tensor) -> str | None:
    if found is None or not found.tensor_type.HasField("shape"):
        return None
    dims = found.tensor_type.shape.dim
    shape = [one.dim_value if one.HasField("dim_value") else None for one in dims]
    fits = len(shape) == value.dim() and all(
        one is None or not isinstance(size, int) or one == size for one, size in zip(shape, value.shape, strict=True)
    )
    if fits:
        return None
    shown = ", ".join("?" if one is None else str(one) for one in shape)
    return f"its result has the shape [{shown}], and that of the operator [{', '.join(map(str, value.shape))}]"
