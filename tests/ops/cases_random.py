"""Rows for aten/random.py: shapes and dtypes; the distributions are tested in test_random.py."""

from __future__ import annotations

from functools import partial

import torch

from cases import I, R
from cases import case as row

# onnxruntime has kernels for the random operators of opset 1 only, not for those of opset 22.
case = partial(row, exact_values=False, opsets=False)
ops = torch.ops.aten
G = None
HALF = (torch.float32, torch.float16, torch.bfloat16, torch.float64)

C = R("b", 2, dtype=torch.complex64)

CASES = [
    case("aten::rand aten::randn", lambda x: (torch.rand(x.shape[0], 3), torch.randn(2, dtype=torch.float64)), R("b")),
    case("aten::rand aten::randn", lambda x: (x + torch.rand(()), x + torch.randn(())), R("b"), name="0-d"),
    case(
        "aten::rand_like aten::randn_like", lambda x: (torch.rand_like(x), torch.randn_like(x)), R("b", 3), dtypes=HALF
    ),
    case(
        "aten::rand.generator aten::randn.generator",
        lambda x: (ops.rand.generator([2], generator=G), ops.randn.generator([2], generator=G)),
        R("b"),
    ),
    case("aten::rand_like.generator", lambda x: ops.rand_like.generator(x, generator=G), R("b")),
    case("aten::randn_like.generator", lambda x: ops.randn_like.generator(x, generator=G), R("b")),
    case("aten::rand_like aten::randn_like", lambda x: (torch.rand_like(x), torch.randn_like(x)), C, name="complex"),
    case("aten::uniform", lambda x: ops.uniform(x, 2.0, 5.0), R("b", 3), dtypes=HALF),
    case("aten::normal_functional", lambda x: ops.normal_functional(x, 2.0, 5.0), R("b", 3)),
    case("aten::normal.float_float", lambda x: torch.normal(2.0, 5.0, (x.shape[0], 2)), R("b")),
    case("aten::normal.Tensor_float", lambda x: torch.normal(x, 2.0), R("b", 3), dtypes=HALF),
    case("aten::normal.float_Tensor", lambda x: torch.normal(2.0, x), R("b", 3, low=0.1)),
    case("aten::normal.Tensor_Tensor", lambda x, y: torch.normal(x, y), R("b", 3), R(3, low=0.1)),
    case("aten::log_normal", lambda x: ops.log_normal(x), R("b", 3)),
    case("aten::exponential", lambda x: ops.exponential(x), R("b", 3), dtypes=HALF),
    case("aten::cauchy", lambda x: ops.cauchy(x), R("b", 3)),
    case("aten::geometric", lambda x: ops.geometric(x, 0.3), R("b", 3)),
    case(
        "aten::randint aten::randint.low",
        lambda x: (torch.randint(5, (x.shape[0],)), torch.randint(-2, 3, (2,))),
        R("b"),
    ),
    case("aten::randint", lambda x: torch.randint(x.shape[0], (3,)), R("b"), name="run-time bound"),
    case("aten::randint.generator", lambda x: ops.randint.generator(5, [2], generator=G), R("b")),
    case("aten::randint.low_generator", lambda x: ops.randint.low_generator(1, 5, [2], generator=G), R("b")),
    case(
        "aten::randint_like aten::randint_like.low_dtype",
        lambda x: torch.randint_like(x, 5) + torch.randint_like(x, 1, 5),
        R("b", 3),
    ),
    case("aten::randint_like.Tensor", lambda x, n: ops.randint_like.Tensor(x, n), R("b", 3), I(low=3, high=5)),
    case("aten::randint_like.generator", lambda x: ops.randint_like.generator(x, 5, generator=G), R("b")),
    case(
        "aten::randint_like.low_generator_dtype",
        lambda x: ops.randint_like.low_generator_dtype(x, 1, 5, generator=G),
        R("b"),
    ),
    case("aten::random aten::random.to", lambda x, n: (ops.random(x), ops.random.to(n, 5)), R("b", 3), I("b")),
    case("aten::random", lambda n: ops.random(n), I("b"), name="int"),
    case("aten::randperm", lambda x: torch.randperm(x.shape[0]), R("n")),
    case("aten::randperm.generator", lambda x: ops.randperm.generator(5, generator=G), R("n")),
    case("aten::bernoulli", lambda x: torch.bernoulli(x), R("b", 3, low=0, high=1), dtypes=HALF),
    case(
        "aten::bernoulli.p aten::bernoulli.Tensor",
        lambda x, p: (ops.bernoulli.p(x, 0.3), ops.bernoulli.Tensor(x, p)),
        R("b", 3),
        R(3, low=0, high=1),
    ),
    case("aten::multinomial", lambda x: (x.multinomial(2), x[0].multinomial(3)), R("b", 3, low=0.1)),
    case(
        "aten::multinomial",
        lambda x: (x.multinomial(5, True), x[0].multinomial(5, True)),
        R("b", 3, low=0.1),
        name="replacement",
    ),
    case(
        "aten::dropout aten::native_dropout",
        lambda x: (torch.dropout(x, 0.4, True), *torch.native_dropout(x, 0.4, True)),
        R("b", 3),
    ),
    case(
        "aten::feature_dropout",
        lambda x: (torch.feature_dropout(x, 0.4, True), torch.feature_dropout(x, 1.0, True)),
        R("b", 3, 2),
    ),
    row(
        "aten::dropout",
        lambda x: (torch.dropout(x, 0.4, False), *torch.native_dropout(x, 0.4, False)),
        R("b", 3),
        name="inference",
    ),
    row("aten::feature_dropout", lambda x: torch.feature_dropout(x, 0.4, False), R("b", 3, 2), name="inference"),
    row(
        "aten::dropout aten::native_dropout",
        lambda x: (torch.dropout(x, 1.0, True), *torch.native_dropout(x, 1.0, True)),
        R("b", 3),
        name="all",
    ),
    case("aten::poisson", torch.poisson, R("b", 3, low=0.1), dtypes=HALF),
    # torch knows the shape of its result only where all sizes are fixed.
    case("aten::binomial", lambda x: torch.binomial(x.round(), x / 4), R(2, 3, low=0.1)),
    case("aten::normal_functional", lambda x: ops.normal_functional(x, 1.0, 2.0), C, name="complex"),
]
