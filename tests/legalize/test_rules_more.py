"""What a sceptic would try of the rules for numbers, indices, signals and images."""

from __future__ import annotations

import numpy as np
import pytest
from rule_cases import EACH_CHANGE, Case, F, I, Literal, case, check, floats, ints, scalar

HALF = np.float16
BOTH = (False, True)


def B(*shape: int) -> np.ndarray:
    return I(*shape, low=0, high=2, dtype=np.bool_)


def U(*shape: int, high: int = 256, dtype: type = np.uint8) -> np.ndarray:
    return I(*shape, low=0, high=high, dtype=dtype)


def number(item: float, dtype: type = np.int64) -> np.ndarray:
    return np.array(item, dtype)


SPECIAL = np.array([0.0, -0.0, 1.5, 2.5, -1.5, -0.5, np.nan, np.inf, -np.inf, 1e30, -7.25], np.float32)
POSITIVE = np.abs(F(2, 3, 4)) + 0.1
REDUCTIONS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
)

REDUCE = [
    *[case(op, POSITIVE, ints(-1, 0), keepdims=0, dynamic=True, lowest=7) for op in REDUCTIONS],
    *[case(op, POSITIVE, lowest=7) for op in REDUCTIONS],
    *[case(op, POSITIVE, ints(), keepdims=0, lowest=7, note="all") for op in REDUCTIONS],
    *[case(op, POSITIVE, ints(), noop_with_empty_axes=1) for op in REDUCTIONS[:5]],
    *[case(op, POSITIVE, noop_with_empty_axes=1, note="absent") for op in REDUCTIONS[:5]],
    *[case(op, I(2, 3, dtype=np.int32), ints(1)) for op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")],
    *[case(op, I(2, 3), ints(-2)) for op in ("ReduceSum", "ReduceMax", "ReduceMin")],
    case("ReduceSum", F(2, 0, 3), ints(1), note="empty"),
    case("ReduceSum", F(0, 3), ints(1), note="empty"),
    case("ReduceMax", U(2, 3), ints(1)),
    case("ReduceMean", F(2, 3, dtype=HALF), ints(1), tolerance=1e-2),
    case("ReduceMean", F(2, 3, dtype=np.float64), ints(1)),
    *[
        case(op, np.array([[1, 3, 3], [2, 2, 1]], np.float32), axis=axis, keepdims=keep, select_last_index=last)
        for op in ("ArgMax", "ArgMin")
        for axis, keep, last in ((0, 1, 0), (-1, 0, 0), (-1, 0, 1), (0, 1, 1))
    ],
    case("ArgMax", np.array([[1, 3, 3], [2, 2, 1]], np.float32), axis=1, select_last_index=1, dynamic=True),
    case("ArgMax", I(2, 5, dtype=np.int32), axis=1),
    *[
        case("CumSum", F(2, 5), scalar(axis, np.int64), exclusive=exclusive, reverse=reverse, dynamic=dynamic)
        for axis in (0, -1)
        for exclusive in (0, 1)
        for reverse in (0, 1)
        for dynamic in BOTH
    ],
    case("CumSum", F(300), scalar(0, np.int64), tolerance=1e-4, note="long"),
    case("CumSum", I(2, 5), scalar(1, np.int64)),
    case("CumSum", I(2, 5, dtype=np.int32), scalar(1, np.int32), dynamic=True),
    case("CumSum", np.array([1, np.inf, -1, np.nan], np.float32), scalar(0, np.int64), dynamic=True, note="infinite"),
]

ARITHMETIC = [
    case("Mod", SPECIAL, scalar(1.75), fmod=1),
    case("Mod", F(9) * 9, F(9), fmod=1),
    case("Mod", F(5), np.array([np.inf, 1, -np.inf, 0.5, -2], np.float32), fmod=1),
    *[
        case("Mod", I(9, dtype=dtype), Literal(np.array(3, dtype)), fmod=f)
        for dtype in (np.int32, np.int8)
        for f in (0, 1)
    ],
    case("Mod", U(9), Literal(np.array(7, np.uint8))),
    case("Mod", I(9), Literal(np.array(-4)), fmod=1),
    case("Round", SPECIAL),
    case("Round", SPECIAL.astype(np.float64)),
    case("Round", np.array([0.5, 1.5, -2.5, 7.2], HALF)),
    *[case(op, SPECIAL[:9].astype(dtype)) for op in ("IsNaN", "IsInf") for dtype in (np.float64, HALF)],
    case("IsInf", SPECIAL, detect_positive=0),
    case("IsInf", SPECIAL, detect_positive=0, detect_negative=0),
    case("Sign", SPECIAL[:6], lowest=8),
    case("Sign", I(9)),
    *[case(op, F(4, dtype=HALF), F(4, dtype=HALF)) for op in ("Equal", "LessOrEqual", "GreaterOrEqual")],
    *[case(op, F(4, dtype=np.float64), F(1, dtype=np.float64)) for op in ("Equal", "LessOrEqual", "Less")],
    *[
        case("Equal", U(9, high=3, dtype=dtype), U(9, high=3, dtype=dtype))
        for dtype in (np.uint8, np.uint32, np.uint64)
    ],
    case("Equal", B(9), B(9), lowest=7),
    *[case("LessOrEqual", U(9, dtype=dtype), U(9, dtype=dtype)) for dtype in (np.uint8, np.int32)],
    case("Pow", F(9), scalar(3, np.int32)),
    case("Pow", I(9, dtype=np.int32), scalar(2, np.int32)),
    case("Pow", np.abs(F(9)), F(9)),
    *[
        case("BitShift", U(9, dtype=dtype), U(9, high=bits, dtype=dtype), direction=way)
        for dtype, bits in ((np.uint8, 8), (np.uint32, 32), (np.uint64, 64))
        for way in ("LEFT", "RIGHT")
    ],
    case("BitwiseAnd", I(9, dtype=np.int16), I(9, dtype=np.int16)),
    case("BitwiseXor", I(3, 1), I(2), dynamic=True),
    case("BitwiseNot", I(9, dtype=np.int8)),
    case("Gemm", F(3, 2), F(3, 4), transA=1, beta=0.0),
    case("MatMul", I(2, 3), I(3, 2)),
    case("CastLike", F(3), B(1)),
    case("CastLike", I(3), F(2, dtype=HALF)),
    case("Cast", I(3), to=8, expected=lambda x: np.array([str(value) for value in x], object), note="string"),
    case("Cast", B(3), to=1, lowest=7),
    case("Cast", F(3) * 99, to=3),
    case("Add", U(9), U(9), expected=lambda x, y: x + y),
    case("Where", B(3, 1), F(3, 2), F(2)),
    case("Where", B(3), I(3), I(3)),
]

ACTIVATION = [
    *[
        case(op, F(3, 4, dtype=dtype), tolerance=1e-2 if dtype == HALF else 1e-5)
        for op in ("Gelu", "Mish", "HardSwish")
        for dtype in (HALF,)
    ],
    case("Gelu", F(0, 4)),
    case("Celu", F(9) * 4),
    case("ThresholdedRelu", SPECIAL[:6]),
    case("PRelu", F(2, 3), F(3)),
    case("Swish", F(5), source=24, alpha=0.5, highest=24, expected=lambda x: x / (1 + np.exp(-0.5 * x))),
]

INDEX = [
    *[
        case("GatherElements", F(3, 4, dtype=dtype), I(2, 4, low=-3, high=3), axis=0, dynamic=dynamic)
        for dtype in (HALF, np.float64)
        for dynamic in BOTH
    ],
    case("GatherElements", B(3, 4), I(3, 2, low=0, high=4, dtype=np.int32), axis=1),
    case("GatherElements", F(3, 4), I(0, 4, low=0, high=3), axis=0, note="nothing"),
    case("GatherND", F(2, 3, 4), I(2, 5, 1, low=-3, high=3), batch_dims=1),
    case("GatherND", F(2, 3, 4), I(2, 3, 1, low=0, high=4), batch_dims=2),
    case("GatherND", F(2, 3, 4), I(2, 5, 2, low=0, high=3), batch_dims=1),
    case("GatherND", I(3, 4), I(5, 2, low=-3, high=3)),
    *[
        case("ScatterND", F(3, 4), np.array([[0], [2]]), F(2, 4), dynamic=dynamic, lowest=9 if not dynamic else 11)
        for dynamic in BOTH
    ],
    case("ScatterND", F(3, 4), np.array([[-1, 0], [2, -3]]), F(2)),
    case("ScatterND", I(3, 4), np.array([[[0, 1]], [[2, 3]]]), I(2, 1)),
    case("ScatterND", B(3), np.array([[1]]), B(1)),
    *[
        case(op, I(4), np.array([[1], [1], [3]]) if op == "ScatterND" else np.array([1, 1, 3]), I(3), reduction=how)
        for op in ("ScatterND", "ScatterElements")
        for how in ("add", "max")
    ],
    case("ScatterElements", F(3, 4), np.array([[-1, 0, 1, -2]]), F(1, 4), axis=0),
    case("ScatterElements", F(3, 4), I(3, 2, low=0, high=4), F(3, 2), axis=1, reduction="add", dynamic=True),
    case("ScatterElements", F(3, 4, dtype=HALF), np.array([[0, 0, 1, 2]]), F(1, 4, dtype=HALF), axis=0),
    case("Gather", I(3, 4), np.array([[1, -1]]), axis=-2),
    case("OneHot", np.array([0, -1, 7, 2]), scalar(3, np.int64), floats(2, 5), axis=0),
    case("OneHot", I(2, 3, low=0, high=4), number(4), floats(0, 1), note="run-time depth"),
    case("Compress", F(3, 4), np.array([True, False, True]), axis=-2),
    case("Unique", np.array([2.0, 1, 1, 3], np.float32), outputs=4, lowest=11),
    case("ReverseSequence", F(4, 3, 2), np.array([1, 4, 2]), lowest=10),
    case("Einsum", F(3, 3), equation="ii->i"),
    case("Einsum", F(3, 3), equation="ii"),
    case("Einsum", F(2, 3, 3), F(3), equation="bii,i->b"),
    case("Einsum", F(3, 2, 3, 4), equation="ijik->kj"),
    case("Einsum", F(2, 3), F(2, 3), equation="ij,ij->ij", dynamic=True),
    case("Einsum", F(2, 1, 3), F(2, 3, 4), F(4), equation="bij,bjk,k->b"),
]


def half_spectrum(count: int) -> np.ndarray:
    spectrum = np.fft.rfft(F(2, count), axis=1)
    return np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)


