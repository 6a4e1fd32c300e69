"""Arithmetic, comparisons, bits, bounds, activations and quantization."""

from __future__ import annotations

import numpy as np
from rule_cases import HALF, B, F, I, Literal, U, case, floats, one_at_run_time, scalar

SPECIAL = np.array([0.0, -0.0, 1.5, 2.5, -1.5, -0.5, np.nan, np.inf, -np.inf, 1e30, -7.25, 0.49999997, 3.0], np.float32)
PAIR = (np.array([1, np.nan, 2, -3, np.inf], np.float32), np.array([1, 1, np.nan, 4, np.inf], np.float32))

ARITHMETIC = [
    *[case(op, *PAIR, note="nan") for op in ("LessOrEqual", "GreaterOrEqual", "Equal", "Less")],
    *[case(op, I(9), I(9), lowest=9) for op in ("LessOrEqual", "GreaterOrEqual")],
    case("Equal", I(9), I(9)),
    case("Equal", I(9, dtype=np.int32), I(9, dtype=np.int32)),
    case("IsInf", SPECIAL),
    case("IsInf", SPECIAL, detect_negative=0),
    case("IsNaN", SPECIAL),
    case("Pow", F(9), scalar(2, np.int64)),
    case("Pow", I(9), scalar(3, np.int64)),
    case("Mod", I(20), Literal(np.array(3, np.int64)), lowest=9),
    case("Mod", I(20), Literal(np.array(-4, np.int64)), lowest=9),
    case("Gemm", F(2, 3), F(3, 4), alpha=0.5),
    case("CastLike", F(3), I(1)),
    case("Cast", F(3), to=7, saturate=1),
    case("Add", I(9, low=-128, high=127, dtype=np.int8), I(9, low=-128, high=127, dtype=np.int8)),
    case("Mod", SPECIAL, scalar(1.75), fmod=1, lowest=9),
    case("Mod", F(9) * 9, F(9), fmod=1, lowest=9),
    case("Mod", F(5), np.array([np.inf, 1, -np.inf, 0.5, -2], np.float32), fmod=1, lowest=9),
    *[
        case("Mod", I(9, dtype=dtype), Literal(np.array(3, dtype)), fmod=f, lowest=7 if f else 9)
        for dtype in (np.int32, np.int8)
        for f in (0, 1)
    ],
    case("Mod", U(9), Literal(np.array(7, np.uint8)), lowest=9),
    case("Mod", I(9), Literal(np.array(-4)), fmod=1),
    case("Round", SPECIAL),
    case("Round", SPECIAL.astype(np.float64)),
    case("Round", np.array([0.5, 1.5, -2.5, 7.2], HALF)),
    *[case(op, SPECIAL[:9].astype(dtype)) for op in ("IsNaN", "IsInf") for dtype in (np.float64, HALF)],
    case("IsInf", SPECIAL, detect_positive=0),
    case("IsInf", SPECIAL, detect_positive=0, detect_negative=0),
    case("Sign", SPECIAL[:6]),
    case("Sign", I(9), lowest=9),
    *[case(op, F(4, dtype=HALF), F(4, dtype=HALF)) for op in ("Equal", "LessOrEqual", "GreaterOrEqual")],
    *[case(op, F(4, dtype=np.float64), F(1, dtype=np.float64)) for op in ("Equal", "LessOrEqual", "Less")],
    *[
        case("Equal", U(9, high=3, dtype=dtype), U(9, high=3, dtype=dtype), lowest=lowest)
        for dtype, lowest in ((np.uint8, 7), (np.uint32, 7), (np.uint64, 9))
    ],
    case("Equal", B(9), B(9)),
    *[case("LessOrEqual", U(9, dtype=dtype), U(9, dtype=dtype)) for dtype in (np.uint8, np.int32)],
    case("Pow", F(9), scalar(3, np.int32)),
    case("Pow", I(9, dtype=np.int32), scalar(2, np.int32)),
    case("Pow", np.abs(F(9)), F(9)),
    case("Gemm", F(3, 2), F(3, 4), transA=1, beta=0.0),
    case("MatMul", I(2, 3), I(3, 2)),
    case("CastLike", F(3), B(1)),
    case("CastLike", I(3), F(2, dtype=HALF)),
    case("Cast", I(3), to=8, expected=lambda x: np.array([str(value) for value in x], object), note="string", lowest=9),
    case("Cast", B(3), to=1),
    case("Cast", F(3) * 99, to=3),
    case("Add", U(9), U(9), expected=lambda x, y: x + y),
    case("Where", B(3, 1), F(3, 2), F(2)),
    case("Where", B(3), I(3), I(3)),
]

