"""Orthogonal factorisations: QR by Householder reflections, singular values and eigenvalues by Jacobi rotations.

Signs of reflections are LAPACK's, so that Q and R are torch's. Singular and eigenvectors are defined up to
their sign only (and up to rotation where values coincide): theirs need not be torch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from onnxport.aten.indexing.sort import ordered
from onnxport.aten.linalg.elimination import (
    column,
    counting,
    first_columns,
    first_rows,
    identity_matrix,
    of_nothing,
    row,
    triangle_part,
)
from onnxport.aten.linalg.products import transposed
from onnxport.aten.reduction.reduce import reduced
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import maximum, minimum
from onnxport.translate.loop import Outcome, emit_loop, emit_scan, inside

SWEEPS = 10
"""Sweeps of rotations over all pairs of columns; convergence is quadratic, and double precision needs about eight."""


# QR


def _reflections(op: Builder, x: Tensor) -> tuple[Tensor, ...]:
    """R (with rounding errors below its diagonal), the reflections' vectors as columns, and their factors tau."""
    rows = counting(op, x.shape[-2])
    count = minimum(x.shape[-2], x.shape[-1])

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (rest,), (step,) = state, slices
        own_rows = inside(inner, rows)
        zero, one = inner.scalar(0, x.dtype), inner.scalar(1, x.dtype)
        here = inner.Gather(rest, step, axis=-1)
        below = inner.Where(own_rows > step, here, zero)
        top = inner.Gather(here, inner.unsqueeze(step, [0]), axis=-1).with_shape([*x.shape[:-2], 1])
        length = inner.ReduceL2(below, [-1], keepdims=True)
        whole = inner.Sqrt(top * top + length * length)
        turned = inner.Where(top >= zero, -whole, whole)
        # A column with nothing below the diagonal is left as it is.
        flat = inner.Equal(length, zero)
        tau = inner.Where(flat, zero, (turned - top) / inner.Where(flat, one, turned)).with_shape([*x.shape[:-2], 1])
        vector = below / inner.Where(flat, one, top - turned)
        vector = inner.Where(inner.Equal(own_rows, step), one, vector).with_shape(x.shape[:-1])
        reflected = _reflect(inner, rest, vector, tau)
        return [reflected], [vector, inner.squeeze(tau, [tau.rank - 1])]

    over = [(counting(op, count), 0)]
    (last,), (vectors, taus) = emit_scan(op, body, [x], over, [x.rank - 1, x.rank - 2])
    return last, vectors, taus


def _reflect(op: Builder, x: Tensor, vector: Tensor, tau: Tensor) -> Tensor:
    """``x - tau * v (vᵀ x)``; ``tau`` has a last dimension of 1."""
    product = op.MatMul(row(op, vector), x)
    return (x - column(op, vector * tau) * product).with_shape(x.shape)


def _reflected(op: Builder, vectors: Tensor, taus: Tensor, x: Tensor, reverse: bool) -> Tensor:
    """All reflections applied to the columns of ``x``: the product of them in order if ``reverse``."""

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        vector, tau = slices
        return [_reflect(inner, state[0], vector, inner.unsqueeze(tau, [tau.rank]))], []

    over = [(vectors, vectors.rank - 1), (taus, taus.rank - 1)]
    (result,), _ = emit_scan(op, body, [x], over, reverse=reverse)
    return result


def _orthogonal(op: Builder, vectors: Tensor, taus: Tensor, columns: Int) -> Tensor:
    """The leading columns of the product of the reflections."""
    start = first_columns(op, identity_matrix(op, vectors.shape[-2], vectors.dtype), columns)
    return _reflected(op, vectors, taus, op.expand(start, [*vectors.shape[:-2], *start.shape]), True)


def _unpacked(op: Builder, x: Tensor) -> Tensor:
    """The vectors that LAPACK keeps below the diagonal, with the ones it leaves out."""
    rows, columns = counting(op, x.shape[-2]), counting(op, x.shape[-1])
    ones = op.cast(op.Equal(op.unsqueeze(rows, [1]), columns), x.dtype)
    return (triangle_part(op, x, False, -1) + ones).with_shape(x.shape)


