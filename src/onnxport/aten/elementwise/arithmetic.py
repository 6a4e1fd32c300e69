"""Arithmetic of two tensors: sums, products, division and its remainders, powers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.aten.literals import number_of
from onnxport.translate import Builder, Dim, Number, Tensor, translates
from onnxport.translate.loop import emit_loop
from onnxport.translate.ranges import beyond_int32


def _scaled(op: Builder, x: Tensor, alpha: Number | Dim) -> Tensor:
    if alpha == 1:
        return x
    return op.And(x, op.like(alpha, x)) if x.dtype == torch.bool else x * alpha


@translates("aten::add.Tensor", "aten::add.Scalar", promote=("self", "other"))
def add(op: Builder, self: Tensor, other: Tensor, alpha: Number | Dim) -> Tensor:
    other = _scaled(op, other, alpha)
    return op.Or(self, other) if self.dtype == torch.bool else self + other


@translates("aten::sub.Tensor", "aten::sub.Scalar", promote=("self", "other"))
def sub(op: Builder, self: Tensor, other: Tensor, alpha: Number | Dim) -> Tensor:
    return self - _scaled(op, other, alpha)


@translates("aten::rsub.Tensor", "aten::rsub.Scalar", promote=("self", "other"))
def rsub(op: Builder, self: Tensor, other: Tensor, alpha: Number | Dim) -> Tensor:
    return other - _scaled(op, self, alpha)


@translates("aten::mul.Tensor", "aten::mul.Scalar", promote=("self", "other"))
def mul(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return op.And(self, other) if self.dtype == torch.bool else self * other


@translates("aten::addcmul", promote=("self", "tensor1", "tensor2"))
def addcmul(op: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number | Dim) -> Tensor:
    return self + _scaled(op, tensor1, value) * tensor2


@translates("aten::addcdiv", promote=("self", "tensor1", "tensor2"), to_float=True)
def addcdiv(op: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number | Dim) -> Tensor:
    return self + _scaled(op, tensor1, value) / tensor2


@translates("aten::lerp.Scalar", "aten::lerp.Tensor", promote=("self", "end"))
def lerp(op: Builder, self: Tensor, end: Tensor, weight: Tensor | Number | Dim) -> Tensor:
    # Counting from the nearer end keeps both ends exact.
    span = end - self
    weight = op.cast(weight, self.dtype) if isinstance(weight, Tensor) else op.scalar(weight, self.dtype)
    number = number_of(weight)
    if number is not None:
        return self + span * number if abs(number) < 0.5 else end - span * (1 - number)
    return op.Where(op.Abs(weight) < 0.5, self + weight * span, end - span * (1 - weight))


# Division


def truncated(op: Builder, x: Tensor) -> Tensor:
    """``x`` without its fraction; the sign of zero is kept."""
    return op.Where(x < 0, op.Ceil(x), op.Floor(x))


def _signs_differ(op: Builder, remainder: Tensor, divisor: Tensor) -> Tensor:
    """Where a remainder, if there is one, does not have the sign of the divisor."""
    number = number_of(divisor)
    if number is not None:
        return remainder < 0 if number > 0 else remainder > 0
    return op.Sign(remainder) * divisor < 0


_WIDER = {torch.int8: torch.int32, torch.int16: torch.int32, torch.int32: torch.int64}


def _whole_floor_divided(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """Near the least number of a dtype the multiple below lies beyond it: -128 // 7 is -133 / 7."""
    wide = _WIDER.get(a.dtype)
    if wide is not None:
        x, y = op.cast(a, wide), op.cast(b, wide)
        return op.cast(op.Div(x - op.Mod(x, y), y), a.dtype)
    is_below = op.Not(op.Equal(op.Mod(a, b), op.Mod(a, b, fmod=1)))
    return op.Div(a, b) - op.cast(is_below, a.dtype)


