"""Rows for aten/reduce.py and aten/segment.py."""

from __future__ import annotations

import math

import torch

from cases import B, I, R, case

NAN, INF = math.nan, math.inf
WITH_NAN = (NAN, 1.0, NAN)
ops = torch.ops.aten

CASES = [
    case("aten::sum", lambda x: x.sum(), R("b", 4)),
    case("aten::sum", lambda x: x.sum(), B("b", 4), name="bool"),
    case("aten::sum", lambda x: x.sum(), R(), name="0-d"),
    case("aten::sum", lambda x: x.sum(), R(3, 0), name="empty"),
    case("aten::sum.dim_IntList", lambda x: x.sum((0, -1), keepdim=True), R("b", 3, "n")),
    case("aten::sum.dim_IntList", lambda x: x.sum(1, dtype=torch.float64), I("b", 4), name="dtype"),
    case("aten::sum.dim_IntList", lambda x: x.sum([]), R("b", 4), name="no dims are all"),
    case("aten::sum.dim_IntList", lambda x: x.sum(1), R(0, 3), name="of nothing"),
    case("aten::sum.dim_IntList", lambda x: x.to(torch.int8).sum(0), I("b", 4, low=100, high=120), name="int8"),
    case("aten::prod", lambda x: x.prod(), I("b", 3, low=1, high=3)),
    case("aten::prod", lambda x: x.prod(), B("b", 3), name="bool"),
    case(
        "aten::prod.dim_int",
        lambda x: (x.prod(1, dtype=torch.bool), x.sum(0, dtype=torch.bool)),
        R("b", "n", special=[0]),
        name="in bool",
    ),
    case("aten::prod.dim_int", lambda x: x.prod(1, keepdim=True), R("b", "n")),
    case("aten::prod.dim_int", lambda x: x.prod(0), R(0, 3), name="empty"),
    case("aten::prod.dim_int", lambda x: x.prod(1), I("b", "n", low=-(2**20), high=2**20), name="beyond 2^53"),
    case(
        "aten::prod.dim_int", lambda x: x.prod(1, True), I("b", 3, low=-(2**30), high=2**30), name="three beyond 2^53"
    ),
    case("aten::prod", lambda x: x.prod(), I("b", 4, low=2**20, high=2**21), name="all beyond 2^53"),
    case("aten::mean", lambda x: x.mean(), R("b", 4)),
    case("aten::mean", lambda x: x.mean(), R(0), name="empty"),
    case("aten::mean.dim", lambda x: x.mean((1, 2), keepdim=True), R("b", 3, "n")),
    case("aten::mean.dim", lambda x: x.mean(0, dtype=torch.float32), I("b", 3), name="dtype"),
    case("aten::mean.dim", lambda x: x.mean(0), R(), name="0-d"),
    case("aten::nansum", lambda x: x.nansum(1), R("b", 4, special=WITH_NAN)),
    case("aten::nansum", lambda x: x.nansum(), I("b", 4), name="int"),
    case("aten::nanmean", lambda x: x.nanmean(1, keepdim=True), R("b", 2, special=(NAN, NAN, NAN))),
    case("aten::logsumexp", lambda x: x.logsumexp(1), R("b", 4, special=(INF, -INF, 500.0))),
    case("aten::logsumexp", lambda x: x.logsumexp(1), R("b", 2, special=(-INF, -INF)), name="nothing but -inf"),
    case("aten::logsumexp", lambda x: x.logsumexp((0, 1), keepdim=True), I("b", 4), name="int"),
    case("aten::special_logsumexp", lambda x: torch.special.logsumexp(x, -1), R("b", 4)),
    case("aten::count_nonzero", lambda x: torch.count_nonzero(x), R("b", 4, special=(0.0, -0.0, NAN))),
    case("aten::count_nonzero.dim_IntList", lambda x: torch.count_nonzero(x, (0, 2)), I("b", 3, "n", low=0, high=1)),
    case("aten::amax", lambda x: x.amax((0, -1), keepdim=True), R("b", 3, "n")),
    case("aten::amax", lambda x: x.amax(1), B("b", 3), name="bool"),
    case("aten::amin", lambda x: x.amin(()), R("b", 3)),
    case("aten::amin", lambda x: x.amin(0), I("b", 3), name="int"),
    case("aten::amin", lambda x: x.amin(0), R(), name="0-d"),
    case("aten::max", lambda x: x.max(), I("b", 3)),
    case("aten::min", lambda x: x.min(), R("b", 3, special=(-INF,))),
    case("aten::aminmax", lambda x: torch.aminmax(x, dim=1, keepdim=True), R("b", "n")),
    case("aten::aminmax", lambda x: torch.aminmax(x), I("b", 3), name="of all"),
    case("aten::argmax", lambda x: x.argmax(-1), R("b", "n")),
    case("aten::argmax", lambda x: x.argmax(1), I("b", 8, low=0, high=2), name="first of equals"),
    case("aten::argmax", lambda x: x.argmax(keepdim=True), R("b", 3), name="of all"),
    case("aten::argmax", lambda x: x.argmax(0), R(), name="0-d"),
    case("aten::argmin", lambda x: x.argmin(1, keepdim=True), R("b", "n")),
    case("aten::argmin", lambda x: x.argmin(), I("b", 8, low=0, high=2), name="of all"),
    case("aten::max.dim", lambda x: x.max(1), I("b", 8, low=0, high=2)),
    case("aten::max.dim", lambda x: x.max(-1, keepdim=True), B("b", 3), name="bool"),
    case("aten::max.dim", lambda x: x.max(0), R(), name="0-d"),
    case("aten::min.dim", lambda x: x.min(0, keepdim=True), R("b", 3)),
    case("aten::all", lambda x: x.all(), B("b", 2)),
    case("aten::all", lambda x: x.all(), R(0, 3), name="of nothing"),
    case("aten::all.dim", lambda x: x.all(1, keepdim=True), I("b", "n", low=0, high=9)),
    case("aten::all.dims", lambda x: x.all((0, 2)), R("b", 3, 2, special=(0.0, NAN))),
    case("aten::all.dims", lambda x: ops.all.dims(x, []), B("b", 3), name="no dims are none"),
    case("aten::any", lambda x: x.any(), R("b", 2)),
    case("aten::any", lambda x: x.any(), B(0), name="of nothing"),
    case("aten::any", lambda x: x.to(torch.uint8).any(), B("b", 2), name="uint8 stays"),
    case("aten::any.dim", lambda x: x.any(-1), B("b", "n")),
    case("aten::any.dims", lambda x: x.any((0, 1), keepdim=True), I("b", 2, 3, low=0, high=1)),
    case(
        "aten::segment_reduce",
        lambda x: [
            torch.segment_reduce(x, reduce, lengths=torch.tensor([2, 0, 3]), initial=0, unsafe=True)
            for reduce in ("sum", "mean", "max", "min", "prod")
        ],
        R(5, "k"),
    ),
    case(
        "aten::segment_reduce",
        lambda x: torch.segment_reduce(x, "mean", offsets=torch.tensor([[0, 1, 4], [0, 3, 4]]), axis=1, unsafe=True),
        R(2, 4, 3),
        name="offsets of batches",
    ),
]
