"""Sums, products and matrix products of complex tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from onnxport.aten.axes import axes_of, axis_of
from onnxport.aten.complex.pairs import abs_, add, complex_product, conjugate, eq, exp, from_pairs, log, mul, sub
from onnxport.aten.linalg import products
from onnxport.aten.reduction import distance, reduce, statistics
from onnxport.translate import Builder, Number, Tensor, translates
from onnxport.translate.loop import Outcome, emit_scan


def _complex(op: Builder, x: Tensor, dtype: torch.dtype | None) -> Tensor:
    return x if dtype is None else op.cast(x, dtype)


def _reduced(op: Builder, op_type: str, x: Tensor, dim: int | Sequence[int] | None, keepdim: bool) -> Tensor:
    axes = axes_of(dim, x.rank)
    if not axes:
        return x
    (pairs,) = op.multi(op_type, op.pairs(x), axes, outputs=1, keepdims=keepdim)
    return from_pairs(op, pairs, x.dtype, reduce.reduced_shape(x, axes, keepdim))


@translates("aten::sum", "aten::sum.dim_IntList", complex="only")
def sum_(
    op: Builder, self: Tensor, dtype: torch.dtype | None, dim: Sequence[int] | None = None, keepdim: bool = False
) -> Tensor:
    return _reduced(op, "ReduceSum", _complex(op, self, dtype), dim, keepdim)


@translates("aten::mean", "aten::mean.dim", complex="only")
def mean(
    op: Builder, self: Tensor, dtype: torch.dtype | None, dim: Sequence[int] | None = None, keepdim: bool = False
) -> Tensor:
    return _reduced(op, "ReduceMean", _complex(op, self, dtype), dim, keepdim)


@translates("aten::cumsum", complex="only")
def cumsum(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    self = _complex(op, self, dtype)
    if not self.rank:
        return self
    pairs = op.CumSum(op.pairs(self), op.scalar(axis_of(dim, self.rank), torch.int64))
    return from_pairs(op, pairs, self.dtype, self.shape)


def _products(op: Builder, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The product along an axis and the running ones, as pairs."""
    rest = [size for position, size in enumerate(x.shape) if position != axis]

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        so_far, factor = (from_pairs(inner, item, x.dtype, rest) for item in (state[0], slices[0]))
        product = inner.pairs(complex_product(inner, so_far, factor)).with_shape([*rest, 2])
        return [product], [product]

    one = op.const([1, 0], op.pairs(x).dtype)
    (last,), (every,) = emit_scan(op, body, [op.expand(one, [*rest, 2])], [(op.pairs(x), axis)], [axis])
    return last, every