BITS = [
    *[case(f"Bitwise{op}", I(50), I(50)) for op in ("And", "Or", "Xor")],
    *[case(f"Bitwise{op}", I(50, dtype=np.int32), I(50, dtype=np.int32)) for op in ("And", "Or", "Xor")],
    *[
        case(f"Bitwise{op}", I(50, low=0, high=256, dtype=np.uint8), I(50, low=0, high=256, dtype=np.uint8))
        for op in ("And", "Or")
    ],
    case("BitwiseNot", I(9)),
    case("BitwiseNot", I(9, low=0, high=256, dtype=np.uint8)),
    *[
        case("BitShift", U(9, dtype=dtype), U(9, high=bits, dtype=dtype), direction=way)
        for dtype, bits in ((np.uint8, 8), (np.uint32, 32), (np.uint64, 64))
        for way in ("LEFT", "RIGHT")
    ],
    case("BitwiseAnd", I(9, dtype=np.int16), I(9, dtype=np.int16)),
    case("BitwiseXor", I(3, 1), I(2), dynamic=True),
    case("BitwiseXor", I(0), I(1)),
    case("BitwiseNot", I(9, dtype=np.int8)),
]

BOUNDS = [
    case("Max", I(9), I(9), I(9), lowest=9),
    case("Min", I(9, dtype=np.int32), I(9, dtype=np.int32)),
    case("Clip", F(9), scalar(-0.5), scalar(0.5)),
    case("Clip", F(9), None, scalar(0.5)),
    case("Clip", F(9), np.array(-0.1, np.float32), scalar(0.5)),
    case("Clip", I(9), scalar(-2, np.int64), scalar(3, np.int64), lowest=9),
    case("Relu", I(3, 4, dtype=np.int32)),
    case("Clip", F(5)),
    case("Clip", F(5), scalar(0.1)),
    case("Clip", F(5), scalar(0.1), one_at_run_time(0.5, np.float32)),
    case("Clip", F(5), one_at_run_time(0.3, np.float32), None),
    case("Clip", np.array([np.nan, np.inf, -np.inf, 0], np.float32), scalar(-1), scalar(1)),
    case("Clip", F(5, dtype=HALF), scalar(-0.5, HALF), scalar(0.5, HALF)),
    case("Clip", F(5, dtype=np.float64), scalar(-0.5, np.float64)),
    case("Clip", I(5, dtype=np.int32), None, scalar(2, np.int32), lowest=9),
    case("Clip", I(5, low=0, dtype=np.uint8), scalar(2, np.uint8), None, lowest=9),
    case("Clip", F(0, 3), scalar(0)),
    case("Max", F(2, 3), F(3), F(1, 1)),
    case("Min", I(2, 3), I(3), dynamic=True),
    case("Max", F(4, dtype=HALF), F(4, dtype=HALF)),
    case("Max", F(0), F(1)),
    case("Relu", I(4), expected=lambda x: np.maximum(x, 0)),
]

ACTIVATION = [
    case("Gelu", F(3, 4), lowest=9),
    case("Gelu", F(3, 4), approximate="tanh"),
    case("Mish", F(3, 4)),
    case("HardSwish", F(3, 4) * 4),
    case("Celu", F(3, 4), alpha=2.0),
    case("ThresholdedRelu", F(3, 4), alpha=0.5),
    case("Gelu", F(3, 4, dtype=HALF), atol=2e-3, rtol=2e-3, lowest=9),
    *[case(op, F(3, 4, dtype=HALF), atol=2e-3, rtol=2e-3) for op in ("Mish", "HardSwish")],
    case("Gelu", F(0, 4), lowest=9),
    case("Celu", F(9) * 4),
    case("ThresholdedRelu", SPECIAL[:6]),
    case("PRelu", F(2, 3), F(3)),
    case("Swish", F(5), source=24, alpha=0.5, expected=lambda x: x / (1 + np.exp(-0.5 * x))),
]

QUANTIZATION = [
    case("QuantizeLinear", F(3, 4) * 9, scalar(0.1), scalar(3, np.int8)),
    case("QuantizeLinear", F(3, 4) * 99, scalar(0.1), scalar(128, np.uint8), note="saturated"),
    case("QuantizeLinear", F(3, 4), scalar(0.05)),
    case("QuantizeLinear", F(3, 4, 2), floats(0.1, 0.2, 0.3, 0.4), Literal(np.array([1, 2, 3, 4], np.int8)), axis=1),
    case("QuantizeLinear", F(3, 4), floats(0.1, 0.2, 0.3, 0.4), axis=-1),
    case("DequantizeLinear", I(3, 4, dtype=np.int8), scalar(0.1), scalar(3, np.int8)),
    case("DequantizeLinear", U(3, 4), floats(0.1, 0.2, 0.3), Literal(np.array([1, 2, 3], np.uint8)), axis=0),
    case("DequantizeLinear", I(3, 4, dtype=np.int32), scalar(0.1)),
    case("MatMulInteger", U(2, 3), I(3, 4, dtype=np.int8), scalar(7, np.uint8), scalar(1, np.int8)),
]

ROWS = ARITHMETIC + BITS + BOUNDS + ACTIVATION + QUANTIZATION
