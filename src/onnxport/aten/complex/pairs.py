"""Complex arithmetic on pairs of real numbers.

A complex tensor is stored with a last dimension of 2. What is linear acts on the pairs as they are; the rest
takes the parts apart and puts results together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.aten.elementwise.functions import atan2
from onnxport.translate import Builder, Dim, Number, Tensor, translates
from onnxport.translate.dims import broadcast
from onnxport.translate.promotion import common_dtype
from onnxport.translate.tensor import Operand


def from_pairs(op: Builder, pairs: Tensor, dtype: torch.dtype, shape: Sequence[int | object] | None = None) -> Tensor:
    """Pairs of real numbers as the complex tensor they store."""
    return Tensor(op, pairs.value, dtype, shape)  # type: ignore[arg-type]


def _shape(*operands: Tensor) -> list[object] | None:
    return broadcast([x.known_shape for x in operands])  # type: ignore[return-value]


def operand(op: Builder, x: Operand, dtype: torch.dtype) -> Tensor:
    """A number or tensor in a complex dtype."""
    if isinstance(x, Dim):
        x = op.scalar(x, dtype.to_real())
    return op.cast(x, dtype) if isinstance(x, Tensor) else op.const(x, dtype)


def real_only(op: Builder, x: Operand, dtype: torch.dtype) -> Tensor | None:
    """An operand that has no imaginary part, in the real dtype, with a last dimension to meet the pairs; or None."""
    if isinstance(x, Tensor):
        return None if x.is_complex else op.Unsqueeze(op.cast(x, dtype.to_real()), [-1])
    if isinstance(x, Dim):
        return op.scalar(x, dtype.to_real())
    return op.const(x.real, dtype.to_real()) if complex(x).imag == 0 else None


def turned(op: Builder, x: Tensor) -> Tensor:
    """The pairs of ``i * x``."""
    pairs = op.pairs(x)
    return op.Gather(pairs, op.const([1, 0], torch.int64), axis=-1) * op.const([-1, 1], pairs.dtype)


def complex_product(op: Builder, x: Tensor, y: Tensor) -> Tensor:
    """The product of two complex tensors of one dtype: ``x`` scaled by the real part, ``i * x`` by the imaginary."""
    pairs = op.pairs(y)
    real = op.Gather(pairs, op.const([0], torch.int64), axis=-1)
    imaginary = op.Gather(pairs, op.const([1], torch.int64), axis=-1)
    product = op.pairs(x) * real + turned(op, x) * imaginary
    return from_pairs(op, product, x.dtype, _shape(x, y))


def conjugate(op: Builder, x: Tensor) -> Tensor:
    """The complex conjugate."""
    pairs = op.pairs(x)
    return from_pairs(op, pairs * op.const([1, -1], pairs.dtype), x.dtype, x.known_shape)


def _over_pairs(x: Tensor) -> list[int]:
    """The dimension of pairs; runtimes misread one counted from the end where there are no elements."""
    return [-1 if x.known_shape is None else x.rank]


def _square(op: Builder, x: Tensor) -> Tensor:
    """The squared absolute value, with a last dimension of 1."""
    return op.ReduceSumSquare(op.pairs(x), _over_pairs(x), keepdims=True)


def _length(op: Builder, x: Tensor) -> Tensor:
    """The absolute value, with a last dimension of 1."""
    return op.ReduceL2(op.pairs(x), _over_pairs(x), keepdims=True)


def over(op: Builder, x: Tensor, y: Tensor) -> Tensor:
    """The quotient of two complex tensors of one dtype."""
    product = complex_product(op, x, conjugate(op, y))
    return from_pairs(op, op.pairs(product) / _square(op, y), x.dtype, _shape(x, y))


# Parts


@translates("aten::view_as_real", complex="only")
def view_as_real(op: Builder, self: Tensor) -> Tensor:
    return op.pairs(self)


@translates("aten::view_as_complex", complex="only")
def view_as_complex(op: Builder, self: Tensor) -> Tensor:
    return from_pairs(op, self, self.dtype.to_complex(), self.shape[:-1])


@translates("aten::complex", complex="only")
def complex_(op: Builder, real: Tensor, imag: Tensor) -> Tensor:
    return op.complex(real, imag)


@translates("aten::polar", complex="only")
def polar(op: Builder, abs: Tensor, angle: Tensor) -> Tensor:
    return op.complex(abs * op.Cos(angle), abs * op.Sin(angle))


@translates("aten::real", complex="same")
def real(op: Builder, self: Tensor) -> Tensor:
    return self.real


@translates("aten::imag", complex="only")
def imag(op: Builder, self: Tensor) -> Tensor:
    return self.imag


@translates("aten::_conj", "aten::conj", "aten::conj_physical", "aten::_conj_physical", complex="same")
def conj(op: Builder, self: Tensor) -> Tensor:
    return conjugate(op, self) if self.is_complex else self


@translates("aten::resolve_conj", "aten::resolve_neg", complex="same")
def resolved(op: Builder, self: Tensor) -> Tensor:
    return self


@translates("aten::abs", complex="only")
def abs_(op: Builder, self: Tensor) -> Tensor:
    pairs = op.pairs(self)
    # Squares of large and small numbers leave the range of single precision.
    length = op.ReduceL2(op.cast(pairs, torch.float64), _over_pairs(self), keepdims=False)
    length = op.cast(length, pairs.dtype)
    return length if self.known_shape is None else length.with_shape(self.shape)


@translates("aten::angle", complex="only")
def angle(op: Builder, self: Tensor) -> Tensor:
    return atan2(op, self.imag, self.real)


@translates("aten::sgn", "aten::sign", complex="only")
def sgn(op: Builder, self: Tensor) -> Tensor:
    pairs = op.pairs(self)
    length = _length(op, self)
    zero = op.scalar(0, pairs.dtype)
    return from_pairs(op, op.Where(op.Equal(length, zero), zero, pairs / length), self.dtype, self.known_shape)


# Arithmetic


@translates("aten::neg", "aten::_neg_view", complex="only")
def neg(op: Builder, self: Tensor) -> Tensor:
    return from_pairs(op, -op.pairs(self), self.dtype, self.known_shape)


def _added(op: Builder, self: Operand, other: Operand, alpha: Number, op_type: str) -> Tensor:
    dtype = common_dtype([self, other])
    if alpha != 1:
        other = mul(op, other, alpha) if isinstance(other, Tensor | Dim) else other * alpha
        dtype = common_dtype([self, other])
    left, right = operand(op, self, dtype), operand(op, other, dtype)
    (sum_,) = op.multi(op_type, op.pairs(left), op.pairs(right), outputs=1)
    return from_pairs(op, sum_, dtype, _shape(left, right))


@translates("aten::add.Tensor", "aten::add.Scalar", complex="only")
def add(op: Builder, self: Operand, other: Operand, alpha: Number) -> Tensor:
    return _added(op, self, other, alpha, "Add")


@translates("aten::sub.Tensor", "aten::sub.Scalar", complex="only")
def sub(op: Builder, self: Operand, other: Operand, alpha: Number) -> Tensor:
    return _added(op, self, other, alpha, "Sub")


@translates("aten::rsub.Tensor", "aten::rsub.Scalar", complex="only")
def rsub(op: Builder, self: Operand, other: Operand, alpha: Number) -> Tensor:
    return _added(op, other, self, alpha, "Sub")


@translates("aten::mul.Tensor", "aten::mul.Scalar", complex="only")
def mul(op: Builder, self: Operand, other: Operand) -> Tensor:
    dtype = common_dtype([self, other])
    for x, factor in ((self, other), (other, self)):
        scale = real_only(op, factor, dtype)
        if scale is not None and isinstance(x, Tensor) and x.is_complex:
            x = op.cast(x, dtype)
            shape = _shape(x, factor) if isinstance(factor, Tensor) else x.known_shape
            return from_pairs(op, op.pairs(x) * scale, dtype, shape)
    return complex_product(op, operand(op, self, dtype), operand(op, other, dtype))


@translates("aten::div.Tensor", "aten::div.Scalar", "aten::true_divide.Tensor", complex="only")
def div(op: Builder, self: Operand, other: Operand) -> Tensor:
    dtype = common_dtype([self, other])
    divisor = real_only(op, other, dtype)
    numerator = operand(op, self, dtype)
    if divisor is not None:
        shape = _shape(numerator, other) if isinstance(other, Tensor) else numerator.known_shape
        return from_pairs(op, op.pairs(numerator) / divisor, dtype, shape)
    return over(op, numerator, operand(op, other, dtype))


@translates("aten::reciprocal", complex="only")
def reciprocal(op: Builder, self: Tensor) -> Tensor:
    return from_pairs(op, op.pairs(conjugate(op, self)) / _square(op, self), self.dtype, self.known_shape)


@translates("aten::square", complex="only")
def square(op: Builder, self: Tensor) -> Tensor:
    return complex_product(op, self, self)


@translates("aten::addcmul", complex="only")
def addcmul(op: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number) -> Tensor:
    return add(op, self, mul(op, tensor1, tensor2), value)


@translates("aten::addcdiv", complex="only")
def addcdiv(op: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number) -> Tensor:
    return add(op, self, div(op, tensor1, tensor2), value)


@translates("aten::lerp.Scalar", "aten::lerp.Tensor", complex="only")
def lerp(op: Builder, self: Tensor, end: Tensor, weight: Operand) -> Tensor:
    return add(op, self, mul(op, sub(op, end, self, 1), weight), 1)


# Powers


@translates("aten::exp", complex="only")
def exp(op: Builder, self: Tensor) -> Tensor:
    return polar(op, op.Exp(self.real), self.imag)


@translates("aten::log", complex="only")
def log(op: Builder, self: Tensor) -> Tensor:
    return op.complex(op.Log(abs_(op, self)), angle(op, self))


@translates("aten::log2", complex="only")
def log2(op: Builder, self: Tensor) -> Tensor:
    return mul(op, log(op, self), 1 / math.log(2))


@translates("aten::log10", complex="only")
def log10(op: Builder, self: Tensor) -> Tensor:
    return mul(op, log(op, self), 1 / math.log(10))


@translates("aten::log1p", complex="only")
def log1p(op: Builder, self: Tensor) -> Tensor:
    return log(op, add(op, self, 1, 1))


@translates("aten::exp2", complex="only")
def exp2(op: Builder, self: Tensor) -> Tensor:
    return exp(op, mul(op, self, math.log(2)))


@translates("aten::expm1", complex="only")
def expm1(op: Builder, self: Tensor) -> Tensor:
    return sub(op, exp(op, self), 1, 1)


@translates("aten::sqrt", complex="only")
def sqrt(op: Builder, self: Tensor) -> Tensor:
    """The root in the right half plane, its imaginary part signed like the argument's."""
    length, part = abs_(op, self), self.real
    zero = op.scalar(0, part.dtype)
    across = op.Sqrt(op.Max((length + part) * 0.5, zero))
    up = op.Sqrt(op.Max((length - part) * 0.5, zero))
    return op.complex(across, op.Where(self.imag < zero, -up, up))


