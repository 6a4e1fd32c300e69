"""Views, slices, pads, and what makes a tensor of a shape."""

from __future__ import annotations

import numpy as np
from rule_cases import BOTH, HALF, B, F, I, at_run_time, case, ints, one_at_run_time, scalar

LOW, HIGH = -(2**63), 2**63 - 1

VIEW = [
    case("Shape", F(2, 3, 4), start=1, end=3),
    case("Shape", F(2, 3, 4), start=-2, dynamic=True),
    case("Reshape", F(2, 3, 4), ints(0, -1)),
    case("Reshape", F(2, 0, 3), ints(3, 0, 2), allowzero=1),
    case("Reshape", F(2, 3, 4), ints(4, 6), allowzero=1),
    case("Squeeze", F(2, 1, 3, 1), ints(1, -1)),
    case("Unsqueeze", F(2, 3), ints(0, -1)),
    case("Split", F(2, 7), outputs=3, axis=1, num_outputs=3),
    case("Split", F(2, 7), outputs=3, axis=-1, num_outputs=3, dynamic=True, lowest=9),
    case("Split", F(7, 2), ints(3, 4), outputs=2),
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
    case("Squeeze", F(1, 3, 1, 2), note="all of length one"),
    case("Squeeze", F(1, 3, 1, 2), ints(-2)),
    case("Unsqueeze", F(3), ints(-1, 0, -3)),
    case("Split", F(2, 7), outputs=4, axis=-1, num_outputs=4),
    case("Split", F(2, 6), outputs=3, axis=1, num_outputs=3, dynamic=True, lowest=9),
    case("Split", F(7, 2), at_run_time(3, 0, 4), outputs=3, lowest=9),
    case("Split", F(7, 2), at_run_time(3, 4), outputs=2, axis=-2, dynamic=True, lowest=9),
    case("Split", I(6), ints(1, 5), outputs=2),
    case("Shape", F(2, 3, 4), start=-1),
    case("Shape", F(2, 3, 4), start=2, end=1),
    case("Shape", F(), note="of a scalar"),
    case("Reshape", F(0, 3), ints(3, 0), allowzero=1),
    case("Reshape", F(2, 3), at_run_time(3, 2)),
    case("Expand", F(3, 1), at_run_time(2, 1, 4), lowest=8),
    case("Expand", I(1), ints(0)),
    case("Expand", B(2, 1), ints(2, 3), lowest=8),
    case("Tile", F(2, 3), at_run_time(2, 0)),
    case("Tile", I(2, 3), at_run_time(1, 2)),
    case("Concat", F(2, 3), F(2, 0), axis=-1),
    case("Flatten", F(2, 3, 4), axis=-2),
    case("Flatten", I(2, 3), axis=0, lowest=9),
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
    case("DepthToSpace", F(1, 12, 2, 3), blocksize=2),
]

