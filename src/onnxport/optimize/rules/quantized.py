"""What stands between quantized numbers and the operation that computes with them."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from onnxport.optimize.rules.pattern import Rule, made_by, producer_of, rules_for
from onnxport.optimize.scope import Scope

_TYPES_STATED_SINCE = 21
_MOVES = "Transpose(DequantizeLinear) Reshape(DequantizeLinear) Squeeze(DequantizeLinear) Unsqueeze(DequantizeLinear)"


def _before_quantizing(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``Transpose(DequantizeLinear(QuantizeLinear(x)))`` becomes ``DequantizeLinear(QuantizeLinear(Transpose(x)))``.

    onnxruntime puts a pair of its own behind the Transpose, and from opset 21 on fails to load the model when it then
    makes int8 uint8: the pair states the type that was (seen in 1.31; can go when such a file loads). Where the result
    is quantized again at once, it moves integers and is left alone.
    """
    outer, result = producer_of(node), node.outputs[0]
    inner = made_by(outer.inputs[0], "QuantizeLinear")
    if inner is None or scope.in_function or scope.written_opset < _TYPES_STATED_SINCE:
        return None
    source, integers = inner.inputs[0], inner.outputs[0]
    if integers.dtype != ir.DataType.INT8 or source is None or source.dtype is None or result.shape is None:
        return None
    scales = [pair.inputs[1] for pair in (inner, outer)]
    if any(scale is None or scale.shape is None or scale.shape.rank() for scale in scales):
        return None
    if all(user.op_type == "QuantizeLinear" for user, _ in result.uses()) and not result.is_graph_output():
        return None
    shape = list(result.shape)
    rest = [value for value in node.inputs[1:] if value is not None]
    attributes = list(node.attributes.values())
    moved = scope.insert_before(node, node.op_type, [source, *rest], source.dtype, shape, attributes)
    grid = [[value for value in pair.inputs[1:] if value is not None] for pair in (inner, outer)]
    again = list(inner.attributes.values())
    quantized = scope.insert_before(node, "QuantizeLinear", [moved, *grid[0]], ir.DataType.INT8, shape, again)
    scope.become(node, "DequantizeLinear", [quantized, *grid[1]], list(outer.attributes.values()))
    return True


RULES: list[Rule] = rules_for("moves before quantization", _MOVES, _before_quantizing)
