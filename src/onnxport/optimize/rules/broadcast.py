"""Operands made larger by hand before an operation that broadcasts anyway."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from onnxport.onnx_build.operators import BROADCASTING
from onnxport.optimize.rules.pattern import Rule, rules_for
from onnxport.optimize.scope import Scope, surely_same_shape

# PRelu broadcasts its slope to the data, never the data to the slope.
_BOTH_WAYS = " ".join(sorted(BROADCASTING - {"PRelu"}))


def _others_decide(node: ir.Node, index: int) -> bool:
    """Whether another operand alone has the shape of the result already."""
    result = node.outputs[0]
    return any(surely_same_shape(value, result) for other, value in enumerate(node.inputs) if other != index)


def _needless_expand(node: ir.Node, scope: Scope) -> Literal[True] | None:
    for index, value in enumerate(node.inputs):
        producer = value.producer() if value is not None else None
        if producer is None or producer.op_type != "Expand" or producer.domain != "":
            continue
        if _others_decide(node, index):
            scope.set_input(node, index, producer.inputs[0])
            return True
    return None


def _needless_fill(node: ir.Node, scope: Scope) -> Literal[True] | None:
    if scope.in_function:
        return None
    for index, value in enumerate(node.inputs):
        producer = value.producer() if value is not None else None
        if value is None or producer is None or producer.op_type != "ConstantOfShape" or producer.domain != "":
            continue
        if _others_decide(node, index):
            given = producer.attributes.get_tensor("value")
            fill = np.zeros(1, dtype=np.float32) if given is None else given.numpy()
            dtype = ir.DataType.FLOAT if given is None else given.dtype
            scope.set_input(node, index, scope.literal(fill.reshape(()), dtype, f"{value.name}_value"))
            return True
    return None


RULES: list[Rule] = [
    *rules_for("expand before broadcasting", _BOTH_WAYS, _needless_expand),
    *rules_for("fill before broadcasting", _BOTH_WAYS, _needless_fill),
]
