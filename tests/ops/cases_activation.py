"""Rows for aten/activation.py."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from cases import I, R, case

F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
ODD = R("n", 8, low=-8, high=8, special=(math.nan, math.inf, 0.0, -0.0, 0.5, -0.5, 30.0, -30.0))
PLAIN = R("n", 8, low=-8, high=8, special=(0.0, 0.5, -0.5, 3.0, -3.0, 25.0, -25.0))

CASES = [
    case(
        "aten::relu aten::selu aten::relu6 aten::hardtanh aten::leaky_relu",
        lambda x: (F.relu(x), F.selu(x), F.relu6(x), F.hardtanh(x, -0.3, 0.7), F.leaky_relu(x, 0.2)),
        ODD,
        dtypes=(F32, F64, F16, BF16),
    ),
    case(
        "aten::mish aten::hardswish aten::hardsigmoid aten::silu aten::log_sigmoid",
        lambda x: (F.mish(x), F.hardswish(x), F.hardsigmoid(x), F.silu(x), F.logsigmoid(x)),
        PLAIN,
        dtypes=(F32, F64, F16, BF16),
    ),
    case("aten::relu aten::hardtanh", lambda x: (F.relu(x), F.hardtanh(x, -2, 3)), I("n", 4, low=-5), name="int"),
    case("aten::threshold", lambda x: (F.threshold(x, 0.5, 20.0), F.threshold(x, -1, 0)), ODD),
    case("aten::hardshrink", lambda x: (F.hardshrink(x, 0.5), F.hardshrink(x, 2.0), F.hardshrink(x, -1.0)), ODD),
    case("aten::softshrink", lambda x: (F.softshrink(x, 0.5), F.softshrink(x, 0.0)), PLAIN),
    case("aten::rrelu", lambda x: F.rrelu(x, 0.1, 0.4), PLAIN),
    case(
        "aten::rrelu",
        lambda x: F.rrelu(x, 0.1, 0.4, training=True),
        PLAIN,
        name="training",
        exact_values=False,
        opsets=False,
    ),
    case(
        "aten::rrelu aten::rrelu_with_noise_functional",
        lambda x: F.rrelu(x, 0.3, 0.3 + 1e-7, training=True),
        R("n", 4),
        name="fixed",
        opsets=False,
    ),
    case("aten::prelu", lambda x, w: F.prelu(x, w), R("b", 3, "n"), R(3)),
    case("aten::prelu", lambda x, w: F.prelu(x, w), R("b", 3), R(3), name="2d"),
    case("aten::prelu", nn.PReLU(), R("b", 3, 4, 5), name="one"),
    case("aten::prelu", lambda x, w: F.prelu(x, w), R("n"), R(1), name="1d"),
    case("aten::prelu", lambda x, w: (F.prelu(x[0], w), F.prelu(x, w[0])), R("n"), R(1), name="0d"),
    case("aten::_prelu_kernel", lambda x, w: torch.ops.aten._prelu_kernel(x, w), R("b", 3, 4), R(1, 3, 1)),
    case(
        "aten::elu", lambda x: (F.elu(x), F.elu(x, 0.3), torch.ops.aten.elu(x, 1.3, 1.1, 0.7)), PLAIN, dtypes=(F32, F16)
    ),
    case("aten::celu", lambda x: (F.celu(x), F.celu(x, 0.3)), PLAIN, dtypes=(F32, F64, F16)),
    case("aten::glu", lambda x: (F.glu(x, 0), F.glu(x), F.glu(x, 1)), R(4, 6, 2)),
    case("aten::glu", lambda x: F.glu(x), R("b", "n", 6), name="dynamic"),
    case("aten::gelu", lambda x: (F.gelu(x), F.gelu(x, approximate="tanh")), PLAIN, dtypes=(F32, F64, F16, BF16)),
    case(
        "aten::softplus",
        lambda x: (F.softplus(x), F.softplus(x, 2.0), F.softplus(x, 1, 3.0), F.softplus(x, 0.5, 1.0)),
        PLAIN,
    ),
    case(
        "aten::softmax.int aten::log_softmax.int aten::special_softmax aten::special_log_softmax",
        lambda x: (
            x.softmax(-1),
            x.softmax(0),
            x.log_softmax(1),
            F.softmin(x, 1),
            torch.special.softmax(x, 0),
            torch.special.log_softmax(x, 0),
        ),
        R("b", "n"),
        dtypes=(F32, F64, F16),
    ),
    case(
        "aten::softmax.int aten::log_softmax.int",
        lambda x: (x.softmax(-1, dtype=F32), x.log_softmax(0, dtype=F64)),
        I("b", "n"),
        name="dtype",
    ),
    case(
        "aten::softmax.int aten::log_softmax.int",
        lambda x: (x[0].softmax(0), x[0].log_softmax(-1), (x[0] / 0).softmax(0), (x[0] / 0).log_softmax(0)),
        R("n"),
        name="0d",
    ),
    case(
        "aten::_softmax aten::_log_softmax",
        lambda x: (torch.ops.aten._softmax(x, 1, False), torch.ops.aten._log_softmax(x, -1, False)),
        R("b", "n"),
    ),
]
