"""Each operator at the canonical opset against itself at every other: same values, same types, a valid file."""

from __future__ import annotations

import numpy as np
import pytest
from rule_cases import OPSETS, Case, F, I, Literal, case, check, ints, scalar

SPECIAL = np.array([0.0, -0.0, 1.5, 2.5, -1.5, -0.5, 0.49999997, np.nan, np.inf, -np.inf, 3.0], np.float32)
PAIR = (np.array([1, np.nan, 2, -3, np.inf], np.float32), np.array([1, 1, np.nan, 4, np.inf], np.float32))


def layer_statistics(data: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, ...]:
    mean = data.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(data.var(-1, keepdims=True) + 1e-5)
    return (data - mean) * inverse * scale, mean, inverse


NORMALIZATION = [
    case("RMSNormalization", F(2, 3, 8), F(8), axis=-1, epsilon=1e-6),
    case("RMSNormalization", F(2, 3, 8), F(3, 8), axis=1),
    case("RMSNormalization", F(2, 3, 8), F(8), dynamic=True),
    case("LayerNormalization", F(2, 3, 8), F(8), F(8)),
    case("LayerNormalization", F(2, 3, 8), F(3, 8), axis=1, dynamic=True),
    case("LayerNormalization", F(2, 3, 8), F(8), outputs=3, note="statistics", expected=layer_statistics),
    case("GroupNormalization", F(2, 6, 4, 5), F(6), F(6), num_groups=3),
    case("GroupNormalization", F(2, 6, 7), F(6), F(6), num_groups=2, dynamic=True),
    case("BatchNormalization", F(2, 3, 4), F(3), F(3), F(3), np.abs(F(3)) + 1, training_mode=0),
]

ACTIVATION = [
    case("Gelu", F(3, 4)),
    case("Gelu", F(3, 4), approximate="tanh"),
    case("Mish", F(3, 4)),
    case("HardSwish", F(3, 4) * 4),
    case("Celu", F(3, 4), alpha=2.0),
    case("ThresholdedRelu", F(3, 4), alpha=0.5),
    case("Relu", I(3, 4, dtype=np.int32)),
    *[case(op, F(2, 3, 4), axis=axis) for op in ("Softmax", "LogSoftmax") for axis in (0, 1, 2, -1, -2)],
    case("Softmax", F(5)),
]

REDUCTION = [
    *[
        case(op, np.abs(F(2, 3, 4)) + 0.1, ints(*axes), keepdims=keep)
        for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceLogSumExp")
        for axes, keep in (((1,), 0), ((-1, 0), 1))
    ],
    case("ReduceSum", F(2, 3)),
    case("ReduceMean", F(2, 3), ints(), keepdims=0),
    case("ReduceSum", F(2, 3), ints(), noop_with_empty_axes=1),
    case("ReduceMax", I(2, 3, dtype=np.int32), ints(1)),
    case("ReduceMax", I(2, 3, low=0, high=2, dtype=np.bool_), ints(1)),
    case("ArgMax", F(2, 5), axis=-1, select_last_index=0),
    case("CumSum", F(2, 5, 3), scalar(1, np.int64)),
    case("CumSum", F(2, 5), scalar(-1, np.int64), exclusive=1, reverse=1),
    case("CumSum", F(2, 5, 3), scalar(1, np.int64), dynamic=True, lowest=11),
]

