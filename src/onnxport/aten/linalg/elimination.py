"""Systems of equations, factorisations by elimination, determinants.

ONNX has no solver, so each method is a Scan over the columns that are eliminated: as many steps as the matrix has
columns, each a handful of operations on the whole batch. Sizes may be known at run time only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from onnxport.aten.linalg.products import transposed
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import broadcast, minimum
from onnxport.translate.loop import Outcome, emit_loop, emit_scan, inside


def counting(op: Builder, size: Int) -> Tensor:
    """0, 1, ... up to a size, in int64."""
    if isinstance(size, int):
        return op.const(list(range(size)), torch.int64)
    numbers = op.Range(op.scalar(0, torch.int64), op.scalar(size, torch.int64), op.scalar(1, torch.int64))
    return numbers.with_shape([size])


def identity_matrix(op: Builder, size: Int, dtype: torch.dtype) -> Tensor:
    """The identity matrix."""
    rows = counting(op, size)
    return op.cast(op.Equal(op.unsqueeze(rows, [1]), rows).with_shape([size, size]), dtype)


def triangle_part(op: Builder, x: Tensor, upper: bool, offset: int = 0) -> Tensor:
    """The part of a matrix on one side of a diagonal, the rest 0."""
    if x.value.shape is None:
        # Older opsets have no such operator, and what stands for it needs the rank.
        x.value.shape = op.ir_shape(x.shape)
    return op.Trilu(x, None if offset == 0 else op.const(offset, torch.int64), upper=upper)


def column(op: Builder, x: Tensor) -> Tensor:
    """Vectors as columns."""
    return op.unsqueeze(x, [x.rank])


def row(op: Builder, x: Tensor) -> Tensor:
    """Vectors as rows."""
    return op.unsqueeze(x, [x.rank - 1])


def common_batch(op: Builder, *matrices: Tensor) -> list[Tensor]:
    """Matrices with the batch dimensions they broadcast to."""
    batch = broadcast([x.shape[:-2] for x in matrices])
    assert batch is not None
    return [op.expand(x, [*batch, *x.shape[-2:]]) for x in matrices]


def first_columns(op: Builder, x: Tensor, count: Int) -> Tensor:
    """The leading columns."""
    if x.shape[-1] == count:
        return x
    return op.slice(x, x.rank - 1, 0, count).with_shape([*x.shape[:-1], count])


def first_rows(op: Builder, x: Tensor, count: Int) -> Tensor:
    """The leading rows."""
    if x.shape[-2] == count:
        return x
    return op.slice(x, x.rank - 2, 0, count).with_shape([*x.shape[:-2], count, x.shape[-1]])


def of_nothing(op: Builder, *dtypes: torch.dtype) -> tuple[Tensor, ...]:
    """The results of the call for a matrix without elements: ones on the diagonals of matrices, zeros elsewhere.

    Runtimes trip over loops of nothing.
    """
    results = []
    for shape, dtype in zip(op.result_shapes(), dtypes, strict=True):
        # Whole numbers are pivots and reports, which are no matrices however many batch dimensions there are.
        if len(shape) > 1 and 0 not in shape and dtype is not torch.int32:
            rows, columns = counting(op, shape[-2]), counting(op, shape[-1])
            results.append(op.expand(op.cast(op.Equal(op.unsqueeze(rows, [1]), columns), dtype), shape))
        else:
            results.append(op.full(0, shape, dtype))
    return tuple(results)


# Elimination


def _pivoted(op: Builder, x: Tensor, rows: Tensor, step: Tensor) -> tuple[Tensor, ...]:
    """The matrix with the row of the largest pivot brought to place ``step``; that row's number, and the exchange."""
    here = op.Gather(x, step, axis=-1)
    size = op.Where(rows < step, op.scalar(-1, x.dtype), op.Abs(here))
    best = op.ArgMax(size, axis=-1, keepdims=True).with_shape([*x.shape[:-2], 1])
    order = op.Where(op.Equal(rows, step), best, op.Where(op.Equal(rows, best), step, rows))
    order = order.with_shape(x.shape[:-1])
    exchanged = op.GatherElements(x, op.expand(column(op, order), x.shape), axis=-2).with_shape(x.shape)
    return exchanged, best, order


