"""bitsandbytes' operators: places in a table of 16 or 256 numbers with a scale for each block, and LLM.int8.

They are registered by name, so bitsandbytes need not be installed for onnxport to be imported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.aten.linalg.products import transposed
from onnxport.aten.reduction.reduce import flat
from onnxport.errors import TranslationError
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import is_static

_NF4 = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
# A sign, two bits of exponent and one of the mantissa, with 12 as the largest, in parts of it.
_FP4 = tuple(number / 12 for number in (0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0))
_TABLES = {"nf4": _NF4, "fp4": (*_FP4, *(-number for number in _FP4))}
_NESTED_BLOCK = 256
"""How many scales of 4-bit blocks have a scale in common, where these are quantized too."""


def _scaled(op: Builder, numbers: Tensor, absmax: Tensor, blocksize: int, count: int) -> Tensor:
    """A row of numbers, each times the largest magnitude of its block; the last block may be shorter."""
    blocks = -(-count // blocksize)
    absmax = op.unsqueeze(op.cast(op.reshape(absmax, [blocks]), torch.float32), [1])
    if count % blocksize == 0:
        return op.reshape((op.reshape(numbers, [blocks, blocksize]) * absmax).with_shape([blocks, blocksize]), [count])
    spread = op.reshape(op.expand(absmax, [blocks, blocksize]), [blocks * blocksize])
    return (numbers * op.slice(spread, 0, 0, count)).with_shape([count])


@translates("bitsandbytes::dequantize_4bit")
def dequantize_4bit(
    op: Builder,
    A: Tensor,
    absmax: Tensor,
    blocksize: int,
    quant_type: str,
    shape: Sequence[Int],
    dtype: torch.dtype,
) -> Tensor:
    if A.dtype != torch.uint8:
        raise TranslationError(
            f"4-bit weights that are kept as {A.dtype} are not known to this formula; quantize them with "
            "quant_storage=torch.uint8"
        )
    count = math.prod(_sizes(shape))
    packed = op.unsqueeze(op.reshape(A, [-(-count // 2)]), [1])
    halves = op.Concat(
        op.BitShift(packed, op.const(4, torch.uint8), direction="RIGHT"),
        op.BitwiseAnd(packed, op.const(15, torch.uint8)),
        axis=1,
    ).with_shape([-(-count // 2), 2])
    places = op.slice(op.reshape(halves, [-(-count // 2) * 2]), 0, 0, count)
    table = op.const(_TABLES[quant_type], torch.float32)
    numbers = op.Gather(table, op.cast(places, torch.int64), axis=0).with_shape([count])
    return op.cast(op.reshape(_scaled(op, numbers, absmax, blocksize, count), shape), dtype)


@translates("bitsandbytes::dequantize_blockwise")
def dequantize_blockwise(
    op: Builder, A: Tensor, absmax: Tensor, code: Tensor, blocksize: int, dtype: torch.dtype
) -> Tensor:
    count = math.prod(_sizes(A.shape))
    places = op.cast(op.reshape(A, [count]), torch.int64)
    numbers = op.Gather(op.cast(code, torch.float32), places, axis=0).with_shape([count])
    return op.cast(op.reshape(_scaled(op, numbers, absmax, blocksize, count), A.shape), dtype)


def _sizes(shape: Sequence[Int]) -> list[int]:
    if not is_static(shape):
        raise TranslationError("blocks of a tensor whose size varies are not known to this formula")
    return [int(size) for size in shape]


@translates("bitsandbytes::gemm_4bit")
def gemm_4bit(
    op: Builder,
    A: Tensor,
    B: Tensor,
    shapeB: Sequence[Int],
    absmax: Tensor,
    blocksize: int,
    quant_type: str,
    bias: Tensor | None,
    absmax_8bit: Tensor | None,
    absmax_code: Tensor | None,
    absmax_offset: Tensor | None,
) -> Tensor:
    if absmax_8bit is not None and absmax_code is not None and absmax_offset is not None:
        nested = dequantize_blockwise(op, absmax_8bit, absmax, absmax_code, _NESTED_BLOCK, torch.float32)
        absmax = nested + op.cast(absmax_offset, torch.float32)
    weight = dequantize_4bit(op, B, absmax, blocksize, quant_type, shapeB, A.dtype)
    result = A @ transposed(op, weight)
    return result if bias is None else result + op.cast(bias, A.dtype)


@translates("bitsandbytes::gemv_4bit")
def gemv_4bit(
    op: Builder, A: Tensor, B: Tensor, shapeB: Sequence[Int], absmax: Tensor, code: Tensor, blocksize: int
) -> Tensor:
    held = code.value.const_value
    if held is None:
        raise TranslationError("the table of 4-bit numbers has to be a constant of the model")
    quant_type = "fp4" if held.numpy()[1] > 0 else "nf4"
    return gemm_4bit(op, A, B, shapeB, absmax, blocksize, quant_type, None, None, None, None)


# LLM.int8: rows of the input and of the weight as 8-bit integers, columns with large numbers apart


@translates("bitsandbytes::int8_vectorwise_quant")
def int8_vectorwise_quant(op: Builder, A: Tensor, threshold: float) -> tuple[Tensor, Tensor, Tensor | None]:
    """Integers and the largest magnitude of each row, without the columns that hold a number above the threshold."""
    if threshold <= 0.0:
        integers, largest = _rows_as_integers(op, A)
        return integers, largest, None
    large = op.GreaterOrEqual(op.Abs(A), op.like(threshold, A)).with_shape(A.shape)
    columns = op.ReduceMax(op.cast(large, torch.int32), [0], keepdims=1)
    integers, largest = _rows_as_integers(op, op.Where(large, op.like(0, A), A).with_shape(A.shape))
    kept = op.Where(op.cast(columns, torch.bool), op.const(0, torch.int8), integers).with_shape(A.shape)
    return kept, largest, op.Squeeze(op.NonZero(op.reshape(columns, [A.shape[1]])), [0])


def _rows_as_integers(op: Builder, rows: Tensor) -> tuple[Tensor, Tensor]:
    largest = op.cast(op.ReduceMax(op.Abs(rows), [1], keepdims=1), torch.float32).with_shape([rows.shape[0], 1])
    scaled = op.cast(rows, torch.float32) * (op.const(127.0, torch.float32) / largest)
    integers = op.cast(op.Round(scaled).with_shape(rows.shape), torch.int8)
    return integers, op.reshape(largest, [rows.shape[0]])


@translates("bitsandbytes::int8_linear_matmul")
def int8_linear_matmul(op: Builder, A: Tensor, B: Tensor) -> Tensor:
    return op.MatMulInteger(A, transposed(op, B)).with_shape([*A.shape[:-1], B.shape[0]])


@translates("bitsandbytes::int8_mm_dequant")
def int8_mm_dequant(
    op: Builder, A: Tensor, row_stats: Tensor, col_stats: Tensor, dtype: torch.dtype | None, bias: Tensor | None
) -> Tensor:
    rows, columns = op.unsqueeze(flat(op, row_stats), [1]), op.unsqueeze(flat(op, col_stats), [0])
    # 1 / 127², with the digits that the library has.
    real = op.cast(A, torch.float32) * (rows * columns) * op.const(6.200124e-05, torch.float32)
    if bias is not None:
        real = real + op.cast(bias, torch.float32)
    return op.cast(real.with_shape(A.shape), torch.float16 if dtype is None else dtype)


@translates("bitsandbytes::int8_scaled_mm")
def int8_scaled_mm(
    op: Builder,
    A: Tensor,
    B: Tensor,
    row_stats: Tensor,
    col_stats: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype | None,
) -> Tensor:
    return int8_mm_dequant(op, int8_linear_matmul(op, A, B), row_stats, col_stats, dtype, bias)


@translates("bitsandbytes::int8_vectorwise_dequant")
def int8_vectorwise_dequant(op: Builder, A: Tensor, stats: Tensor) -> Tensor:
    factor = op.unsqueeze(flat(op, stats), [1]) * op.const(1 / 127, torch.float32)
    return (op.cast(A, torch.float32) * factor).with_shape(A.shape)


@translates("bitsandbytes::int8_mixed_scaled_mm")
def int8_mixed_scaled_mm(
    op: Builder,
    A: Tensor,
    CA: Tensor,
    CB: Tensor,
    SCA: Tensor,
    SCB: Tensor,
    outlier_cols: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """The product of integers, and that of the columns that were left out in the type of the input."""
    result = int8_scaled_mm(op, CA, CB, SCA, SCB, bias, A.dtype)
    if outlier_cols is None:
        return result, op.full(0, [0], A.dtype)
    left = op.Gather(A, outlier_cols, axis=1)
    right = op.cast(int8_vectorwise_dequant(op, CB, SCB), A.dtype)
    apart = op.MatMul(left, op.Gather(transposed(op, right), outlier_cols, axis=0))
    return (result + apart.with_shape(result.shape)).with_shape(result.shape), left