VIEW = [
    case("Shape", F(2, 3, 4), start=1, end=3),
    case("Shape", F(2, 3, 4), start=-2, dynamic=True),
    case("Reshape", F(2, 3, 4), ints(0, -1)),
    case("Reshape", F(2, 0, 3), ints(3, 0, 2), allowzero=1),
    case("Reshape", F(2, 3, 4), ints(4, 6), allowzero=1),
    case("Squeeze", F(2, 1, 3, 1), ints(1, -1)),
    case("Unsqueeze", F(2, 3), ints(0, -1)),
    case("Split", F(2, 7), outputs=3, axis=1, num_outputs=3),
    case("Split", F(2, 7), outputs=3, axis=-1, num_outputs=3, dynamic=True, lowest=13),
    case("Split", F(7, 2), ints(3, 4), outputs=2),
    case("Slice", F(4, 6), ints(1, -4), ints(3, 9), ints(0, 1)),
    case("Slice", F(4, 6), ints(0), ints(6), ints(-1), ints(2)),
    case("Slice", F(4, 6), ints(-1), ints(-9), ints(1), ints(-1)),
    *[
        case("Slice", F(4, 6), np.array([start]), np.array([end]), ints(1), dynamic=dynamic, note=f"{start}:{end}")
        for start, end, dynamic in ((1, 3, False), (-4, 99, True), (5, 2, True), (-99, -2, False))
    ],
    case("Pad", F(2, 3), ints(1, 2, 0, 1), scalar(5)),
    case("Pad", F(2, 3), ints(1, 2), None, ints(-1), mode="edge"),
    case("Pad", F(2, 3, 4), ints(1, 2, 0, 2), None, ints(1, 2), mode="reflect"),
    case("Pad", F(2, 5), ints(1, 2, 0, 1), mode="wrap"),
    case("Pad", I(2, 3, dtype=np.int32), ints(0, 1, 0, 1), scalar(7, np.int32)),
    case("Pad", I(2, 3, low=0, high=2, dtype=np.bool_), ints(0, 1, 0, 1), scalar(True, np.bool_)),
    *[case("Trilu", F(3, 4), scalar(k, np.int64), upper=upper) for k in (-1, 0, 2) for upper in (0, 1)],
    case("Trilu", F(2, 4, 4), upper=0, dynamic=True),
    case("Trilu", I(4, 4), upper=1),
    *[
        case("Range", scalar(start, dtype), np.array(end, dtype), scalar(step, dtype), note=f"{start}:{end}:{step}")
        for start, end, step, dtype in (
            (1, 7, 1, np.int64),
            (0, 8, 3, np.int64),
            (9, 1, -2, np.int64),
            (4, 1, 1, np.int64),
            (0, 3, 1, np.int32),
            (0.5, 3, 0.75, np.float32),
        )
    ],
    case("Expand", F(3, 1), ints(2, 3, 4)),
    case("Tile", F(2, 3), ints(2, 1)),
    case("Concat", F(2, 3), F(2, 4), axis=-1),
    case("Flatten", F(2, 3, 4), axis=-1),
]

INDEX = [
    case("Gather", F(3, 4), I(2, low=0, high=4), axis=-1),
    case("GatherElements", F(3, 4), I(3, 2, low=-4, high=4), axis=-1),
    case("GatherElements", F(3, 4), I(2, 4, low=0, high=3), axis=0, dynamic=True),
    case("GatherElements", F(3, 4, 2), I(3, 6, 2, low=0, high=4), axis=1, dynamic=True),
    case("GatherND", F(3, 4, 5), I(2, 2, low=-3, high=3)),
    case("GatherND", F(3, 4, 5), I(2, 6, 3, low=-3, high=3)),
    case("TopK", F(3, 7), ints(3), outputs=2, largest=0),
    case("TopK", F(7, 3), ints(2), outputs=2, axis=0),
    case("TopK", I(3, 7, low=0, high=99, dtype=np.int32), ints(3), outputs=2),
    case("ScatterElements", F(3, 4), I(3, 1, low=0, high=4), F(3, 1), axis=-1),
    *[
        case("ScatterElements", F(3, 4), I(5, 4, low=0, high=3), F(5, 4), axis=0, reduction=how, lowest=11)
        for how in ("add", "mul", "max", "min")
    ],
    *[
        case("ScatterND", F(3, 4), I(6, 1, low=0, high=3), F(6, 4), reduction=how, lowest=11, dynamic=dynamic)
        for how, dynamic in (("add", False), ("mul", False), ("max", False), ("min", False))
    ],
    case("ScatterND", F(3, 4), I(6, 2, low=0, high=3), F(6), reduction="add", lowest=11),
    case("OneHot", I(3, low=0, high=4), scalar(4, np.int64), Literal(np.array([0, 1], np.float32)), axis=-1),
]

EMPTY = Literal(np.zeros(0, np.float32))


def scales(*items: float) -> Literal:
    return Literal(np.array(items, np.float32))


RESIZE = [
    case("Resize", F(1, 2, 4, 5), None, scales(1, 1, 2, 3), mode="nearest"),
    case("Resize", F(1, 2, 4, 5), None, scales(1, 1, 2, 2), mode="nearest", dynamic=True),
    case("Resize", F(1, 2, 4, 5), None, scales(2.5, 0.6), axes=[2, 3], mode="linear"),
    case("Resize", F(1, 2, 4, 5), None, None, ints(7, 3), axes=[-2, -1], mode="linear"),
    case("Resize", F(1, 2, 4, 5), None, None, ints(7, 3), axes=[2, 3], mode="linear", dynamic=True, lowest=11),
    case(
        "Resize", F(1, 2, 4), None, None, ints(1, 2, 9), mode="linear", coordinate_transformation_mode="align_corners"
    ),
    case("Resize", F(1, 2, 4, 5), None, None, ints(1, 2, 7, 9), mode="cubic"),
    case("Resize", F(1, 2, 4, 5), None, scales(1, 1, 2, 2), mode="linear", coordinate_transformation_mode="asymmetric"),
    case("Resize", F(1, 2, 8, 9), None, None, ints(1, 2, 3, 4), mode="linear", antialias=1, exclude_outside=1),
    *[
        case("Resize", F(1, 1, 7, 5), None, None, ints(1, 1, 3, 11), nearest_mode=rounding, note="nearest")
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ],
]

