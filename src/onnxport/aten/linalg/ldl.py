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


def _factored(op: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """The factors below and on the diagonal, and LAPACK's pivots."""
    n, batch = x.shape[-1], x.shape[:-2]
    vector, single = x.shape[:-1], [*batch, 1]
    rows = counting(op, n)

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (rest, done, before, passed), (step,) = state, slices
        own_rows = inside(inner, rows)
        zero, one = inner.scalar(0, x.dtype), inner.scalar(1, x.dtype)
        following = inner.Min(step + 1, inner.scalar(n - 1, torch.int64)).with_shape([])
        here = inner.expand(inner.unsqueeze(step, [0]), single)
        behind, further = own_rows > step, own_rows > following

        size = inner.Abs(_column(inner, rest, step)).with_shape(vector)
        diagonal = _take(inner, size, here)
        below = inner.Where(behind, size, inner.scalar(-1, x.dtype)).with_shape(vector)
        largest = inner.ArgMax(below, axis=-1, keepdims=True).with_shape(single)
        in_column = inner.Max(_take(inner, below, largest), zero)
        across = _rows_in_order(inner, rest, inner.expand(largest, vector))
        across = inner.Abs(inner.Gather(across, inner.const(0, torch.int64), axis=-2)).with_shape(vector)
        others = inner.Where((own_rows >= step) & ~inner.Equal(own_rows, largest), across, zero)
        in_row = inner.ReduceMax(others, [-1], keepdims=True)
        stays = (diagonal >= in_column * _ALPHA) | (diagonal * in_row >= in_column * in_column * _ALPHA)
        alone = stays | (_take(inner, across, largest) >= in_row * _ALPHA)
        pair = (~alone & ~passed).with_shape(single)
        pivot = inner.Where(stays, here, largest)
        moved = inner.Where(pair, here + 1, here)
        order = _exchange(inner, own_rows, moved, inner.Where(passed, moved, pivot), vector)
        rest = _rows_in_order(inner, rest, order)
        rest = inner.GatherElements(rest, inner.expand(row(inner, order), x.shape), axis=-1).with_shape(x.shape)

        first, second = _column(inner, rest, step), _column(inner, rest, following)
        top = _take(inner, first, here)
        divisor = inner.Where(inner.Equal(top, zero), one, top)
        lower = inner.Where(behind, first, zero)
        one_by_one = lower / divisor
        next_place = inner.expand(inner.unsqueeze(following, [0]), single)
        block = _Block(inner, top, _take(inner, first, next_place), _take(inner, second, next_place), pair)
        lower_first, lower_second = inner.Where(further, first, zero), inner.Where(further, second, zero)
        left, right = block.solved(lower_first, lower_second)

        def times(a: Tensor, b: Tensor) -> Tensor:
            return column(inner, a.with_shape(vector)) * row(inner, b.with_shape(vector))

        taken_one = times(one_by_one, lower)
        taken_two = times(left, lower_first) + times(right, lower_second)
        wide_pair, wide_passed = inner.unsqueeze(pair, [pair.rank]), inner.unsqueeze(passed, [passed.rank])
        taken = inner.Where(wide_passed, zero, inner.Where(wide_pair, taken_two, taken_one))

        # A block keeps its own numbers where single ones have their factor.
        at_step, at_next = inner.Equal(own_rows, step), inner.Equal(own_rows, following)
        of_pair = inner.Where(further, left, inner.Where(at_step | at_next, first, zero))
        of_one = inner.Where(behind, one_by_one, inner.Where(at_step, first, zero))
        new_first = inner.Where(pair, of_pair, of_one).with_shape(vector)
        new_second = inner.Where(further, right, inner.Where(at_next, second, zero)).with_shape(vector)
        writes_first = ~wide_passed & at_step
        writes_second = wide_pair & at_next & ~at_step
        done = inner.Where(writes_first, column(inner, new_first), done)
        done = inner.Where(writes_second, column(inner, new_second), done).with_shape(x.shape)

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


@translates("aten::linalg_ldl_solve")
def ldl_solve(op: Builder, LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool) -> Tensor:
    """Forward through the columns, dividing by the diagonal's blocks, and back."""
    if 0 in B.shape:
        return of_nothing(op, B.dtype)[0]
    LD, B = common_batch(op, LD, B)
    n, batch = LD.shape[-1], LD.shape[:-2]
    single = [*batch, 1]
    rows = counting(op, n)
    numbers = op.expand(op.cast(pivots, torch.int64), [*batch, n])

    def pick(inner: Builder, x: Tensor, place: Tensor) -> Tensor:
        """One row of every matrix, as a row."""
        return row(inner, inner.Gather(x, place, axis=-2).with_shape([*batch, x.shape[-1]]))

    def at(inner: Builder, place: Tensor) -> Tensor:
        return column(inner, inner.Equal(inside(inner, rows), place).with_shape([n]))

    def forward(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (x, passed), (step, number) = state, slices
        own_rows, own = inside(inner, rows), inside(inner, LD)
        number = inner.unsqueeze(number, [len(batch)])
        zero = inner.scalar(0, x.dtype)
        following = inner.Min(step + 1, inner.scalar(n - 1, torch.int64)).with_shape([])
        pair = ((number < inner.scalar(0, torch.int64)) & ~passed).with_shape(single)
        moved = inner.Where(pair, following, step)
        partner = inner.Where(passed, moved, inner.Abs(number) - 1)
        x = _rows_in_order(inner, x, _exchange(inner, own_rows, moved, partner, [*batch, n]))
        first, second = _column(inner, own, step), _column(inner, own, following)
        further = own_rows > following
        here, after = (inner.expand(inner.unsqueeze(place, [0]), single) for place in (step, following))
        top, low, last = _take(inner, first, here), _take(inner, first, after), _take(inner, second, after)
        p, q = pick(inner, x, step), pick(inner, x, following)
        wide_pair, wide_passed = inner.unsqueeze(pair, [pair.rank]), inner.unsqueeze(passed, [passed.rank])

        def masked(condition: Tensor, values: Tensor) -> Tensor:
            return column(inner, inner.Where(condition, values, zero).with_shape(LD.shape[:-1]))

        taken_two = masked(further, first) * p + masked(further, second) * q
        taken = inner.Where(wide_pair, taken_two, masked(own_rows > step, first) * p)
        top, low, last = (inner.unsqueeze(item, [len(batch)]) for item in (top, low, last))
        block = _Block(inner, top, low, last, wide_pair)
        u, v = block.solved(p, q)
        u = inner.Where(wide_pair, u, p / top)
        result = inner.Where(at(inner, step), u, x - taken)
        result = inner.Where(wide_pair & at(inner, following), v, result)
        return [inner.Where(wide_passed, x, result).with_shape(B.shape), pair], []

    def backward(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        (x, passed), (step, number) = state, slices
        own_rows, own = inside(inner, rows), inside(inner, LD)
        number = inner.unsqueeze(number, [len(batch)])
        zero = inner.scalar(0, x.dtype)
        leading = inner.Max(step - 1, inner.scalar(0, torch.int64)).with_shape([])
        pair = ((number < inner.scalar(0, torch.int64)) & ~passed).with_shape(single)
        wide_pair, wide_passed = inner.unsqueeze(pair, [pair.rank]), inner.unsqueeze(passed, [passed.rank])
        behind = own_rows > step

        def along(place: Tensor) -> Tensor:
            kept = inner.Where(behind, _column(inner, own, place), zero).with_shape(LD.shape[:-1])
            return inner.MatMul(row(inner, kept), x)

        result = inner.Where(at(inner, step), x - along(step), x)
        result = inner.Where(wide_pair & at(inner, leading), x - along(leading), result)
        result = inner.Where(wide_passed, x, result).with_shape(B.shape)
        partner = inner.Where(passed, step, inner.Abs(number) - 1)
        order = _exchange(inner, own_rows, step, partner, [*batch, n])
        return [_rows_in_order(inner, result, order), pair], []

    over = [(rows, 0), (numbers, len(batch))]
    nothing_passed = op.full(False, single, torch.bool)
    (x, _), _ = emit_scan(op, forward, [B, nothing_passed], over)
    (x, _), _ = emit_scan(op, backward, [x, nothing_passed], over, reverse=True)
    return x
