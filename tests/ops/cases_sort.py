"""Rows for aten/sort.py and aten/unique.py."""

from __future__ import annotations

import torch

from cases import B, I, R, case

ops = torch.ops.aten


def _unique_consecutive(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.unique_consecutive(x, return_inverse=True, return_counts=True)


UNIQUE = "Unique does not exist in opset 9"

CASES = [
    case("aten::sort", lambda x: x.sort(), R("b", "n")),
    case("aten::sort", lambda x: x.sort(0, descending=True), R("b", 3), name="descending"),
    case("aten::sort", lambda x: x.sort(), R(), name="0-d"),
    case("aten::sort", lambda x: x.sort()[0], B("b", 6), name="bool"),
    case("aten::sort.stable", lambda x: x.sort(dim=1, stable=True), I("b", 9, low=0, high=2)),
    case(
        "aten::sort.stable",
        lambda x: x.sort(dim=1, stable=True, descending=True),
        I("b", 9, low=0, high=2),
        name="down",
    ),
    case("aten::argsort", lambda x: x.argsort(-1), R("b", "n")),
    case("aten::argsort.stable", lambda x: torch.argsort(x, dim=0, stable=True), I("m", 2, low=0, high=2)),
    case("aten::msort", lambda x: x.msort(), R("n", 3)),
    case("aten::topk", lambda x: x.topk(2), R("b", "n")),
    case("aten::topk", lambda x: x.topk(3, dim=0, largest=False), R("n", 2), name="smallest"),
    case("aten::topk", lambda x: x.topk(x.shape[1] // 2), R("b", "n"), name="run-time k"),
    case("aten::topk", lambda x: x.topk(1), R(), name="0-d"),
    case("aten::kthvalue", lambda x: x.kthvalue(2, 1), R("b", "m")),
    case("aten::kthvalue", lambda x: x.kthvalue(1, 0, keepdim=True), R("b", 3), name="keepdim"),
    case("aten::kthvalue", lambda x: x.kthvalue(1), R(), name="0-d"),
    case("aten::searchsorted.Tensor", lambda s, x: torch.searchsorted(s.sort()[0], x), R("b", "n"), R("b", 4)),
    case(
        "aten::searchsorted.Tensor",
        lambda s, x: torch.searchsorted(s.sort()[0], x, side="right", out_int32=True),
        I(6, low=0, high=3),
        I("b", 4, low=-1, high=4),
        name="right",
    ),
    case(
        "aten::searchsorted.Tensor",
        lambda s, x: torch.searchsorted(s, x, sorter=s.argsort()),
        R("n"),
        R("b", special=(float("nan"), float("inf"))),
        name="sorter",
    ),
    case("aten::searchsorted.Scalar", lambda s: torch.searchsorted(s.sort()[0], 0.5), R("n")),
    case("aten::bucketize.Tensor", lambda x, s: torch.bucketize(x, s.sort()[0]), R("b", 3), R("n")),
    case("aten::bucketize.Tensor", lambda x: torch.bucketize(x, torch.tensor([0.5, 2.5])), I("b", 3), name="int"),
    case("aten::bucketize.Scalar", lambda s: ops.bucketize.Scalar(2, s.sort()[0], right=True), I("n")),
    case(
        "aten::_unique2", lambda x: torch.unique(x, return_inverse=True, return_counts=True), I("b", 6), refused=UNIQUE
    ),
    case("aten::_unique2", lambda x: torch.unique(x), R("b", 3, special=(1.0, 1.0)), name="values", refused=UNIQUE),
    case("aten::_unique", lambda x: ops._unique(x, True, True), I("b", 6), refused=UNIQUE),
    case(
        "aten::unique_dim",
        lambda x: torch.unique(x, dim=0, return_inverse=True),
        I(8, 2, low=0, high=1),
        refused=UNIQUE,
    ),
    case(
        "aten::unique_dim",
        lambda x: torch.unique(x, dim=1, return_counts=True),
        I(2, 9, low=0, high=1),
        name="dim 1",
        refused=UNIQUE,
    ),
    case("aten::unique_consecutive", _unique_consecutive, I("n", 3, low=0, high=1)),
    case(
        "aten::unique_consecutive aten::unique_dim_consecutive",
        lambda x: torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True),
        I("n", 2, low=0, high=1),
        name="dim",
    ),
]
