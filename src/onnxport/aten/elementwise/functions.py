"""Functions of one tensor, element by element, and the few of two that are no arithmetic."""

from __future__ import annotations

import math

import torch

from onnxport.aten.elementwise.arithmetic import truncated
from onnxport.translate import Builder, Dim, Number, Tensor, one_node, translates
from onnxport.translate.ranges import beyond_int32

_FUNCTIONS = {
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Log": "log",
    "Reciprocal": "reciprocal",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tanh": "tanh",
}
for op_type, name in _FUNCTIONS.items():
    one_node(op_type, f"aten::{name}", promote=("self",), to_float=True)

one_node("Neg", "aten::neg")


@translates("aten::abs")
def absolute(op: Builder, self: Tensor) -> Tensor:
    # OpenCV 5.0 has Abs and Sign of floating-point numbers only.
    return op.Max(self, op.Neg(self)) if _is_small_integer(self) else op.Abs(self)


def _is_small_integer(x: Tensor) -> bool:
    """Whether runtimes compare such numbers rightly, and have the operators that do in their type."""
    return x.dtype in (torch.int32, torch.int64) and not beyond_int32(x)


@translates("aten::tan", promote=("self",), to_float=True)
def tan(op: Builder, self: Tensor) -> Tensor:
    # Next to a pole the digits of double precision count, and runtimes have only the sine and cosine in it.
    return op.Sin(self) / op.Cos(self) if self.dtype == torch.float64 else op.Tan(self)


@translates("aten::sign", "aten::sgn")
def sign(op: Builder, self: Tensor) -> Tensor:
    if self.dtype == torch.bool:
        return op.Identity(self)
    if beyond_int32(self):
        zero = op.scalar(0, self.dtype)
        return op.cast(self > zero, self.dtype) - op.cast(self < zero, self.dtype)
    if _is_small_integer(self):
        return op.Clip(self, op.like(-1, self), op.like(1, self))
    signs = op.Sign(self)
    # The sign of NaN is 0 in torch; onnxruntime gives NaN.
    return op.Where(op.IsNaN(self), op.scalar(0, self.dtype), signs) if self.dtype.is_floating_point else signs


@translates("aten::rsqrt", promote=("self",), to_float=True)
def rsqrt(op: Builder, self: Tensor) -> Tensor:
    return op.Reciprocal(op.Sqrt(self))


# Exponentials and logarithms


@translates("aten::exp2", promote=("self",), to_float=True)
def exp2(op: Builder, self: Tensor) -> Tensor:
    return op.Pow(op.like(2, self), self)


@translates("aten::expm1", promote=("self",), to_float=True)
def expm1(op: Builder, self: Tensor) -> Tensor:
    # The same function without the cancellation near 0.
    return op.Tanh(self * 0.5) * (op.Exp(self) + 1)


@translates("aten::log1p", promote=("self",), to_float=True)
def log1p(op: Builder, self: Tensor) -> Tensor:
    above = self + 1
    kept = above - 1
    # What the sum lost is made up for to first order; where it lost nothing (also -1 and infinity) there is no need.
    return op.Where(op.Equal(kept, self), op.Log(above), op.Log(above) + (self - kept) / above)


@translates("aten::log2", promote=("self",), to_float=True)
def log2(op: Builder, self: Tensor) -> Tensor:
    # In double precision, so that powers of two come out whole: users round the result.
    return op.Log(op.cast(self, torch.float64)) / math.log(2)


@translates("aten::log10", promote=("self",), to_float=True)
def log10(op: Builder, self: Tensor) -> Tensor:
    return op.Log(op.cast(self, torch.float64)) / math.log(10)