@translates("aten::linalg_qr")
def qr(op: Builder, A: Tensor, mode: str) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        return of_nothing(op, A.dtype, A.dtype)
    last, vectors, taus = _reflections(op, A)
    rows = A.shape[-2] if mode == "complete" else minimum(A.shape[-2], A.shape[-1])
    upper = triangle_part(op, first_rows(op, last, rows), True)
    if mode == "r":
        return op.full(0, [0], A.dtype), upper
    return _orthogonal(op, vectors, taus, rows), upper


@translates("aten::geqrf")
def geqrf(op: Builder, self: Tensor) -> tuple[Tensor, ...]:
    if 0 in self.shape:
        return of_nothing(op, self.dtype, self.dtype)
    last, vectors, taus = _reflections(op, self)
    below = triangle_part(op, vectors, False, -1)
    if self.shape[-1] != vectors.shape[-1]:
        missing = op.full(0, [*self.shape[:-1], self.shape[-1] - vectors.shape[-1]], self.dtype)
        below = op.Concat(below, missing, axis=-1)
    return triangle_part(op, last, True) + below, taus


@translates("aten::linalg_householder_product")
def householder_product(op: Builder, input: Tensor, tau: Tensor) -> Tensor:
    if 0 in tau.shape:
        return of_nothing(op, input.dtype)[0]
    vectors = first_columns(op, _unpacked(op, input), tau.shape[-1])
    return _orthogonal(op, vectors, tau, input.shape[-1])


@translates("aten::ormqr")
def ormqr(op: Builder, self: Tensor, input2: Tensor, input3: Tensor, left: bool, transpose: bool) -> Tensor:
    vectors = first_columns(op, _unpacked(op, self), input2.shape[-1])
    if left:
        return _reflected(op, vectors, input2, input3, reverse=not transpose)
    return transposed(op, _reflected(op, vectors, input2, transposed(op, input3), reverse=transpose))


# Singular values


def tournament(op: Builder, half: Int) -> Tensor:
    """Where each column comes from in the next round, all pairs meeting once in as many rounds as columns less one.

    Columns ``i`` and ``half + i`` are a pair; the first stays, all others move on by one place in a circle.
    """
    if isinstance(half, int):
        return op.const([0, half, *range(1, half - 1), *range(half + 1, 2 * half), half - 1], torch.int64)
    numbers = counting(op, half * 2)
    pieces = [
        op.const([0], torch.int64),
        op.ints([half]),
        op.slice(numbers, 0, 1, half - 1),
        op.slice(numbers, 0, half + 1, None),
        op.ints([half - 1]),
    ]
    return op.Concat(*pieces, axis=0).with_shape([half * 2])


