"""Conv + BatchNormalization in inference: one convolution with other weights."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.optimize.scope import Scope
from onnxport.provenance import FOLDED, INPUT_KIND
from onnxport.weights.batch_norm import FoldedNorm, folded_norm, pair_of


def fold_batch_norms(scope: Scope) -> None:
    """Let a convolution or linear layer absorb the BatchNormalization that alone reads it.

    ``BatchNormalization(Conv(x, w, b), scale, bias, mean, var)`` becomes ``Conv(x, w', b')``

    The weights keep their names. They are no longer what the state dict says, which is why the model in memory is
    changed on request only; files are written that way, see ``weights/written_norms.py``.
    """
    for node in scope.graph:
        scope.tally["visits"] += 1
        if node.op_type == "BatchNormalization" and node.domain == "" and node not in scope.dead:
            _absorb(node, scope)


def _absorb(norm: ir.Node, scope: Scope) -> None:
    layer, result = pair_of(norm), norm.inputs[0]
    if layer is None or result is None or scope.counts.get(result, 0) != 1 or result.is_graph_output():
        return
    read = [value for value in (*layer.inputs[1:], *norm.inputs[1:5]) if value is not None]
    tensors = {value: tensor for value in read if (tensor := _own_tensor(value, scope)) is not None}
    folded = folded_norm(layer, norm, tensors)
    weight = layer.inputs[1]
    if folded is None or weight is None:
        return
    bias_name = f"{str(weight.name).removesuffix('.weight')}.bias"
    if folded.old_bias is None and bias_name in scope.graph.initializers:
        return
    _rewrite(folded, weight, bias_name, scope)


def _rewrite(folded: FoldedNorm, weight: ir.Value, bias_name: str, scope: Scope) -> None:
    layer = folded.layer
    weight.const_value = folded.weight(str(weight.name))
    weight.metadata_props[FOLDED] = folded.absorbed
    bias = layer.inputs[2] if len(layer.inputs) > 2 else None
    if bias is None:
        bias = scope.add_initializer(folded.bias(bias_name), bias_name)
        if INPUT_KIND in weight.metadata_props:
            bias.metadata_props[INPUT_KIND] = weight.metadata_props[INPUT_KIND]
        if len(layer.inputs) < 3:
            layer.resize_inputs(3)
        scope.set_input(layer, 2, bias)
    else:
        bias.const_value = folded.bias(str(bias.name))
    bias.metadata_props[FOLDED] = folded.absorbed
    scope.replace(folded.norm.outputs[0], layer.outputs[0])
    scope.tally["batch normalization folded"] += 1


def _own_tensor(value: ir.Value, scope: Scope) -> ir.TensorProtocol | None:
    """The tensor of an initializer that nothing else reads."""
    if not value.is_initializer() or value.is_graph_input() or value.is_graph_output():
        return None
    return value.const_value if scope.counts.get(value, 0) == 1 else None
