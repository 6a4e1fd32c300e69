"""Bessel and Airy functions: a series in the argument near 0, and one in its inverse far from it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnxport.aten.special import coefficients as fit
from onnxport.aten.special.chebyshev import at_least_single, series
from onnxport.translate import Builder, Tensor, translates

Table = Sequence[float]


# Modified, first kind: they grow like exp(x), which the scaled forms leave out


def _scaled_i(op: Builder, size: Tensor, order: int) -> Tensor:
    """exp(-x) I(x) for x >= 0."""
    near = series(op, size / 4 - 1, fit.I1_NEAR if order else fit.I0_NEAR)
    far = series(op, 16 / size - 1, fit.I1_FAR if order else fit.I0_FAR) / op.Sqrt(size)
    return op.Where(size <= 8, near * size if order else near, far)


def _i(op: Builder, x: Tensor, order: int, scaled: bool) -> Tensor:
    x = at_least_single(op, x)
    size = op.Abs(x)
    value = _scaled_i(op, size, order)
    if not scaled:
        # In two steps, as the exponential alone overflows first.
        half = op.Exp(size * 0.5)
        value = value * half * half
    return op.Sign(x) * value if order else value


@translates("aten::i0", "aten::special_modified_bessel_i0", promote=("self",), to_float=True)
def i0(op: Builder, self: Tensor) -> Tensor:
    return _i(op, self, 0, scaled=False)


@translates("aten::special_i0e", promote=("self",), to_float=True)
def i0e(op: Builder, self: Tensor) -> Tensor:
    return _i(op, self, 0, scaled=True)


@translates("aten::special_i1", "aten::special_modified_bessel_i1", promote=("self",), to_float=True)
def i1(op: Builder, self: Tensor) -> Tensor:
    return _i(op, self, 1, scaled=False)


@translates("aten::special_i1e", promote=("self",), to_float=True)
def i1e(op: Builder, self: Tensor) -> Tensor:
    return _i(op, self, 1, scaled=True)


# Modified, second kind: they fall like exp(-x) and are NaN below 0


def _k(op: Builder, x: Tensor, order: int, scaled: bool) -> Tensor:
    x = at_least_single(op, x)
    half_square = x * x / 2
    regular = series(op, half_square - 1, fit.K1_NEAR if order else fit.K0_NEAR)
    i = _i(op, x, order, scaled=False)
    near = regular / x + op.Log(x / 2) * i if order else regular - op.Log(x / 2) * i
    far = series(op, 4 / x - 1, fit.K1_FAR if order else fit.K0_FAR) / op.Sqrt(x)
    if scaled:
        near = near * op.Exp(x)
    else:
        far = far * op.Exp(-x)
    value = op.Where(x <= 2, near, far)
    return op.Where(op.Equal(x, op.like(0, x)), op.like(math.inf, x), value)


@translates("aten::special_modified_bessel_k0", promote=("self",), to_float=True)
def k0(op: Builder, self: Tensor) -> Tensor:
    return _k(op, self, 0, scaled=False)


@translates("aten::special_modified_bessel_k1", promote=("self",), to_float=True)
def k1(op: Builder, self: Tensor) -> Tensor:
    return _k(op, self, 1, scaled=False)


@translates("aten::special_scaled_modified_bessel_k0", promote=("x",), to_float=True)
def k0_scaled(op: Builder, x: Tensor) -> Tensor:
    return _k(op, x, 0, scaled=True)


@translates("aten::special_scaled_modified_bessel_k1", promote=("x",), to_float=True)
def k1_scaled(op: Builder, x: Tensor) -> Tensor:
    return _k(op, x, 1, scaled=True)


# The oscillating ones: far from 0 a wave whose amplitude falls like 1 / sqrt(x)


def _wave(op: Builder, x: Tensor, order: int, second: bool) -> Tensor:
    along, across = (fit.P1_FAR, fit.Q1_FAR) if order else (fit.P0_FAR, fit.Q0_FAR)
    t = 128 / (x * x) - 1
    p, q = series(op, t, along), series(op, t, across) / x
    phase = x - (2 * order + 1) * math.pi / 4
    cos, sin = op.Cos(phase), op.Sin(phase)
    wave = p * sin + q * cos if second else p * cos - q * sin
    return wave * op.Sqrt(2 / math.pi / x)


def _j_near(op: Builder, x: Tensor, order: int) -> Tensor:
    value = series(op, x * x / 32 - 1, fit.J1_NEAR if order else fit.J0_NEAR)
    return value * x if order else value


def _j(op: Builder, x: Tensor, order: int) -> Tensor:
    x = at_least_single(op, x)
    size = op.Abs(x)
    value = op.Where(size <= 8, _j_near(op, size, order), _wave(op, size, order, second=False))
    return op.Sign(x) * value if order else value


def _y(op: Builder, x: Tensor, order: int) -> Tensor:
    x = at_least_single(op, x)
    regular = series(op, x * x / 32 - 1, fit.Y1_NEAR if order else fit.Y0_NEAR)
    singular = op.Log(x) * _j_near(op, x, order)
    if order:
        regular, singular = regular * x, singular - 1 / x
    near = regular + singular * (2 / math.pi)
    value = op.Where(x > 8, _wave(op, x, order, second=True), near)
    return op.Where(op.Equal(x, op.like(0, x)), op.like(-math.inf, x), value)


@translates("aten::special_bessel_j0", promote=("self",), to_float=True)
def j0(op: Builder, self: Tensor) -> Tensor:
    return _j(op, self, 0)


@translates("aten::special_bessel_j1", promote=("self",), to_float=True)
def j1(op: Builder, self: Tensor) -> Tensor:
    return _j(op, self, 1)


@translates("aten::special_bessel_y0", promote=("self",), to_float=True)
def y0(op: Builder, self: Tensor) -> Tensor:
    return _y(op, self, 0)


@translates("aten::special_bessel_y1", promote=("self",), to_float=True)
def y1(op: Builder, self: Tensor) -> Tensor:
    return _y(op, self, 1)


@translates("aten::special_spherical_bessel_j0", promote=("x",), to_float=True)
def spherical_j0(op: Builder, x: Tensor) -> Tensor:
    x = at_least_single(op, x)
    wave = op.Where(op.IsInf(x), op.like(0, x), op.Sin(x) / x)
    return op.Where(op.Equal(x, op.like(0, x)), op.like(1, x), wave)


@translates("aten::special_airy_ai", promote=("x",), to_float=True)
def airy_ai(op: Builder, x: Tensor) -> Tensor:
    x = at_least_single(op, x)
    size = op.Abs(x)
    root = op.Sqrt(size)
    zeta = size * root * (2 / 3)
    fourth_root = op.Sqrt(root)
    near = series(op, (x + 3) / 5, fit.AIRY_NEAR)
    falling = series(op, 8 / 3 * math.sqrt(2) / zeta - 1, fit.AIRY_FAR) * op.Exp(-zeta) / fourth_root
    # The first terms of the asymptotic expansion suffice so far out.
    inverse = 1 / zeta
    square = inverse * inverse
    along = 1 - square * (3.7133487654321e-2 - square * 1.16099064025515e-1)
    across = inverse * (6.9444444444444e-2 - square * (5.7649190412698e-2 - square * 3.11529641e-1))
    phase = zeta - math.pi / 4
    wave = (op.Cos(phase) * along + op.Sin(phase) * across) / fourth_root / math.sqrt(math.pi)
    return op.Where(x > 2, falling, op.Where(x < -8, wave, near))
