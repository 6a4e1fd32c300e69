"""Inputs for readers that have no int64: they are int32 in the file, and int64 from there on inside."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.onnx_build.names import UniqueNames, names_in
from onnxport.provenance import NARROWED


def narrow_inputs(model: ir.Model) -> None:
    """Let the inputs of int64 be int32, in place, and remember on each that it was.

    >>> import onnx_ir as ir
    >>> from onnxport.targets.inputs import narrow_inputs
    >>> x = ir.val("x", ir.DataType.INT64, [2])
    >>> neg = ir.node("Neg", [x])
    >>> model = ir.Model(ir.Graph([x], neg.outputs, nodes=[neg], opset_imports={"": 17}), ir_version=8)
    >>> narrow_inputs(model)
    >>> x.dtype.name, [node.op_type for node in model.graph]
    ('INT32', ['Cast', 'Neg'])
    """
    graph = model.graph
    names = UniqueNames(taken=lambda: names_in((graph,)))
    casts = []
    for value in graph.inputs:
        if value.dtype != ir.DataType.INT64 or not isinstance(value.type, ir.TensorType):
            continue
        name = names.unique(f"{value.name}_int64")
        wide = ir.Value(name=name, type=value.type, shape=value.shape)
        value.replace_all_uses_with(wide)
        value.type = ir.TensorType(ir.DataType.INT32)
        value.metadata_props[NARROWED] = "int64"
        to = ir.AttrInt64("to", int(ir.DataType.INT64))
        casts.append(ir.Node("", "Cast", [value], [to], outputs=[wide], name=f"node_{name}"))
    if casts and len(graph):
        graph.insert_before(graph[0], casts)
