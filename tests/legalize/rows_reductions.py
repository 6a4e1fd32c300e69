"""Reductions, softmax, normalizations and losses."""

from __future__ import annotations

import numpy as np
from rule_cases import BOTH, HALF, F, I, U, case, ints, scalar

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
STATISTICS = (F(3), F(3), F(3), np.abs(F(3)) + 1)


def layer_statistics(data: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, ...]:
    mean = data.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(data.var(-1, keepdims=True) + 1e-5)
    return (data - mean) * inverse * scale, mean, inverse


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
    case("CumSum", F(2, 5, 3), scalar(1, np.int64), dynamic=True, lowest=9),
    *[case(op, POSITIVE, ints(-1, 0), keepdims=0, dynamic=True) for op in REDUCTIONS],
    *[case(op, POSITIVE) for op in REDUCTIONS],
    *[case(op, POSITIVE, ints(), keepdims=0, note="all") for op in REDUCTIONS],
    *[case(op, POSITIVE, ints(), noop_with_empty_axes=1) for op in REDUCTIONS[:5]],
    *[case(op, POSITIVE, noop_with_empty_axes=1, note="absent") for op in REDUCTIONS[:5]],
    *[case(op, I(2, 3, dtype=np.int32), ints(1)) for op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")],
    *[case(op, I(2, 3), ints(-2)) for op in ("ReduceSum", "ReduceMax", "ReduceMin")],
    case("ReduceSum", F(2, 0, 3), ints(1), note="empty"),
    case("ReduceSum", F(0, 3), ints(1), note="empty"),
    case("ReduceMax", U(2, 3), ints(1)),
    case("ReduceMean", F(2, 3, dtype=HALF), ints(1), atol=2e-3, rtol=2e-3),
    case("ReduceMean", F(2, 3, dtype=np.float64), ints(1)),
    *[
        case(op, np.array([[1, 3, 3], [2, 2, 1]], np.float32), axis=axis, keepdims=keep, select_last_index=last)
        for op in ("ArgMax", "ArgMin")
        for axis, keep, last in ((0, 1, 0), (-1, 0, 0), (-1, 0, 1), (0, 1, 1))
    ],
    case("ArgMax", np.array([[1, 3, 3], [2, 2, 1]], np.float32), axis=1, select_last_index=1, dynamic=True, lowest=9),
    case("ArgMax", I(2, 5, dtype=np.int32), axis=1),
    *[
        case(
            "CumSum",
            F(2, 5),
            scalar(axis, np.int64),
            exclusive=exclusive,
            reverse=reverse,
            dynamic=dynamic,
            lowest=lowest,
            note=f"axis {axis}",
        )
        for axis in (0, -1)
        for exclusive in (0, 1)
        for reverse in (0, 1)
        for dynamic, lowest in ((False, 7), (True, 9))
    ],
    case("CumSum", F(300), scalar(0, np.int64), atol=1e-4, note="long", lowest=9),
    case("CumSum", I(2, 5), scalar(1, np.int64), lowest=9),
    case("CumSum", I(2, 5, dtype=np.int32), scalar(1, np.int32), dynamic=True, lowest=9),
    case(
        "CumSum",
        np.array([1, np.inf, -1, np.nan], np.float32),
        scalar(0, np.int64),
        dynamic=True,
        note="infinite",
        lowest=9,
    ),
]

SOFTMAX = [
    *[case(op, F(2, 3, 4), axis=axis) for op in ("Softmax", "LogSoftmax") for axis in (0, 1, 2, -1, -2)],
    case("Softmax", F(5)),
    *[
        case(op, F(*shape), axis=axis, dynamic=dynamic)
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for shape, axis in (((4,), 0), ((3, 4), 0), ((2, 3, 4, 2), 1), ((2, 3, 4, 2), -3), ((2, 3, 4, 2), 3))
        for dynamic in BOTH
    ],
    case("Softmax", F(2, 3, 4)),
    case("Softmax", F(2, 0, 4), axis=2, note="empty"),
    case("Softmax", F(3, 4, dtype=HALF), axis=0, atol=2e-3, rtol=2e-3),
    case("Softmax", F(3, 4, dtype=np.float64), axis=0),
]

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
    case("BatchNormalization", F(4, 3, 5), *STATISTICS, training_mode=1, outputs=3, momentum=0.8),
    case("BatchNormalization", F(4, 3), *STATISTICS, training_mode=1, outputs=3, dynamic=True),
    case("BatchNormalization", F(4, 3, 2, 2), *STATISTICS),
    case("LayerNormalization", F(2, 3, 8, dtype=HALF), F(8, dtype=HALF), atol=2e-3, rtol=2e-3),
    case("LayerNormalization", F(2, 3, 8), F(8), axis=-1, epsilon=0.1, dynamic=True),
    case("RMSNormalization", F(2, 3, 8, dtype=HALF), F(8, dtype=HALF), atol=2e-3, rtol=2e-3),
    case("GroupNormalization", F(2, 6), F(6), F(6), num_groups=3),
    case("LpNormalization", F(2, 3), axis=-1, p=1),
]

LOSS = [
    case("Dropout", F(3, 4), scalar(0.5), scalar(False, np.bool_)),
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
    case("Dropout", F(3, 4), scalar(0.5), scalar(False, np.bool_), outputs=2, lowest=8),
    case("Dropout", F(3, 4)),
    case("Dropout", F(3, 4), scalar(0.0), scalar(True, np.bool_), outputs=2, lowest=9),
    # onnxruntime runs the operator by a formula that has it the wrong way round.
    case("Bernoulli", np.array([0, 1, 1], np.float32), source=20, highest=14, expected=lambda probability: probability),
]

ROWS = REDUCTION + SOFTMAX + NORMALIZATION + LOSS
