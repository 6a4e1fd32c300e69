"""Elementwise arithmetic and functions of one or two tensors."""

from __future__ import annotations

import math

import torch

from onnxport.translate import Builder, Dim, Number, Tensor, one_node, translates

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
    "Tan": "tan",
    "Tanh": "tanh",
}
for op_type, name in _FUNCTIONS.items():
    one_node(op_type, f"aten::{name}", promote=("self",), to_float=True)

one_node("Abs", "aten::abs")
one_node("Neg", "aten::neg")
one_node("Sign", "aten::sign")


@translates("aten::add.Tensor", "aten::add.Scalar", promote=("self", "other"))
def add(op: Builder, self: Tensor, other: Tensor, alpha: Number) -> Tensor:
    if self.dtype == torch.bool:
        return op.Or(self, other)
    return self + (other if alpha == 1 else other * alpha)


@translates("aten::sub.Tensor", "aten::sub.Scalar", promote=("self", "other"))
def sub(op: Builder, self: Tensor, other: Tensor, alpha: Number) -> Tensor:
    return self - (other if alpha == 1 else other * alpha)


@translates("aten::rsub.Tensor", "aten::rsub.Scalar", promote=("self", "other"))
def rsub(op: Builder, self: Tensor, other: Tensor, alpha: Number) -> Tensor:
    return other - (self if alpha == 1 else self * alpha)


@translates("aten::mul.Tensor", "aten::mul.Scalar", promote=("self", "other"))
def mul(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return op.And(self, other) if self.dtype == torch.bool else self * other


@translates("aten::div.Tensor", "aten::div.Scalar", promote=("self", "other"), to_float=True)
def div(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return self / other


@translates("aten::pow.Tensor_Scalar")
def pow_scalar(op: Builder, self: Tensor, exponent: Number | Dim) -> Tensor:
    if exponent == 0.5:
        return op.Sqrt(self)
    if exponent == 2:
        return self * self
    if exponent == -0.5:
        return op.Reciprocal(op.Sqrt(self))
    if exponent == -1 and self.is_float:
        return op.Reciprocal(self)
    return self**exponent


@translates("aten::pow.Tensor_Tensor", "aten::pow.Scalar", promote=("self", "exponent"))
def pow_tensor(op: Builder, self: Tensor, exponent: Tensor) -> Tensor:
    return self**exponent


@translates("aten::rsqrt", promote=("self",), to_float=True)
def rsqrt(op: Builder, self: Tensor) -> Tensor:
    return op.Reciprocal(op.Sqrt(self))


@translates("aten::log1p", promote=("self",), to_float=True)
def log1p(op: Builder, self: Tensor) -> Tensor:
    return op.Log(self + 1)


@translates("aten::log2", promote=("self",), to_float=True)
def log2(op: Builder, self: Tensor) -> Tensor:
    return op.Log(self) / math.log(2)


def _rounding(op_type: str, name: str) -> None:
    @translates(name)
    def rounded(op: Builder, self: Tensor) -> Tensor:
        return getattr(op, op_type)(self) if self.is_float else self  # type: ignore[no-any-return]


_rounding("Floor", "aten::floor")
_rounding("Ceil", "aten::ceil")
_rounding("Round", "aten::round")


@translates("aten::clamp")
def clamp(op: Builder, self: Tensor, min: Number | None, max: Number | None) -> Tensor:
    lower = None if min is None else op.like(min, self)
    upper = None if max is None else op.like(max, self)
    return op.Clip(self, lower, upper)


@translates("aten::minimum", "aten::min.other", promote=("self", "other"))
def minimum(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return op.Min(self, other)


@translates("aten::maximum", "aten::max.other", promote=("self", "other"))
def maximum(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return op.Max(self, other)


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
    return op.Where(mask, filling, self)
