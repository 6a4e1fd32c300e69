"""Normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.errors import TranslationError
from onnxport.translate import Builder, Int, Tensor, translates


@translates("aten::layer_norm")
def layer_norm(
    op: Builder,
    input: Tensor,
    normalized_shape: Sequence[Int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    cudnn_enable: bool,
) -> Tensor:
    if weight is None:
        weight = op.full(1, normalized_shape, input.dtype)
    return op.LayerNormalization(input, weight, bias, axis=-len(normalized_shape), epsilon=eps)


@translates("aten::batch_norm")
def batch_norm(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    if training or running_mean is None or running_var is None:
        raise TranslationError("Batch norm that uses the batch's own statistics; call model.eval() before exporting.")
    channels = [input.shape[1]]
    weight = op.full(1, channels, input.dtype) if weight is None else weight
    bias = op.full(0, channels, input.dtype) if bias is None else bias
    return op.BatchNormalization(input, weight, bias, running_mean, running_var, epsilon=eps)
