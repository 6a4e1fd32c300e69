"""Element types and shapes of the nodes that rules emit.

A rule often needs the rank of what another rule emitted, and validation needs element types everywhere; onnx's own
inference works on serialized models, at a hundred times the cost. Types follow from the schemas and the attributes
below, shapes from the tables of ``infer_shapes``, and what a node with bodies gives from ``infer_bodies``.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxport.legalize.infer_bodies import infer_by_bodies
from onnxport.legalize.infer_shapes import result_dims, split_lengths
from onnxport.onnx_build.opsets import NEWEST_OPSET, ONNX_DOMAINS
from onnxport.onnx_build.schemas import schema_of

#: Operators that the newest opset has no more, and that give what they are given.
_FORMER = ("Scatter", "Upsample")
_DRAWN_LIKE = ("RandomNormalLike", "RandomUniformLike", "Bernoulli")


def _stated_type(node: ir.Node) -> ir.DataType | None:
    """The element type that an attribute says."""
    for name in ("to", "dtype"):
        if name in node.attributes and node.op_type in ("Cast", "RandomNormal", "RandomUniform", *_DRAWN_LIKE):
            return ir.DataType(node.attributes[name].as_int())
    if node.op_type in ("RandomNormal", "RandomUniform"):
        return ir.DataType.FLOAT
    if node.op_type == "Constant":
        tensor = ir.convenience.get_const_tensor(node.outputs[0])
        return None if tensor is None else tensor.dtype
    if node.op_type == "ConstantOfShape":
        return node.attributes["value"].as_tensor().dtype if "value" in node.attributes else ir.DataType.FLOAT
    return None


def _result_type(node: ir.Node, position: int) -> ir.DataType | None:
    stated = _stated_type(node)
    if stated is not None:
        return stated
    if node.op_type in _FORMER or node.op_type in _DRAWN_LIKE:
        first = node.inputs[0]
        return None if first is None else first.dtype
    if any(type(value.type) is ir.SequenceType for value in node.inputs if value is not None):
        # What comes out may be another sequence, of which the schema knows the element type only.
        return None
    schema = schema_of(node.op_type, NEWEST_OPSET)
    return None if schema is None else schema.result_type(position, node.inputs)


def infer_results(node: ir.Node) -> None:
    """Fill in what is missing of the node's output types and shapes."""
    if node.domain not in ONNX_DOMAINS:
        return
    infer_by_bodies(node, infer_results)
    outputs = node.outputs if node.op_type in ("Split", "TopK") else node.outputs[:1]
    if any(value.shape is None for value in outputs):
        dims = result_dims(node)
        parts = split_lengths(node) if node.op_type == "Split" else None
        for position, value in enumerate(outputs):
            if value.shape is not None or dims is None:
                continue
            if parts is not None and dims:
                dims[node.attributes.get_int("axis", 0)] = parts[position]
            value.shape = ir.Shape(dims)
    for position, value in enumerate(node.outputs):
        if value.type is not None:
            continue
        dtype = _result_type(node, position)
        if dtype is not None:
            value.type = ir.TensorType(dtype)
