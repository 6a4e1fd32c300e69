"""Products with weights of 8 bits that have scales of their own: torch's kernels for quantized language models."""

from __future__ import annotations

import torch

from onnxport.aten.linalg.products import transposed
from onnxport.errors import TranslationError
from onnxport.translate import Builder, Tensor, translates


@translates("aten::_scaled_mm")
def scaled_mm(
    op: Builder,
    self: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None,
    scale_result: Tensor | None,
    out_dtype: torch.dtype | None,
    use_fast_accum: bool,
) -> Tensor:
    """``(self · scale_a) @ (mat2 · scale_b) + bias``, summed in float32."""
    if scale_result is not None:
        raise TranslationError("a scale for the result is not known to this formula; divide the result by it instead")
    left, right = (op.cast(x, torch.float32) * scale for x, scale in ((self, scale_a), (mat2, scale_b)))
    product = left @ right
    if bias is not None:
        product = product + op.cast(bias, torch.float32)
    return op.cast(product, self.dtype if out_dtype is None else out_dtype)


@translates("aten::_weight_int8pack_mm")
def weight_int8pack_mm(op: Builder, self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    weight = op.DequantizeLinear(mat2, scales, axis=0, out_dtype=scales.dtype).with_shape(mat2.shape)
    return self @ transposed(op, weight)