WINDOW = np.hanning(8).astype(np.float32)
SIGNAL = [
    *[
        case(
            "DFT",
            F(2, 7, parts),
            number(count),
            scalar(1, np.int64),
            tolerance=1e-4,
            note=f"run-time {count}",
            **options,
        )
        for count in (5, 7, 10)
        for parts, options in ((1, {"onesided": 1}), (2, {"inverse": 1}), (2, {}), (1, {}))
    ],
    case("DFT", F(2, 8, 2, dtype=np.float64), None, scalar(1, np.int64)),
    case("DFT", F(2, 8, 2), None, scalar(1, np.int64), tolerance=1e-4),
    *[
        case(
            "DFT",
            half_spectrum(count),
            length,
            scalar(1, np.int64),
            inverse=1,
            onesided=1,
            tolerance=1e-4,
            note=f"{count}",
        )
        for count, length in ((8, None), (9, scalar(9, np.int64)), (8, number(8)))
    ],
    *[
        case(
            "STFT",
            F(2, 30, parts),
            scalar(step, np.int64),
            window,
            frame,
            onesided=one,
            tolerance=1e-4,
            dynamic=dynamic,
            note=note,
        )
        for parts, step, window, frame, one, dynamic, note in (
            (1, 4, Literal(WINDOW), scalar(8, np.int64), 1, False, "window"),
            (1, 3, None, scalar(8, np.int64), 0, False, "plain"),
            (2, 4, Literal(WINDOW), scalar(8, np.int64), 0, False, "complex"),
            (1, 5, Literal(WINDOW), None, 1, False, "by window"),
        )
    ],
]