@translates("aten::rsqrt", complex="only")
def rsqrt(op: Builder, self: Tensor) -> Tensor:
    return reciprocal(op, sqrt(op, self))


@translates("aten::pow.Tensor_Scalar", "aten::pow.Tensor_Tensor", "aten::pow.Scalar", complex="only")
def pow_(op: Builder, self: Operand, exponent: Operand) -> Tensor:
    """Small whole powers by multiplication, others by the logarithm; 0 to any power but 0 is 0."""
    dtype = common_dtype([self, exponent])
    base = operand(op, self, dtype)
    if not isinstance(exponent, Tensor | Dim):
        if exponent == 0.5:
            return sqrt(op, base)
        if exponent in (-2, -1, 1, 2, 3, 4):
            result = base
            for _ in range(abs(int(exponent.real)) - 1):
                result = complex_product(op, result, base)
            return result if exponent.real > 0 else reciprocal(op, result)
    power = operand(op, exponent, dtype)
    result = exp(op, complex_product(op, log(op, base), power))
    nothing = op.Equal(_length(op, base), op.scalar(0, dtype.to_real()))
    no_power = op.Equal(_length(op, power), op.scalar(0, dtype.to_real()))
    at_zero = op.Where(no_power, op.const([1, 0], dtype.to_real()), op.const([0, 0], dtype.to_real()))
    return from_pairs(op, op.Where(nothing, at_zero, op.pairs(result)), dtype, _shape(base, power))


