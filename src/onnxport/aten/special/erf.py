"""The error function and its relatives, which ONNX has only in its simplest form."""

from __future__ import annotations

import math

from onnxport.aten.elementwise.functions import log1p
from onnxport.aten.special import coefficients as fit
from onnxport.aten.special.chebyshev import at_least_single, series
from onnxport.translate import Builder, Tensor, translates


def _scaled_complement(op: Builder, x: Tensor) -> Tensor:
    """exp(x x) erfc(x) for x >= 0."""
    return series(op, 1 - 6 / (x + 3), fit.ERFCX) / (x + 3)


def _complement(op: Builder, x: Tensor) -> Tensor:
    # Far out erf is 1 to all digits, and the difference would have none.
    far = _scaled_complement(op, op.Abs(x)) * op.Exp(-(x * x))
    return op.Where(x < 1, 1 - op.Erf(x), far)


@translates("aten::erfc", promote=("self",), to_float=True)
def erfc(op: Builder, self: Tensor) -> Tensor:
    return _complement(op, at_least_single(op, self))


@translates("aten::special_erfcx", promote=("self",), to_float=True)
def erfcx(op: Builder, self: Tensor) -> Tensor:
    x = at_least_single(op, self)
    positive = _scaled_complement(op, op.Abs(x))
    return op.Where(x < 0, 2 * op.Exp(x * x) - positive, positive)


@translates("aten::special_ndtr", promote=("self",), to_float=True)
def ndtr(op: Builder, self: Tensor) -> Tensor:
    return _complement(op, at_least_single(op, self) * -math.sqrt(0.5)) * 0.5


@translates("aten::special_log_ndtr", promote=("self",), to_float=True)
def log_ndtr(op: Builder, self: Tensor) -> Tensor:
    x = at_least_single(op, self) * math.sqrt(0.5)
    below = op.Log(_scaled_complement(op, op.Abs(x)) * 0.5) - x * x
    above = log1p(op, _complement(op, x) * -0.5)
    return op.Where(x < -math.sqrt(0.5), below, above)


def _inverse_erf(op: Builder, x: Tensor, rest: Tensor) -> Tensor:
    """The inverse of erf at ``x``, with ``rest`` = 1 - x x, which may be known better than from ``x``."""
    u = op.Log(4 - op.Log(rest)) * (2 / math.log(27))
    inner = x * series(op, u - (1 + 2 * math.log(4) / math.log(27)), fit.ERFINV)
    return op.Where(op.Equal(rest, op.like(0, rest)), x * math.inf, inner)


@translates("aten::erfinv", promote=("self",), to_float=True)
def erfinv(op: Builder, self: Tensor) -> Tensor:
    x = at_least_single(op, self)
    return _inverse_erf(op, x, (1 - x) * (1 + x))


@translates("aten::special_ndtri", promote=("self",), to_float=True)
def ndtri(op: Builder, self: Tensor) -> Tensor:
    x = at_least_single(op, self)
    return _inverse_erf(op, 2 * x - 1, 4 * x * (1 - x)) * math.sqrt(2)


@translates("aten::logit", "aten::special_logit", promote=("self",), to_float=True)
def logit(op: Builder, self: Tensor, eps: float | None) -> Tensor:
    if eps is not None:
        self = op.Clip(self, op.like(eps, self), op.like(1 - eps, self))
    return op.Log(self / (1 - self))
