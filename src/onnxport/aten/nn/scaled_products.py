"""Products with weights of 8 bits that have scales of their own: torch's kernels for quantized language models."""

from __future__ import annotations

from collections.abc import Sequence

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


_BY_TENSOR_OR_ROW = (0, 1)
"""The recipes of scales that multiply a whole side or each row of it, by their numbers in torch."""


@translates("aten::_scaled_mm_v2")
def scaled_mm_v2(
    op: Builder,
    self: Tensor,
    mat2: Tensor,
    scale_a: Sequence[Tensor],
    recipe_a: Sequence[int],
    swizzle_a: Sequence[int],
    scale_b: Sequence[Tensor],
    recipe_b: Sequence[int],
    swizzle_b: Sequence[int],
    bias: Tensor | None,
    out_dtype: torch.dtype | None,
    contraction_dim: Sequence[int],
    use_fast_accum: bool,
) -> Tensor:
    if any(recipe not in _BY_TENSOR_OR_ROW for recipe in (*recipe_a, *recipe_b)) or any((*swizzle_a, *swizzle_b)):
        raise TranslationError("scales for blocks, or in an order of their own, are not known to this formula")
    if len(scale_a) != 1 or len(scale_b) != 1 or contraction_dim:
        raise TranslationError(
            "several scales for one side, or another axis to sum over, are not known to this formula"
        )
    return scaled_mm(op, self, mat2, scale_a[0], scale_b[0], bias, None, out_dtype, use_fast_accum)


@translates("aten::_weight_int8pack_mm")
def weight_int8pack_mm(op: Builder, self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    # No runtime dequantizes to bfloat16; the kernel sums in float32 too.
    wide = torch.float32 if scales.dtype == torch.bfloat16 else scales.dtype
    weight = op.DequantizeLinear(mat2, op.cast(scales, wide), axis=0, out_dtype=wide).with_shape(mat2.shape)
    return op.cast(op.cast(self, wide) @ transposed(op, weight), self.dtype)


@translates("aten::_weight_int4pack_mm_for_cpu")
def weight_int4pack_mm_for_cpu(
    op: Builder, self: Tensor, mat2: Tensor, qGroupSize: int, qScaleAndZeros: Tensor
) -> Tensor:
    """``self @ ((q - 8) · scale + zero)`` with a scale and a zero for each group of inputs.

    How the integers are packed is up to the processor, so they are asked of the kernel itself.
    """
    packed = getattr(mat2.value.const_value, "raw", None)
    outputs, inputs, group = mat2.shape[0], self.shape[-1], qGroupSize
    if type(packed) is not torch.Tensor or not isinstance(inputs, int):
        raise TranslationError("weights packed for a processor have to be constants of the model")
    groups = inputs // group
    weight = op.const(_unpacked(packed, inputs, group).numpy(), torch.int4)  # type: ignore[attr-defined]
    scales, zeros = (
        op.cast(
            op.Gather(qScaleAndZeros, op.const(part, torch.int64), axis=2).with_shape([groups, outputs]), torch.float32
        )
        for part in (0, 1)
    )
    real = op.DequantizeLinear(weight, scales, axis=0, block_size=group, out_dtype=torch.float32)
    given = op.cast(self, torch.float32)
    product = given @ real.with_shape([inputs, outputs])
    sums = op.ReduceSum(op.reshape(given, [*self.shape[:-1], groups, group]), [-1], keepdims=0)
    shifted = sums.with_shape([*self.shape[:-1], groups]) @ zeros
    return op.cast(product + shifted, self.dtype)


def _unpacked(packed: torch.Tensor, inputs: int, group: int) -> torch.Tensor:
    """The integers of a packed weight, a row for each input: its product with ones on the diagonal."""
    plain = torch.zeros(inputs // group, packed.shape[0], 2)
    plain[..., 0] = 1
    product: torch.Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(torch.eye(inputs), packed, group, plain)
    return product.to(torch.int8)