def solved(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """The solution of ``a @ x = b`` for matrices, by Gauss-Jordan elimination with partial pivoting."""
    a, b = common_batch(op, a, b)
    n = a.shape[-1]
    rows = counting(op, n)
    both = op.Concat(a, b, axis=-1).with_shape([*a.shape[:-1], n + b.shape[-1]])

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (step,), own_rows = slices, inside(inner, rows)
        x, _, _ = _pivoted(inner, state[0], own_rows, step)
        factors = column(inner, inner.Gather(x, step, axis=-1).with_shape(x.shape[:-1]))
        pivot = row(inner, inner.Gather(x, step, axis=-2).with_shape([*x.shape[:-2], x.shape[-1]]))
        pivot = pivot / inner.Gather(pivot, inner.unsqueeze(step, [0]), axis=-1)
        is_pivot = column(inner, inner.Equal(own_rows, step).with_shape([n]))
        return [inner.Where(is_pivot, pivot, x - factors * pivot).with_shape(x.shape)], []

    (done,), _ = emit_scan(op, body, [both], [(rows, 0)])
    return op.slice(done, done.rank - 1, n, None).with_shape(b.shape)


def inverse_matrix(op: Builder, x: Tensor) -> Tensor:
    """The inverse matrix."""
    return solved(op, x, identity_matrix(op, x.shape[-1], x.dtype))


def factored(op: Builder, x: Tensor, pivot: bool = True) -> tuple[Tensor, ...]:
    """LU factors in one matrix, the rows exchanged at each step (from 0), and the resulting order of the rows.

    Outer-product form: each step divides the pivot's column by the pivot and takes the product of column and row
    off the rest. A pivot of 0 leaves nothing to eliminate.
    """
    n, count = x.shape[-2], minimum(x.shape[-2], x.shape[-1])
    rows, columns = counting(op, n), counting(op, x.shape[-1])
    start = op.expand(rows, x.shape[:-1])

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (lu, order), (step,) = state, slices
        own_rows, own_columns = inside(inner, rows), inside(inner, columns)
        if pivot:
            lu, best, exchange = _pivoted(inner, lu, own_rows, step)
            order = inner.GatherElements(order, exchange, axis=-1).with_shape(order.shape)
            best = inner.squeeze(best, [best.rank - 1])
        else:
            best = inner.expand(step, lu.shape[:-2])
        here = inner.Gather(lu, step, axis=-1).with_shape(lu.shape[:-1])
        top = inner.Gather(here, inner.unsqueeze(step, [0]), axis=-1)
        nonzero = inner.Where(inner.Equal(top, inner.scalar(0, lu.dtype)), inner.scalar(1, lu.dtype), top)
        zero = inner.scalar(0, lu.dtype)
        factors = column(inner, inner.Where(own_rows > step, here / nonzero, zero).with_shape(lu.shape[:-1]))
        across = inner.Gather(lu, step, axis=-2)
        across = inner.Where(own_columns > step, across, zero).with_shape([*lu.shape[:-2], lu.shape[-1]])
        stored = column(inner, (own_rows > step).with_shape([n])) & inner.Equal(own_columns, step)
        reduced = inner.Where(stored, factors, lu - factors * row(inner, across))
        return [reduced.with_shape(lu.shape), order], [best]

    steps = rows if count == n else counting(op, count)
    (lu, order), (pivots,) = emit_scan(op, body, [x, start], [(steps, 0)], [x.rank - 2])
    return lu, pivots, order


def order_of(op: Builder, pivots: Tensor, n: Int) -> Tensor:
    """The order of the rows after the exchanges that LAPACK's pivots (from 1) describe."""
    rows = counting(op, n)

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        step, pivot = slices
        own_rows = inside(inner, rows)
        best = inner.unsqueeze(pivot, [pivot.rank])
        exchange = inner.Where(
            inner.Equal(own_rows, step), best, inner.Where(inner.Equal(own_rows, best), step, own_rows)
        )
        return [inner.GatherElements(state[0], inner.expand(exchange, state[0].shape), axis=-1)], []

    start = op.expand(rows, [*pivots.shape[:-1], n])
    from_zero = (op.cast(pivots, torch.int64) - 1).with_shape(pivots.shape)
    steps = counting(op, pivots.shape[-1])
    (order,), _ = emit_scan(op, body, [start], [(steps, 0), (from_zero, pivots.rank - 1)])
    return order


def _parts(op: Builder, lu: Tensor) -> tuple[Tensor, ...]:
    """L with its diagonal of ones, and U."""
    count = minimum(lu.shape[-2], lu.shape[-1])
    left = first_columns(op, lu, count)
    lower = triangle_part(op, left, False, -1) + _slanted_ones(op, left)
    return lower.with_shape(left.shape), triangle_part(op, first_rows(op, lu, count), True)


def _slanted_ones(op: Builder, x: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix of the shape of ``x``."""
    rows, columns = counting(op, x.shape[-2]), counting(op, x.shape[-1])
    return op.cast(op.Equal(op.unsqueeze(rows, [1]), columns), x.dtype).with_shape(x.shape[-2:])


def permutation(op: Builder, order: Tensor, dtype: torch.dtype) -> Tensor:
    """The matrix that puts rows in this order back where they came from."""
    rows = op.unsqueeze(counting(op, order.shape[-1]), [1])
    return op.cast(op.Equal(rows, row(op, order)).with_shape([*order.shape, order.shape[-1]]), dtype)


def main_diagonal(op: Builder, x: Tensor) -> Tensor:
    """The diagonal of a matrix, whatever stands beside it."""
    count = minimum(x.shape[-2], x.shape[-1])
    block = first_rows(op, first_columns(op, x, count), count)
    inside_only = op.Where(identity_matrix(op, count, torch.bool), block, op.scalar(0, x.dtype))
    return op.ReduceSum(inside_only, [-1], keepdims=False).with_shape(block.shape[:-1])


def first_failure(op: Builder, holds: Tensor) -> Tensor:
    """The report of a factorisation: the place, from 1, of the first pivot that is none, and 0 where all are."""
    failures = op.CumSum(op.cast(~holds, torch.int64), op.const(holds.rank - 1, torch.int64))
    before = op.cast(op.Equal(failures, op.scalar(0, torch.int64)), torch.int64)
    leading = op.ReduceSum(before, [-1], keepdims=False)
    failed = leading < op.scalar(holds.shape[-1], torch.int64)
    report = op.Where(failed, leading + 1, op.scalar(0, torch.int64))
    return op.cast(report, torch.int32).with_shape(holds.shape[:-1])


# LU


@translates("aten::linalg_lu_factor_ex")
def lu_factor(op: Builder, A: Tensor, pivot: bool, check_errors: bool) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        return of_nothing(op, A.dtype, torch.int32, torch.int32)
    lu, pivots, _ = factored(op, A, pivot)
    return lu, pivots + 1, first_failure(op, ~op.Equal(main_diagonal(op, lu), op.scalar(0, A.dtype)))


@translates("aten::linalg_lu")
def lu(op: Builder, A: Tensor, pivot: bool) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        return of_nothing(op, A.dtype, A.dtype, A.dtype)
    factors, _, order = factored(op, A, pivot)
    order_matrix = permutation(op, order, A.dtype) if pivot else op.full(0, [0], A.dtype)
    return order_matrix, *_parts(op, factors)


@translates("aten::lu_unpack")
def lu_unpack(
    op: Builder, LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool, unpack_pivots: bool
) -> tuple[Tensor, ...]:
    if 0 in LU_data.shape:
        return of_nothing(op, *[LU_data.dtype] * 3)
    nothing = op.full(0, [0], LU_data.dtype)
    lower, upper = _parts(op, LU_data) if unpack_data else (nothing, nothing)
    if not unpack_pivots:
        return nothing, lower, upper
    return permutation(op, order_of(op, LU_pivots, LU_data.shape[-2]), LU_data.dtype), lower, upper


@translates("aten::linalg_lu_solve")
def lu_solve(op: Builder, LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    if 0 in B.shape:
        return of_nothing(op, B.dtype)[0]
    order = permutation(op, order_of(op, pivots, LU.shape[-1]), LU.dtype)
    if not left:
        B = transposed(op, B)
    if left != adjoint:
        across = _product(op, transposed(op, order), B)
        middle = triangular_solved(op, LU, across, upper=False, unit=True)
        result = triangular_solved(op, LU, middle, upper=True)
    else:
        flipped = transposed(op, LU)
        middle = triangular_solved(op, flipped, B, upper=False)
        result = _product(op, order, triangular_solved(op, flipped, middle, upper=True, unit=True))
    return result if left else transposed(op, result)


def _product(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    batch = broadcast([a.shape[:-2], b.shape[:-2]])
    assert batch is not None
    return op.MatMul(a, b).with_shape([*batch, a.shape[-2], b.shape[-1]])


# Solving


@translates("aten::_linalg_solve_ex")
def solve(op: Builder, A: Tensor, B: Tensor, left: bool, check_errors: bool) -> tuple[Tensor, ...]:
    if 0 in B.shape:
        return of_nothing(op, B.dtype, A.dtype, torch.int32, torch.int32)
    return solution(op, A, B, left, solved), *lu_factor(op, A, True, False)


def solution(
    op: Builder, A: Tensor, B: Tensor, left: bool, solved: Callable[[Builder, Tensor, Tensor], Tensor]
) -> Tensor:
    """The solution of a system, from either side and of a vector too, by what solves ``A @ X = B``."""
    vector = B.rank == 1 or (B.rank == A.rank - 1 and B.shape == A.shape[:-1])
    right = column(op, B) if vector else B
    if left:
        result = solved(op, A, right)
    else:
        result = transposed(op, solved(op, transposed(op, A), transposed(op, right)))
    return op.squeeze(result, [result.rank - 1]) if vector else result


@translates("aten::linalg_inv_ex")
def inv(op: Builder, A: Tensor, check_errors: bool) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        return of_nothing(op, A.dtype, torch.int32)
    return inverse_matrix(op, A), lu_factor(op, A, True, False)[2]


def triangular_solved(op: Builder, a: Tensor, b: Tensor, upper: bool, unit: bool = False) -> Tensor:
    """The solution of ``a @ x = b`` for a triangular ``a``, row by row; its other triangle is not looked at."""
    a, b = common_batch(op, a, b)
    rows = counting(op, a.shape[-1])
    side = triangle_part(op, a, upper, (1 if upper else -1) if unit else 0)

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (x,), (step, coefficients, target) = state, slices
        own_rows = inside(inner, rows)
        # Rows not yet solved are 0, so that the product is the part that is known.
        rest = row(inner, target) - inner.MatMul(row(inner, coefficients), x)
        if not unit:
            rest = rest / row(
                inner,
                inner.Gather(coefficients, inner.unsqueeze(step, [0]), axis=-1).with_shape(
                    [*coefficients.shape[:-1], 1]
                ),
            )
        is_row = column(inner, inner.Equal(own_rows, step).with_shape([a.shape[-1]]))
        return [inner.Where(is_row, rest, x).with_shape(x.shape)], []

    start = op.full(0, b.shape, b.dtype)
    over = [(rows, 0), (side, a.rank - 2), (b, b.rank - 2)]
    (result,), _ = emit_scan(op, body, [start], over, reverse=upper)
    return result


@translates("aten::linalg_solve_triangular")
def solve_triangular(op: Builder, self: Tensor, B: Tensor, upper: bool, left: bool, unitriangular: bool) -> Tensor:
    if 0 in B.shape:
        return of_nothing(op, B.dtype)[0]
    if left:
        return triangular_solved(op, self, B, upper, unitriangular)
    return transposed(op, triangular_solved(op, transposed(op, self), transposed(op, B), not upper, unitriangular))


@translates("aten::triangular_solve")
def triangular_solve(
    op: Builder, self: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Tensor, ...]:
    coefficients, target = common_batch(op, A, self)
    if transpose:
        return triangular_solved(op, transposed(op, coefficients), target, not upper, unitriangular), coefficients
    return triangular_solved(op, coefficients, target, upper, unitriangular), coefficients


# Cholesky


def _cholesky(op: Builder, x: Tensor, upper: bool) -> Tensor:
    """Column by column in outer-product form; only the triangle that is asked for is read."""
    if upper:
        x = transposed(op, x)
    rows = counting(op, x.shape[-1])

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (rest,), (step,) = state, slices
        own_rows = inside(inner, rows)
        here = inner.Gather(rest, step, axis=-1)
        top = inner.Gather(here, inner.unsqueeze(step, [0]), axis=-1)
        done = inner.Where(own_rows >= step, here / inner.Sqrt(top), inner.scalar(0, x.dtype)).with_shape(x.shape[:-1])
        return [(rest - column(inner, done) * row(inner, done)).with_shape(x.shape)], [done]

    stack_axis = x.rank - 2 if upper else x.rank - 1
    _, (result,) = emit_scan(op, body, [x], [(rows, 0)], [stack_axis])
    return result.with_shape(x.shape)


@translates("aten::cholesky")
def cholesky(op: Builder, self: Tensor, upper: bool) -> Tensor:
    if 0 in self.shape:
        return of_nothing(op, self.dtype)[0]
    return _cholesky(op, self, upper)


@translates("aten::linalg_cholesky_ex")
def cholesky_ex(op: Builder, self: Tensor, upper: bool, check_errors: bool) -> tuple[Tensor, ...]:
    if 0 in self.shape:
        return of_nothing(op, self.dtype, torch.int32)
    factor = _cholesky(op, self, upper)
    return factor, first_failure(op, main_diagonal(op, factor) > 0)


@translates("aten::cholesky_solve")
def cholesky_solve(op: Builder, self: Tensor, input2: Tensor, upper: bool) -> Tensor:
    if 0 in self.shape:
        return of_nothing(op, self.dtype)[0]
    lower = transposed(op, input2) if upper else input2
    middle = triangular_solved(op, lower, self, upper=False)
    return triangular_solved(op, transposed(op, lower), middle, upper=True)


@translates("aten::cholesky_inverse")
def cholesky_inverse(op: Builder, self: Tensor, upper: bool) -> Tensor:
    if 0 in self.shape:
        return of_nothing(op, self.dtype)[0]
    return cholesky_solve(op, identity_matrix(op, self.shape[-1], self.dtype), self, upper)


# Functions of matrices


@translates("aten::_linalg_det")
def det(op: Builder, A: Tensor) -> tuple[Tensor, ...]:
    if 0 in A.shape:
        _, factors, pivots = of_nothing(op, A.dtype, A.dtype, torch.int32)
        return op.full(1, A.shape[:-2], A.dtype), factors, pivots
    factors, pivots, _ = lu_factor(op, A, True, False)
    return op.Det(A), factors, pivots


@translates("aten::_linalg_slogdet")
def slogdet(op: Builder, A: Tensor) -> tuple[Tensor, ...]:
    """From the factors' diagonal, whose product may be far out of range where its logarithm is not."""
    if 0 in A.shape:
        _, logarithm, factors, pivots = of_nothing(op, A.dtype, A.dtype, A.dtype, torch.int32)
        return op.full(1, A.shape[:-2], A.dtype), logarithm, factors, pivots
    factors, exchanged, _ = factored(op, A)
    diagonal = op.ReduceSum(factors * identity_matrix(op, A.shape[-1], A.dtype), [-1], keepdims=False)
    moved = ~op.Equal(exchanged, counting(op, A.shape[-1]))
    flips = op.Where(moved, op.scalar(-1, A.dtype), op.scalar(1, A.dtype))
    sign = op.ReduceProd(op.Sign(diagonal) * flips, [A.rank - 2], keepdims=False)
    logarithm = op.ReduceSum(op.Log(op.Abs(diagonal)), [A.rank - 2], keepdims=False)
    return sign, logarithm, factors, exchanged + 1


@translates("aten::linalg_matrix_exp")
def matrix_exp(op: Builder, self: Tensor) -> Tensor:
    """Scaling and squaring: halve until the series converges, sum 18 terms of it, square as often as halved.

    Each squaring doubles the rounding error, so that the norm is brought down no further than need be, and all is
    done in a wider type where there is one.
    """
    if 0 in self.shape:
        return of_nothing(op, self.dtype)[0]
    limit = 1.0 if self.dtype == torch.float64 else 3.0
    self = op.cast(self, torch.float32 if self.dtype.itemsize < 4 else torch.float64)
    largest = op.ReduceMax(op.ReduceSum(op.Abs(self), [-2], keepdims=False), keepdims=False).with_shape([])
    excess = op.Max(largest / limit, op.scalar(1, self.dtype))
    halvings = op.Ceil(op.Log(excess) / math.log(2))
    scaled = (self / op.Pow(op.scalar(2, self.dtype), halvings)).with_shape(self.shape)
    unit = identity_matrix(op, self.shape[-1], self.dtype)
    total = unit
    for order in range(18, 0, -1):
        total = unit + op.MatMul(scaled, total) / order

    def square(inner: Builder, iteration: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        return [inner.MatMul(state[0], state[0]).with_shape(self.shape)]

    (result,) = emit_loop(op, square, op.cast(halvings, torch.int64), [total.with_shape(self.shape)])
    return result