def _floor_divided(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    if not a.is_float:
        return _whole_floor_divided(op, a, b) if a.dtype.is_signed else a / b
    # The remainder is exact, where the quotient may have been rounded up to the next whole number: 1 // 0.1 is 9.
    rest = op.Mod(a, b, fmod=1)
    whole = op.Round((a - rest) / b)
    below = whole - op.cast(_signs_differ(op, rest, b), a.dtype)
    number = number_of(b)
    if number is not None and number != 0:
        return below
    return op.Where(op.Equal(b, op.like(0, b)), a / b, below)


@translates(
    "aten::div.Tensor",
    "aten::div.Scalar",
    "aten::true_divide.Tensor",
    "aten::true_divide.Scalar",
    promote=("self", "other"),
    to_float=True,
)
def div(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return self / other


@translates("aten::div.Tensor_mode", "aten::div.Scalar_mode", promote=("self", "other"))
def div_mode(op: Builder, self: Tensor, other: Tensor, rounding_mode: str | None) -> Tensor:
    if rounding_mode is None:
        dtype = self.dtype if self.is_float else torch.get_default_dtype()
        return op.cast(self, dtype) / op.cast(other, dtype)
    if rounding_mode == "floor":
        return _floor_divided(op, self, other)
    return truncated(op, self / other) if self.is_float else self / other


@translates("aten::floor_divide", "aten::floor_divide.Scalar", promote=("self", "other"))
def floor_divide(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return _floor_divided(op, self, other)


@translates(
    "aten::remainder.Tensor", "aten::remainder.Scalar", "aten::remainder.Scalar_Tensor", promote=("self", "other")
)
def remainder(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    if not self.is_float:
        return op.Mod(self, other)
    # ONNX's Mod takes the divisor's sign for whole numbers only.
    rest = op.Mod(self, other, fmod=1)
    return op.Where(_signs_differ(op, rest, other), rest + other, rest)


@translates("aten::fmod.Tensor", "aten::fmod.Scalar", promote=("self", "other"))
def fmod(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return op.Mod(self, other, fmod=1)


def _common_divisor(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    def step(inner: Builder, iteration: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        x, y = state
        done = inner.Equal(y, inner.like(0, y))
        rest = inner.Mod(x, inner.Where(done, inner.like(1, y), y))
        return inner.Where(done, x, y), inner.Where(done, y, rest)

    # Consecutive Fibonacci numbers take Euclid longest; the largest that fit are reached after 1.44 steps a bit.
    steps = math.ceil(torch.iinfo(a.dtype).bits * 1.45)
    return emit_loop(op, step, steps, _same_shape(op, op.Abs(a), op.Abs(b)))[0]


def _same_shape(op: Builder, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    shape = op.result_shapes()[0]
    return op.expand(a, shape), op.expand(b, shape)


@translates("aten::gcd", promote=("self", "other"))
def gcd(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return _common_divisor(op, self, other)


@translates("aten::lcm", promote=("self", "other"))
def lcm(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    divisor = _common_divisor(op, self, other)
    zero = op.like(0, self)
    # Both are zero where the divisor is.
    return op.Abs(self / op.Where(op.Equal(divisor, zero), op.like(1, self), divisor) * other)


# Powers


def _whole_power(op: Builder, base: Tensor, exponent: int) -> Tensor:
    """Repeated squaring: exact, and wraps around as torch does; a runtime's Pow goes through floats."""
    result: Tensor | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return op.full(1, base.shape, base.dtype) if result is None else result


@translates("aten::pow.Tensor_Scalar", "aten::pow.Tensor_Tensor", "aten::pow.Scalar", promote=("self", "exponent"))
def power(op: Builder, self: Tensor, exponent: Tensor) -> Tensor:
    number = number_of(exponent)
    if not self.is_float:
        if isinstance(number, int) and number >= 0:
            return _whole_power(op, self, number)
        if not self.dtype.is_signed:
            return self**exponent
        # An inverse is 0 unless the base is 1 or -1, also of 0.
        zero = op.like(0, self)
        return op.Where((exponent < 0) & op.Equal(self, zero), zero, self**exponent)
    if number == 1:
        return op.Identity(self)
    if number == 2:
        return self * self
    if number == 0.5:
        return op.Sqrt(self)
    if number == -0.5:
        return op.Reciprocal(op.Sqrt(self))
    if number == -1:
        return op.Reciprocal(self)
    return self**exponent


@translates("aten::square")
def square(op: Builder, self: Tensor) -> Tensor:
    return power(op, self, op.like(2, self)) if self.dtype != torch.bool else op.cast(self, torch.int64)


@translates("aten::ldexp.Tensor")
def ldexp(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    dtype = self.dtype if self.is_float else torch.get_default_dtype()
    return op.cast(self, dtype) * op.Pow(op.scalar(2, dtype), op.cast(other, dtype))


# Larger and smaller: NaN wins in `maximum`, numbers win in `fmax`


def smaller(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """The smaller of two numbers, element by element."""
    return op.Where(op.Less(b, a), b, a) if beyond_int32(a, b) else op.Min(a, b)


def larger(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """The larger of two numbers, element by element."""
    return op.Where(op.Greater(b, a), b, a) if beyond_int32(a, b) else op.Max(a, b)


@translates("aten::minimum", "aten::min.other", promote=("self", "other"))
def minimum(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return self & other if self.dtype == torch.bool else smaller(op, self, other)


@translates("aten::maximum", "aten::max.other", promote=("self", "other"))
def maximum(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return self | other if self.dtype == torch.bool else larger(op, self, other)


def _number_first(op: Builder, a: Tensor, b: Tensor, chosen: Tensor) -> Tensor:
    if not a.is_float:
        return chosen
    return op.Where(op.IsNaN(a), b, op.Where(op.IsNaN(b), a, chosen))


@translates("aten::fmin", promote=("self", "other"))
def fmin(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return _number_first(op, self, other, minimum(op, self, other))


@translates("aten::fmax", promote=("self", "other"))
def fmax(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return _number_first(op, self, other, maximum(op, self, other))


@translates("aten::clamp", "aten::clamp.Tensor", promote=("self", "min", "max"))
def clamp(op: Builder, self: Tensor, min: Tensor | None, max: Tensor | None) -> Tensor:
    # With one bound only, runtimes put the largest finite number in the place of the other, and infinity is lost.
    scalars = [bound for bound in (min, max) if bound is not None and bound.known_shape == ()]
    if len(scalars) == 2 and not beyond_int32(self, *scalars):
        return op.Clip(self, *scalars)
    at_least = self if min is None else larger(op, self, min)
    return at_least if max is None else smaller(op, at_least, max)


@translates("aten::clamp_min", "aten::clamp_min.Tensor", promote=("self", "min"))
def clamp_min(op: Builder, self: Tensor, min: Tensor) -> Tensor:
    return clamp(op, self, min, None)


@translates("aten::clamp_max", "aten::clamp_max.Tensor", promote=("self", "max"))
def clamp_max(op: Builder, self: Tensor, max: Tensor) -> Tensor:
    return clamp(op, self, None, max)
