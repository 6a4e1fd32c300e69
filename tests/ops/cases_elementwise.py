"""Rows for aten/elementwise.py and aten/compare.py."""

from __future__ import annotations

import torch

from cases import B, I, R, case

F = torch.float32

CASES = [
    case("aten::add.Tensor", lambda x, y: x + y, R("b", 4), R("b", 4)),
    case("aten::add.Tensor", lambda x, y: torch.add(x, y, alpha=2), R("b", 4), R(4), name="alpha"),
    case("aten::add.Tensor", lambda x: x + 1, I("b", 3), name="scalar"),
    case("aten::mul.Tensor", lambda x, y: x * y, B("b", 4), B("b", 4), name="bool"),
    case("aten::div.Tensor", lambda x: x / 2, I("b", 4), name="int"),
    case("aten::where.self", lambda c, x, y: torch.where(c, x, y), B("b", 4), R("b", 4), R(1)),
]
