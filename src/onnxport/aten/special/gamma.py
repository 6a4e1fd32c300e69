"""The gamma function's logarithm, derivatives and incomplete forms, and the Hurwitz zeta function.

All are computed in double precision: they are small differences of large terms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.aten.reduction.reduce import flat
from onnxport.translate import Builder, Tensor, translates
from onnxport.translate.loop import emit_loop, inside

_SHIFT = 8
"""From here on asymptotic expansions are accurate; smaller arguments are carried there by recurrence."""


def _double(op: Builder, x: Tensor) -> Tensor:
    return op.cast(x, torch.float64)


def _steps(op: Builder, x: Tensor) -> Tensor:
    """x, x + 1, ... along a new last dimension."""
    return op.unsqueeze(x, [x.rank]) + op.const(range(_SHIFT), torch.float64)


def _over_steps(op: Builder, op_type: str, steps: Tensor, x: Tensor) -> Tensor:
    """A reduction of the last dimension; of nothing, which runtimes get wrong, nothing."""
    return x if 0 in x.shape else op.multi(op_type, steps, [-1], outputs=1, keepdims=0)[0].with_shape(x.shape)


def _off_whole(op: Builder, x: Tensor) -> Tensor:
    """pi times the distance to the nearest whole number, at which sines are exact for large arguments too."""
    return (x - op.Round(x)) * math.pi


def _polynomial(x: Tensor, *coefficients: float) -> Tensor:
    result = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        result = (result + coefficient) * x
    return result + coefficients[0]


def log_gamma(op: Builder, x: Tensor) -> Tensor:
    """log |gamma(x)| of a double."""
    positive = op.Where(x < 0, 1 - x, x)
    small = positive < _SHIFT
    product = _over_steps(op, "ReduceProd", _steps(op, positive), positive)
    y = op.Where(small, positive + _SHIFT, positive)
    inverse = 1 / y
    correction = inverse * _polynomial(inverse * inverse, 1 / 12, -1 / 360, 1 / 1260, -1 / 1680)
    stirling = (y - 0.5) * (op.Log(y) - 1) + correction + (math.log(2 * math.pi) - 1) / 2
    value = op.Where(small, stirling - op.Log(product), stirling)
    reflected = math.log(math.pi) - op.Log(op.Abs(op.Sin(_off_whole(op, x)))) - value
    return op.Where(x < 0, reflected, value)


@translates("aten::lgamma", promote=("self",), to_float=True)
def lgamma(op: Builder, self: Tensor) -> Tensor:
    return log_gamma(op, _double(op, self))


@translates("aten::digamma", promote=("self",), to_float=True)
def digamma(op: Builder, self: Tensor) -> Tensor:
    x = _double(op, self)
    positive = op.Where(x < 0, 1 - x, x)
    small = positive < _SHIFT
    total = _over_steps(op, "ReduceSum", op.Reciprocal(_steps(op, positive)), positive)
    y = op.Where(small, positive + _SHIFT, positive)
    inverse = 1 / y
    square = inverse * inverse
    far = op.Log(y) - inverse / 2 - square * _polynomial(square, 1 / 12, -1 / 120, 1 / 252, -1 / 240)
    value = op.Where(small, far - total, far)
    angle = _off_whole(op, x)
    # There is no limit at whole numbers below 0.
    cotangent = op.Where(op.Equal(angle, op.like(0, x)), op.like(math.nan, x), op.Cos(angle) / op.Sin(angle))
    return op.Where(x < 0, value - math.pi * cotangent, value)


@translates("aten::polygamma", promote=("self",), to_float=True)
def polygamma(op: Builder, n: int, self: Tensor) -> Tensor:
    if n == 0:
        return digamma(op, self)
    scale = math.factorial(n) if n % 2 else -math.factorial(n)
    return _hurwitz(op, op.const(n + 1, torch.float64), _double(op, self)) * scale


def _hurwitz(op: Builder, s: Tensor, q: Tensor) -> Tensor:
    """The sum of (q + k) ** -s over k = 0, 1, ... by Euler and Maclaurin's formula."""
    shape = op.result_shapes()[0]
    if 0 in shape:
        return op.full(0, shape, torch.float64)
    # As many terms as bring the smallest argument to where the expansion holds, within reason.
    lowest = op.ReduceMin(op.Concat(flat(op, q), op.const([0.0], torch.float64), axis=0), [0], keepdims=0)
    count = op.Min(12 - op.Floor(lowest), op.const(1000.0, torch.float64))
    k = op.Range(op.const(0.0, torch.float64), count, op.const(1.0, torch.float64))
    exponent = op.Unsqueeze(-s, [-1]) if s.rank else -s
    terms = op.ReduceSum(op.Pow(op.Unsqueeze(q, [-1]) + k, exponent), [len(shape)], keepdims=0)
    w = q + count
    power = op.Pow(w, -s)
    total = terms + power * w / (s - 1) + power / 2
    # Bernoulli numbers over factorials.
    rising = s
    scale = power / w
    for j, bernoulli in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66), start=1):
        total = total + rising * scale * (bernoulli / math.factorial(2 * j))
        rising = rising * (s + (2 * j - 1)) * (s + 2 * j)
        scale = scale / (w * w)
    return total