THETA = F(2, 2, 3)
VISION = [
    *[
        case("AffineGrid", F(2, rows, rows + 1), size, align_corners=corners, tolerance=1e-4, note=note)
        for corners in (0, 1)
        for rows, size, note in (
            (2, ints(2, 3, 4, 5), ""),
            (3, ints(2, 1, 2, 3, 4), ""),
            (2, np.array([2, 3, 4, 5]), "run-time"),
        )
    ],
    *[
        case("Col2Im", F(1, 2 * 6, count), ints(5, 7), ints(2, 3), note=note, **options)
        for count, note, options in (
            (4 * 5, "plain", {}),
            (2 * 3, "strides", {"strides": [2, 2]}),
            (3 * 3, "dilated", {"dilations": [2, 2]}),
            (6 * 7, "pads", {"pads": [1, 1, 1, 1]}),
            (3 * 4, "both", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        )
    ],
    case("Col2Im", F(2, 12, 20), np.array([5, 7]), ints(2, 3), note="run-time"),
    *[
        case(
            "GridSample",
            F(1, 2, 3, 4, 5),
            F(1, 2, 3, 2, 3),
            mode=mode,
            padding_mode=padding,
            align_corners=corners,
            tolerance=1e-4,
        )
        for mode in ("linear", "nearest")
        for padding in ("zeros", "border", "reflection")
        for corners in (0, 1)
    ],
    case("GridSample", F(1, 2, 1, 4), F(1, 2, 3, 2), padding_mode="reflection", align_corners=1, note="of one row"),
    case(
        "GridSample",
        F(1, 2, 3, 4),
        F(1, 2, 3, 2) * 3,
        mode="cubic",
        padding_mode="reflection",
        dynamic=True,
        tolerance=1e-4,
    ),
    case("GridSample", F(1, 2, 3, 4, 5), F(1, 2, 3, 2, 3), dynamic=True, tolerance=1e-4),
    *[
        case(
            "RoiAlign",
            F(2, 3, 8, 9),
            Literal(np.array([[0, 0, 6, 6], [1, 2, 7.5, 5], [3, 3, 3.2, 3.1], [-2, -1, 4, 20]], np.float32)),
            ints(0, 1, 1, 0),
            output_height=2,
            output_width=3,
            sampling_ratio=ratio,
            spatial_scale=scale,
            source=20,
            highest=21,
            coordinate_transformation_mode=place,
            tolerance=1e-4,
        )
        for ratio, scale, place in (
            (2, 1.0, "half_pixel"),
            (0, 0.5, "half_pixel"),
            (0, 1.0, "output_half_pixel"),
            (1, 0.7, "output_half_pixel"),
        )
    ],
    case(
        "RoiAlign",
        F(1, 3, 8, 9),
        Literal(np.zeros((0, 4), np.float32)),
        ints(),
        source=20,
        highest=21,
        note="no regions",
    ),
    *[
        case(
            "DeformConv",
            F(2, 4, 6, 7),
            F(6, 4 // groups, 3, 2),
            F(2, parts * 12, *size) * 2,
            bias,
            mask,
            group=groups,
            offset_group=parts,
            tolerance=1e-4,
            **options,
        )
        for groups, parts, size, bias, mask, options in (
            (1, 1, (4, 6), None, None, {}),
            (2, 2, (4, 6), F(6), None, {}),
            (1, 1, (3, 4), F(6), F(2, 6, 3, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
            (1, 2, (2, 5), None, F(2, 12, 2, 5), {"dilations": [2, 2]}),
        )
    ],
    case("DeformConv", F(1, 2, 5, 5), Literal(F(2, 2, 2, 2)), F(1, 8, 4, 4), dynamic=True, tolerance=1e-4),
]

LOSS = [
    *[
        case(
            "SoftmaxCrossEntropyLoss",
            F(*shape),
            I(*target, low=0, high=4),
            weights,
            reduction=how,
            outputs=outputs,
            note=note,
        )
        for shape, target in (((3, 4), (3,)), ((2, 4, 3), (2, 3)))
        for weights, note in ((None, ""), (np.abs(F(4)), "weighed"))
        for how, outputs in (("mean", 1), ("sum", 2), ("none", 1))
    ],
    case("SoftmaxCrossEntropyLoss", F(4, 3), np.array([0, -100, 2, 1]), ignore_index=-100),
    case("NegativeLogLikelihoodLoss", F(4, 3), np.array([0, 5, 2, 1]), np.abs(F(3)), ignore_index=5),
    case("NegativeLogLikelihoodLoss", F(4, 3), np.array([0, 1, 2, 1]), reduction="none", dynamic=True),
    case("Dropout", F(3, 4), scalar(0.5), scalar(False, np.bool_), outputs=2),
    case("Dropout", F(3, 4), lowest=7),
    case("Dropout", F(3, 4), scalar(0.0), scalar(True, np.bool_), outputs=2),
    # onnxruntime runs the operator by a formula that has it the wrong way round.
    case("Bernoulli", np.array([0, 1, 1], np.float32), source=20, highest=14, expected=lambda probability: probability),
]

QUANTIZE = [
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

STATISTICS = (F(3), F(3), F(3), np.abs(F(3)) + 1)
NORMALIZATION = [
    case("BatchNormalization", F(4, 3, 5), *STATISTICS, training_mode=1, outputs=3, momentum=0.8),
    case("BatchNormalization", F(4, 3), *STATISTICS, training_mode=1, outputs=3, dynamic=True),
    case("BatchNormalization", F(4, 3, 2, 2), *STATISTICS, lowest=7),
    case("LayerNormalization", F(2, 3, 8, dtype=HALF), F(8, dtype=HALF), tolerance=1e-2),
    case("LayerNormalization", F(2, 3, 8), F(8), axis=-1, epsilon=0.1, dynamic=True),
    case("RMSNormalization", F(2, 3, 8, dtype=HALF), F(8, dtype=HALF), tolerance=1e-2),
    case("GroupNormalization", F(2, 6), F(6), F(6), num_groups=3),
    case("LpNormalization", F(2, 3), axis=-1, p=1, lowest=7),
    case("MaxPool", F(1, 2, 7, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, dynamic=True),
    case("MaxPool", F(1, 2, 7, 8), kernel_shape=[1, 1], strides=[3, 3], ceil_mode=1, dynamic=True),
    case("MaxPool", F(1, 2, 7, 8), kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1, pads=[0, 0, 1, 1]),
    case("MaxPool", F(1, 2, 8), kernel_shape=[3], strides=[2], ceil_mode=1, outputs=2),
    case(
        "AveragePool",
        F(1, 2, 7, 8),
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
        pads=[1, 1, 1, 1],
        count_include_pad=1,
        dynamic=True,
    ),
    case(
        "AveragePool", F(1, 2, 7, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[0, 1, 0, 1], dynamic=True
    ),
    case(
        "AveragePool",
        F(1, 2, 7, 8),
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
        count_include_pad=1,
        dynamic=True,
    ),
]

ROWS = REDUCE + ARITHMETIC + ACTIVATION + INDEX + SIGNAL + VISION + LOSS + QUANTIZE + NORMALIZATION


@pytest.mark.parametrize("one", ROWS, ids=str)
def test_more(one: Case) -> None:
    check(one, EACH_CHANGE)
