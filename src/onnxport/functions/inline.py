"""The way back: the bodies of functions in the place of their calls."""

from __future__ import annotations

import onnx_ir as ir
import onnx_ir.passes.common as common_passes

from onnxport.provenance import passed_to_copies


def inline_functions(model: ir.Model) -> None:
    """Put the body of every function where it is called, in place; the model computes the same."""
    domains = {function.domain for function in model.functions.values()}
    with passed_to_copies(model):
        common_passes.InlinePass()(model)
    common_passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    used = {node.domain for node in model.graph.all_nodes()}
    for domain in domains - used:
        model.opset_imports.pop(domain, None)
