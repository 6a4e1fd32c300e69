"""Rows for aten/quantized.py."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed  # defines the operators

from cases import I, R, case

Q = torch.ops.quantized_decomposed
RANGES = {
    torch.int8: ((-128, 127), (-7, 7)),
    torch.uint8: ((0, 255), (0, 100)),
    torch.int16: ((-32768, 32767),),
    torch.int32: ((-1000, 1000),),
}
X = R("b", 6, low=-9, high=9)
SCALES, ZEROS = R(6, low=0.05, high=0.3), I(6, high=3)


def _tensor(dtype: torch.dtype, low: int, high: int):  # type: ignore[no-untyped-def]
    def both(x):  # type: ignore[no-untyped-def]
        quantized = Q.quantize_per_tensor(x, 0.125, 3, low, high, dtype)
        return quantized, Q.dequantize_per_tensor(quantized, 0.125, 3, low, high, dtype)

    return both


def _channel(dtype: torch.dtype, low: int, high: int):  # type: ignore[no-untyped-def]
    def both(x, scales, zeros):  # type: ignore[no-untyped-def]
        quantized = Q.quantize_per_channel(x, scales, zeros, 1, low, high, dtype)
        return quantized, Q.dequantize_per_channel(quantized, scales, zeros, 1, low, high, dtype)

    return both


def _given(x, scale, zero):  # type: ignore[no-untyped-def]
    quantized = Q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
    bounded = Q.quantize_per_tensor.tensor2(x, scale, zero, torch.tensor(-7), zero + 20, torch.int8)
    return (
        quantized,
        bounded,
        Q.dequantize_per_tensor.tensor(quantized, scale, zero, -128, 127, torch.int8),
        Q.dequantize_per_tensor.tensor2(bounded, scale, zero, zero, zero, torch.int8),
    )


def _tokens(x):  # type: ignore[no-untyped-def]
    scales, zeros = Q.choose_qparams_per_token_asymmetric(x, torch.int8)
    quantized = Q.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
    return scales, zeros, Q.dequantize_per_token(quantized, scales, zeros, -128, 127, torch.int8, torch.float32)


def _groups(x, scales, zeros):  # type: ignore[no-untyped-def]
    quantized = Q.quantize_per_channel_group(x, scales, zeros, -8, 7, torch.int8, 3)
    return (
        quantized,
        Q.dequantize_per_channel_group(quantized, scales, zeros, -8, 7, torch.int8, 3, torch.float32),
        Q.dequantize_per_channel_group(quantized, scales, None, -8, 7, torch.int8, 3, torch.float32),
    )


CASES = [
    *(
        case(
            "quantized_decomposed::quantize_per_tensor quantized_decomposed::dequantize_per_tensor",
            _tensor(dtype, low, high),
            X,
            name=f"{dtype}-{low}".replace("torch.", ""),
        )
        for dtype, ranges in RANGES.items()
        for low, high in ranges
    ),
    *(
        case(
            "quantized_decomposed::quantize_per_channel quantized_decomposed::dequantize_per_channel",
            _channel(dtype, *RANGES[dtype][0]),
            R("b", 6, "n", low=-9, high=9),
            SCALES,
            ZEROS,
            name=f"{dtype}".replace("torch.", ""),
        )
        for dtype in RANGES
    ),
    case(
        "quantized_decomposed::dequantize_per_channel",
        lambda x, s: Q.dequantize_per_channel(x, s, None, 1, -128, 127, torch.int8),
        R("b", 6, dtype=torch.int8, low=-99, high=99),
        SCALES,
        name="symmetric",
    ),
    case(
        "quantized_decomposed::dequantize_per_tensor",
        lambda x: Q.dequantize_per_tensor(x, 0.01, 0, -1000, 1000, torch.int32),
        R("b", 6, dtype=torch.int32, low=-99, high=99),
        name="accumulator",
    ),
    case(
        "quantized_decomposed::quantize_per_tensor.tensor quantized_decomposed::dequantize_per_tensor.tensor "
        "quantized_decomposed::quantize_per_tensor.tensor2 quantized_decomposed::dequantize_per_tensor.tensor2",
        _given,
        X,
        R(1, dtype=torch.float64, low=0.1, high=0.2),
        I(1, high=3),
    ),
    case(
        "quantized_decomposed::quantize_per_token quantized_decomposed::dequantize_per_token "
        "quantized_decomposed::choose_qparams_per_token_asymmetric "
        "quantized_decomposed::_choose_qparams_per_token_asymmetric_impl",
        _tokens,
        R("b", "n", 6),
    ),
    case(
        "quantized_decomposed::choose_qparams_per_token",
        lambda x: Q.choose_qparams_per_token(x, torch.int8)[0].float(),
        R("b", "n", 6),
    ),
    case(
        "quantized_decomposed::quantize_per_channel_group quantized_decomposed::dequantize_per_channel_group",
        _groups,
        R("b", 6),
        R("b", 2, low=0.1, high=0.3),
        I("b", 2),
    ),
    case(
        "quantized_decomposed::choose_qparams.tensor quantized_decomposed::choose_qparams_symmetric.tensor",
        lambda x: (
            *Q.choose_qparams.tensor(x, -128, 127, 1e-7, torch.int8),
            *Q.choose_qparams.tensor(x.abs() + 1, 0, 255, 1e-7, torch.uint8),
            *Q.choose_qparams_symmetric.tensor(x, -127, 127, 1e-7, torch.int8),
        ),
        X,
    ),
    case(
        "quantized_decomposed::convert_element_type.no_fuse",
        lambda x: Q.convert_element_type.no_fuse(x, torch.int8),
        X,
    ),
    case(
        "aten::fake_quantize_per_tensor_affine",
        lambda x: (
            torch.fake_quantize_per_tensor_affine(x, 0.125, 3, 0, 255),
            torch.fake_quantize_per_tensor_affine(x, 0.125, 0, -127, 127),
            torch.fake_quantize_per_tensor_affine(x, 0.0078125, 0, -1000, 1000),
        ),
        R("b", 6, low=-9, high=9),
    ),
    case(
        "aten::fake_quantize_per_tensor_affine.tensor_qparams",
        lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, 0, 127),
        R("b", 6, low=-9, high=9),
        R(1, low=0.1, high=0.2),
        R(1, dtype=torch.int32, low=0, high=3),
    ),
    case(
        "aten::fake_quantize_per_channel_affine quantized_decomposed::fake_quant_per_channel",
        lambda x, s, z: (
            torch.fake_quantize_per_channel_affine(x, s, z, 1, -128, 127),
            Q.fake_quant_per_channel(x, s, z, 1, -128, 127),
        ),
        R("b", 6, low=-9, high=9),
        SCALES,
        R(6, dtype=torch.int32, low=0, high=3),
    ),
    case(
        "aten::_weight_int8pack_mm",
        torch._weight_int8pack_mm,
        R("b", 32),
        R(16, 32, dtype=torch.int8, low=-99, high=99),
        R(16, low=0.01, high=0.02),
    ),
    case(
        "aten::_weight_int8pack_mm",
        lambda x, w, s: torch._weight_int8pack_mm(x.bfloat16(), w, s.bfloat16()).float(),
        R("b", 32),
        R(16, 32, dtype=torch.int8, low=-99, high=99),
        R(16, low=0.01, high=0.02),
        name="bfloat16",
        rtol=1e-2,
        refused="Cast gives no bfloat16 in opset 9",
    ),
]
