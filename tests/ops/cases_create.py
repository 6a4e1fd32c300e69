"""Rows for aten/create.py."""

from __future__ import annotations

import torch

from cases import I, R, case

ops = torch.ops.aten
SHAPE_ONLY = {"exact_values": False}

C = R("b", 2, dtype=torch.complex64)

CASES = [
    case("aten::zeros aten::ones", lambda x: torch.zeros(x.shape[0], 3) + torch.ones(3, dtype=torch.int64), R("b", 2)),
    case("aten::zeros", lambda x: x + torch.zeros(()), R("b"), name="0-d"),
    case(
        "aten::full",
        lambda x: (torch.full((x.shape[0],), 7), torch.full((2,), True), x + torch.full((2,), 0.5)),
        R("b", 2),
    ),
    case("aten::full", lambda x: torch.full((2, 2), x.shape[0]), R("b", 2), name="run-time value"),
    case(
        "aten::zeros_like aten::ones_like",
        lambda x: torch.zeros_like(x) + torch.ones_like(x, dtype=torch.int8),
        R("b", 2),
    ),
    case(
        "aten::zeros_like aten::full_like", lambda x: (torch.zeros_like(x), torch.full_like(x, 2j)), C, name="complex"
    ),
    case("aten::full_like", lambda x: torch.full_like(x, 3.7), I("b", 2)),
    case("aten::new_zeros aten::new_ones", lambda x: x.new_zeros(x.shape[0], 2) + x.new_ones(2), R("b", 3)),
    case("aten::new_full", lambda x: x.new_full((2, x.shape[0]), 3), R("b", 3)),
    case("aten::empty_like aten::new_empty", lambda x: (torch.empty_like(x), x.new_empty(2)), R("b", 3), **SHAPE_ONLY),
    case("aten::empty.memory_format", lambda x: torch.empty(x.shape[0], 2), R("b", 3), **SHAPE_ONLY),
    case("aten::empty_permuted", lambda x: torch.empty_permuted((2, 3), (1, 0)), R("b"), **SHAPE_ONLY),
    case("aten::empty_strided", lambda x: torch.empty_strided((2, 3), (1, 2)), R("b"), **SHAPE_ONLY),
    case("aten::new_empty_strided", lambda x: x.new_empty_strided((2, 3), (1, 2)), R("b"), **SHAPE_ONLY),
    case("aten::zero", lambda x: ops.zero(x), R("b", 3)),
    case("aten::fill.Scalar", lambda x: torch.fill(x, 2.5), R("b", 3)),
    case("aten::fill.Tensor", lambda x, y: torch.fill(x, y), I("b", 3), R()),
    case("aten::scalar_tensor", lambda x: x + ops.scalar_tensor(2.5), R("b")),
    case("aten::scalar_tensor", lambda x: x + torch.scalar_tensor(x.shape[0]), R("b"), name="run-time value"),
    case("aten::arange", lambda x: torch.arange(x.shape[0]), R("n")),
    case("aten::arange", lambda x: torch.arange(2.6) + x, R("n", 3), name="float"),
    case("aten::arange.start", lambda x: torch.arange(-1, x.shape[0], dtype=torch.float32), R("n")),
    case("aten::arange.start_step", lambda x: torch.arange(x.shape[0], -2, -2), R("n")),
    case("aten::arange.start_step", lambda x: torch.arange(0.5, 2.0, 0.3) + x, R("n", 5), name="fractions"),
    case("aten::arange.start_step", lambda x: torch.arange(0.5, 4.7, 1.2, dtype=torch.int64), R("n"), name="truncated"),
    case(
        "aten::arange.start_step", lambda x: torch.arange(x.shape[0], 8.5, 1.5, dtype=torch.int64), R("n"), name="int"
    ),
    case(
        "aten::arange.start_step", lambda x: torch.arange(x.shape[0], 8.5, 1.5, dtype=torch.int32), R("n"), name="i32"
    ),
    case("aten::arange.start_step", lambda x: torch.arange(0, 5, 2, dtype=torch.float16), R("n"), name="half"),
    case("aten::linspace", lambda x: x + torch.linspace(-1, 3, 5), R("b", 5)),
    case(
        "aten::linspace",
        lambda x: (torch.linspace(-3, 4, 4, dtype=torch.int32), torch.linspace(0, 1, 0)),
        R("b"),
        name="int",
    ),
    case("aten::linspace", lambda x: torch.linspace(0, x.shape[0], 5), R("b"), name="run-time end"),
    case("aten::linspace.Tensor_Tensor", lambda a, b: torch.linspace(a, b, 6), R(), R()),
    case("aten::linspace.Tensor_Scalar", lambda a: torch.linspace(a, 4, 5, dtype=torch.int64), R()),
    case(
        "aten::linspace.Tensor_Tensor",
        lambda x: torch.linspace(x.sum().long() * 0 + 2**24 + 1, x.sum().long() * 0 + 2**24 + 9, 9, dtype=torch.int64),
        R("b"),
        name="whole numbers beyond single precision",
    ),
    case("aten::linspace.Scalar_Tensor", lambda b: (torch.linspace(0, b, 1), torch.linspace(0, b, 0)), R()),
    case("aten::logspace", lambda x: x + torch.logspace(-1, 1, 3, base=2), R("b", 3)),
    case("aten::logspace.Tensor_Tensor", lambda a, b: torch.logspace(a, b, 4), R(), R()),
    case("aten::logspace.Tensor_Scalar", lambda a: torch.logspace(a, 1, 4, base=2), R()),
    case(
        "aten::logspace.Tensor_Scalar",
        lambda a: [torch.logspace(a, 3, n, base=5, dtype=torch.int32) for n in (0, 1, 4)],
        R(special=(-1.7,)),
        name="whole",
    ),
    case("aten::logspace.Scalar_Tensor", lambda b: torch.logspace(1, b, 4, dtype=torch.float64), R()),
    case("aten::eye", lambda x: torch.eye(x.shape[0]), R("n")),
    case("aten::eye.m", lambda x: torch.eye(3, x.shape[0], dtype=torch.int64), R("n")),
    case(
        "aten::tril", lambda x: (x.tril(), x.tril(1)), R("b", "n", 3), dtypes=(torch.float32, torch.int64, torch.bool)
    ),
    case("aten::triu", lambda x: (x.triu(), x.triu(-1), x.triu(x.shape[0])), R("n", 3)),
    case("aten::tril_indices", lambda x: torch.tril_indices(3, 4, 1), R("b")),
    case("aten::triu_indices", lambda x: torch.triu_indices(4, 3, -1, dtype=torch.int32), R("b")),
]
