"""Attention that a model writes out as products and a softmax, by the same operator of onnxruntime's."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.fusions.heads import heads_of, only_reader, write_attention
from onnxport.optimize.rules.pattern import made_by
from onnxport.optimize.scope import Scope, known_dims


def attend_as_written(node: ir.Node, scope: Scope) -> bool:
    """Let MultiHeadAttention do what a model writes out without a mask.

    ``Reshape(Transpose(MatMul(Softmax(MatMul(q, Transpose(k)) * scale), v)))`` becomes
    ``MultiHeadAttention(q, k, v)``; the scale, if there is one, may stand at any of the three.
    """
    value = node.outputs[0]
    weighted = only_reader(node, "MatMul", scope)
    if weighted is None or weighted.inputs[0] is not value or node.attributes.get_int("axis", -1) not in (-1, 3):
        return False
    scores, scale = _unscaled(node.inputs[0], scope)
    product = made_by(scores, "MatMul")
    if product is None or scores is None or scores.is_graph_output():
        return False
    (queries, first), (keys, second) = (_unscaled(one, scope) for one in product.inputs)
    operands = [heads_of(queries), heads_of(keys, turned=True), heads_of(weighted.inputs[1])]
    batches = [(known_dims(heads.source) or (None,))[0] for heads in operands if heads is not None]
    # A product takes a batch of one for as many as there are.
    if len(batches) != 3 or batches.count(batches[0]) != 3:
        return False
    return write_attention(node, weighted, operands, scale * first * second, scope)


def _unscaled(value: ir.Value | None, scope: Scope) -> tuple[ir.Value | None, float]:
    """What was multiplied or divided by a number, and the factor."""
    for op_type in ("Mul", "Div"):
        scaled = made_by(value, op_type)
        if scaled is None:
            continue
        for source, other in ((0, 1), (1, 0))[: 2 if op_type == "Mul" else 1]:
            array = scope.array(scaled.inputs[other])
            if array is None or array.size != 1 or array.ndim > 1:
                continue
            number = float(array.reshape(-1)[0])
            if op_type == "Mul" or number:
                return scaled.inputs[source], number if op_type == "Mul" else 1 / number
    return value, 1.0
