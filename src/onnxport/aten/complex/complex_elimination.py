"""Systems of equations, factorisations by elimination and determinants of complex matrices.

What a real matrix of twice the size gives as well (solutions, inverses, exponentials) is taken from there; the
factors themselves need steps of their own, on pairs of parts, as in ``linalg/elimination.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.aten.complex.complex_reduce import bilinear_product, prod
from onnxport.aten.complex.pairs import abs_, complex_product, conjugate, from_pairs, mul, over, sgn
from onnxport.aten.linalg import elimination, orthogonal
from onnxport.aten.linalg.elimination import (
    column,
    counting,
    first_columns,
    first_failure,
    first_rows,
    identity_matrix,
    main_diagonal,
    of_nothing,
    row,
    triangle_part,
)
from onnxport.aten.linalg.products import transposed
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import broadcast, maximum, minimum
from onnxport.translate.loop import Outcome, emit_scan, inside


def adjoint(op: Builder, x: Tensor) -> Tensor:
    """The conjugate of the transposed matrix."""
    return conjugate(op, transposed(op, x))


def unit(op: Builder, x: Tensor) -> Tensor:
    """The identity matrix for the rows of ``x``, as a complex one."""
    return op.cast(identity_matrix(op, x.shape[-2], x.dtype.to_real()), x.dtype)


def triangle_of(op: Builder, x: Tensor, upper: bool, offset: int = 0) -> Tensor:
    """The part of a matrix on one side of a diagonal, the rest 0."""
    parts = (triangle_part(op, part, upper, offset).with_shape(x.shape) for part in (x.real, x.imag))
    return op.complex(*parts)


def matrix_product(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices, its shape stated."""
    batch = broadcast([a.shape[:-2], b.shape[:-2]])
    assert batch is not None
    shape = [*batch, a.shape[-2], b.shape[-1]]
    return bilinear_product(op, a, b, lambda x, y: op.MatMul(x, y).with_shape(shape))


# By a real matrix of twice the size


def _as_real_matrix(op: Builder, x: Tensor) -> Tensor:
    """The real matrix of twice the size that multiplies pairs of parts as ``x`` multiplies complex vectors."""
    n, m = x.shape[-2:]
    real, imag = x.real, x.imag
    upper, lower = op.Concat(real, -imag, axis=-1), op.Concat(imag, real, axis=-1)
    return op.Concat(upper, lower, axis=-2).with_shape([*x.shape[:-2], n * 2, m * 2])


def _first_block(op: Builder, x: Tensor, rows: Int, columns: Int) -> Tensor:
    """The complex matrix that a real one of twice the size stands for."""
    block = first_columns(op, x, columns)
    across = first_rows(op, block, rows)
    return op.complex(across, op.slice(block, block.rank - 2, rows, None).with_shape(across.shape))


