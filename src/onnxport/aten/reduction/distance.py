"""Norms and distances."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.aten.axes import axes_of, axis_of
from onnxport.aten.linalg.products import transposed
from onnxport.aten.reduction.reduce import length_of, reduced, sum_of_squares
from onnxport.translate import Builder, Number, Tensor, translates

_TINY = 1e-7
"""What torch adds to a norm before dividing by it when it shortens vectors."""


def norm_of(op: Builder, x: Tensor, order: float, axes: Sequence[int], keepdim: bool) -> Tensor:
    """The norm of any order along some axes."""
    if not axes:
        return op.cast(op.cast(x, torch.bool), x.dtype) if order == 0 else op.Abs(x)
    if order == 2:
        return length_of(op, x, axes, keepdim)
    if order == 1:
        return reduced(op, "ReduceL1", x, axes, keepdim)
    if order == 0:
        return reduced(op, "ReduceSum", op.cast(op.cast(x, torch.bool), x.dtype), axes, keepdim)
    if math.isinf(order):
        return reduced(op, "ReduceMax" if order > 0 else "ReduceMin", op.Abs(x), axes, keepdim)
    return reduced(op, "ReduceSum", op.Abs(x) ** order, axes, keepdim) ** (1 / order)


@translates("aten::linalg_vector_norm")
def vector_norm(
    op: Builder, self: Tensor, ord: Number, dim: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None
) -> Tensor:
    assert not isinstance(ord, complex)
    self = self if dtype is None else op.cast(self, dtype)
    return norm_of(op, self, float(ord), axes_of(dim, self.rank), keepdim)


@translates(
    "aten::norm.Scalar", "aten::norm.ScalarOpt_dim", "aten::norm.ScalarOpt_dim_dtype", "aten::norm.ScalarOpt_dtype"
)
def norm(
    op: Builder,
    self: Tensor,
    p: Number | None,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    return vector_norm(op, self, 2 if p is None else p, dim, keepdim, dtype)


@translates("aten::dist", promote=("self", "other"))
def dist(op: Builder, self: Tensor, other: Tensor, p: Number) -> Tensor:
    return vector_norm(op, _difference(self, other), p, None, False, None)


def _difference(a: Tensor, b: Tensor) -> Tensor:
    """``a - b`` with its shape: two run-time sizes that meet in a broadcast are one and the same."""
    rank = max(a.rank, b.rank)
    left, right = ([*[1] * (rank - x.rank), *x.shape] for x in (a, b))
    return (a - b).with_shape([y if x == 1 else x for x, y in zip(left, right, strict=True)])


def shortening(op: Builder, x: Tensor, order: float, axes: Sequence[int], limit: float) -> Tensor:
    """The factors that bring vectors longer than the limit to that length."""
    length = norm_of(op, x, order, axes, True)
    return op.Where(length > limit, limit / (length + _TINY), op.scalar(1, x.dtype))


def shortened(op: Builder, x: Tensor, order: float, axes: Sequence[int], limit: float) -> Tensor:
    """Vectors longer than the limit brought to that length."""
    return x * shortening(op, x, order, axes, limit)


@translates("aten::renorm")
def renorm(op: Builder, self: Tensor, p: Number, dim: int, maxnorm: Number) -> Tensor:
    assert not isinstance(p, complex) and not isinstance(maxnorm, complex)
    kept = axis_of(dim, self.rank)
    others = [axis for axis in range(self.rank) if axis != kept]
    return shortened(op, self, float(p), others, float(maxnorm))


_DIRECT_LIMIT = 25
"""More points than this and torch computes Euclidean distances by a matrix product."""


@translates("aten::cdist", "aten::_cdist_forward", promote=("x1", "x2"))
def cdist(op: Builder, x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    counts = (x1.shape[x1.rank - 2], x2.shape[x2.rank - 2])
    many = any(isinstance(count, int) and count > _DIRECT_LIMIT for count in counts)
    if p == 2 and (compute_mode == 1 or (many and compute_mode != 2)):
        return euclidean(op, x1, x2)
    difference = _difference(op.unsqueeze(x1, [x1.rank - 1]), op.unsqueeze(x2, [x2.rank - 2]))
    return norm_of(op, difference, p, [difference.rank - 1], False)


@translates("aten::pdist", "aten::_pdist_forward")
def pdist(op: Builder, self: Tensor, p: float) -> Tensor:
    """The distances of all pairs of rows, each pair once."""
    count = self.shape[0]
    if isinstance(count, int):
        first, second = (op.const(rows, torch.int64) for rows in torch.triu_indices(count, count, 1).tolist())
    else:
        above = op.Trilu(op.full(1, [count, count], torch.int64), op.const(1, torch.int64), upper=1)
        first, second = op.multi("Split", op.NonZero(above), axis=0, num_outputs=2, outputs=2)
        first, second = (op.Squeeze(rows, [0]) for rows in (first, second))
    pairs = count * (count - 1) // 2
    difference = op.Gather(self, first, axis=0) - op.Gather(self, second, axis=0)
    return norm_of(op, difference.with_shape([pairs, self.shape[1]]), p, [1], False)


@translates("aten::_euclidean_dist", promote=("x1", "x2"))
def euclidean(op: Builder, x1: Tensor, x2: Tensor) -> Tensor:
    """By the binomial formula; rounding may take the square below 0."""
    first = sum_of_squares(op, x1, [x1.rank - 1], True)
    second = transposed(op, sum_of_squares(op, x2, [x2.rank - 1], True))
    square = first + second - op.MatMul(x1, transposed(op, x2)) * 2
    return op.Sqrt(op.Max(square, op.scalar(0, x1.dtype)))


@translates("aten::pairwise_distance", promote=("x1", "x2"))
def pairwise_distance(op: Builder, x1: Tensor, x2: Tensor, p: float, eps: float, keepdim: bool) -> Tensor:
    difference = _difference(x1, x2)
    # Whole numbers are subtracted as such, and bytes wrap.
    if not (difference.is_float or difference.is_complex):
        difference = op.cast(difference, torch.get_default_dtype())
    return norm_of(op, (difference + eps).with_shape(difference.shape), p, [difference.rank - 1], keepdim)


def _as_long(op: Builder, x: Tensor, other: Tensor, axis: int) -> Tensor:
    """``x`` with the one element it has along ``axis`` repeated as often as ``other`` has elements there."""
    sizes = [*[1] * (-axis - x.rank), *x.shape]
    if sizes[axis] != 1 or other.rank < -axis or other.shape[axis] == 1:
        return x
    sizes[axis] = other.shape[axis]
    return op.expand(x, sizes)


@translates("aten::cosine_similarity", promote=("x1", "x2"), to_float=True)
def cosine_similarity(op: Builder, x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    least = op.scalar(eps, x1.dtype)
    rank = max(x1.rank, x2.rank)
    if not rank:
        return x1 / op.Max(op.Abs(x1), least) * (x2 / op.Max(op.Abs(x2), least))
    axis = dim % rank - rank
    x1, x2 = _as_long(op, x1, x2, axis), _as_long(op, x2, x1, axis)
    # Dividing each vector by its own length first neither over- nor underflows where the product of lengths would.
    first, second = (x / op.Max(length_of(op, x, [x.rank + axis], True), least) for x in (x1, x2))
    return op.ReduceSum(first * second, [rank + axis], keepdims=False)
