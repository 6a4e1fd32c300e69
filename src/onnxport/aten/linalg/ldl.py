"""Symmetric matrices that need not be definite: Bunch and Kaufman's factors, with LAPACK's pivots.

Each step takes off one row and column, or two at once where the diagonal is too small to divide by; the second of two
is then passed over. Which it is differs from matrix to matrix of a batch, so that both are computed and one is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.aten.linalg.elimination import column, common_batch, counting, of_nothing, row
from onnxport.aten.linalg.orthogonal import symmetric_matrix
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.loop import Outcome, emit_scan, inside

_ALPHA = (1 + math.sqrt(17)) / 8
"""How small a diagonal element may be, compared to its column, to be divided by."""


def _take(op: Builder, x: Tensor, place: Tensor) -> Tensor:
    """The element of each vector at its own place, with a last dimension of 1."""
    return op.GatherElements(x, place, axis=-1).with_shape([*x.shape[:-1], 1])


def _rows_in_order(op: Builder, x: Tensor, order: Tensor) -> Tensor:
    return op.GatherElements(x, op.expand(column(op, order), x.shape), axis=-2).with_shape(x.shape)


def _exchange(op: Builder, rows: Tensor, first: Tensor, second: Tensor, shape: Sequence[Int]) -> Tensor:
    """The order of rows in which two are exchanged."""
    order = op.Where(op.Equal(rows, first), second, op.Where(op.Equal(rows, second), first, rows))
    return op.expand(order, shape).with_shape(shape)


def _column(op: Builder, x: Tensor, place: Tensor) -> Tensor:
    """One column, the same of every matrix, as vectors; beyond the last it is the last."""
    return op.Gather(x, place, axis=-1).with_shape(x.shape[:-1])


class _Block:
    """A block of two rows and columns ``[[a, b], [b, d]]``, each number with a last dimension of 1."""

    def __init__(self, op: Builder, a: Tensor, b: Tensor, d: Tensor, used: Tensor) -> None:
        self.a, self.b, self.d = a, b, d
        determinant = a * d - b * b
        # Where the block is not one, the result is not used, and must not be NaN in the product of both.
        self.determinant = op.Where(used, determinant, op.scalar(1, a.dtype))

    def solved(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """``x, y`` with ``a x + b y = p`` and ``b x + d y = q``."""
        return (self.d * p - self.b * q) / self.determinant, (self.a * q - self.b * p) / self.determinant


class _Step:
    """The row that a step takes off, the one after it (at the end the last again), and the rows behind each."""

    def __init__(self, op: Builder, rows: Tensor, step: Tensor, x: Tensor) -> None:
        self.op, self.rows, self.step = op, rows, step
        self.vector, self.single = x.shape[:-1], [*x.shape[:-2], 1]
        self.dtype = x.dtype
        self.zero, self.one = op.scalar(0, x.dtype), op.scalar(1, x.dtype)
        self.following = op.Min(step + 1, op.scalar(x.shape[-1] - 1, torch.int64)).with_shape([])
        self.here = op.expand(op.unsqueeze(step, [0]), self.single)
        self.behind, self.further = rows > step, rows > self.following

    def pivot(self, rest: Tensor, passed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Whether two rows are taken off at once, the row that is brought up, and the order of the rows then."""
        op = self.op
        size = op.Abs(_column(op, rest, self.step)).with_shape(self.vector)
        diagonal = _take(op, size, self.here)
        below = op.Where(self.behind, size, op.scalar(-1, self.dtype)).with_shape(self.vector)
        largest = op.ArgMax(below, axis=-1, keepdims=True).with_shape(self.single)
        in_column = op.Max(_take(op, below, largest), self.zero)
        across = _rows_in_order(op, rest, op.expand(largest, self.vector))
        across = op.Abs(op.Gather(across, op.const(0, torch.int64), axis=-2)).with_shape(self.vector)
        others = op.Where((self.rows >= self.step) & ~op.Equal(self.rows, largest), across, self.zero)
        in_row = op.ReduceMax(others, [-1], keepdims=True)
        stays = (diagonal >= in_column * _ALPHA) | (diagonal * in_row >= in_column * in_column * _ALPHA)
        alone = stays | (_take(op, across, largest) >= in_row * _ALPHA)
        pair = (~alone & ~passed).with_shape(self.single)
        pivot = op.Where(stays, self.here, largest)
        moved = op.Where(pair, self.here + 1, self.here)
        order = _exchange(op, self.rows, moved, op.Where(passed, moved, pivot), self.vector)
        return pair, pivot, order


