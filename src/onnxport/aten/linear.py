"""Matrix products and what is made of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch

from onnxport.aten.axes import axis_of
from onnxport.translate import Builder, Number, Tensor, translates

_SMALL_INTEGERS = (torch.int8, torch.uint8, torch.int16)


def product_of(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """A matrix product; ONNX has none of small integers, which are multiplied in int32 and wrap when cast back."""
    if a.dtype in _SMALL_INTEGERS:
        return op.cast(op.MatMul(op.cast(a, torch.int32), op.cast(b, torch.int32)), a.dtype)
    return op.MatMul(a, b)


def _scaled_sum(op: Builder, start: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    """``beta * start + alpha * product``, where a beta of 0 means that ``start`` is not looked at, NaN or not."""
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return (start if beta == 1 else start * beta) + product


def transposed(op: Builder, x: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    last = x.rank - 1
    return op.transpose(x, [*range(last - 1), last, last - 1])


@translates("aten::linear")
def linear(op: Builder, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if input.rank == 2 and weight.rank == 2 and (bias is None or bias.rank == 1) and input.is_float:
        return op.Gemm(input, weight, bias, transB=1)
    product = product_of(op, input, transposed(op, weight) if weight.rank == 2 else weight)
    return product if bias is None else product + bias


@translates("aten::matmul", "aten::linalg_matmul", "aten::mm", "aten::bmm", "aten::mm.dtype", "aten::bmm.dtype")
def matmul(
    op: Builder,
    self: Tensor,
    other: Tensor | None = None,
    mat2: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    right = other if mat2 is None else mat2
    assert right is not None
    if out_dtype is not None:
        self, right = op.cast(self, out_dtype), op.cast(right, out_dtype)
    return product_of(op, self, right)


@translates("aten::_int_mm")
def int_mm(op: Builder, self: Tensor, mat2: Tensor) -> Tensor:
    return op.MatMulInteger(self, mat2)


@translates("aten::mv")
def mv(op: Builder, self: Tensor, vec: Tensor) -> Tensor:
    return product_of(op, self, vec)


@translates("aten::dot")
def dot(op: Builder, self: Tensor, tensor: Tensor) -> Tensor:
    return product_of(op, self, tensor)


@translates("aten::vdot")
def vdot(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return product_of(op, self, other)


@translates("aten::outer", "aten::ger", promote=("self", "vec2"))
def outer(op: Builder, self: Tensor, vec2: Tensor) -> Tensor:
    column = op.unsqueeze(self, [1])
    return op.And(column, vec2) if self.dtype == torch.bool else column * vec2


@translates("aten::addmm", "aten::addmm.dtype")
def addmm(
    op: Builder,
    self: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    beta: Number,
    alpha: Number,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    if out_dtype is not None:
        self, mat1, mat2 = op.cast(self, out_dtype), op.cast(mat1, out_dtype), op.cast(mat2, out_dtype)
    if self.is_float:
        return op.Gemm(mat1, mat2, None if beta == 0 else self, alpha=alpha, beta=beta)
    return _scaled_sum(op, self, product_of(op, mat1, mat2), beta, alpha)


@translates("aten::_addmm_activation")
def addmm_activation(
    op: Builder, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number, use_gelu: bool
) -> Tensor:
    result = addmm(op, self, mat1, mat2, beta, alpha)
    return op.Gelu(result, approximate="tanh") if use_gelu else op.Relu(result)


@translates("aten::baddbmm", "aten::baddbmm.dtype")
def baddbmm(
    op: Builder,
    self: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    beta: Number,
    alpha: Number,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    if out_dtype is not None:
        self, batch1, batch2 = op.cast(self, out_dtype), op.cast(batch1, out_dtype), op.cast(batch2, out_dtype)
    return _scaled_sum(op, self, product_of(op, batch1, batch2), beta, alpha)


@translates("aten::addbmm")
def addbmm(op: Builder, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number) -> Tensor:
    total = op.ReduceSum(product_of(op, batch1, batch2), [0], keepdims=False)
    return _scaled_sum(op, self, total, beta, alpha)


@translates("aten::addmv")
def addmv(op: Builder, self: Tensor, mat: Tensor, vec: Tensor, beta: Number, alpha: Number) -> Tensor:
    return _scaled_sum(op, self, product_of(op, mat, vec), beta, alpha)


@translates("aten::addr", promote=("self", "vec1", "vec2"))
def addr(op: Builder, self: Tensor, vec1: Tensor, vec2: Tensor, beta: Number, alpha: Number) -> Tensor:
    column = op.unsqueeze(vec1, [1])
    if self.dtype == torch.bool:
        product = op.And(column, vec2) if alpha else op.full(False, self.shape, torch.bool)
        return op.Or(self, product) if beta else product
    return _scaled_sum(op, self, column * vec2, beta, alpha)


@translates("aten::einsum")
def einsum(op: Builder, equation: str, tensors: Sequence[Tensor], path: Sequence[int] | None) -> Tensor:
    dtype = tensors[0].dtype
    computed = [op.cast(x, torch.int32) for x in tensors] if dtype in _SMALL_INTEGERS else tensors
    return op.cast(op.Einsum(*computed, equation=explicit_equation(equation)), dtype)


def explicit_equation(equation: str) -> str:
    """An equation without spaces and with its right-hand side: the labels that occur once, in order.

    >>> from onnxport.aten.linear import explicit_equation
    >>> explicit_equation("i j, jk")
    'ij,jk->ik'
    """
    equation = equation.replace(" ", "")
    if "->" in equation:
        return equation
    labels = re.sub(r"[^A-Za-z]", "", equation)
    once = "".join(sorted(label for label in set(labels) if labels.count(label) == 1))
    return f"{equation}->{'...' if '.' in equation else ''}{once}"


@translates("aten::bilinear")
def bilinear(op: Builder, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    left = op.MatMul(op.unsqueeze(input1, [input1.rank - 1, input1.rank]), weight)
    right = op.unsqueeze(input2, [input2.rank - 1, input2.rank + 1])
    product = op.Squeeze(op.MatMul(left, right), [-2, -1])
    return product if bias is None else product + bias


@translates("aten::linalg_vecdot", promote=("x", "y"))
def vecdot(op: Builder, x: Tensor, y: Tensor, dim: int) -> Tensor:
    rank = max(x.rank, y.rank)
    return op.ReduceSum(x * y, [axis_of(dim, rank)], keepdims=False)


@translates("aten::linalg_cross")
def linalg_cross(op: Builder, self: Tensor, other: Tensor, dim: int) -> Tensor:
    rank = max(self.rank, other.rank)
    axis = dim % rank - rank

    def turned(x: Tensor, order: Sequence[int]) -> Tensor:
        return op.Gather(x, op.const(order, torch.int64), axis=axis)

    once, twice = (1, 2, 0), (2, 0, 1)
    return turned(self, once) * turned(other, twice) - turned(self, twice) * turned(other, once)


@translates("aten::cross")
def cross(op: Builder, self: Tensor, other: Tensor, dim: int | None) -> Tensor:
    if dim is None:
        dim = next(axis for axis, size in enumerate(self.shape) if size == 3)
    return linalg_cross(op, self, other, dim)