CONTRACTION = [
    case("Einsum", F(2, 3), F(3, 4), equation="ij,jk->ik"),
    case("Einsum", F(2, 5, 3, 4), F(2, 6, 3, 4), equation="bqhd,bkhd->bhqk"),
    case("Einsum", F(2, 3, 5, 6), F(2, 6, 3, 4), equation="bhqk,bkhd->bqhd", dynamic=True),
    case("Einsum", F(2, 3, 4), F(4, 3, 5, 6), equation="abc,cbde->ade"),
    case("Einsum", F(2, 3), F(3), equation="ij,j->i"),
    case("Einsum", F(2, 3), F(4), equation="ij,k->ijk"),
    case("Einsum", F(2, 3, 4), equation="ijk->kj"),
    case("Einsum", F(2, 3, 4), F(4, 5), equation="...j,jk->...k"),
    case("Einsum", F(2, 3), F(3, 4), F(4), equation="ij,jk,k"),
]

POOL = [
    case("MaxPool", F(1, 2, 7, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("MaxPool", F(1, 2, 8, 8), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, dilations=[1, 1]),
    case("MaxPool", F(1, 2, 8, 8), kernel_shape=[3, 3], dilations=[2, 2], lowest=10),
    case("AveragePool", F(1, 2, 8, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    *[
        case("GridSample", F(2, 3, 4, 5), F(2, 3, 6, 2), mode=mode, padding_mode=padding, align_corners=corners)
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (0, 1)
    ],
    case("GridSample", F(2, 3, 4, 5), F(2, 3, 6, 2), mode="linear", dynamic=True),
    *[
        case("DFT", F(2, 8, 3, parts), None, scalar(axis, np.int64), **options)
        for parts, axis, options in ((1, 1, {"onesided": 1}), (2, 1, {"inverse": 1}), (2, 2, {}), (1, -2, {}))
    ],
    *[case("DFT", F(2, 8, 1), scalar(length, np.int64), scalar(1, np.int64), note=str(length)) for length in (6, 11)],
    case("Dropout", F(3, 4), scalar(0.5), scalar(False, np.bool_)),
]

ARITHMETIC = [
    *[case(op, *PAIR, note="nan") for op in ("LessOrEqual", "GreaterOrEqual", "Equal", "Less")],
    *[case(op, I(9), I(9)) for op in ("LessOrEqual", "GreaterOrEqual", "Equal")],
    case("Equal", I(9, dtype=np.int32), I(9, dtype=np.int32)),
    case("IsInf", SPECIAL),
    case("IsInf", SPECIAL, detect_negative=0),
    case("IsNaN", SPECIAL),
    case("Round", SPECIAL),
    case("Max", I(9), I(9), I(9)),
    case("Min", I(9, dtype=np.int32), I(9, dtype=np.int32)),
    case("Clip", F(9), scalar(-0.5), scalar(0.5)),
    case("Clip", F(9), None, scalar(0.5)),
    case("Clip", F(9), np.array(-0.1, np.float32), scalar(0.5)),
    case("Clip", I(9), scalar(-2, np.int64), scalar(3, np.int64)),
    case("Pow", F(9), scalar(2, np.int64)),
    case("Pow", I(9), scalar(3, np.int64)),
    case("Mod", I(20), Literal(np.array(3, np.int64))),
    case("Mod", I(20), Literal(np.array(-4, np.int64))),
    case("Gemm", F(2, 3), F(3, 4), alpha=0.5),
    case("CastLike", F(3), I(1)),
    case("Cast", F(3), to=7, saturate=1),
    *[case(f"Bitwise{op}", I(50), I(50), lowest=10) for op in ("And", "Or", "Xor")],
    *[case(f"Bitwise{op}", I(50, dtype=np.int32), I(50, dtype=np.int32)) for op in ("And", "Or", "Xor")],
    *[
        case(f"Bitwise{op}", I(50, low=0, high=256, dtype=np.uint8), I(50, low=0, high=256, dtype=np.uint8))
        for op in ("And", "Or")
    ],
    case("BitwiseNot", I(9)),
    case("BitwiseNot", I(9, low=0, high=256, dtype=np.uint8)),
    case("Add", I(9, low=-128, high=127, dtype=np.int8), I(9, low=-128, high=127, dtype=np.int8)),
]


ROWS = NORMALIZATION + ACTIVATION + REDUCTION + VIEW + INDEX + RESIZE + CONTRACTION + POOL + ARITHMETIC


@pytest.mark.parametrize("one", ROWS, ids=str)
def test_rule(one: Case) -> None:
    check(one, OPSETS)
