"""Unitary factorisations of complex matrices: QR by reflections, singular values and eigenvalues by rotations.

As in ``orthogonal.py``, on pairs of parts: reflections are LAPACK's, with a real diagonal of R, and a rotation first
turns the second of its two columns so that their product is real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.aten.complex.complex_elimination import adjoint, hermitian_matrix, matrix_product, triangle_of, unit
from onnxport.aten.complex.pairs import complex_product, conjugate, from_pairs, mul
from onnxport.aten.indexing.sort import ordered
from onnxport.aten.linalg.elimination import (
    column,
    counting,
    first_columns,
    first_rows,
    identity_matrix,
    of_nothing,
    row,
)
from onnxport.aten.linalg.orthogonal import SWEEPS, Steps, decomposed, tournament
from onnxport.aten.linalg.products import transposed
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import maximum, minimum
from onnxport.translate.loop import Outcome, emit_loop, emit_scan, inside

# QR


def _reflections(op: Builder, x: Tensor) -> tuple[Tensor, ...]:
    """R (with rounding errors below its diagonal), the reflections' vectors as columns, and their factors tau."""
    rows, batch = counting(op, x.shape[-2]), x.shape[:-2]
    count = minimum(x.shape[-2], x.shape[-1])

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (rest,), (step,) = state, slices
        own_rows = inside(inner, rows)
        zero, one = inner.scalar(0, rest.dtype), inner.scalar(1, rest.dtype)
        here = inner.Gather(rest, step, axis=-2).with_shape([*x.shape[:-1], 2])
        lower = inner.unsqueeze((own_rows > step).with_shape([x.shape[-2]]), [1])
        below = inner.Where(lower, here, zero)
        top = inner.Gather(here, inner.unsqueeze(step, [0]), axis=-2).with_shape([*batch, 1, 2])
        top_real = inner.Gather(top, inner.const([0], torch.int64), axis=-1)
        whole_length = inner.ReduceL2(inner.Concat(below, top, axis=-2), [-2, -1], keepdims=True)
        turned = inner.Where(top_real >= zero, -whole_length, whole_length)
        # A column with nothing below a real diagonal is left as it is.
        flat = inner.Equal(
            inner.ReduceL1(below, [-2, -1], keepdims=True)
            + inner.Abs(inner.Gather(top, inner.const([1], torch.int64), axis=-1)),
            zero,
        )
        length = inner.Where(flat, one, turned)
        real_turned = inner.Concat(turned, inner.Sub(turned, turned), axis=-1)
        tau = inner.Where(flat, zero, (real_turned - top) / length).with_shape([*batch, 1, 2])
        ahead = inner.Where(flat, inner.const([1, 0], rest.dtype), top - real_turned).with_shape([*batch, 1, 2])
        vector = mul(
            inner,
            from_pairs(inner, below, x.dtype, x.shape[:-1]),
            _reciprocal(inner, from_pairs(inner, ahead, x.dtype, [*batch, 1])),
        )
        is_step = inner.unsqueeze(inner.Equal(own_rows, step).with_shape([x.shape[-2]]), [1])
        stored = inner.Where(is_step, inner.const([1, 0], rest.dtype), inner.pairs(vector))
        stored = stored.with_shape([*x.shape[:-1], 2])
        vector = from_pairs(inner, stored, x.dtype, x.shape[:-1])
        factor = from_pairs(inner, tau, x.dtype, [*batch, 1])
        reflected = _reflect(inner, from_pairs(inner, rest, x.dtype, x.shape), vector, conjugate(inner, factor))
        return [inner.pairs(reflected)], [stored, inner.squeeze(tau, [tau.rank - 2])]

    over = [(counting(op, count), 0)]
    (last,), (vectors, taus) = emit_scan(op, body, [op.pairs(x)], over, [x.rank - 1, x.rank - 2])
    return (
        from_pairs(op, last, x.dtype, x.shape),
        from_pairs(op, vectors, x.dtype, [*x.shape[:-1], count]),
        from_pairs(op, taus, x.dtype, [*batch, count]),
    )


