"""What a sceptic would try of each rule: sizes known only at run time, negative axes, nothing at all, other types."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from rule_cases import EACH_CHANGE, Case, F, I, case, check, floats, ints, scalar

HALF = np.float16
BOTH = (False, True)
LOW, HIGH = -(2**63), 2**63 - 1


def B(*shape: int) -> np.ndarray:
    return I(*shape, low=0, high=2, dtype=np.bool_)


def one_at_run_time(item: float, dtype: type = np.int64) -> np.ndarray:
    return np.array(item, dtype)


def at_run_time(*items: float, dtype: type = np.int64) -> np.ndarray:
    return np.array(items, dtype)


SOFTMAX = [
    *[
        case(op, F(*shape), axis=axis, dynamic=dynamic)
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for shape, axis in (((4,), 0), ((3, 4), 0), ((2, 3, 4, 2), 1), ((2, 3, 4, 2), -3), ((2, 3, 4, 2), 3))
        for dynamic in BOTH
    ],
    case("Softmax", F(2, 3, 4)),
    case("Softmax", F(2, 0, 4), axis=2, note="empty"),
    case("Softmax", F(3, 4, dtype=HALF), axis=0, tolerance=1e-2),
    case("Softmax", F(3, 4, dtype=np.float64), axis=0),
]

BOUNDS = [
    case("Clip", F(5), lowest=7),
    case("Clip", F(5), scalar(0.1), lowest=7),
    case("Clip", F(5), scalar(0.1), one_at_run_time(0.5, np.float32)),
    case("Clip", F(5), one_at_run_time(0.3, np.float32), None),
    case("Clip", np.array([np.nan, np.inf, -np.inf, 0], np.float32), scalar(-1), scalar(1)),
    case("Clip", F(5, dtype=HALF), scalar(-0.5, HALF), scalar(0.5, HALF)),
    case("Clip", F(5, dtype=np.float64), scalar(-0.5, np.float64)),
    case("Clip", I(5, dtype=np.int32), None, scalar(2, np.int32)),
    case("Clip", I(5, low=0, dtype=np.uint8), scalar(2, np.uint8), None),
    case("Clip", F(0, 3), scalar(0)),
    case("Max", F(2, 3), F(3), F(1, 1), lowest=8),
    case("Min", I(2, 3), I(3), dynamic=True),
    case("Max", F(4, dtype=HALF), F(4, dtype=HALF)),
    case("Max", F(0), F(1)),
    case("Relu", I(4), expected=lambda x: np.maximum(x, 0)),
]

PAD = [
    *[
        case("Pad", F(4, 5), ints(1, 2, 3, 0), mode=mode, dynamic=dynamic)
        for mode in ("constant", "reflect", "edge", "wrap")
        for dynamic in BOTH
    ],
    *[
        case("Pad", F(4, 5), at_run_time(1, 2, 3, 0), mode=mode, dynamic=dynamic, note="run-time")
        for mode in ("constant", "reflect", "edge", "wrap")
        for dynamic in BOTH
    ],
    case("Pad", F(4, 5), at_run_time(2, 1), scalar(3), ints(-1), note="run-time"),
    case("Pad", F(4, 5), at_run_time(-1, 2, 1, -3), scalar(3), ints(1, 0), note="run-time"),
    case("Pad", F(4, 5), ints(-1, 2, 1, -3), scalar(3), ints(1, 0)),
    case("Pad", F(4, 5), ints(-1, 7), None, ints(1), mode="wrap", note="more than there is"),
    case("Pad", F(4, 5), ints(1, 0, 0, 1), one_at_run_time(7, np.float32), note="run-time value"),
    case("Pad", I(2, 3), ints(0, 1, 2, 0), scalar(2**53 + 1, np.int64)),
    case("Pad", I(2, 3), ints(0, 1, 1, 0), mode="reflect"),
    case("Pad", B(2, 3), ints(0, 1, 2, 0)),
    case("Pad", F(2, 3, dtype=HALF), ints(0, 1, 2, 0), scalar(1, HALF)),
    case("Pad", F(2, 0), ints(0, 1, 2, 0), scalar(1)),
    case("Pad", F(2, 3), ints(0, 0, 0, 0)),
]

TOPK = [
    *[
        case("TopK", F(3, 7), count, outputs=2, largest=largest, axis=axis, dynamic=dynamic, note=note)
        for count, note in ((ints(2), ""), (at_run_time(2), "run-time"))
        for largest in (0, 1)
        for axis in (0, -1)
        for dynamic in BOTH
    ],
    case("TopK", I(3, 7), ints(3), outputs=2, largest=0, axis=0),
    case("TopK", np.array([3, 2**62 + 1, 2**62, -5, 3]), ints(5), outputs=2),
    case("TopK", np.array([1, 2, 1, 2, 1], np.float32), at_run_time(5), outputs=2, dynamic=True, note="equal"),
    case("TopK", F(3, 7, dtype=HALF), ints(3), outputs=2),
    case("TopK", F(3, 7, dtype=np.float64), at_run_time(3), outputs=2, largest=0, dynamic=True),
    case("TopK", I(9, low=0, dtype=np.uint8), ints(4), outputs=2, largest=0),
    case("TopK", F(3, 7), at_run_time(0), outputs=2, lowest=11, note="none"),
]

SLICE = [
    *[
        case("Slice", F(7, 6), start, end, ints(axis), ints(step), dynamic=dynamic, note=f"{note}{step}")
        for (start, end), note in (
            ((ints(1), ints(6)), ""),
            ((ints(-1), ints(LOW)), "back "),
            ((ints(99), ints(-99)), "beyond "),
            ((at_run_time(4), at_run_time(-5)), "run-time "),
            ((at_run_time(-2), at_run_time(LOW)), "to the start "),
        )
        for axis, step in ((0, 1), (-1, 2), (0, -1), (1, -3))
        for dynamic in BOTH
    ],
    *[case("Slice", F(7, 6), at_run_time(-4), at_run_time(HIGH), ints(0), ints(step), note="on") for step in (1, 2)],
    case("Slice", F(7, 6), ints(1, 2), ints(5, 4)),
    case("Slice", F(7, 6), at_run_time(1, 2), at_run_time(5, 4)),
    case("Slice", F(7, 6), at_run_time(6), at_run_time(0), ints(0), at_run_time(-2), note="run-time step"),
    case("Slice", F(7, 6), at_run_time(1), at_run_time(6), ints(0), at_run_time(2), note="run-time step"),
    case("Slice", F(7), at_run_time(1, dtype=np.int32), at_run_time(5, dtype=np.int32), dynamic=True),
    case("Slice", F(0, 3), ints(0), ints(5), ints(0)),
    case("Slice", B(7), ints(5), ints(1), ints(0), ints(-1)),
]

PLACES = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "half_pixel_symmetric",
)
RESIZE = [
    *[
        case("Resize", F(1, 2, 6, 5), *how, mode=mode, coordinate_transformation_mode=place, dynamic=dynamic, note=note)
        for mode, place in itertools.product(("nearest", "linear", "cubic"), PLACES)
        for how, note in (
            ((None, floats(1, 1, 1.5, 0.6)), "scales"),
            ((None, None, ints(1, 2, 4, 9)), "sizes"),
            ((None, None, at_run_time(1, 2, 3, 8)), "run-time"),
        )
        for dynamic in BOTH
        if not (dynamic and note == "sizes")
    ],
    *[
        case("Resize", F(1, 2, 6, 5), None, None, size, mode=mode, antialias=1, axes=[2, 3], dynamic=dynamic, note=note)
        for mode in ("linear", "cubic")
        for size, note in ((ints(3, 9), ""), (at_run_time(3, 9), "run-time"))
        for dynamic in BOTH
    ],
    *[
        case("Resize", F(1, 1, 7, 5), None, None, at_run_time(1, 1, 3, 11), nearest_mode=rounding, note="run-time")
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ],
    case("Resize", F(1, 2, 6, 5), None, None, ints(1, 2, 4, 9), mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5),
    case("Resize", F(1, 1, 6, 5), None, None, at_run_time(1, 1, 4, 9), mode="cubic", exclude_outside=1),
    case("Resize", F(1, 2, 6), None, floats(1, 1, 2), mode="linear"),
    case("Resize", F(1, 1, 2, 3, 4), None, floats(1, 1, 2, 1, 2), mode="nearest"),
    case("Resize", I(1, 1, 4, 4, dtype=np.int32), None, floats(1, 1, 2, 2), mode="nearest"),
    case("Resize", I(1, 1, 4, 4, low=0, dtype=np.uint8), None, None, ints(1, 1, 3, 8), mode="nearest"),
    case("Resize", F(1, 1, 1, 4), None, None, ints(1, 1, 1, 1), mode="linear"),
    case("Resize", F(1, 2, 4, 4), None, at_run_time(1, 1, 2, 2, dtype=np.float32), mode="nearest", note="run-time"),
]

SHAPE = [
    case("Squeeze", F(1, 3, 1, 2), note="all of length one", lowest=7),
    case("Squeeze", F(1, 3, 1, 2), ints(-2), lowest=7),
    case("Unsqueeze", F(3), ints(-1, 0, -3), lowest=7),
    case("Split", F(2, 7), outputs=4, axis=-1, num_outputs=4),
    case("Split", F(2, 6), outputs=3, axis=1, num_outputs=3, dynamic=True, lowest=11),
    case("Split", F(7, 2), at_run_time(3, 0, 4), outputs=3),
    case("Split", F(7, 2), at_run_time(3, 4), outputs=2, axis=-2, dynamic=True),
    case("Split", I(6), ints(1, 5), outputs=2),
    case("Shape", F(2, 3, 4), start=-1, lowest=7),
    case("Shape", F(2, 3, 4), start=2, end=1),
    case("Shape", F(), note="of a scalar"),
    case("Reshape", F(0, 3), ints(3, 0), allowzero=1),
    case("Reshape", F(2, 3), at_run_time(3, 2), lowest=7),
    case("Expand", F(3, 1), at_run_time(2, 1, 4), lowest=8),
    case("Expand", I(1), ints(0)),
    case("Expand", B(2, 1), ints(2, 3), lowest=8),
    case("Tile", F(2, 3), at_run_time(2, 0)),
    case("Tile", I(2, 3), at_run_time(1, 2)),
    case("Concat", F(2, 3), F(2, 0), axis=-1),
    case("Flatten", F(2, 3, 4), axis=-2),
    case("Flatten", I(2, 3), axis=0),
    case("Trilu", F(3, 4), one_at_run_time(1), upper=0, dynamic=True, note="run-time"),
    case("Trilu", B(3, 3), upper=1),
    case("Trilu", F(0, 3)),
    case("Trilu", F(2, 1, 4), scalar(-9, np.int64)),
    case("EyeLike", F(3, 4), k=1, dtype=7),
    case("EyeLike", I(3, 3)),
    case("Range", one_at_run_time(2), one_at_run_time(9), scalar(3, np.int64), note="run-time"),
    case("Range", scalar(0), one_at_run_time(2, np.float32), scalar(0.5), note="run-time"),
    case("Range", scalar(5, np.int64), one_at_run_time(5), scalar(1, np.int64), note="nothing"),
    case("ConstantOfShape", at_run_time(2, 3)),
    case("ConstantOfShape", at_run_time(2, 0)),
    case("NonZero", F(3, 4)),
    case("NonZero", B(3, 4), dynamic=True),
    case("DepthToSpace", F(1, 12, 2, 3), blocksize=2, mode="CRD"),
    case("DepthToSpace", F(2, 8, 2, 3), blocksize=2, mode="CRD", dynamic=True),
    case("DepthToSpace", F(1, 12, 2, 3), blocksize=2, lowest=7),
]


ROWS = SOFTMAX + BOUNDS + PAD + TOPK + SLICE + RESIZE + SHAPE


@pytest.mark.parametrize("one", ROWS, ids=str)
def test_edge(one: Case) -> None:
    check(one, EACH_CHANGE)