class _Columns:
    """What a step does with one column, and what with two at once; ``pair`` says for each matrix which is meant."""

    def __init__(self, at: _Step, rest: Tensor, pair: Tensor) -> None:
        op = at.op
        self.at, self.pair = at, pair
        self.first, self.second = _column(op, rest, at.step), _column(op, rest, at.following)
        top = _take(op, self.first, at.here)
        divisor = op.Where(op.Equal(top, at.zero), at.one, top)
        self.lower = op.Where(at.behind, self.first, at.zero)
        self.one_by_one = self.lower / divisor
        next_place = op.expand(op.unsqueeze(at.following, [0]), at.single)
        block = _Block(op, top, _take(op, self.first, next_place), _take(op, self.second, next_place), pair)
        self.lower_two = [op.Where(at.further, x, at.zero) for x in (self.first, self.second)]
        self.left, self.right = block.solved(*self.lower_two)

    def products(self) -> tuple[Tensor, Tensor]:
        """What is subtracted from the rest of the matrix for one column, and for two."""
        op, vector = self.at.op, self.at.vector

        def times(a: Tensor, b: Tensor) -> Tensor:
            return column(op, a.with_shape(vector)) * row(op, b.with_shape(vector))

        of_one = times(self.one_by_one, self.lower)
        return of_one, times(self.left, self.lower_two[0]) + times(self.right, self.lower_two[1])

    def written(self, done: Tensor, pair: Tensor, passed: Tensor) -> Tensor:
        """The factors with those of this step; a block keeps its own numbers where single ones have their factor."""
        op, at = self.at.op, self.at
        at_step, at_next = op.Equal(at.rows, at.step), op.Equal(at.rows, at.following)
        of_pair = op.Where(at.further, self.left, op.Where(at_step | at_next, self.first, at.zero))
        of_one = op.Where(at.behind, self.one_by_one, op.Where(at_step, self.first, at.zero))
        new_first = op.Where(self.pair, of_pair, of_one).with_shape(at.vector)
        new_second = op.Where(at.further, self.right, op.Where(at_next, self.second, at.zero)).with_shape(at.vector)
        writes_first = ~passed & at_step
        writes_second = pair & at_next & ~at_step
        shape = done.shape
        done = op.Where(writes_first, column(op, new_first), done)
        return op.Where(writes_second, column(op, new_second), done).with_shape(shape)