SLICE = [
    case("Slice", F(4, 6), ints(1, -4), ints(3, 9), ints(0, 1)),
    case("Slice", F(4, 6), ints(0), ints(6), ints(-1), ints(2)),
    case("Slice", F(4, 6), ints(-1), ints(-9), ints(1), ints(-1)),
    *[
        case(
            "Slice",
            F(4, 6),
            np.array([start]),
            np.array([end]),
            ints(1),
            dynamic=dynamic,
            note=f"{start}:{end}",
            lowest=9,
        )
        for start, end, dynamic in ((1, 3, False), (-4, 99, True), (5, 2, True), (-99, -2, False))
    ],
    *[
        case(
            "Slice",
            F(7, 6),
            start,
            end,
            ints(axis),
            ints(step),
            dynamic=dynamic,
            note=f"{note}{step}",
            lowest=9 if dynamic and step != 1 else lowest,
        )
        for start, end, note, lowest in (
            (ints(1), ints(6), "", 7),
            (ints(-1), ints(LOW), "back ", 7),
            (ints(99), ints(-99), "beyond ", 7),
            (at_run_time(4), at_run_time(-5), "run-time ", 9),
            (at_run_time(-2), at_run_time(LOW), "to the start ", 9),
        )
        for axis, step in ((0, 1), (-1, 2), (0, -1), (1, -3))
        for dynamic in BOTH
    ],
    *[
        case("Slice", F(7, 6), at_run_time(-4), at_run_time(HIGH), ints(0), ints(step), note="on", lowest=9)
        for step in (1, 2)
    ],
    case("Slice", F(7, 6), ints(1, 2), ints(5, 4)),
    case("Slice", F(7, 6), at_run_time(1, 2), at_run_time(5, 4), lowest=9),
    case("Slice", F(7, 6), at_run_time(6), at_run_time(0), ints(0), at_run_time(-2), note="run-time step", lowest=9),
    case("Slice", F(7, 6), at_run_time(1), at_run_time(6), ints(0), at_run_time(2), note="run-time step", lowest=9),
    case("Slice", F(7), at_run_time(1, dtype=np.int32), at_run_time(5, dtype=np.int32), dynamic=True, lowest=9),
    case("Slice", F(0, 3), ints(0), ints(5), ints(0)),
    case("Slice", B(7), ints(5), ints(1), ints(0), ints(-1)),
]

PAD = [
    case("Pad", F(2, 3), ints(1, 2, 0, 1), scalar(5)),
    case("Pad", F(2, 3), ints(1, 2), None, ints(-1), mode="edge"),
    case("Pad", F(2, 3, 4), ints(1, 2, 0, 2), None, ints(1, 2), mode="reflect"),
    case("Pad", F(2, 5), ints(1, 2, 0, 1), mode="wrap"),
    case("Pad", I(2, 3, dtype=np.int32), ints(0, 1, 0, 1), scalar(7, np.int32)),
    case("Pad", I(2, 3, low=0, high=2, dtype=np.bool_), ints(0, 1, 0, 1), scalar(True, np.bool_), lowest=8),
    *[
        case("Pad", F(4, 5), ints(1, 2, 3, 0), mode=mode, dynamic=dynamic, lowest=lowest if dynamic else 7)
        for mode, lowest in (("constant", 7), ("reflect", 7), ("edge", 7), ("wrap", 9))
        for dynamic in BOTH
    ],
    *[
        case("Pad", F(4, 5), at_run_time(1, 2, 3, 0), mode=mode, dynamic=dynamic, note="run-time", lowest=9)
        for mode in ("constant", "reflect", "edge", "wrap")
        for dynamic in BOTH
    ],
    case("Pad", F(4, 5), at_run_time(2, 1), scalar(3), ints(-1), note="run-time", lowest=9),
    case("Pad", F(4, 5), at_run_time(-1, 2, 1, -3), scalar(3), ints(1, 0), note="run-time", lowest=9),
    case("Pad", F(4, 5), ints(-1, 2, 1, -3), scalar(3), ints(1, 0)),
    case("Pad", F(4, 5), ints(-1, 7), None, ints(1), mode="wrap", note="more than there is"),
    case("Pad", F(4, 5), ints(1, 0, 0, 1), one_at_run_time(7, np.float32), note="run-time value"),
    case("Pad", I(2, 3), ints(0, 1, 2, 0), scalar(2**53 + 1, np.int64)),
    case("Pad", I(2, 3), ints(0, 1, 1, 0), mode="reflect"),
    case("Pad", B(2, 3), ints(0, 1, 2, 0), lowest=8),
    case("Pad", F(2, 3, dtype=HALF), ints(0, 1, 2, 0), scalar(1, HALF)),
    case("Pad", F(2, 0), ints(0, 1, 2, 0), scalar(1)),
    case("Pad", F(2, 3), ints(0, 0, 0, 0)),
]

ROWS = VIEW + SLICE + PAD
