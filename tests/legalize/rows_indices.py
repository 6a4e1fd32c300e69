"""Gathering, scattering, ordering and contracting."""

from __future__ import annotations

import numpy as np
from rule_cases import BOTH, HALF, B, F, I, Literal, at_run_time, case, floats, ints, one_at_run_time, scalar

INDEX = [
    case("Gather", F(3, 4), I(2, low=0, high=4), axis=-1),
    case("GatherElements", F(3, 4), I(3, 2, low=-4, high=4), axis=-1),
    case("GatherElements", F(3, 4), I(2, 4, low=0, high=3), axis=0, dynamic=True),
    case("GatherElements", F(3, 4, 2), I(3, 6, 2, low=0, high=4), axis=1, dynamic=True),
    case("GatherND", F(3, 4, 5), I(2, 2, low=-3, high=3)),
    case("GatherND", F(3, 4, 5), I(2, 6, 3, low=-3, high=3)),
    case("ScatterElements", F(3, 4), I(3, 1, low=0, high=4), F(3, 1), axis=-1),
    *[
        case("ScatterElements", F(3, 4), I(5, 4, low=0, high=3), F(5, 4), axis=0, reduction=how)
        for how in ("add", "mul", "max", "min")
    ],
    *[
        case("ScatterND", F(3, 4), I(6, 1, low=0, high=3), F(6, 4), reduction=how, dynamic=dynamic)
        for how, dynamic in (("add", False), ("mul", False), ("max", False), ("min", False))
    ],
    case("ScatterND", F(3, 4), I(6, 2, low=0, high=3), F(6), reduction="add"),
    case("OneHot", I(3, low=0, high=4), scalar(4, np.int64), Literal(np.array([0, 1], np.float32)), axis=-1),
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
        case("ScatterND", F(3, 4), np.array([[0], [2]]), F(2, 4), dynamic=dynamic, lowest=lowest)
        for dynamic, lowest in ((False, 9), (True, 11))
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
    case("OneHot", I(2, 3, low=0, high=4), one_at_run_time(4), floats(0, 1), note="run-time depth"),
    case("Compress", F(3, 4), np.array([True, False, True]), axis=-2),
    case("Unique", np.array([2.0, 1, 1, 3], np.float32), outputs=4),
    case("ReverseSequence", F(4, 3, 2), np.array([1, 4, 2])),
]

ORDER = [
    case("TopK", F(3, 7), ints(3), outputs=2, largest=0),
    case("TopK", F(7, 3), ints(2), outputs=2, axis=0),
    case("TopK", I(3, 7, low=0, high=99, dtype=np.int32), ints(3), outputs=2),
    *[
        case("TopK", F(3, 7), count, outputs=2, largest=largest, axis=axis, dynamic=dynamic, note=note, lowest=lowest)
        for count, note, lowest in ((ints(2), "", 7), (at_run_time(2), "run-time", 9))
        for largest in (0, 1)
        for axis in (0, -1)
        for dynamic in BOTH
    ],
    case("TopK", I(3, 7), ints(3), outputs=2, largest=0, axis=0, lowest=9),
    case("TopK", np.array([3, 2**62 + 1, 2**62, -5, 3]), ints(5), outputs=2, lowest=9),
    case(
        "TopK", np.array([1, 2, 1, 2, 1], np.float32), at_run_time(5), outputs=2, dynamic=True, note="equal", lowest=9
    ),
    case("TopK", F(3, 7, dtype=HALF), ints(3), outputs=2),
    case("TopK", F(3, 7, dtype=np.float64), at_run_time(3), outputs=2, largest=0, dynamic=True, lowest=9),
    case("TopK", I(9, low=0, dtype=np.uint8), ints(4), outputs=2, largest=0),
    case("TopK", F(3, 7), at_run_time(0), outputs=2, note="none", lowest=9),
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
    case("Einsum", F(3, 3), equation="ii->i", lowest=9),
    case("Einsum", F(3, 3), equation="ii", lowest=9),
    case("Einsum", F(2, 3, 3), F(3), equation="bii,i->b", lowest=9),
    case("Einsum", F(3, 2, 3, 4), equation="ijik->kj", lowest=9),
    case("Einsum", F(2, 3), F(2, 3), equation="ij,ij->ij", dynamic=True),
    case("Einsum", F(2, 1, 3), F(2, 3, 4), F(4), equation="bij,bjk,k->b"),
]

ROWS = INDEX + ORDER + CONTRACTION