@translates("aten::cumprod", complex="only")
def cumprod(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    self = _complex(op, self, dtype)
    if not self.rank:
        return self
    return from_pairs(op, _products(op, self, axis_of(dim, self.rank))[1], self.dtype, self.shape)


@translates("aten::logcumsumexp", "aten::_logcumsumexp", complex="only")
def logcumsumexp(op: Builder, self: Tensor, dim: int) -> Tensor:
    """Running sums of exponentials, each taken relative to the larger of its two terms, turns included."""
    if not self.rank:
        return self
    axis = axis_of(dim, self.rank)
    rest = [size for position, size in enumerate(self.shape) if position != axis]

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        so_far, term = (from_pairs(inner, item, self.dtype, rest) for item in (state[0], slices[0]))
        is_larger = inner.unsqueeze((so_far.real >= term.real).with_shape(rest), [len(rest)])
        larger, smaller = (
            from_pairs(inner, inner.Where(is_larger, inner.pairs(x), inner.pairs(y)), self.dtype, rest)
            for x, y in ((so_far, term), (term, so_far))
        )
        total = add(inner, larger, log(inner, add(inner, exp(inner, sub(inner, smaller, larger, 1)), 1, 1)), 1)
        pairs = inner.pairs(total).with_shape([*rest, 2])
        return [pairs], [pairs]

    pairs = op.pairs(self)
    nothing = op.expand(op.const([-math.inf, 0], pairs.dtype), [*rest, 2])
    _, (every,) = emit_scan(op, body, [nothing], [(pairs, axis)], [axis])
    return from_pairs(op, every, self.dtype, self.shape)


@translates("aten::prod", "aten::prod.dim_int", complex="only")
def prod(op: Builder, self: Tensor, dtype: torch.dtype | None, dim: int | None = None, keepdim: bool = False) -> Tensor:
    self = _complex(op, self, dtype)
    if not self.rank:
        return self
    if dim is None:
        self, dim = reduce.flat(op, self), 0
    axis = axis_of(dim, self.rank)
    result = from_pairs(op, _products(op, self, axis)[0], self.dtype, reduce.reduced_shape(self, [axis], False))
    return op.unsqueeze(result, [axis]) if keepdim else result


def _variance_and_mean(
    op: Builder, x: Tensor, dim: Sequence[int] | None, unbiased: bool, correction: Number | None, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """The variance along both axes of the plane, and the mean."""
    parts = (statistics.variance_and_mean(op, part, dim, unbiased, correction, keepdim) for part in (x.real, x.imag))
    (across, real), (up, imaginary) = parts
    return across + up, op.complex(real, imaginary)


statistics.translate_moments(_variance_and_mean, complex="only")


@translates("aten::dist", complex="only")
def dist(op: Builder, self: Tensor, other: Tensor, p: Number) -> Tensor:
    return vector_norm(op, sub(op, self, other, 1), p, None, False, None)


@translates("aten::renorm", complex="only")
def renorm(op: Builder, self: Tensor, p: Number, dim: int, maxnorm: Number) -> Tensor:
    assert not isinstance(p, complex) and not isinstance(maxnorm, complex)
    others = [axis for axis in range(self.rank) if axis != axis_of(dim, self.rank)]
    return mul(op, self, distance.shortening(op, abs_(op, self), float(p), others, float(maxnorm)))


@translates("aten::linalg_vector_norm", complex="only")
def vector_norm(
    op: Builder, self: Tensor, ord: Number, dim: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None
) -> Tensor:
    real_dtype = None if dtype is None else dtype.to_real()
    return distance.vector_norm(op, abs_(op, self), ord, dim, keepdim, real_dtype)


@translates("aten::count_nonzero", "aten::count_nonzero.dim_IntList", complex="only")
def count_nonzero(op: Builder, self: Tensor, dim: int | Sequence[int] | None) -> Tensor:
    return reduce.count_nonzero(op, (~eq(op, self, 0)).with_shape(self.shape), dim)


@translates("aten::all", "aten::all.dim", "aten::all.dims", complex="only")
def all_(op: Builder, self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    return reduce.all_(op, (~eq(op, self, 0)).with_shape(self.shape), dim, keepdim)


@translates("aten::any", "aten::any.dim", "aten::any.dims", complex="only")
def any_(op: Builder, self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    return reduce.any_(op, (~eq(op, self, 0)).with_shape(self.shape), dim, keepdim)


# Products


def bilinear_product(op: Builder, a: Tensor, b: Tensor, product: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Any product that is linear in both factors, from the products of their parts; either may be real."""
    if not b.is_complex:
        return op.complex(product(a.real, b), product(a.imag, b))
    if not a.is_complex:
        return op.complex(product(a, b.real), product(a, b.imag))
    across = product(a.real, b.real) - product(a.imag, b.imag)
    up = product(a.real, b.imag) + product(a.imag, b.real)
    return op.complex(across, up)


@translates("aten::matmul", "aten::linalg_matmul", "aten::mm", "aten::bmm", complex="only")
def matmul(op: Builder, self: Tensor, other: Tensor | None = None, mat2: Tensor | None = None) -> Tensor:
    right = other if mat2 is None else mat2
    assert right is not None
    return bilinear_product(op, self, right, op.MatMul)


@translates("aten::mv", complex="only")
def mv(op: Builder, self: Tensor, vec: Tensor) -> Tensor:
    return bilinear_product(op, self, vec, op.MatMul)


@translates("aten::dot", complex="only")
def dot(op: Builder, self: Tensor, tensor: Tensor) -> Tensor:
    return bilinear_product(op, self, tensor, op.MatMul)


@translates("aten::vdot", complex="only")
def vdot(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return bilinear_product(op, conjugate(op, self), other, op.MatMul)


@translates("aten::linalg_vecdot", complex="only")
def vecdot(op: Builder, x: Tensor, y: Tensor, dim: int) -> Tensor:
    product = mul(op, conjugate(op, x) if x.is_complex else x, y)
    return sum_(op, product, None, [dim], False)


@translates("aten::outer", "aten::ger", complex="only")
def outer(op: Builder, self: Tensor, vec2: Tensor) -> Tensor:
    return mul(op, op.unsqueeze(self, [1]), vec2)


@translates("aten::linear", complex="only")
def linear_(op: Builder, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    turned = products.transposed(op, weight) if weight.rank == 2 else weight
    product = bilinear_product(op, input, turned, op.MatMul).with_shape(op.result_shapes()[0])
    return product if bias is None else add(op, product, bias, 1)


def _scaled_sum(op: Builder, start: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    product = product.with_shape(op.result_shapes()[0])
    if alpha != 1:
        product = mul(op, product, alpha)
    return product if beta == 0 else add(op, product, start if beta == 1 else mul(op, start, beta), 1)


@translates("aten::addmm", complex="only")
def addmm(op: Builder, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number) -> Tensor:
    return _scaled_sum(op, self, bilinear_product(op, mat1, mat2, op.MatMul), beta, alpha)


@translates("aten::addmv", complex="only")
def addmv(op: Builder, self: Tensor, mat: Tensor, vec: Tensor, beta: Number, alpha: Number) -> Tensor:
    return _scaled_sum(op, self, bilinear_product(op, mat, vec, op.MatMul), beta, alpha)


@translates("aten::baddbmm", complex="only")
def baddbmm(op: Builder, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number) -> Tensor:
    return _scaled_sum(op, self, bilinear_product(op, batch1, batch2, op.MatMul), beta, alpha)


@translates("aten::addbmm", complex="only")
def addbmm(op: Builder, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number) -> Tensor:
    def product(a: Tensor, b: Tensor) -> Tensor:
        return op.ReduceSum(op.MatMul(a, b), [0], keepdims=False)

    return _scaled_sum(op, self, bilinear_product(op, batch1, batch2, product), beta, alpha)


@translates("aten::addr", complex="only")
def addr(op: Builder, self: Tensor, vec1: Tensor, vec2: Tensor, beta: Number, alpha: Number) -> Tensor:
    return _scaled_sum(op, self, outer(op, vec1, vec2), beta, alpha)


@translates("aten::einsum", complex="only")
def einsum(op: Builder, equation: str, tensors: Sequence[Tensor], path: Sequence[int] | None) -> Tensor:
    """Expanded over the parts of every factor: one real sum for each choice of real or imaginary parts."""
    equation, tensors = products.spelled_out(op, equation, tensors)
    dtype = next(x.dtype for x in tensors if x.is_complex).to_real()
    terms: list[tuple[int, list[Tensor]]] = [(0, [])]
    for x in tensors:
        parts = [(0, x.real), (1, x.imag)] if x.is_complex else [(0, op.cast(x, dtype))]
        terms = [(turns + turn, [*chosen, part]) for turns, chosen in terms for turn, part in parts]
    sums: list[Tensor | None] = [None, None]
    for turns, chosen in terms:
        term = op.Einsum(*chosen, equation=equation)
        place, negative = turns % 2, turns % 4 >= 2
        so_far = sums[place]
        if so_far is None:
            sums[place] = -term if negative else term
        else:
            sums[place] = so_far - term if negative else so_far + term
    across, up = sums
    assert across is not None and up is not None
    return op.complex(across, up)


@translates("aten::tensordot", complex="only")
def tensordot(op: Builder, self: Tensor, other: Tensor, dims_self: Sequence[int], dims_other: Sequence[int]) -> Tensor:
    return bilinear_product(op, self, other, lambda a, b: products.tensordot(op, a, b, dims_self, dims_other))


@translates("aten::inner", complex="only")
def inner(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return bilinear_product(op, self, other, lambda a, b: products.inner(op, a, b))


@translates("aten::kron", complex="only")
def kron(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return bilinear_product(op, self, other, lambda a, b: products.kron(op, a, b))


@translates("aten::linalg_cross", complex="only")
def linalg_cross(op: Builder, self: Tensor, other: Tensor, dim: int) -> Tensor:
    return bilinear_product(op, self, other, lambda a, b: products.linalg_cross(op, a, b, dim))


@translates("aten::cross", complex="only")
def cross(op: Builder, self: Tensor, other: Tensor, dim: int | None) -> Tensor:
    return bilinear_product(op, self, other, lambda a, b: products.cross(op, a, b, dim))
