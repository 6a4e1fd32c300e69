"""Conv + BatchNormalization in inference: one convolution with other weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnxport.optimize.scope import Array, Scope
from onnxport.provenance import FOLDED, INPUT_KIND


def fold_batch_norms(scope: Scope) -> None:
    """Let a convolution absorb the BatchNormalization that alone reads it.

    ``BatchNormalization(Conv(x, w, b), scale, bias, mean, var)`` becomes ``Conv(x, w', b')``

    The weights keep their names and are computed (in double precision) each time they are written, so nothing is
    held in memory. They are no longer what the state dict says, which is why this is done on request only.
    """
    for node in scope.graph:
        scope.tally["visits"] += 1
        if node.op_type == "BatchNormalization" and node.domain == "" and node not in scope.dead:
            _absorb(node, scope)


def _absorb(norm: ir.Node, scope: Scope) -> None:
    result = norm.inputs[0]
    conv = result.producer() if result is not None else None
    if result is None or conv is None or conv.op_type not in ("Conv", "ConvTranspose") or conv.domain != "":
        return
    if norm.attributes.get_int("training_mode", 0) or conv.graph is not norm.graph:
        return
    if scope.counts.get(result, 0) != 1 or result.is_graph_output():
        return
    weight = conv.inputs[1]
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    parameters = [_own_tensor(value, scope) for value in (weight, *norm.inputs[1:5])]
    old_bias = _own_tensor(bias, scope)
    if weight is None or (bias is not None and old_bias is None):
        return
    tensors = [tensor for tensor in parameters if tensor is not None]
    if len(tensors) != len(parameters):
        return
    base = str(weight.name).removesuffix(".weight")
    if bias is None and f"{base}.bias" in scope.graph.initializers:
        return
    _rewrite(norm, conv, scope, tensors, old_bias, base)


def _rewrite(
    norm: ir.Node, conv: ir.Node, scope: Scope, tensors: list[ir.TensorProtocol], old_bias: ir.TensorProtocol | None,
    base: str,
) -> None:  # fmt: skip
    kernel, scale, shift, mean, variance = tensors
    epsilon = norm.attributes.get_float("epsilon", 1e-5)
    groups = conv.attributes.get_int("group", 1)
    transposed = conv.op_type == "ConvTranspose"
    weight = conv.inputs[1]
    assert weight is not None

    def factor() -> Array:
        return _double(scale) / np.sqrt(_double(variance) + epsilon)

    def new_weight() -> Array:
        array = _double(kernel)
        if not transposed:
            return array * factor().reshape(-1, *[1] * (array.ndim - 1))
        # [inputs, outputs / groups, ...]: the outputs of group g belong to the g-th part of the inputs.
        parts = array.reshape(groups, array.shape[0] // groups, *array.shape[1:])
        scales = factor().reshape(groups, 1, array.shape[1], *[1] * (array.ndim - 2))
        return (parts * scales).reshape(array.shape)

    def new_bias() -> Array:
        start = 0.0 if old_bias is None else _double(old_bias)
        return (start - _double(mean)) * factor() + _double(shift)

    absorbed = str(norm.inputs[1].name if norm.inputs[1] is not None else norm.name).removesuffix(".weight")
    weight.const_value = _lazily(new_weight, kernel, str(weight.name))
    weight.metadata_props[FOLDED] = absorbed
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    if bias is None:
        bias = scope.add_initializer(_lazily(new_bias, scale, f"{base}.bias"), f"{base}.bias")
        if INPUT_KIND in weight.metadata_props:
            bias.metadata_props[INPUT_KIND] = weight.metadata_props[INPUT_KIND]
        if len(conv.inputs) < 3:
            conv.resize_inputs(3)
        scope.set_input(conv, 2, bias)
    else:
        bias.const_value = _lazily(new_bias, scale, str(bias.name))
    bias.metadata_props[FOLDED] = absorbed
    scope.replace(norm.outputs[0], conv.outputs[0])
    scope.tally["batch normalization folded"] += 1


def _own_tensor(value: ir.Value | None, scope: Scope) -> ir.TensorProtocol | None:
    """The tensor of an initializer that nothing else reads."""
    if value is None or not value.is_initializer() or value.is_graph_input() or value.is_graph_output():
        return None
    return value.const_value if scope.counts.get(value, 0) == 1 else None


def _double(tensor: ir.TensorProtocol) -> Array:
    return tensor.numpy().astype(np.float64)


def _lazily(compute: Callable[[], Array], like: ir.TensorProtocol, name: str) -> ir.LazyTensor:
    dtype = like.dtype

    def evaluate() -> ir.Tensor[Array]:
        return ir.Tensor(compute().astype(dtype.numpy()), dtype=dtype, name=name)

    return ir.LazyTensor(evaluate, dtype=dtype, shape=ir.Shape(like.shape.numpy()), name=name)