def _rotated(op: Builder, x: Tensor) -> tuple[Tensor, ...]:
    """``x @ v`` with orthogonal columns, and the orthogonal ``v``: Hestenes' one-sided Jacobi method.

    Half of all columns are rotated against the other half at once. Columns of zeros make their number even and at
    least four; they are orthogonal to all others, are never mixed with them and stay last.
    """
    m, n = x.shape[-2], x.shape[-1]
    half = maximum((n + 1) // 2, 2)
    width = half * 2
    vectors = op.expand(identity_matrix(op, n, x.dtype), [*x.shape[:-2], n, n])
    stacked = op.Concat(x, vectors, axis=-2).with_shape([*x.shape[:-2], m + n, n])
    if width != n:
        filling = op.full(0, [*x.shape[:-2], m + n, width - n], x.dtype)
        stacked = op.Concat(stacked, filling, axis=-1).with_shape([*x.shape[:-2], m + n, width])
    order = tournament(op, half)
    rank = stacked.rank

    def body(inner: Builder, iteration: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        (both,) = state
        left, right = inner.slice(both, rank - 1, 0, half), inner.slice(both, rank - 1, half, None)
        own_left, own_right = inner.slice(left, rank - 2, 0, m), inner.slice(right, rank - 2, 0, m)
        one, zero = inner.scalar(1, x.dtype), inner.scalar(0, x.dtype)

        def dot(a: Tensor, b: Tensor) -> Tensor:
            return inner.ReduceSum(a * b, [rank - 2], keepdims=True)

        mixed = dot(own_left, own_right)
        done = inner.Equal(mixed, zero)
        ratio = (dot(own_right, own_right) - dot(own_left, own_left)) / (inner.Where(done, one, mixed) * 2)
        sign = inner.Where(ratio >= zero, one, inner.scalar(-1, x.dtype))
        tangent = sign / (inner.Abs(ratio) + inner.Sqrt(ratio * ratio + 1))
        tangent = inner.Where(done, zero, tangent)
        cosine = inner.Reciprocal(inner.Sqrt(tangent * tangent + 1))
        sine = cosine * tangent
        turned = inner.Concat(left * cosine - right * sine, left * sine + right * cosine, axis=-1)
        return [inner.Gather(turned, inside(inner, order), axis=-1).with_shape(both.shape)]

    (result,) = emit_loop(op, body, (width - 1) * SWEEPS, [stacked])
    product = op.slice(result, rank - 2, 0, m).with_shape([*x.shape[:-2], m, width])
    vectors = op.slice(result, rank - 2, m, None).with_shape([*x.shape[:-2], n, width])
    return product, vectors


def _reordered(op: Builder, x: Tensor, places: Tensor) -> Tensor:
    """Columns taken from these places, which differ from matrix to matrix."""
    shape = [*x.shape[:-1], places.shape[-1]]
    return op.GatherElements(x, op.expand(row(op, places), shape), axis=-1).with_shape(shape)


def _tall_svd(op: Builder, x: Tensor) -> tuple[Tensor, ...]:
    """``x @ v``, the singular values in descending order, and ``v``, for at least as many rows as columns."""
    product, vectors = _rotated(op, x)
    lengths = reduced(op, "ReduceL2", product, [x.rank - 2], False)
    values, places = ordered(op, lengths, x.rank - 2, x.shape[-1], True)
    return _reordered(op, product, places), values, _reordered(op, vectors, places)


def _left_vectors(op: Builder, product: Tensor, columns: Int) -> Tensor:
    """An orthonormal basis that begins with the directions of orthogonal columns, also where these are 0."""
    last, reflectors, taus = _reflections(op, product)
    basis = _orthogonal(op, reflectors, taus, columns)
    count = product.shape[-1]
    diagonal = op.ReduceSum(
        first_rows(op, last, count) * identity_matrix(op, count, product.dtype), [-1], keepdims=False
    )
    signs = op.Where(diagonal < op.scalar(0, product.dtype), op.scalar(-1, product.dtype), op.scalar(1, product.dtype))
    if columns != count:
        more = op.full(1, [*product.shape[:-2], columns - count], product.dtype)
        signs = op.Concat(signs, more, axis=-1)
    return basis * row(op, signs.with_shape([*product.shape[:-2], columns]))


@translates("aten::_linalg_svd")
def svd(op: Builder, A: Tensor, full_matrices: bool, compute_uv: bool, driver: str | None) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        return of_nothing(op, A.dtype, A.dtype, A.dtype)
    return decomposed(op, A, full_matrices, compute_uv, Steps(transposed, _tall_svd, _left_vectors))


@dataclass(frozen=True)
class Steps:
    """What decomposing a matrix into singular values takes, for real or for complex ones."""

    turned: Callable[[Builder, Tensor], Tensor]
    tall: Callable[[Builder, Tensor], tuple[Tensor, ...]]
    left_vectors: Callable[[Builder, Tensor, Int], Tensor]


def decomposed(op: Builder, A: Tensor, full_matrices: bool, compute_uv: bool, by: Steps) -> tuple[Tensor, ...]:
    """Left vectors, singular values and right vectors of a matrix that is tall, wide, or of open size."""
    m, n = A.shape[-2], A.shape[-1]
    count = minimum(m, n)
    # Where it is open which side is longer, the columns are rotated; those that are too many come last, as 0.
    wide = isinstance(m, int) and isinstance(n, int) and m < n
    product, values, right = by.tall(op, by.turned(op, A) if wide else A)
    values = leading(op, values, count)
    if not compute_uv:
        nothing = op.full(0, [0], A.dtype)
        return nothing, values, nothing
    product = first_columns(op, product, count)
    left = by.left_vectors(op, product, product.shape[-2] if full_matrices else count)
    if not full_matrices:
        right = first_columns(op, right, count)
    return (right, values, by.turned(op, left)) if wide else (left, values, by.turned(op, right))


def leading(op: Builder, values: Tensor, count: Int) -> Tensor:
    """The first of the values."""
    if values.shape[-1] == count:
        return values
    return op.slice(values, values.rank - 1, 0, count).with_shape([*values.shape[:-1], count])


@translates("aten::linalg_pinv.atol_rtol_tensor")
def pinv(op: Builder, self: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    if 0 in self.shape:
        return of_nothing(op, self.dtype)[0]
    if hermitian:
        self = symmetric_matrix(op, self, "L")
    m, n = self.shape[-2], self.shape[-1]
    wide = isinstance(m, int) and isinstance(n, int) and m < n
    product, values, right = _tall_svd(op, transposed(op, self) if wide else self)
    largest = op.ReduceMax(values, [-1], keepdims=True)
    if rtol is not None:
        limit = largest * column(op, op.cast(rtol, self.dtype))
    elif atol is None:
        limit = largest * (op.scalar(maximum(m, n), self.dtype) * torch.finfo(self.dtype).eps)
    else:
        limit = op.scalar(0, self.dtype)
    if atol is not None:
        limit = op.Max(limit, column(op, op.cast(atol, self.dtype)))
    square = values * values
    # x⁺ = v s⁻² (x v)ᵀ, over the singular values that count.
    kept = op.Where(values > limit, op.scalar(1, self.dtype) / square, op.scalar(0, self.dtype))
    result = op.MatMul(right * row(op, kept.with_shape(values.shape)), transposed(op, product))
    result = result.with_shape([*self.shape[:-2], m, n] if wide else [*self.shape[:-2], n, m])
    return transposed(op, result) if wide else result


def symmetric_matrix(op: Builder, x: Tensor, triangle_used: str) -> Tensor:
    """The symmetric matrix of which one triangle is given."""
    upper = triangle_used.upper() == "U"
    strict = triangle_part(op, x, upper, 1 if upper else -1)
    return (triangle_part(op, x, upper) + transposed(op, strict)).with_shape(x.shape)


@translates("aten::_linalg_eigh")
def eigh(op: Builder, A: Tensor, UPLO: str, compute_v: bool) -> tuple[Tensor, ...]:
    """Shifted by its norm a symmetric matrix has no negative eigenvalue, and its singular vectors are eigenvectors."""
    if 0 in A.shape:
        return of_nothing(op, A.dtype, A.dtype)
    symmetric = symmetric_matrix(op, A, UPLO)
    n = A.shape[-1]
    shift = op.ReduceL2(symmetric, [-2, -1], keepdims=True)
    _, vectors = _rotated(op, (symmetric + identity_matrix(op, n, A.dtype) * shift).with_shape(A.shape))
    vectors = first_columns(op, vectors, n)
    products = vectors * op.MatMul(symmetric, vectors)
    quotients = op.ReduceSum(products, [A.rank - 2], keepdims=False).with_shape(A.shape[:-1])
    values, places = ordered(op, quotients, A.rank - 2, n, False)
    return values, _reordered(op, vectors, places) if compute_v else op.full(math.nan, [0], A.dtype)