@translates(
    "aten::special_zeta",
    "aten::special_zeta.other_scalar",
    "aten::special_zeta.self_scalar",
    promote=("self", "other"),
    to_float=True,
)
def zeta(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    s, q = _double(op, self), _double(op, other)
    value = _hurwitz(op, s, q)
    value = op.Where((q <= 0) & op.Equal(q, op.Floor(q)), op.like(math.inf, s), value)
    value = op.Where(s < 1, op.like(math.nan, s), value)
    return op.Where(op.Equal(s, op.like(1, s)), op.like(math.inf, s), value)


# Incomplete gamma functions: a series below a + 1, a continued fraction above


def _lower_series(op: Builder, a: Tensor, x: Tensor, count: Tensor) -> Tensor:
    def step(inner: Builder, iteration: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        term, total = state
        following = term * inside(inner, x) / (inside(inner, a) + (inner.cast(iteration, torch.float64) + 1))
        return following, total + following

    ones = op.expand(op.const(1.0, torch.float64), op.result_shapes()[0])
    return emit_loop(op, step, count, [ones, ones])[1]


def _upper_fraction(op: Builder, a: Tensor, x: Tensor, count: Tensor) -> Tensor:
    """Lentz's way of evaluating a continued fraction from the front."""

    def step(inner: Builder, iteration: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        c, d, value = state
        i = inner.cast(iteration, torch.float64) + 1
        numerator = i * (inside(inner, a) - i)
        denominator = inside(inner, x) - inside(inner, a) + (2 * i + 1)
        c = denominator + numerator / c
        d = 1 / (numerator * d + denominator)
        return c, d, value * c * d

    start = 1 / (x - a + 1)
    # No term has come before the first: as good as infinite.
    before = op.expand(op.const(1e300, torch.float64), x.shape)
    return emit_loop(op, step, count, [before, start, start])[2]


def _regularized(op: Builder, a: Tensor, x: Tensor, upper: bool) -> Tensor:
    shape = op.result_shapes()[0]
    a, x = op.expand(_double(op, a), shape), op.expand(_double(op, x), shape)
    limit = op.const([0.0], torch.float64)
    finite = op.Where(a < math.inf, a, op.like(0, a))
    largest = op.ReduceMax(op.Concat(flat(op, finite), limit, axis=0), [0], keepdims=0)
    # Both converge within a few times sqrt(a) steps, slowest where x is near a.
    count = op.cast(op.Min(60 + 8 * op.Sqrt(largest), op.const(20000.0, torch.float64)), torch.int64)
    power = op.Exp(a * op.Log(x) - x - log_gamma(op, a))
    below = power / a * _lower_series(op, a, x, count)
    above = power * _upper_fraction(op, a, x, count)
    far = x > a + 1
    value = op.Where(far, above, 1 - below) if upper else op.Where(far, 1 - above, below)
    at_zero, at_infinity = (1.0, 0.0) if upper else (0.0, 1.0)
    value = op.Where(op.Equal(x, op.like(0, x)) | op.IsInf(a), op.like(at_zero, x), value)
    undecided = (op.Equal(a, op.like(0, a)) & op.Equal(x, op.like(0, x))) | (op.IsInf(a) & op.IsInf(x))
    invalid = (a < 0) | (x < 0) | undecided
    settled = op.IsInf(x) | (op.Equal(a, op.like(0, a)) & (x > 0))
    value = op.Where(settled, op.like(at_infinity, x), value)
    return op.Where(invalid, op.like(math.nan, x), value)


@translates("aten::igamma", promote=("self", "other"), to_float=True)
def igamma(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return _regularized(op, self, other, upper=False)


@translates("aten::igammac", promote=("self", "other"), to_float=True)
def igammac(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return _regularized(op, self, other, upper=True)
