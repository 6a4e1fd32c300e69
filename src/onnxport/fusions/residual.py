"""A residual before a layer normalisation: written so that onnxruntime leaves it as two nodes."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.optimize.scope import Scope, surely_same_shape


def keep_sum_apart(node: ir.Node, scope: Scope) -> bool:
    """Write the sum before a LayerNormalization as Sum, which onnxruntime does not look for.

    ``LayerNormalization(Add(x, residual))`` becomes ``LayerNormalization(Sum(x, residual))``.
    """
    total = node.inputs[0]
    add = total.producer() if total is not None else None
    if total is None or add is None or add.op_type != "Add" or add.domain != "":
        return False
    if scope.counts.get(total, 0) != 1 or total.is_graph_output() or total.dtype != ir.DataType.FLOAT:
        return False
    terms = [value for value in add.inputs if value is not None]
    if not any(surely_same_shape(value, total) for value in terms):
        return False
    scope.become(add, "Sum", terms)
    return True
