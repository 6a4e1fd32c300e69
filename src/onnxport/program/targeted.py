"""A model for another reader than the one that it was exported for."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.graphs import graphs
from onnxport.legalize import legalize
from onnxport.targets import Target, check_fit, names_node, narrow_inputs


def fitted(model: ir.Model, target: Target) -> ir.Model:
    """The model if it is one that the target takes, else a copy that is, with the same weights.

    >>> import onnx_ir as ir
    >>> from onnxport.program.targeted import fitted
    >>> from onnxport.targets import Target
    >>> x = ir.val("x", ir.DataType.FLOAT, [2])
    >>> gelu = ir.node("Gelu", [x])
    >>> model = ir.Model(ir.Graph([x], gelu.outputs, nodes=[gelu], opset_imports={"": 20}), ir_version=10)
    >>> copy = fitted(model, Target("reader", opset=17, newest_opset=17))
    >>> copy.opset_imports[""], model.opset_imports[""]
    (17, 20)
    """
    opset = model.opset_imports[""]
    goal = target.opset_for(opset)
    version = target.ir_version
    met = any(names_node(target.rewritten, node) for graph in graphs(model) for node in graph)
    other_form = goal != opset or met or (version is not None and version != model.ir_version)
    if other_form or target.int32_inputs:
        model = model.clone()
    if other_form:
        legalize(model, goal, ir_version=version, rewritten=target.rewritten)
    if target.int32_inputs:
        narrow_inputs(model)
    check_fit(model, target)
    return model
