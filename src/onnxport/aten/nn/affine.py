"""torchao's quantization: a scale and a zero point for each block of a tensor.

They are registered by name, so torchao need not be installed for onnxport to be imported.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.translate import Builder, Int, Tensor, translates

_HALF_BYTES: dict[torch.dtype, tuple[int, int, torch.dtype]] = {
    torch.int8: (-8, 7, torch.int4),  # type: ignore[attr-defined]
    torch.uint8: (0, 15, torch.uint4),  # type: ignore[attr-defined]
}


def _split(shape: Sequence[Int], block_size: Sequence[int]) -> tuple[list[Int], list[Int]]:
    """The shape in which each block has axes of its own, and that with one element for each block."""
    split: list[Int] = []
    reduced: list[Int] = []
    for size, block in zip(shape, block_size, strict=True):
        if block in (1, size):
            split.append(size)
            reduced.append(size if block == 1 else 1)
        else:
            split += [size // block, block]
            reduced += [size // block, 1]
    return split, reduced


def _linear_form(shape: Sequence[Int], block_size: Sequence[int]) -> tuple[list[Int], int | None, int | None] | None:
    """The shape of the scales, the axis and the block size of the DequantizeLinear that has these blocks, if any."""
    whole = [axis for axis, size in enumerate(shape) if block_size[axis] == size]
    single = [axis for axis in range(len(shape)) if block_size[axis] == 1 and axis not in whole]
    parts = [axis for axis in range(len(shape)) if axis not in whole and axis not in single]
    if not single and not parts:
        return [], None, None
    if len(single) == 1 and not parts:
        return [shape[single[0]]], single[0], None
    if len(parts) == 1 and all(axis in single or shape[axis] == 1 for axis in range(len(shape)) if axis not in parts):
        axis, block = parts[0], block_size[parts[0]]
        return [size // block if place == axis else size for place, size in enumerate(shape)], axis, block
    return None


@translates("torchao::dequantize_affine")
def dequantize_affine(
    op: Builder,
    input: Tensor,
    block_size: Sequence[int],
    scale: Tensor,
    zero_point: Tensor | None,
    input_dtype: torch.dtype,
    quant_min: int | float | bool | None,
    quant_max: int | float | bool | None,
    output_dtype: torch.dtype,
) -> Tensor:
    form = _linear_form(input.shape, block_size)
    if form is not None and input.value.const_value is not None and input.dtype in _HALF_BYTES:
        return _dequantized_weight(op, input, form, scale, zero_point, (quant_min, quant_max), output_dtype)
    split, reduced = _split(input.shape, block_size)
    value = op.cast(op.reshape(input, split), output_dtype)
    if zero_point is not None:
        value = value - op.cast(op.reshape(zero_point, reduced), output_dtype)
    wide = torch.promote_types(output_dtype, scale.dtype)
    value = op.cast(value, wide) * op.cast(op.reshape(scale, reduced), wide)
    return op.cast(op.reshape(value.with_shape(split), input.shape), output_dtype)


def _dequantized_weight(
    op: Builder,
    weight: Tensor,
    form: tuple[list[Int], int | None, int | None],
    scale: Tensor,
    zero_point: Tensor | None,
    bounds: tuple[int | float | bool | None, int | float | bool | None],
    output_dtype: torch.dtype,
) -> Tensor:
    """With its integers as they are stored, in four bits where all of them fit."""
    shape, axis, block = form
    low, high, half = _HALF_BYTES[weight.dtype]
    least, most = bounds
    fits = least is not None and most is not None and low <= least and most <= high
    kind = half if fits else weight.dtype
    wide = torch.promote_types(output_dtype, scale.dtype)
    # No runtime dequantizes to bfloat16.
    wide = torch.float32 if wide == torch.bfloat16 else wide
    scale = op.cast(op.reshape(scale, shape), wide)
    if zero_point is not None:
        zero_point = op.cast(op.reshape(zero_point, shape), kind)
    stored = op.cast(weight, kind)
    real = op.DequantizeLinear(stored, scale, zero_point, axis=axis, block_size=block, out_dtype=wide)
    return op.cast(real.with_shape(weight.shape), output_dtype)