def _log_sum(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """log(exp(a) + exp(b)) without overflow; equal operands apart, as they may be infinite."""
    apart = op.Max(a, b) + op.Softplus(-op.Abs(a - b))
    return op.Where(op.Equal(a, b), a + math.log(2), apart)


@translates("aten::logaddexp", promote=("self", "other"), to_float=True)
def logaddexp(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return _log_sum(op, self, other)


@translates("aten::logaddexp2", promote=("self", "other"), to_float=True)
def logaddexp2(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    apart = op.Max(self, other) + op.Softplus(op.Abs(self - other) * -math.log(2)) / math.log(2)
    return op.Where(op.Equal(self, other), self + 1, apart)


# Rounding and the parts of a number


def _rounding(op_type: str, name: str) -> None:
    @translates(name)
    def rounded(op: Builder, self: Tensor) -> Tensor:
        return getattr(op, op_type)(self) if self.is_float else op.Identity(self)


_rounding("Floor", "aten::floor")
_rounding("Ceil", "aten::ceil")
_rounding("Round", "aten::round")


@translates("aten::round.decimals")
def round_decimals(op: Builder, self: Tensor, decimals: int) -> Tensor:
    if not self.is_float:
        return op.Identity(self)
    if decimals == 0:
        return op.Round(self)
    scale = 10.0 ** abs(decimals)
    return op.Round(self * scale) / scale if decimals > 0 else op.Round(self / scale) * scale


@translates("aten::trunc")
def trunc(op: Builder, self: Tensor) -> Tensor:
    return truncated(op, self) if self.is_float else op.Identity(self)


@translates("aten::frac")
def frac(op: Builder, self: Tensor) -> Tensor:
    return self - truncated(op, self)


@translates("aten::frexp.Tensor")
def frexp(op: Builder, self: Tensor) -> tuple[Tensor, Tensor]:
    # Double precision has room for the powers of two that bring the smallest float16 or float32 to one half.
    wide = op.cast(self, torch.float64)
    size = op.Abs(wide)
    plain = (size > 0) & (size < math.inf)
    size = op.Where(plain, size, op.like(0.5, size))
    guess = op.Floor(op.Log(size) / math.log(2)) + 1
    # The logarithm may be off by a rounding error next to a power of two.
    fraction = size / op.Pow(op.like(2, size), guess)
    up, down = op.cast(fraction >= 1, torch.float64), op.cast(fraction < 0.5, torch.float64)
    exponent = guess + up - down
    mantissa = op.Where(plain, wide / op.Pow(op.like(2, size), exponent), wide)
    return op.cast(mantissa, self.dtype), op.cast(exponent, torch.int32)


@translates("aten::nextafter", promote=("self", "other"))
def nextafter(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    info = torch.finfo(self.dtype)
    half = info.eps / 2
    # A little over half the distance to the next number, which rounding makes a whole one.
    step = op.Abs(self) * (half * (1 + 2 * half)) + info.smallest_normal * info.eps
    moved = self + op.Where(other > self, step, -step)
    moved = op.Where(op.IsInf(self), op.Sign(self) * info.max, moved)
    return op.Where(op.Or(op.Equal(self, other), op.IsNaN(other)), other, moved)


# Signs and angles


def negative(op: Builder, x: Tensor) -> Tensor:
    """Whether the sign bit is set, which -0.0 has too."""
    below = x < 0
    return below | (op.Reciprocal(x) < 0) if x.is_float else below


@translates("aten::signbit")
def signbit(op: Builder, self: Tensor) -> Tensor:
    if self.dtype == torch.bool or not self.dtype.is_signed:
        return op.full(False, self.shape, torch.bool)
    return negative(op, self)


@translates("aten::copysign.Tensor", "aten::copysign.Scalar", promote=("self", "other"), to_float=True)
def copysign(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    size = op.Abs(self)
    return op.Where(negative(op, other), -size, size)


@translates("aten::heaviside", promote=("self", "values"))
def heaviside(op: Builder, self: Tensor, values: Tensor) -> Tensor:
    if self.dtype == torch.bool:
        return self | values
    return op.Where(op.Equal(self, op.like(0, self)), values, op.cast(self > 0, self.dtype))


@translates("aten::atan2", promote=("self", "other"), to_float=True)
def atan2(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    # The quotient of two zeros or two infinities is NaN, but they have an angle.
    alike = op.Equal(op.Abs(self), op.Abs(other))
    angle = op.Atan(op.Where(alike, op.Sign(self) * op.Sign(other), self / other))
    half_turn = op.Where(negative(op, self), op.like(-math.pi, self), op.like(math.pi, self))
    return angle + op.Where(negative(op, other), half_turn, op.like(0, self))


@translates("aten::angle", promote=("self",), to_float=True)
def angle(op: Builder, self: Tensor) -> Tensor:
    half_turn = op.Where(self < 0, op.like(math.pi, self), op.like(0, self))
    return op.Where(op.IsNaN(self), self, half_turn)


@translates("aten::hypot", promote=("self", "other"))
def hypot(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    # Squares of large numbers overflow in single precision.
    a, b = (op.cast(x, torch.float64) for x in (self, other))
    return op.Sqrt(a * a + b * b)


# Choosing


@translates("aten::nan_to_num")
def nan_to_num(op: Builder, self: Tensor, nan: float | None, posinf: float | None, neginf: float | None) -> Tensor:
    if not self.is_float:
        return op.Identity(self)
    result = self
    if posinf is None or neginf is None:
        info = torch.finfo(self.dtype)
        lower = op.like(info.min, self) if neginf is None else None
        result = op.Clip(self, lower, op.like(info.max, self) if posinf is None else None)
    for infinity, given in ((math.inf, posinf), (-math.inf, neginf)):
        if given is not None:
            result = op.Where(op.Equal(self, op.like(infinity, self)), op.like(given, self), result)
    return op.Where(op.IsNaN(self), op.like(0.0 if nan is None else nan, self), result)


@translates(
    "aten::where.self",
    "aten::where.ScalarOther",
    "aten::where.ScalarSelf",
    "aten::where.Scalar",
    promote=("self", "other"),
)
def where(op: Builder, condition: Tensor, self: Tensor, other: Tensor) -> Tensor:
    return op.Where(op.cast(condition, torch.bool), self, other)


@translates("aten::masked_fill.Scalar", "aten::masked_fill.Tensor")
def masked_fill(op: Builder, self: Tensor, mask: Tensor, value: Tensor | Number | Dim) -> Tensor:
    filling = op.cast(value, self.dtype) if isinstance(value, Tensor) else op.scalar(value, self.dtype)
    return op.Where(op.cast(mask, torch.bool), filling, self)
