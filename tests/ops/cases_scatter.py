"""Rows for aten/scatter.py."""

from __future__ import annotations

from collections.abc import Callable

import torch

from cases import B, I, R, case

Function = Callable[..., torch.Tensor]


def _reduce(how: str, include_self: bool) -> Function:
    return lambda x, i, s: x.scatter_reduce(1, i, s, how, include_self=include_self)


def _index_reduce(how: str, include_self: bool) -> Function:
    return lambda x, i, s: x.index_reduce(1, i, s, how, include_self=include_self)


NANS = (1.0, float("nan"), float("inf"))

SCATTER = [
    case("aten::scatter.src", lambda x, i, s: x.scatter(0, i, s), R(5, "n"), I(1, "n"), R(2, "n")),
    case("aten::scatter.src", lambda x, i, s: x.scatter(0, i, s), R(), I(high=0), R(), name="0-d"),
    case("aten::scatter.src", lambda x, i, s: x.scatter(0, i, s), R(3, 2), I(0, 2), R(1, 2), name="empty index"),
    case("aten::scatter.value", lambda x, i: x.scatter(1, i, 2.5), R("b", 5), I("b", 3)),
    case(
        "aten::scatter.reduce",
        lambda x, i, s: x.scatter(1, i, s, reduce="multiply"),
        R("b", 5),
        I("b", "n"),
        R("b", "n"),
    ),
    case("aten::scatter.value_reduce", lambda x, i: x.scatter(1, i, 2.5, reduce="add"), R("b", 5), I("b", 3)),
    case("aten::scatter_add", lambda x, i, s: x.scatter_add(1, i, s), R("b", 5), I("b", "n"), R("b", "n")),
    case("aten::scatter_add", lambda x, i, s: x.scatter_add(0, i, s), B(5), I(7), B(7), name="bool"),
    *(
        case("aten::scatter_reduce.two", _reduce(how, own), R("b", 5), I("b", "n"), R("b", "n"), name=f"{how} {own}")
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ),
    *(
        case(
            "aten::scatter_reduce.two",
            _reduce(how, own),
            R(2, 5, special=NANS),
            I(2, 7),
            R(2, 7, special=NANS),
            name=f"NaN {how} {own}",
        )
        for how in ("amax", "amin")
        for own in (True, False)
    ),
    *(
        case(
            "aten::scatter_reduce.two",
            _reduce("mean", own),
            I("b", 5),
            I("b", "n"),
            I("b", "n", low=-9),
            name=f"int mean {own}",
        )
        for own in (True, False)
    ),
]

ALONG = [
    case("aten::index_add", lambda x, i, s: x.index_add(0, i, s), R(5, "b"), I("n"), R("n", "b")),
    case(
        "aten::index_add",
        lambda x, i, s: x.index_add(1, i, s, alpha=2),
        R("b", 5, 2),
        I("n"),
        R("b", "n", 2),
        name="alpha",
    ),
    case("aten::index_add", lambda x, i, s: x.index_add(0, i, s), B(5), I("n"), B("n"), name="bool"),
    case(
        "aten::index_add", lambda x, i, s: x.index_add(1, i, s, alpha=0), B(2, 5), I("n"), B(2, "n"), name="bool, alpha"
    ),
    case("aten::index_copy", lambda x, i, s: x.index_copy(1, i, s), R("b", 5), I(1), R("b", 1)),
    case("aten::index_copy", lambda x, i, s: x.index_copy(0, i, s), R(), I(high=0), R(), name="0-d"),
    case("aten::index_fill.int_Scalar", lambda x, i: x.index_fill(1, i, 7), R("b", 5), I("n", low=-5)),
    case("aten::index_fill.int_Tensor", lambda x, i, v: x.index_fill(0, i, v), R(5, "b"), I("n"), R()),
    *(
        case("aten::index_reduce", _index_reduce(how, own), R("b", 5, 2), I("n"), R("b", "n", 2), name=f"{how} {own}")
        for how in ("prod", "mean", "amax", "amin")
        for own in (True, False)
    ),
    case("aten::put", lambda x, i, s: x.put(i, s), R("b", 5), I(1, low=-5), R(1)),
    case("aten::put", lambda x, i, s: x.put(i, s, accumulate=True), R(2, 5), I("n", 2), R("n", 2), name="add"),
]

PARTS = [
    case("aten::select_scatter", lambda x, s: x.select_scatter(s, 1, -2), R("b", 4, 2), R("b", 2)),
    case("aten::select_scatter", lambda x, s: x.select_scatter(s, 0, x.shape[0] - 2), R("n", 3), R(3), name="run-time"),
    case("aten::slice_scatter", lambda x, s: x.slice_scatter(s, 1, 1, 3), R("b", 4), R("b", 2)),
    case("aten::slice_scatter", lambda x, s: x.slice_scatter(s, 1, 1, 99, 2), R("b", 6), R("b", 3), name="steps"),
    case("aten::slice_scatter", lambda x, s: x.slice_scatter(s, 0, -2), R("n", 3), R(2, 3), name="from the end"),
    case("aten::slice_scatter", lambda x, s: x.slice_scatter(s, 0, 0, 2), R("n", 3), R(2, 3), name="from the start"),
    case("aten::slice_scatter", lambda x, s: x.slice_scatter(s, 0), R("n", 3), R("n", 3), name="all"),
    case(
        "aten::slice_scatter",
        lambda x, s: x.slice_scatter(s, 0, x.shape[0] - 3, x.shape[0] - 1),
        R("n", 3),
        R(2, 3),
        name="run-time start",
    ),
    case("aten::slice_scatter", lambda x: x.slice_scatter(x[:, ::2] + 1, 1, 0, 9, 2), R(0, "b"), name="steps of none"),
    case("aten::slice_scatter", lambda x: x.slice_scatter(x[:, 3::2] + 1, 1, 3, 9, 2), R("b", 2), name="none of steps"),
]

CASES = [*SCATTER, *ALONG, *PARTS]
