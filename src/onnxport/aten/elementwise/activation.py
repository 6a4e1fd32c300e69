"""Activation functions."""

from __future__ import annotations

import torch

from onnxport.aten.elementwise.arithmetic import clamp, larger
from onnxport.aten.elementwise.functions import expm1
from onnxport.translate import Builder, Dim, Number, Tensor, one_node, translates
from onnxport.translate.ranges import beyond_int32


@translates("aten::relu")
def relu(op: Builder, self: Tensor) -> Tensor:
    return larger(op, self, op.scalar(0, self.dtype)) if beyond_int32(self) else op.Relu(self)


one_node("Selu", "aten::selu")
one_node("Mish", "aten::mish")
one_node("HardSwish", "aten::hardswish")


@translates("aten::relu6")
def relu6(op: Builder, self: Tensor) -> Tensor:
    return hardtanh(op, self, 0, 6)


@translates("aten::hardtanh")
def hardtanh(op: Builder, self: Tensor, min_val: Number, max_val: Number) -> Tensor:
    return clamp(op, self, op.like(min_val, self), op.like(max_val, self))


@translates("aten::threshold")
def threshold(op: Builder, self: Tensor, threshold: Number, value: Number) -> Tensor:
    return op.Where(self <= threshold, op.like(value, self), self)


@translates("aten::leaky_relu")
def leaky_relu(op: Builder, self: Tensor, negative_slope: Number | Dim) -> Tensor:
    if isinstance(negative_slope, Dim):
        return op.Where(self > 0, self, self * negative_slope)
    return op.LeakyRelu(self, alpha=negative_slope)


@translates("aten::rrelu")
def rrelu(op: Builder, self: Tensor, lower: float, upper: float, training: bool) -> Tensor:
    return rrelu_with_noise(op, self, self, lower, upper, training)[0]


@translates("aten::rrelu_with_noise_functional")
def rrelu_with_noise(
    op: Builder, self: Tensor, noise: Tensor, lower: float, upper: float, training: bool
) -> tuple[Tensor, Tensor]:
    if not training:
        return op.LeakyRelu(self, alpha=(lower + upper) / 2), noise
    below = self < 0
    random = op.RandomUniformLike(self, low=lower, high=upper, dtype=torch.float32)
    slope = op.Where(below, op.cast(random, self.dtype), op.like(1, self))
    return self * slope, slope


@translates("aten::prelu", "aten::_prelu_kernel")
def prelu(op: Builder, self: Tensor, weight: Tensor) -> Tensor:
    if weight.rank == 1 and weight.shape[0] != 1 and self.rank > 2:
        # One slope a channel; channels are the second dimension.
        weight = op.unsqueeze(weight, list(range(1, self.rank - 1)))
    elif weight.rank > self.rank:
        weight = op.reshape(weight, [1] * self.rank)
    return op.PRelu(self, weight)


@translates("aten::elu")
def elu(op: Builder, self: Tensor, alpha: float | Dim, scale: float, input_scale: float) -> Tensor:
    if scale == 1 and input_scale == 1 and not isinstance(alpha, Dim):
        return op.Elu(self, alpha=alpha)
    below = expm1(op, self if input_scale == 1 else self * input_scale)
    below = below * alpha * scale if isinstance(alpha, Dim) else below * (alpha * scale)
    return op.Where(self > 0, self if scale == 1 else self * scale, below)


@translates("aten::celu")
def celu(op: Builder, self: Tensor, alpha: float | Dim) -> Tensor:
    if self.dtype == torch.float32 and not isinstance(alpha, Dim):
        return op.Celu(self, alpha=alpha)
    # ONNX's own takes single precision only, and a number that does not vary.
    return op.Elu(self / alpha) * alpha


@translates("aten::glu")
def glu(op: Builder, self: Tensor, dim: int) -> Tensor:
    length = self.shape[dim]
    # A Split into a number of pieces wants as many elements.
    stated = [length // 2] * 2 if op.may_be_empty([length]) else None
    value, gate = op.multi("Split", self, stated, outputs=2, axis=dim, num_outputs=2 if stated is None else None)
    return value * op.Sigmoid(gate)


@translates("aten::gelu")
def gelu(op: Builder, self: Tensor, approximate: str) -> Tensor:
    return op.Gelu(self, approximate=approximate)


@translates("aten::silu")
def silu(op: Builder, self: Tensor) -> Tensor:
    return op.custom("", "Swish", [self], {}, [(self.dtype, self.shape)], version=24)[0]


@translates("aten::hardsigmoid")
def hardsigmoid(op: Builder, self: Tensor) -> Tensor:
    return op.HardSigmoid(self, alpha=1 / 6)


# ONNX's Shrink would do for these two, but turns NaN into 0.


@translates("aten::hardshrink")
def hardshrink(op: Builder, self: Tensor, lambd: Number) -> Tensor:
    return op.Where(op.Abs(self) <= lambd, op.like(0, self), self)


@translates("aten::softshrink")
def softshrink(op: Builder, self: Tensor, lambd: float) -> Tensor:
    return self - op.Clip(self, op.like(-lambd, self), op.like(lambd, self))


@translates("aten::softplus")
def softplus(op: Builder, self: Tensor, beta: float, threshold: float) -> Tensor:
    scaled = self if beta == 1 else self * beta
    result = op.Softplus(scaled) if beta == 1 else op.Softplus(scaled) / beta
    # From 20 on the two differ by less than 3e-9.
    return result if threshold >= 20 else op.Where(scaled > threshold, self, result)


@translates("aten::log_sigmoid")
def log_sigmoid(op: Builder, self: Tensor) -> Tensor:
    return -op.Softplus(-self)


@translates("aten::softmax.int", "aten::_softmax", "aten::special_softmax")
def softmax(
    op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None = None, half_to_float: bool = False
) -> Tensor:
    self = _in_dtype(op, self, dtype, half_to_float)
    return op.Softmax(self, axis=dim) if self.rank else op.Exp(self - self)


@translates("aten::log_softmax.int", "aten::_log_softmax", "aten::special_log_softmax")
def log_softmax(
    op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None = None, half_to_float: bool = False
) -> Tensor:
    self = _in_dtype(op, self, dtype, half_to_float)
    return op.LogSoftmax(self, axis=dim) if self.rank else self - self


def _in_dtype(op: Builder, x: Tensor, dtype: torch.dtype | None, half_to_float: bool) -> Tensor:
    if half_to_float:
        dtype = torch.float32
    return x if dtype is None else op.cast(x, dtype)