def _reciprocal(op: Builder, x: Tensor) -> Tensor:
    pairs = op.pairs(x)
    square = op.ReduceSumSquare(pairs, [x.rank], keepdims=True)
    return from_pairs(op, op.pairs(conjugate(op, x)) / square, x.dtype, x.shape)


def _reflect(op: Builder, x: Tensor, vector: Tensor, tau: Tensor) -> Tensor:
    """``x - tau * v (v* x)``; ``tau`` has a last dimension of 1."""
    along = matrix_product(op, row(op, conjugate(op, vector)), x)
    taken = complex_product(op, column(op, complex_product(op, vector, tau)), along)
    return from_pairs(op, op.pairs(x) - op.pairs(taken), x.dtype, x.shape)


def _reflected(op: Builder, vectors: Tensor, taus: Tensor, x: Tensor, adjoined: bool) -> Tensor:
    """The product of all reflections, or its adjoint, applied to the columns of ``x``."""

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        vector, tau = (from_pairs(inner, item, x.dtype, item.shape[:-1]) for item in slices)
        factor = column(inner, conjugate(inner, tau) if adjoined else tau)
        return [inner.pairs(_reflect(inner, from_pairs(inner, state[0], x.dtype, x.shape), vector, factor))], []

    over = [(op.pairs(vectors), vectors.rank - 1), (op.pairs(taus), taus.rank - 1)]
    (result,), _ = emit_scan(op, body, [op.pairs(x)], over, reverse=not adjoined)
    return from_pairs(op, result, x.dtype, x.shape)


def _unitary(op: Builder, vectors: Tensor, taus: Tensor, columns: Int) -> Tensor:
    """The leading columns of the product of the reflections."""
    start = first_columns(op, unit(op, vectors), columns)
    return _reflected(op, vectors, taus, op.expand(start, [*vectors.shape[:-2], *start.shape]), False)


def _unpacked(op: Builder, x: Tensor) -> Tensor:
    """The vectors that LAPACK keeps below the diagonal, with the ones it leaves out."""
    rows, columns = counting(op, x.shape[-2]), counting(op, x.shape[-1])
    ones = op.cast(op.Equal(op.unsqueeze(rows, [1]), columns), x.dtype.to_real())
    strict = triangle_of(op, x, False, -1)
    return op.complex((strict.real + ones).with_shape(x.shape), strict.imag)


@translates("aten::linalg_qr", complex="only")
def qr(op: Builder, A: Tensor, mode: str) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        return of_nothing(op, A.dtype, A.dtype)
    last, vectors, taus = _reflections(op, A)
    rows = A.shape[-2] if mode == "complete" else minimum(A.shape[-2], A.shape[-1])
    upper = triangle_of(op, first_rows(op, last, rows), True)
    if mode == "r":
        return op.full(0, [0], A.dtype), upper
    return _unitary(op, vectors, taus, rows), upper


@translates("aten::geqrf", complex="only")
def geqrf(op: Builder, self: Tensor) -> tuple[Tensor, ...]:
    if 0 in self.shape:
        return of_nothing(op, self.dtype, self.dtype)
    last, vectors, taus = _reflections(op, self)
    below = triangle_of(op, vectors, False, -1)
    if self.shape[-1] != vectors.shape[-1]:
        missing = op.full(0, [*self.shape[:-1], self.shape[-1] - vectors.shape[-1]], self.dtype)
        below = from_pairs(op, op.Concat(op.pairs(below), op.pairs(missing), axis=-2), self.dtype, self.shape)
    upper = triangle_of(op, last, True)
    return from_pairs(op, op.pairs(upper) + op.pairs(below), self.dtype, self.shape), taus