def complex_solved(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """The solution of ``a @ x = b`` for matrices."""
    n = a.shape[-1]
    parts = op.Concat(b.real, b.imag, axis=-2).with_shape([*b.shape[:-2], n * 2, b.shape[-1]])
    return _first_block(op, elimination.solved(op, _as_real_matrix(op, a), parts), n, b.shape[-1])


@translates("aten::linalg_inv_ex", complex="only")
def inv(op: Builder, A: Tensor, check_errors: bool) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        return of_nothing(op, A.dtype, torch.int32)
    return complex_solved(op, A, unit(op, A)), lu_factor(op, A, True, False)[2]


@translates("aten::_linalg_solve_ex", complex="only")
def solve(op: Builder, A: Tensor, B: Tensor, left: bool, check_errors: bool) -> tuple[Tensor, ...]:
    if 0 in B.shape:
        return of_nothing(op, B.dtype, A.dtype, torch.int32, torch.int32)
    return elimination.solution(op, A, B, left, complex_solved), *lu_factor(op, A, True, False)


@translates("aten::linalg_matrix_exp", complex="only")
def matrix_exp(op: Builder, self: Tensor) -> Tensor:
    if 0 in self.shape:
        return of_nothing(op, self.dtype)[0]
    n = self.shape[-1]
    doubled = elimination.matrix_exp(op, _as_real_matrix(op, self)).with_shape([*self.shape[:-2], n * 2, n * 2])
    return _first_block(op, op.cast(doubled, self.dtype.to_real()), n, n)


@translates("aten::linalg_pinv.atol_rtol_tensor", complex="only")
def pinv(op: Builder, self: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    if 0 in self.shape:
        return of_nothing(op, self.dtype)[0]
    m, n = self.shape[-2:]
    if hermitian:
        self = hermitian_matrix(op, self, "L")
    if atol is None and rtol is None:
        real = self.dtype.to_real()
        rtol = (op.scalar(maximum(m, n), real) * torch.finfo(real).eps).with_shape([])
    return _first_block(op, orthogonal.pinv(op, _as_real_matrix(op, self), atol, rtol, False), n, m)


def hermitian_matrix(op: Builder, x: Tensor, triangle_used: str) -> Tensor:
    """The Hermitian matrix of which one triangle is given."""
    upper = triangle_used.upper() == "U"
    real = orthogonal.symmetric_matrix(op, x.real, triangle_used)
    strict = triangle_part(op, x.imag, upper, 1 if upper else -1).with_shape(x.shape)
    return op.complex(real, (strict - transposed(op, strict)).with_shape(x.shape))


# Triangles


def complex_triangular(op: Builder, a: Tensor, b: Tensor, upper: bool, unitriangular: bool = False) -> Tensor:
    """The solution of ``a @ x = b`` for a triangular ``a``; its other triangle is not looked at."""
    a, b = elimination.common_batch(op, a, b)
    if not unitriangular:
        return complex_solved(op, triangle_of(op, a, upper), b)
    strict = triangle_of(op, a, upper, 1 if upper else -1)
    with_ones = op.pairs(strict) + op.pairs(unit(op, a))
    return complex_solved(op, from_pairs(op, with_ones, a.dtype, a.shape), b)


@translates("aten::linalg_solve_triangular", complex="only")
def solve_triangular(op: Builder, self: Tensor, B: Tensor, upper: bool, left: bool, unitriangular: bool) -> Tensor:
    if 0 in B.shape:
        return of_nothing(op, B.dtype)[0]
    if left:
        return complex_triangular(op, self, B, upper, unitriangular)
    return transposed(op, complex_triangular(op, transposed(op, self), transposed(op, B), not upper, unitriangular))


@translates("aten::triangular_solve", complex="only")
def triangular_solve(
    op: Builder, self: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Tensor, ...]:
    coefficients, target = elimination.common_batch(op, A, self)
    if transpose:
        return complex_triangular(op, transposed(op, coefficients), target, not upper, unitriangular), coefficients
    return complex_triangular(op, coefficients, target, upper, unitriangular), coefficients


# Elimination


def _factored(op: Builder, x: Tensor, pivot: bool = True) -> tuple[Tensor, ...]:
    """LU factors in one matrix, the rows exchanged at each step (from 0), and the resulting order of the rows."""
    n, count, batch = x.shape[-2], minimum(x.shape[-2], x.shape[-1]), x.shape[:-2]
    rows, columns = counting(op, n), counting(op, x.shape[-1])
    stored_shape = [*x.shape, 2]

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (lu, order), (step,) = state, slices
        own_rows, own_columns = inside(inner, rows), inside(inner, columns)
        zero, place = inner.scalar(0, lu.dtype), inner.unsqueeze(step, [0])
        if pivot:
            here = inner.Gather(lu, step, axis=-2).with_shape([*x.shape[:-1], 2])
            # The pivot of LAPACK is largest in the sum of its parts' sizes.
            size = inner.Where(own_rows < step, inner.scalar(-1, lu.dtype), inner.ReduceL1(here, [-1], keepdims=False))
            best = inner.ArgMax(size, axis=-1, keepdims=True).with_shape([*batch, 1])
            exchange = inner.Where(
                inner.Equal(own_rows, step), best, inner.Where(inner.Equal(own_rows, best), step, own_rows)
            ).with_shape(x.shape[:-1])
            places = inner.expand(inner.unsqueeze(exchange, [x.rank - 1, x.rank]), stored_shape)
            lu = inner.GatherElements(lu, places, axis=-3).with_shape(stored_shape)
            order = inner.GatherElements(order, exchange, axis=-1).with_shape(order.shape)
            best = inner.squeeze(best, [best.rank - 1])
        else:
            best = inner.expand(step, batch)
        here = inner.Gather(lu, step, axis=-2).with_shape([*x.shape[:-1], 2])
        top = inner.Gather(here, place, axis=-2).with_shape([*batch, 1, 2])
        nothing = inner.Equal(inner.ReduceL1(top, [-1], keepdims=True), zero)
        divisor = inner.Where(nothing, inner.const([1, 0], lu.dtype), top)
        quotient = over(
            inner, from_pairs(inner, here, x.dtype, x.shape[:-1]), from_pairs(inner, divisor, x.dtype, [*batch, 1])
        )
        below = inner.unsqueeze((own_rows > step).with_shape([n]), [1])
        factors = inner.Where(below, inner.pairs(quotient), zero)
        behind = inner.unsqueeze((own_columns > step).with_shape([x.shape[-1]]), [1])
        across = inner.Where(behind, inner.Gather(lu, step, axis=-3), zero)
        down = inner.unsqueeze(factors.with_shape([*x.shape[:-1], 2]), [x.rank - 1])
        along = inner.unsqueeze(across.with_shape([*batch, x.shape[-1], 2]), [x.rank - 2])
        taken = complex_product(
            inner,
            from_pairs(inner, down, x.dtype, [*x.shape[:-1], 1]),
            from_pairs(inner, along, x.dtype, [*batch, 1, x.shape[-1]]),
        )
        is_factor = (below & inner.Equal(own_columns, step)).with_shape(x.shape[-2:])
        reduced = inner.Where(inner.unsqueeze(is_factor, [2]), down, lu - inner.pairs(taken))
        return [reduced.with_shape(stored_shape), order], [best]

    steps = rows if count == n else counting(op, count)
    start = op.expand(rows, x.shape[:-1])
    (lu, order), (pivots,) = emit_scan(op, body, [op.pairs(x), start], [(steps, 0)], [x.rank - 2])
    return from_pairs(op, lu, x.dtype, x.shape), pivots, order


def _parts(op: Builder, lu: Tensor) -> tuple[Tensor, ...]:
    """L with its diagonal of ones, and U."""
    count = minimum(lu.shape[-2], lu.shape[-1])
    left = first_columns(op, lu, count)
    strict = triangle_of(op, left, False, -1)
    rows, columns = counting(op, left.shape[-2]), counting(op, count)
    ones = op.cast(op.Equal(op.unsqueeze(rows, [1]), columns), lu.dtype.to_real()).with_shape(left.shape[-2:])
    lower = op.complex((strict.real + ones).with_shape(left.shape), strict.imag)
    return lower, triangle_of(op, first_rows(op, lu, count), True)


@translates("aten::linalg_lu_factor_ex", complex="only")
def lu_factor(op: Builder, A: Tensor, pivot: bool, check_errors: bool) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        return of_nothing(op, A.dtype, torch.int32, torch.int32)
    lu, pivots, _ = _factored(op, A, pivot)
    zero = op.scalar(0, A.dtype.to_real())
    vanishes = [op.Equal(main_diagonal(op, part), zero) for part in (lu.real, lu.imag)]
    return lu, pivots + 1, first_failure(op, ~op.And(*vanishes))


@translates("aten::linalg_lu", complex="only")
def lu(op: Builder, A: Tensor, pivot: bool) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        return of_nothing(op, A.dtype, A.dtype, A.dtype)
    factors, _, order = _factored(op, A, pivot)
    real = A.dtype.to_real()
    permutation = elimination.permutation(op, order, real) if pivot else op.full(0, [0], real)
    return op.cast(permutation, A.dtype), *_parts(op, factors)


@translates("aten::lu_unpack", complex="only")
def lu_unpack(
    op: Builder, LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool, unpack_pivots: bool
) -> tuple[Tensor, ...]:
    if 0 in LU_data.shape:
        return of_nothing(op, *[LU_data.dtype] * 3)
    nothing = op.full(0, [0], LU_data.dtype)
    lower, upper = _parts(op, LU_data) if unpack_data else (nothing, nothing)
    if not unpack_pivots:
        return nothing, lower, upper
    return _permutation(op, LU_pivots, LU_data), lower, upper


def _permutation(op: Builder, pivots: Tensor, x: Tensor) -> Tensor:
    order = elimination.order_of(op, pivots, x.shape[-2])
    return op.cast(elimination.permutation(op, order, x.dtype.to_real()), x.dtype)


@translates("aten::linalg_lu_solve", complex="only")
def lu_solve(op: Builder, LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    if 0 in B.shape:
        return of_nothing(op, B.dtype)[0]
    permutation = _permutation(op, pivots, LU)
    factors = conjugate(op, LU) if adjoint else LU
    if not left:
        B = transposed(op, B)
    if left != adjoint:
        across = matrix_product(op, transposed(op, permutation), B)
        middle = complex_triangular(op, factors, across, upper=False, unitriangular=True)
        result = complex_triangular(op, factors, middle, upper=True)
    else:
        flipped = transposed(op, factors)
        middle = complex_triangular(op, flipped, B, upper=False)
        result = matrix_product(
            op, permutation, complex_triangular(op, flipped, middle, upper=True, unitriangular=True)
        )
    return result if left else transposed(op, result)


def _diagonal(op: Builder, x: Tensor) -> Tensor:
    """The diagonal of a square matrix."""
    kept = op.pairs(x) * op.unsqueeze(identity_matrix(op, x.shape[-1], x.dtype.to_real()), [2])
    return from_pairs(op, op.ReduceSum(kept, [-2], keepdims=False), x.dtype, x.shape[:-1])


def _flips(op: Builder, x: Tensor, exchanged: Tensor) -> Tensor:
    """-1 for each exchange of rows, else 1."""
    real = x.dtype.to_real()
    moved = ~op.Equal(exchanged, counting(op, x.shape[-1]))
    return op.Where(moved, op.scalar(-1, real), op.scalar(1, real)).with_shape(x.shape[:-1])


@translates("aten::_linalg_det", complex="only")
def det(op: Builder, A: Tensor) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        _, factors, pivots = of_nothing(op, A.dtype, A.dtype, torch.int32)
        return op.full(1, A.shape[:-2], A.dtype), factors, pivots
    factors, exchanged, _ = _factored(op, A)
    diagonal = mul(op, _diagonal(op, factors), _flips(op, A, exchanged))
    return prod(op, diagonal, None, -1), factors, exchanged + 1


@translates("aten::_linalg_slogdet", complex="only")
def slogdet(op: Builder, A: Tensor) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        _, logarithm, factors, pivots = of_nothing(op, A.dtype, A.dtype.to_real(), A.dtype, torch.int32)
        return op.full(1, A.shape[:-2], A.dtype), logarithm, factors, pivots
    factors, exchanged, _ = _factored(op, A)
    diagonal = _diagonal(op, factors)
    sign = prod(op, mul(op, sgn(op, diagonal), _flips(op, A, exchanged)), None, -1)
    logarithm = op.ReduceSum(op.Log(abs_(op, diagonal)), [-1], keepdims=False)
    return sign, logarithm, factors, exchanged + 1


# Cholesky


def _cholesky(op: Builder, x: Tensor, upper: bool) -> Tensor:
    """Column by column in outer-product form; only the triangle that is asked for is read."""
    if upper:
        x = adjoint(op, x)
    rows = counting(op, x.shape[-1])
    stored_shape = [*x.shape, 2]

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (rest,), (step,) = state, slices
        here = inner.Gather(rest, step, axis=-2).with_shape([*x.shape[:-1], 2])
        top = inner.Gather(here, inner.unsqueeze(step, [0]), axis=-2)
        pivot = inner.Sqrt(inner.Gather(top, inner.const([0], torch.int64), axis=-1))
        reached = inner.unsqueeze((inside(inner, rows) >= step).with_shape([x.shape[-1]]), [1])
        done = inner.Where(reached, here / pivot, inner.scalar(0, rest.dtype)).with_shape(here.shape)
        vector = from_pairs(inner, done, x.dtype, x.shape[:-1])
        taken = complex_product(inner, column(inner, vector), row(inner, conjugate(inner, vector)))
        return [(rest - inner.pairs(taken)).with_shape(stored_shape)], [done]

    _, (result,) = emit_scan(op, body, [op.pairs(x)], [(rows, 0)], [x.rank - 1])
    # The diagonal is real; its imaginary part is not read.
    lower = from_pairs(op, result, x.dtype, x.shape)
    off_diagonal = op.cast(~op.cast(identity_matrix(op, x.shape[-1], torch.int64), torch.bool), x.dtype.to_real())
    lower = op.complex(lower.real, (lower.imag * off_diagonal).with_shape(x.shape))
    return adjoint(op, lower) if upper else lower


@translates("aten::cholesky", complex="only")
def cholesky(op: Builder, self: Tensor, upper: bool) -> Tensor:
    return of_nothing(op, self.dtype)[0] if 0 in self.shape else _cholesky(op, self, upper)


@translates("aten::linalg_cholesky_ex", complex="only")
def cholesky_ex(op: Builder, self: Tensor, upper: bool, check_errors: bool) -> tuple[Tensor, ...]:
    if 0 in self.shape:
        return of_nothing(op, self.dtype, torch.int32)
    factor = _cholesky(op, self, upper)
    return factor, first_failure(op, main_diagonal(op, factor.real) > 0)


@translates("aten::cholesky_solve", complex="only")
def cholesky_solve(op: Builder, self: Tensor, input2: Tensor, upper: bool) -> Tensor:
    if 0 in self.shape:
        return of_nothing(op, self.dtype)[0]
    lower = adjoint(op, input2) if upper else input2
    return complex_triangular(op, adjoint(op, lower), complex_triangular(op, lower, self, upper=False), upper=True)


@translates("aten::cholesky_inverse", complex="only")
def cholesky_inverse(op: Builder, self: Tensor, upper: bool) -> Tensor:
    if 0 in self.shape:
        return of_nothing(op, self.dtype)[0]
    return cholesky_solve(op, unit(op, self), self, upper)