def _factored(op: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """The factors below and on the diagonal, and LAPACK's pivots."""
    batch = x.shape[:-2]
    single = [*batch, 1]
    rows = counting(op, x.shape[-1])

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (rest, done, before, passed), (step,) = state, slices
        at = _Step(inner, inside(inner, rows), step, x)
        pair, pivot, order = at.pivot(rest, passed)
        rest = _rows_in_order(inner, rest, order)
        rest = inner.GatherElements(rest, inner.expand(row(inner, order), x.shape), axis=-1).with_shape(x.shape)
        columns = _Columns(at, rest, pair)
        of_one, of_pair = columns.products()
        wide_pair, wide_passed = inner.unsqueeze(pair, [pair.rank]), inner.unsqueeze(passed, [passed.rank])
        taken = inner.Where(wide_passed, at.zero, inner.Where(wide_pair, of_pair, of_one))
        done = columns.written(done, wide_pair, wide_passed)
        number = inner.Where(pair, -(pivot + 1), pivot + 1)
        number = inner.Where(passed, before, number).with_shape(single)
        return [(rest - taken).with_shape(x.shape), done, number, pair], [inner.squeeze(number, [len(batch)])]

    state = [x, op.full(0, x.shape, x.dtype), op.full(0, single, torch.int64), op.full(False, single, torch.bool)]
    (_, done, _, _), (pivots,) = emit_scan(op, body, state, [(rows, 0)], [len(batch)])
    return done, pivots


@translates("aten::linalg_ldl_factor_ex")
def ldl_factor(op: Builder, self: Tensor, hermitian: bool, check_errors: bool) -> tuple[Tensor, ...]:
    if 0 in self.shape:
        return of_nothing(op, self.dtype, torch.int32, torch.int32)
    factors, pivots = _factored(op, symmetric_matrix(op, self, "L"))
    return factors, pivots, op.full(0, self.shape[:-2], torch.int32)


class _Substitution:
    """Solving with the factors: through the rows of the right-hand sides, down and up again."""

    def __init__(self, op: Builder, factors: Tensor, pivots: Tensor, sides: Tensor) -> None:
        self.op, self.factors, self.sides = op, factors, sides
        self.n, self.batch = factors.shape[-1], factors.shape[:-2]
        self.single = [*self.batch, 1]
        self.rows = counting(op, self.n)
        self.numbers = op.expand(op.cast(pivots, torch.int64), [*self.batch, self.n])

    def result(self) -> Tensor:
        """The solution, in the order of the rows that was given."""
        over = [(self.rows, 0), (self.numbers, len(self.batch))]
        nothing_passed = self.op.full(False, self.single, torch.bool)
        (x, _), _ = emit_scan(self.op, self.down, [self.sides, nothing_passed], over)
        (x, _), _ = emit_scan(self.op, self.up, [x, nothing_passed], over, reverse=True)
        return x

    def _row(self, inner: Builder, x: Tensor, place: Tensor) -> Tensor:
        """One row of every matrix, as a row."""
        return row(inner, inner.Gather(x, place, axis=-2).with_shape([*self.batch, x.shape[-1]]))

    def _at(self, inner: Builder, place: Tensor) -> Tensor:
        return column(inner, inner.Equal(inside(inner, self.rows), place).with_shape([self.n]))

    def _is_pair(self, inner: Builder, number: Tensor, passed: Tensor) -> Tensor:
        return ((number < inner.scalar(0, torch.int64)) & ~passed).with_shape(self.single)

    def down(self, inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        """Forward through the columns, dividing by the diagonal's blocks."""
        (x, passed), (step, number) = state, slices
        own_rows, own = inside(inner, self.rows), inside(inner, self.factors)
        number = inner.unsqueeze(number, [len(self.batch)])
        zero = inner.scalar(0, x.dtype)
        following = inner.Min(step + 1, inner.scalar(self.n - 1, torch.int64)).with_shape([])
        pair = self._is_pair(inner, number, passed)
        moved = inner.Where(pair, following, step)
        partner = inner.Where(passed, moved, inner.Abs(number) - 1)
        x = _rows_in_order(inner, x, _exchange(inner, own_rows, moved, partner, [*self.batch, self.n]))
        first, second = _column(inner, own, step), _column(inner, own, following)
        further = own_rows > following
        here, after = (inner.expand(inner.unsqueeze(place, [0]), self.single) for place in (step, following))
        top, low, last = _take(inner, first, here), _take(inner, first, after), _take(inner, second, after)
        p, q = self._row(inner, x, step), self._row(inner, x, following)
        wide_pair, wide_passed = inner.unsqueeze(pair, [pair.rank]), inner.unsqueeze(passed, [passed.rank])

        def masked(condition: Tensor, values: Tensor) -> Tensor:
            return column(inner, inner.Where(condition, values, zero).with_shape(self.factors.shape[:-1]))

        taken_two = masked(further, first) * p + masked(further, second) * q
        taken = inner.Where(wide_pair, taken_two, masked(own_rows > step, first) * p)
        top, low, last = (inner.unsqueeze(item, [len(self.batch)]) for item in (top, low, last))
        block = _Block(inner, top, low, last, wide_pair)
        u, v = block.solved(p, q)
        u = inner.Where(wide_pair, u, p / top)
        result = inner.Where(self._at(inner, step), u, x - taken)
        result = inner.Where(wide_pair & self._at(inner, following), v, result)
        return [inner.Where(wide_passed, x, result).with_shape(self.sides.shape), pair], []

    def up(self, inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        """Back through the columns, undoing the exchanges of rows."""
        (x, passed), (step, number) = state, slices
        own_rows, own = inside(inner, self.rows), inside(inner, self.factors)
        number = inner.unsqueeze(number, [len(self.batch)])
        zero = inner.scalar(0, x.dtype)
        leading = inner.Max(step - 1, inner.scalar(0, torch.int64)).with_shape([])
        pair = self._is_pair(inner, number, passed)
        wide_pair, wide_passed = inner.unsqueeze(pair, [pair.rank]), inner.unsqueeze(passed, [passed.rank])
        behind = own_rows > step

        def along(place: Tensor) -> Tensor:
            kept = inner.Where(behind, _column(inner, own, place), zero).with_shape(self.factors.shape[:-1])
            return inner.MatMul(row(inner, kept), x)

        result = inner.Where(self._at(inner, step), x - along(step), x)
        result = inner.Where(wide_pair & self._at(inner, leading), x - along(leading), result)
        result = inner.Where(wide_passed, x, result).with_shape(self.sides.shape)
        partner = inner.Where(passed, step, inner.Abs(number) - 1)
        order = _exchange(inner, own_rows, step, partner, [*self.batch, self.n])
        return [_rows_in_order(inner, result, order), pair], []


@translates("aten::linalg_ldl_solve")
def ldl_solve(op: Builder, LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool) -> Tensor:
    if 0 in B.shape:
        return of_nothing(op, B.dtype)[0]
    factors, sides = common_batch(op, LD, B)
    return _Substitution(op, factors, pivots, sides).result()