# Trigonometry


@translates("aten::sin", complex="only")
def sin(op: Builder, self: Tensor) -> Tensor:
    x, y = self.real, self.imag
    return op.complex(op.Sin(x) * op.Cosh(y), op.Cos(x) * op.Sinh(y))


@translates("aten::cos", complex="only")
def cos(op: Builder, self: Tensor) -> Tensor:
    x, y = self.real, self.imag
    return op.complex(op.Cos(x) * op.Cosh(y), -(op.Sin(x) * op.Sinh(y)))


@translates("aten::sinh", complex="only")
def sinh(op: Builder, self: Tensor) -> Tensor:
    x, y = self.real, self.imag
    return op.complex(op.Sinh(x) * op.Cos(y), op.Cosh(x) * op.Sin(y))


@translates("aten::cosh", complex="only")
def cosh(op: Builder, self: Tensor) -> Tensor:
    x, y = self.real, self.imag
    return op.complex(op.Cosh(x) * op.Cos(y), op.Sinh(x) * op.Sin(y))


@translates("aten::tanh", complex="only")
def tanh(op: Builder, self: Tensor) -> Tensor:
    """Of tanh(x) and tan(y) alone, neither of which overflows."""
    a, b = op.Tanh(self.real), op.Tan(self.imag)
    below = a * a * b * b + 1
    return op.complex(a * (b * b + 1) / below, b * (1 - a * a) / below)


def _times_i(op: Builder, x: Tensor) -> Tensor:
    return from_pairs(op, turned(op, x), x.dtype, x.known_shape)


