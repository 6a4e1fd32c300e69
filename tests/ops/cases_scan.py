"""Rows for aten/scan.py."""

from __future__ import annotations

import math

import torch

from cases import B, I, R, case

NAN, INF = math.nan, math.inf
CASES = [
    case("aten::cumsum", lambda x: x.cumsum(1), R("b", "n")),
    case("aten::cumsum", lambda x: x.cumsum(-1), B("b", 4), name="bool"),
    case("aten::cumsum", lambda x: x.cumsum(0, dtype=torch.float64), I("b", 4), name="dtype"),
    case("aten::cumsum", lambda x: x.cumsum(0), R(), name="0-d"),
    case("aten::cumprod", lambda x: x.cumprod(1), R("b", "n", 2)),
    case("aten::cumprod", lambda x: x.cumprod(0), I("b", 3), name="int"),
    case(
        "aten::cumprod",
        lambda x: (x * 100).half().cumprod(1).clamp(-1e4, 1e4),
        R("b", "n", special=(2, 2, 2, 0)),
        name="half",
    ),
    case("aten::cumprod", lambda x: x.cumprod(0), R(), name="0-d"),
    case("aten::cumprod", lambda x: x.cumprod(1), R(3, 0), name="empty"),
    case("aten::logcumsumexp", lambda x: x.logcumsumexp(1), R("b", "n")),
    case(
        "aten::logcumsumexp", lambda x: x.logcumsumexp(0), R(5, special=(-INF, -INF, 90.0, INF, 1.0)), name="infinite"
    ),
    case("aten::logcumsumexp", lambda x: x.logcumsumexp(0), R(4, special=(1.0, NAN, INF)), name="nan"),
    case("aten::logcumsumexp aten::_logcumsumexp", lambda x: x.logcumsumexp(0), R(), name="0-d"),
    case("aten::cummax", lambda x: x.cummax(1), R("b", "n", 2)),
    case("aten::cummax", lambda x: x.cummax(0), R(5, special=(1.0, NAN, 2.0, NAN)), name="nan"),
    case("aten::cummax", lambda x: x.cummax(1), I("b", 8, low=0, high=2), name="last of equals"),
    case("aten::cummax", lambda x: x.cummax(0), R(), name="0-d"),
    case("aten::cummin", lambda x: x.cummin(-1), R("b", "n")),
    case("aten::cummin", lambda x: x.cummin(0), B("m", 2), name="bool"),
    case("aten::cummin", lambda x: x.cummin(0), R(3, special=(INF, INF, NAN)), name="infinite"),
    case("aten::diff", lambda x: x.diff(), R("b", "n")),
    case("aten::diff", lambda x, y: x.diff(2, 0, prepend=y, append=y), R("m", 3), R(1, 3), name="longer"),
    case("aten::diff", lambda x: x.diff(), B("b", 5), name="bool"),
    case("aten::diff", lambda x: x.diff(0), R("b", 5), name="not at all"),
    case("aten::diff", lambda x: x.diff(3), R(2, 2), name="until nothing is left"),
]
