"""Rows for aten/arithmetic.py, aten/elementwise.py and aten/compare.py."""

from __future__ import annotations

import math

import torch

from cases import B, I, R, case

F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
INF, NAN = math.inf, math.nan
ODD = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1e-10, -1e-10, 1e20, -1e20)
X, Y = R("n", 16, special=ODD), R("n", 16, special=ODD[::-1])
WIDE = R("n", 8, low=-6.0, high=6.0)
WHOLE, DIVISOR = I("n", 8, low=-9, high=9), I("n", 8, low=1, high=4)


def _near_the_least(x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    low, by = x.to(dtype) + torch.iinfo(dtype).min, y.to(dtype)
    return low // by, low // -by, low // 7, (-1 - low) // by, (-1 - low) // -3


CASES = [
    case(
        "aten::add.Tensor aten::sub.Tensor aten::mul.Tensor aten::div.Tensor aten::true_divide.Tensor",
        lambda x, y: (x + y, x - y, x * y, x / y, torch.true_divide(x, y)),
        R("b", 4),
        R("b", 4, low=0.5),
        dtypes=(F32, F64, F16, BF16),
    ),
    case(
        "aten::add.Tensor aten::sub.Tensor aten::rsub.Tensor",
        lambda x, y: (
            torch.add(x, y, alpha=2),
            torch.sub(x, y, alpha=0.5),
            torch.rsub(x, y, alpha=3),
            x + y.shape[0],
        ),
        R("b", 4),
        R("b", 4),
        name="alpha",
    ),
    case(
        "aten::add.Scalar aten::sub.Scalar aten::rsub.Scalar "
        "aten::mul.Scalar aten::div.Scalar aten::true_divide.Scalar",
        lambda x: (
            torch.ops.aten.true_divide.Scalar(x, 4),
            torch.ops.aten.add.Scalar(x, 2, 3),
            torch.ops.aten.sub.Scalar(x, 2, 3),
            torch.ops.aten.mul.Scalar(x, 2.5),
            torch.ops.aten.div.Scalar(x, 4),
            torch.ops.aten.rsub.Scalar(x, 1, 2),
        ),
        I("n", 3),
        name="scalar",
    ),
    case(
        "aten::add.Tensor aten::mul.Tensor",
        lambda x, y: (x + y, x * y, torch.add(x, y, alpha=False), x * 2.5),
        B("b", 4),
        B("b", 4),
        name="bool",
    ),
    case(
        "aten::add.Tensor aten::eq.Scalar",
        lambda x: (x + (-1), x == -1, x * 300),
        R("b", 4, dtype=torch.uint8, high=255),
        name="wrapped-scalar",
    ),
    case(
        "aten::addcmul aten::addcdiv",
        lambda x, y, z: (torch.addcmul(x, y, z, value=0.5), torch.addcdiv(x, y, z, value=2), torch.addcmul(x, y, z)),
        R("b", 4),
        R(4),
        R("b", 4, low=0.5),
    ),
    case("aten::addcmul", lambda x, y: torch.addcmul(x, x, y, value=3), I("b", 4), I(4), name="int"),
    case(
        "aten::lerp.Scalar aten::lerp.Tensor",
        lambda x, y, w: (
            torch.lerp(x, y, 0.25),
            torch.lerp(x, y, 0.75),
            torch.lerp(x, y, w),
            torch.lerp(x, y, w[0, 0]),
        ),
        R("b", 4),
        R("b", 4),
        R("b", 4, special=(0.0, 1.0, 0.5)),
    ),
    # Division
    case("aten::div.Tensor", lambda x: x / 2, I("b", 4), name="int"),
    case(
        "aten::div.Tensor_mode aten::floor_divide aten::remainder.Tensor aten::fmod.Tensor",
        lambda x, y: (
            torch.div(x, y, rounding_mode="floor"),
            torch.div(x, y, rounding_mode="trunc"),
            torch.div(x, y, rounding_mode=None),
            torch.floor_divide(x, y),
            torch.remainder(x, y),
            torch.fmod(x, y),
        ),
        R("n", 12, low=-9, special=(1.0, -1.0, 0.3, 7.5, INF, 1.0, -1.0, 3.0, -7.5, 6.0)),
        R("n", 12, low=0.5, high=4, special=(0.1, 0.1, -0.1, -2.5, 2.0, INF, INF, 0.0, 0.0, 3.0)),
    ),
    case(
        "aten::div.Tensor_mode aten::floor_divide aten::remainder.Tensor aten::fmod.Tensor",
        lambda x, y: (
            torch.div(x, y, rounding_mode="floor"),
            torch.div(x, -y, rounding_mode="trunc"),
            torch.div(x, y, rounding_mode=None),
            torch.floor_divide(x, -y),
            torch.remainder(x, -y),
            torch.fmod(x, -y),
        ),
        WHOLE,
        DIVISOR,
        name="int",
    ),
    case(
        "aten::floor_divide",
        lambda x, y: [
            part
            for dtype in (torch.int8, torch.int16, torch.int32, torch.int64)
            for part in _near_the_least(x, y, dtype)
        ],
        I("n", 6, low=0, high=9),
        I("n", 6, low=2, high=9),
        name="near the least number",
    ),
    case(
        "aten::div.Scalar_mode aten::floor_divide.Scalar aten::remainder.Scalar aten::fmod.Scalar",
        lambda x: (
            torch.ops.aten.div.Scalar_mode(x, 0.7, rounding_mode="floor"),
            torch.ops.aten.floor_divide.Scalar(x, -0.7),
            x % 0.7,
            x % -0.7,
            torch.fmod(x, 0.7),
            x // 2,
        ),
        R("n", 8, low=-9, high=9),
        name="scalar",
    ),
    case(
        "aten::remainder.Scalar_Tensor",
        lambda x: (torch.remainder(7, x), torch.remainder(-7.5, x)),
        I("n", 4, low=1, high=5),
    ),
    case("aten::floor_divide", lambda x: (x // 3, x % 3), R("n", 4, dtype=torch.uint8, high=255), name="unsigned"),
    case(
        "aten::gcd aten::lcm",
        lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)),
        I("n", 4, low=-60, high=60),
        I("n", 4, low=-60, high=60),
    ),
    # Powers
    case(
        "aten::pow.Tensor_Scalar",
        lambda x: (x**0, x**1, x**2, x**3, x**0.5, x**-0.5, x**-1, x**-2.5, torch.square(x)),
        R("b", 4, low=0.5),
        dtypes=(F32, F64),
    ),
    case(
        "aten::pow.Tensor_Tensor aten::pow.Scalar",
        lambda x, y: (x**y, 2**y, 0.5**x, (-x) ** 3),
        R("b", 4, low=0.5),
        R("b", 4),
        name="tensor",
    ),
    case(
        "aten::pow.Tensor_Scalar aten::square",
        lambda x: (x**0, x**1, x**2, x**5, x**40, x**2.0, x**-1.5, x.square()),
        I("b", 4, low=1, high=7),
        name="int",
    ),
    case(
        "aten::pow.Tensor_Tensor",
        lambda x, y: x**y,
        I("n", 8, low=-3, high=3),
        I("n", 8, low=-3, high=9),
        name="int-negative",
        refused="it raises an integer to a power that is not a small constant",
    ),
    case("aten::square", lambda x: x.square(), B("b", 4), name="bool"),
    case(
        "aten::ldexp.Tensor", lambda x, e: (torch.ldexp(x, e), torch.ldexp(e, e)), R("b", 4), I("b", 4, low=-6, high=6)
    ),
    # Larger and smaller
    case(
        "aten::maximum aten::minimum aten::fmax aten::fmin aten::max.other aten::min.other",
        lambda x, y: (
            torch.maximum(x, y),
            torch.minimum(x, y),
            torch.fmax(x, y),
            torch.fmin(x, y),
            torch.max(x, y),
            torch.min(x, y),
        ),
        X,
        Y,
    ),
    case(
        "aten::maximum aten::minimum aten::fmax aten::fmin",
        lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y), torch.fmin(x, y)),
        B("b", 4),
        B("b", 4),
        name="bool",
    ),
    case(
        "aten::maximum aten::fmin",
        lambda x, y: (torch.maximum(x, y), torch.fmin(x, y)),
        I("b", 4),
        R("b", 4),
        name="mixed",
    ),
    case(
        "aten::clamp aten::clamp_min aten::clamp_max",
        lambda x: (x.clamp(-1, 1), x.clamp(min=0.5), x.clamp(max=0), x.clamp(3, 1), x.clamp_min(0.5), x.clamp_max(0.5)),
        X,
    ),
    case(
        "aten::clamp aten::clamp_min",
        lambda x: (x.clamp(1, 3), x.clamp(0.5, 2.5), x.clamp_min(2)),
        I("b", 4),
        name="int",
    ),
    case(
        "aten::clamp.Tensor aten::clamp_min.Tensor aten::clamp_max.Tensor",
        lambda x, low, high: (
            torch.clamp(x, low, high),
            torch.clamp(x, max=high),
            torch.clamp(x, low[0, 0]),
            x.clamp_min(low),
            x.clamp_max(high),
        ),
        R("b", 4),
        R("b", 1, high=0.0),
        R(4, low=-1.0),
    ),
    # Functions
    case(
        "aten::acos aten::asin aten::atan aten::atanh aten::cos aten::sin aten::tan aten::erf aten::exp aten::sigmoid",
        lambda x: (
            x.acos(),
            x.asin(),
            x.atan(),
            x.atanh(),
            x.cos(),
            x.sin(),
            x.tan(),
            x.erf(),
            x.exp(),
            x.sigmoid(),
        ),
        R("n", 4, low=-0.9, high=0.9),
        dtypes=(F32, F64, F16),
    ),
    case(
        "aten::acosh aten::asinh aten::cosh aten::sinh aten::tanh aten::log aten::sqrt aten::rsqrt aten::reciprocal",
        lambda x: (
            x.acosh(),
            x.asinh(),
            x.cosh(),
            x.sinh(),
            x.tanh(),
            x.log(),
            x.sqrt(),
            x.rsqrt(),
            x.reciprocal(),
        ),
        R("n", 4, low=1.0, high=5.0),
    ),
    case("aten::exp aten::sqrt", lambda x: (x.exp(), x.sqrt(), x.sigmoid()), I("b", 4), name="int"),
    case("aten::exp", lambda x: x.exp(), B("b", 4), name="bool"),
    case("aten::abs aten::neg", lambda x: (x.abs(), -x), X, dtypes=(F32, F16)),
    case("aten::abs aten::neg aten::sign aten::sgn", lambda x: (x.abs(), -x, x.sign(), x.sgn()), WHOLE, name="int"),
    case("aten::sign aten::sgn", lambda x: (x.sign(), x.sgn()), WIDE),
    case("aten::sign", lambda x: x.sign(), B("b", 4), name="bool"),
    case("aten::sign aten::sgn", lambda x: ((x - 9).sqrt().sign(), (x - 9).sqrt().sgn()), R("b", 4), name="of-nan"),
    case(
        "aten::exp2 aten::expm1 aten::log1p",
        lambda x: (x.exp2(), x.expm1(), x.log1p(), torch.expm1(x * 1e-9) * 1e9, torch.log1p(x * 1e-9) * 1e9),
        X,
    ),
    case(
        "aten::log2 aten::log10",
        lambda x: (x.log2(), x.log10(), x.log2().floor()),
        R("n", 8, low=0.1, high=9.0, special=(8.0, 0.0, INF, 2.0**-10, 2.0**29, 1000.0)),
    ),
    case(
        "aten::logaddexp aten::logaddexp2",
        lambda x, y: (torch.logaddexp(x, y), torch.logaddexp2(x, y)),
        R("n", 9, special=(INF, -INF, INF, 90.0, -90.0, 0.0)),
        R("n", 9, special=(INF, -INF, 1.0, 89.0, -90.0, -20.0)),
    ),
    case(
        "aten::floor aten::ceil aten::round aten::trunc aten::frac",
        lambda x: (x.floor(), x.ceil(), x.round(), x.trunc(), (x * 3).frac()),
        R("n", 9, low=-3, high=3, special=(0.5, 1.5, 2.5, -0.5, -1.5, -0.0)),
        dtypes=(F32, F64, F16),
    ),
    case(
        "aten::floor aten::ceil aten::round aten::trunc",
        lambda x: (x.floor(), x.ceil(), x.round(), x.trunc()),
        I("b", 4),
        name="int",
    ),
    case(
        "aten::round.decimals",
        lambda x: (torch.round(x, decimals=2), torch.round(x * 1000, decimals=-2), torch.round(x, decimals=0)),
        WIDE,
    ),
    case(
        "aten::frexp.Tensor",
        lambda x: torch.frexp(x),
        R("n", 12, special=(0.0, INF, 1.0, 0.5, 2.0**-149, 8.0, -8.0, 0.49999997, 1e-30)),
    ),
    case(
        "aten::nextafter",
        lambda x, y: torch.nextafter(x, y) - x,
        R("n", 8, special=(1.0, 1.0, -1.0, 0.0, 2.0)),
        R("n", 8, special=(2.0, 0.0, -2.0, 1.0, 2.0)),
        rtol=0.0,
        atol=0.0,
    ),
    case(
        "aten::nextafter",
        lambda x, y: torch.nextafter(x, y),
        R("n", 4, special=(NAN, 1.0, INF, 3e38)),
        R("n", 4, special=(1.0, NAN, 0.0, INF)),
        name="odd",
    ),
    case(
        "aten::signbit aten::angle aten::copysign.Scalar",
        lambda x: (torch.signbit(x), torch.angle(x), torch.copysign(x, -2)),
        X,
    ),
    case("aten::signbit aten::angle", lambda x: (torch.signbit(x), torch.angle(x)), WHOLE, name="int"),
    case("aten::signbit", lambda x: torch.signbit(x), B("b", 4), name="bool"),
    case("aten::copysign.Tensor aten::atan2", lambda x, y: (torch.copysign(x, y), torch.atan2(x, y)), X, Y),
    case("aten::atan2", lambda x, y: torch.atan2(x, y), WHOLE, WHOLE, name="int"),
    case("aten::heaviside", lambda x, y: torch.heaviside(x, y), X, R(16)),
    case("aten::heaviside", lambda x, y: torch.heaviside(x, y), B("b", 4), B(4), name="bool"),
    case("aten::hypot", lambda x, y: torch.hypot(x, y), R("b", 4, special=(3e30, INF)), R("b", 4, special=(4e30, 1.0))),
    # Choosing
    case(
        "aten::nan_to_num",
        lambda x: (
            x.nan_to_num(),
            x.nan_to_num(1.0, 2.0, 3.0),
            x.nan_to_num(nan=INF),
            x.nan_to_num(posinf=5.0),
            x.nan_to_num(neginf=5.0),
        ),
        X,
        dtypes=(F32, F16),
    ),
    case("aten::nan_to_num", lambda x: x.nan_to_num(), I("b", 4), name="int"),
    case("aten::where.self", lambda c, x, y: torch.where(c, x, y), B("b", 4), R("b", 4), R(1)),
    case("aten::where.self", lambda c, x, y: torch.where(c.byte(), x, y), B("b", 4), R("b", 4), R(1)),
    case(
        "aten::where.ScalarOther aten::where.ScalarSelf aten::where.Scalar",
        lambda c, x: (
            torch.ops.aten.where.ScalarOther(c, x, 2.5),
            torch.ops.aten.where.ScalarSelf(c, 1, x),
            torch.ops.aten.where.Scalar(c, 1.0, 0.0),
        ),
        B("b", 4),
        I("b", 4),
        name="scalar",
    ),
    case(
        "aten::masked_fill.Scalar aten::masked_fill.Tensor",
        lambda x, m, v: (x.masked_fill(m, -INF), x.masked_fill(m, v[0])),
        R("b", 4),
        B(4),
        R(1, dtype=F64),
    ),
    # Comparison and tests
    case(
        "aten::eq.Tensor aten::ne.Tensor aten::gt.Tensor aten::ge.Tensor aten::lt.Tensor aten::le.Tensor",
        lambda x, y: (x == y, x != y, x > y, x >= y, x < y, x <= y),
        X,
        Y,
        dtypes=(F32, F64, F16),
    ),
    case(
        "aten::eq.Tensor aten::ne.Tensor aten::gt.Tensor aten::ge.Tensor aten::lt.Tensor aten::le.Tensor",
        lambda x, y: (x == y, x != y, x > y, x >= y, x < y, x <= y),
        B("n", 4),
        B("n", 4),
        name="bool",
    ),
    case(
        "aten::eq.Scalar aten::ne.Scalar aten::gt.Scalar aten::ge.Scalar aten::lt.Scalar aten::le.Scalar",
        lambda x: (x == 2, x != 2, x > 1.5, x >= 2, x < 2, x <= 2.5),
        I("n", 4),
        name="int",
    ),
    case(
        "aten::isnan aten::isinf aten::isposinf aten::isneginf aten::isfinite",
        lambda x: (x.isnan(), x.isinf(), x.isposinf(), x.isneginf(), x.isfinite()),
        X,
        dtypes=(F32, F64, F16),
    ),
    case(
        "aten::isnan aten::isinf aten::isposinf aten::isneginf aten::isfinite",
        lambda x: (x.isnan(), x.isinf(), x.isposinf(), x.isneginf(), x.isfinite()),
        I("b", 4),
        name="int",
    ),
    case("aten::isreal", lambda x: x.isreal(), R("b", 4)),
    case(
        "aten::isin.Tensor_Tensor aten::isin.Tensor_Scalar aten::isin.Scalar_Tensor",
        lambda x, y: (
            torch.isin(x, y),
            torch.isin(x, y, invert=True),
            torch.isin(x, 3),
            torch.isin(3, y),
        ),
        I("b", 4),
        I(2, "n"),
    ),
    case(
        "aten::isin.Tensor_Tensor", lambda x, y: (torch.isin(x, y), torch.isin(y, 2.5)), I("b", 4), R(3), name="mixed"
    ),
    case("aten::isin.Tensor_Tensor", lambda x, y: torch.isin(x, y), I("b", 4), I(0), name="empty"),
    case(
        "aten::logical_and aten::logical_or aten::logical_xor aten::logical_not",
        lambda x, y: (
            torch.logical_and(x, y),
            torch.logical_or(x, y),
            torch.logical_xor(x, y),
            torch.logical_not(x),
        ),
        R("b", 4, special=(0.0, NAN)),
        I("b", 4, high=1),
    ),
]