def _over_i(op: Builder, x: Tensor) -> Tensor:
    return neg(op, _times_i(op, x))


@translates("aten::tan", complex="only")
def tan(op: Builder, self: Tensor) -> Tensor:
    return _over_i(op, tanh(op, _times_i(op, self)))


@translates("aten::asinh", complex="only")
def asinh(op: Builder, self: Tensor) -> Tensor:
    root = sqrt(op, add(op, complex_product(op, self, self), 1, 1))
    return log(op, add(op, self, root, 1))


@translates("aten::acosh", complex="only")
def acosh(op: Builder, self: Tensor) -> Tensor:
    root = complex_product(op, sqrt(op, add(op, self, 1, 1)), sqrt(op, sub(op, self, 1, 1)))
    return log(op, add(op, self, root, 1))


@translates("aten::atanh", complex="only")
def atanh(op: Builder, self: Tensor) -> Tensor:
    difference = sub(op, log(op, add(op, self, 1, 1)), log(op, rsub(op, self, 1, 1)), 1)
    return mul(op, difference, 0.5)


@translates("aten::asin", complex="only")
def asin(op: Builder, self: Tensor) -> Tensor:
    return _over_i(op, asinh(op, _times_i(op, self)))


@translates("aten::acos", complex="only")
def acos(op: Builder, self: Tensor) -> Tensor:
    return rsub(op, asin(op, self), math.pi / 2, 1)


@translates("aten::atan", complex="only")
def atan(op: Builder, self: Tensor) -> Tensor:
    return _over_i(op, atanh(op, _times_i(op, self)))


@translates("aten::sigmoid", complex="only")
def sigmoid(op: Builder, self: Tensor) -> Tensor:
    return reciprocal(op, add(op, exp(op, neg(op, self)), 1, 1))


@translates("aten::silu", complex="only")
def silu(op: Builder, self: Tensor) -> Tensor:
    return complex_product(op, self, sigmoid(op, self))


# Comparison and choice


@translates("aten::eq.Tensor", "aten::eq.Scalar", complex="only")
def eq(op: Builder, self: Tensor, other: Operand) -> Tensor:
    dtype = common_dtype([self, other])
    left, right = operand(op, self, dtype), operand(op, other, dtype)
    return op.And(op.Equal(left.real, right.real), op.Equal(left.imag, right.imag))


@translates("aten::ne.Tensor", "aten::ne.Scalar", complex="only")
def ne(op: Builder, self: Tensor, other: Operand) -> Tensor:
    return ~eq(op, self, other)


@translates("aten::isnan", complex="only")
def isnan(op: Builder, self: Tensor) -> Tensor:
    return op.IsNaN(self.real) | op.IsNaN(self.imag)


@translates("aten::isinf", complex="only")
def isinf(op: Builder, self: Tensor) -> Tensor:
    return op.IsInf(self.real) | op.IsInf(self.imag)


@translates("aten::isfinite", complex="only")
def isfinite(op: Builder, self: Tensor) -> Tensor:
    return ~(isnan(op, self) | isinf(op, self))


@translates("aten::isreal", complex="only")
def isreal(op: Builder, self: Tensor) -> Tensor:
    return op.Equal(self.imag, op.scalar(0, self.dtype.to_real()))


@translates("aten::logical_not", complex="only")
def logical_not(op: Builder, self: Tensor) -> Tensor:
    return ~op.cast(self, torch.bool)


def _logic(op_type: str) -> None:
    @translates(f"aten::logical_{op_type.lower()}", complex="only")
    def logical(op: Builder, self: Tensor, other: Tensor) -> Tensor:
        (result,) = op.multi(op_type, op.cast(self, torch.bool), op.cast(other, torch.bool), outputs=1)
        return result


for _op_type in ("And", "Or", "Xor"):
    _logic(_op_type)


@translates(
    "aten::where.self", "aten::where.ScalarOther", "aten::where.ScalarSelf", "aten::where.Scalar", complex="only"
)
def where(op: Builder, condition: Tensor, self: Operand, other: Operand) -> Tensor:
    dtype = common_dtype([self, other])
    left, right = operand(op, self, dtype), operand(op, other, dtype)
    chosen = op.Where(op.Unsqueeze(op.cast(condition, torch.bool), [-1]), op.pairs(left), op.pairs(right))
    return from_pairs(op, chosen, dtype, _shape(condition, left, right))


@translates("aten::masked_fill.Scalar", "aten::masked_fill.Tensor", complex="only")
def masked_fill(op: Builder, self: Tensor, mask: Tensor, value: Operand) -> Tensor:
    filling = operand(op, value, self.dtype)
    return from_pairs(op, op.Where(op.Unsqueeze(mask, [-1]), op.pairs(filling), op.pairs(self)), self.dtype)