@translates("aten::linalg_householder_product", complex="only")
def householder_product(op: Builder, input: Tensor, tau: Tensor) -> Tensor:
    if 0 in tau.shape:
        return of_nothing(op, input.dtype)[0]
    vectors = first_columns(op, _unpacked(op, input), tau.shape[-1])
    return _unitary(op, vectors, tau, input.shape[-1])


@translates("aten::ormqr", complex="only")
def ormqr(op: Builder, self: Tensor, input2: Tensor, input3: Tensor, left: bool, transpose: bool) -> Tensor:
    vectors = first_columns(op, _unpacked(op, self), input2.shape[-1])
    if left:
        return _reflected(op, vectors, input2, input3, transpose)
    return adjoint(op, _reflected(op, vectors, input2, adjoint(op, input3), not transpose))


# Singular values


def _rotated(op: Builder, x: Tensor) -> tuple[Tensor, ...]:
    """``x @ v`` with orthogonal columns, and the unitary ``v``; see the real form for the order of rotations."""
    m, n, batch = x.shape[-2], x.shape[-1], x.shape[:-2]
    half = maximum((n + 1) // 2, 2)
    width = half * 2
    vectors = op.expand(unit(op, transposed(op, x)), [*batch, n, n])
    stacked = op.Concat(op.pairs(x), op.pairs(vectors), axis=-3).with_shape([*batch, m + n, n, 2])
    if width != n:
        filling = op.full(0, [*batch, m + n, width - n, 2], stacked.dtype)
        stacked = op.Concat(stacked, filling, axis=-2).with_shape([*batch, m + n, width, 2])
    order = tournament(op, half)
    rank = stacked.rank

    def body(inner: Builder, iteration: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        (both,) = state
        left, right = inner.slice(both, rank - 2, 0, half), inner.slice(both, rank - 2, half, None)
        own_left, own_right = inner.slice(left, rank - 3, 0, m), inner.slice(right, rank - 3, 0, m)
        one, zero = inner.scalar(1, both.dtype), inner.scalar(0, both.dtype)
        swapped = inner.Gather(own_left, inner.const([1, 0], torch.int64), axis=-1) * inner.const([-1, 1], both.dtype)

        def dot(a: Tensor, b: Tensor) -> Tensor:
            return inner.ReduceSum(a * b, [rank - 3, rank - 1], keepdims=True)

        # The columns' product, and the number of length 1 that makes it real.
        mixed = inner.Concat(dot(own_left, own_right), dot(swapped, own_right), axis=-1)
        largest = inner.ReduceMax(inner.Abs(mixed), [rank - 1], keepdims=True)
        done = inner.Equal(largest, zero)
        # Squares of what is left between columns of next to nothing would vanish.
        mixed = inner.Where(done, inner.const([1, 0], both.dtype), mixed / inner.Where(done, one, largest))
        size = inner.ReduceL2(mixed, [rank - 1], keepdims=True)
        divisor = inner.Where(done, one, size * largest)
        phase = mixed / size
        counter = from_pairs(inner, phase * inner.const([1, -1], both.dtype), x.dtype)
        right = inner.pairs(complex_product(inner, from_pairs(inner, right, x.dtype), counter))
        ratio = (dot(own_right, own_right) - dot(own_left, own_left)) / (divisor * 2)
        sign = inner.Where(ratio >= zero, one, inner.scalar(-1, both.dtype))
        tangent = sign / (inner.Abs(ratio) + inner.Sqrt(ratio * ratio + 1))
        tangent = inner.Where(done, zero, tangent)
        cosine = inner.Reciprocal(inner.Sqrt(tangent * tangent + 1))
        sine = cosine * tangent
        turned = inner.Concat(left * cosine - right * sine, left * sine + right * cosine, axis=-2)
        return [inner.Gather(turned, inside(inner, order), axis=-2).with_shape(both.shape)]

    (result,) = emit_loop(op, body, (width - 1) * SWEEPS, [stacked])
    upper, lower = op.slice(result, rank - 3, 0, m), op.slice(result, rank - 3, m, None)
    return from_pairs(op, upper, x.dtype, [*batch, m, width]), from_pairs(op, lower, x.dtype, [*batch, n, width])


def _reordered(op: Builder, x: Tensor, places: Tensor) -> Tensor:
    """Columns taken from these places, which differ from matrix to matrix."""
    shape = [*x.shape[:-1], places.shape[-1]]
    index = op.expand(op.unsqueeze(row(op, places), [x.rank]), [*shape, 2])
    return from_pairs(op, op.GatherElements(op.pairs(x), index, axis=-2), x.dtype, shape)


def _tall_svd(op: Builder, x: Tensor) -> tuple[Tensor, ...]:
    """``x @ v``, the singular values in descending order, and ``v``, for at least as many rows as columns."""
    turned, vectors = _rotated(op, x)
    lengths = op.ReduceL2(op.pairs(turned), [x.rank - 2, x.rank], keepdims=False)
    lengths = lengths.with_shape([*x.shape[:-2], turned.shape[-1]])
    values, places = ordered(op, lengths, x.rank - 2, x.shape[-1], True)
    return _reordered(op, turned, places), values, _reordered(op, vectors, places)


def _left_vectors(op: Builder, x: Tensor, columns: Int) -> Tensor:
    """An orthonormal basis that begins with the directions of orthogonal columns, also where these are 0."""
    last, reflectors, taus = _reflections(op, x)
    basis = _unitary(op, reflectors, taus, columns)
    count, real = x.shape[-1], x.dtype.to_real()
    diagonal = op.ReduceSum(first_rows(op, last, count).real * identity_matrix(op, count, real), [-1], keepdims=False)
    signs = op.Where(diagonal < op.scalar(0, real), op.scalar(-1, real), op.scalar(1, real))
    if columns != count:
        signs = op.Concat(signs, op.full(1, [*x.shape[:-2], columns - count], real), axis=-1)
    return mul(op, basis, row(op, signs.with_shape([*x.shape[:-2], columns])))


@translates("aten::_linalg_svd", complex="only")
def svd(op: Builder, A: Tensor, full_matrices: bool, compute_uv: bool, driver: str | None) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        return of_nothing(op, A.dtype, A.dtype.to_real(), A.dtype)
    return decomposed(op, A, full_matrices, compute_uv, Steps(adjoint, _tall_svd, _left_vectors))


@translates("aten::_linalg_eigh", complex="only")
def eigh(op: Builder, A: Tensor, UPLO: str, compute_v: bool) -> tuple[Tensor, ...]:
    """Shifted by its norm a Hermitian matrix has no negative eigenvalue, and its singular vectors are eigenvectors."""
    if 0 in A.shape:
        return of_nothing(op, A.dtype.to_real(), A.dtype)
    hermitian = hermitian_matrix(op, A, UPLO)
    n, real = A.shape[-1], A.dtype.to_real()
    shift = op.ReduceL2(op.pairs(hermitian), [A.rank - 2, A.rank - 1, A.rank], keepdims=False)
    shift = op.unsqueeze(shift.with_shape(A.shape[:-2]), [A.rank - 2, A.rank - 1])
    shifted = (hermitian.real + identity_matrix(op, n, real) * shift).with_shape(A.shape)
    _, vectors = _rotated(op, op.complex(shifted, hermitian.imag))
    vectors = first_columns(op, vectors, n)
    # The real part of the product of a vector's conjugate with another is that of their pairs.
    quotients = op.ReduceSum(
        op.pairs(vectors) * op.pairs(matrix_product(op, hermitian, vectors)), [A.rank - 2, A.rank], keepdims=False
    ).with_shape(A.shape[:-1])
    values, places = ordered(op, quotients, A.rank - 2, n, False)
    return values, _reordered(op, vectors, places) if compute_v else op.full(math.nan, [0], A.dtype)
