"""optimum-quanto's operators: weights of 8 bits with a scale for each output, and those packed in bytes.

They are registered by name, so optimum-quanto need not be installed for onnxport to be imported.
"""

from __future__ import annotations

import torch

from onnxport.aten.linalg.products import transposed
from onnxport.translate import Builder, Tensor, translates


@translates("quanto::qbytes_mm")
def qbytes_mm(op: Builder, A: Tensor, B: Tensor, scales: Tensor) -> Tensor:
    if A.dtype == torch.int8 and B.dtype == torch.int8:
        integers = op.MatMulInteger(A, transposed(op, B)).with_shape([*A.shape[:-1], B.shape[0]])
        return op.cast(op.cast(integers, torch.float32) * op.reshape(scales, [B.shape[0]]), scales.dtype)
    # No runtime dequantizes to bfloat16.
    wide = torch.float32 if scales.dtype == torch.bfloat16 else scales.dtype
    factors = op.cast(op.reshape(scales, [B.shape[0]]), wide)
    weight = op.DequantizeLinear(B, factors, axis=0, out_dtype=wide).with_shape(B.shape)
    return op.cast(op.cast(A, wide) @ transposed(op, weight), scales.dtype)


@translates("quanto::unpack")
def unpack(op: Builder, self: Tensor, bits: int) -> Tensor:
    mask = op.const(2**bits - 1, torch.uint8)
    parts = [
        op.BitwiseAnd(op.BitShift(self, op.const(shift, torch.uint8), direction="RIGHT") if shift else self, mask)
        for shift in range(0, 8, bits)
    ]
    return op.Concat(*parts, axis=0).with_shape([self.shape[0] * len(parts), *self.shape[1:]])


@translates("quanto::quantize_symmetric")
def quantize_symmetric(op: Builder, base: Tensor, dtype: torch.dtype, axis: int | None, scale: Tensor) -> Tensor:
    numbers = base / scale
    if dtype.is_floating_point:
        least, most = torch.finfo(dtype).min, torch.finfo(dtype).max
    else:
        numbers = op.Round(numbers)
        least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    return op.cast(op.Clip(numbers, op.like(least, base), op.like(most, base)).with_shape(base.shape), dtype)
