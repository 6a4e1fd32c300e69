"""Rearrangements: elements reversed, rotated, repeated, or read along diagonals, windows and strides."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.aten.axes import axis_of
from onnxport.aten.indexing.indexing_plan import inverse_permutation
from onnxport.aten.shapes.view import transpose
from onnxport.errors import TranslationError
from onnxport.onnx_build.literals import INT64_MAX, INT64_MIN
from onnxport.translate import Builder, Dim, Int, Tensor, translates
from onnxport.translate.dims import is_static, maximum, minimum, product
from onnxport.translate.first_elements import one_if_any, shape_if_empty

_LITERAL = 4096
"""Up to this many numbers are written out; more are counted at run time."""


def counter(op: Builder, size: Int, start: Int = 0, step: int = 1) -> Tensor:
    """``size`` int64 numbers from ``start`` in steps of ``step``."""
    if isinstance(size, int) and isinstance(start, int) and size <= _LITERAL:
        return op.const([start + step * position for position in range(size)], torch.int64)
    bounds = (start, start + size * step, step)
    return op.Range(*(op.scalar(bound, torch.int64) for bound in bounds)).with_shape([size])


# Reversed and rotated


@translates("aten::flip", complex="same")
def flip(op: Builder, self: Tensor, dims: Sequence[int]) -> Tensor:
    axes = [axis_of(dim, self.rank) for dim in dims] if self.rank else []
    if not axes:
        return self
    count = len(axes)
    return op.Slice(self, [-1] * count, [INT64_MIN] * count, axes, [-1] * count).with_shape(self.shape)


@translates("aten::fliplr", complex="same")
def fliplr(op: Builder, self: Tensor) -> Tensor:
    return flip(op, self, [1])


@translates("aten::flipud", complex="same")
def flipud(op: Builder, self: Tensor) -> Tensor:
    return flip(op, self, [0])


@translates("aten::rot90", complex="same")
def rot90(op: Builder, self: Tensor, k: int, dims: Sequence[int]) -> Tensor:
    first, second = dims
    match k % 4:
        case 0:
            return self
        case 1:
            return transpose(op, flip(op, self, [second]), first, second)
        case 2:
            return flip(op, self, [first, second])
        case _:
            return transpose(op, flip(op, self, [first]), first, second)


@translates("aten::roll", complex="same")
def roll(op: Builder, self: Tensor, shifts: Int | Sequence[Int], dims: int | Sequence[int]) -> Tensor:
    amounts = [shifts] if isinstance(shifts, int | Dim) else list(shifts)
    axes = [dims] if isinstance(dims, int) else list(dims)
    if not axes:
        flat = op.reshape(self, [product(self.shape)])
        return op.reshape(_rolled(op, flat, 0, amounts[0]), self.shape)
    for amount, dim in zip(amounts, axes, strict=True):
        self = _rolled(op, self, axis_of(dim, self.rank), amount) if self.rank else self
    return self


def _rolled(op: Builder, self: Tensor, axis: int, amount: Int) -> Tensor:
    size = self.shape[axis]
    if isinstance(size, int) and isinstance(amount, int):
        if size == 0 or amount % size == 0:
            return self
        cut = op.ints([-amount % size])
    else:
        # The divisor of an empty axis may not be 0. Computed in ONNX, as torch's symbols are taken to be positive.
        cut = op.Mod(op.ints([-amount]), op.Max(op.ints([size]), op.ints([1])))
    tail = op.Slice(self, cut, [INT64_MAX], [axis])
    head = op.Slice(self, [0], cut, [axis])
    return op.Concat(tail, head, axis=axis).with_shape(self.shape)


# Repeated


@translates("aten::repeat", complex="by_parts")
def repeat(op: Builder, self: Tensor, repeats: Sequence[Int]) -> Tensor:
    aligned = op.unsqueeze(self, list(range(len(repeats) - self.rank)))
    if all(times == 1 for times in repeats):
        return aligned
    return op.Tile(aligned, list(repeats))


@translates("aten::tile", complex="by_parts")
def tile(op: Builder, self: Tensor, dims: Sequence[Int]) -> Tensor:
    return repeat(op, self, [1] * (self.rank - len(dims)) + list(dims))


@translates("aten::repeat_interleave.self_int", complex="same")
def repeat_interleave(op: Builder, self: Tensor, repeats: Int, dim: int | None, output_size: Int | None) -> Tensor:
    if dim is None or self.rank == 0:
        self, axis = op.reshape(self, [product(self.shape)]), 0
    else:
        axis = axis_of(dim, self.rank)
    sizes = shape_if_empty(op, self)
    before, size, after = sizes[:axis], sizes[axis], sizes[axis + 1 :]
    several = op.expand(op.unsqueeze(self, [axis + 1]), [*before, size, repeats, *after])
    shape = [*before, size * repeats, *after]
    # Stated where an empty axis beside it would leave nothing to infer it from.
    inferred = isinstance(size, int) or is_static([*before, *after])
    return (
        op.reshape(several, shape)
        if inferred or self.is_complex
        else op.Reshape(several, op.ints(shape, of_tensor=True), allowzero=1).with_shape(shape)
    )


@translates("aten::repeat_interleave.Tensor")
def repeated_positions(op: Builder, repeats: Tensor, output_size: Int | None) -> Tensor:
    counts = op.cast(repeats, torch.int64)
    # The next position starts where the counts so far end: mark those places, then count the marks passed.
    ends = op.CumSum(counts, op.scalar(0, torch.int64)).with_shape(counts.shape)
    total = op.ReduceSum(counts, keepdims=True) if output_size is None else op.ints([output_size])
    places = op.Expand(op.scalar(0, torch.int64), total + op.ints([1]))
    marks = op.ScatterElements(places, ends, op.full(1, counts.shape, torch.int64), axis=0, reduction="add")
    passed = op.CumSum(marks, op.scalar(0, torch.int64))
    return op.Slice(passed, [0], total, [0])


@translates("aten::repeat_interleave.self_Tensor", complex="same")
def repeat_interleave_each(
    op: Builder, self: Tensor, repeats: Tensor, dim: int | None, output_size: Int | None
) -> Tensor:
    if dim is None or self.rank == 0:
        self, axis = op.reshape(self, [product(self.shape)]), 0
    else:
        axis = axis_of(dim, self.rank)
    each = op.expand(repeats, [self.shape[axis]])
    return op.Gather(self, repeated_positions(op, each, output_size), axis=axis)


# Diagonals


def diagonal_length(height: Int, width: Int, offset: int) -> Int:
    """How many elements a diagonal has."""
    length = minimum(height, width - offset) if offset >= 0 else minimum(height + offset, width)
    return maximum(length, 0)


def last_two(rank: int, dim1: int, dim2: int) -> list[int]:
    """The permutation that puts two dimensions last."""
    first, second = axis_of(dim1, rank), axis_of(dim2, rank)
    return [*(axis for axis in range(rank) if axis not in (first, second)), first, second]


@translates("aten::diagonal", complex="same")
def diagonal(op: Builder, self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    matrices = op.transpose(self, last_two(self.rank, dim1, dim2))
    *batch, height, width = matrices.shape
    length = diagonal_length(height, width, offset)
    # In a flattened matrix the elements of a diagonal are one row and one column apart.
    flat = op.reshape(matrices, [*batch, height * width])
    start = offset if offset >= 0 else -offset * width
    stride = width + 1
    return op.Slice(flat, [start], [start + length * stride], [len(batch)], [stride]).with_shape([*batch, length])


@translates("aten::linalg_diagonal", complex="same")
def linalg_diagonal(op: Builder, A: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    return diagonal(op, A, offset, dim1, dim2)


@translates("aten::trace", complex="by_parts")
def trace(op: Builder, self: Tensor) -> Tensor:
    elements = diagonal(op, self, 0, 0, 1)
    summed = elements if self.is_float else op.cast(elements, torch.int64)
    return op.ReduceSum(summed, [0], keepdims=False)


def on_diagonal(op: Builder, values: Tensor, height: Int, width: Int, offset: int, otherwise: Tensor) -> Tensor:
    """Matrices with ``values`` on a diagonal and ``otherwise`` elsewhere; the last axis of values runs along it."""
    mask = op.Equal(op.unsqueeze(counter(op, height, start=offset), [1]), op.unsqueeze(counter(op, width), [0]))
    length = values.shape[-1]
    # Below the main diagonal an element's column is its place in ``values``, on and above it the row is.
    size, axis = (height, values.rank) if offset >= 0 else (width, values.rank - 1)
    cut = [whole for whole in (height, width) if isinstance(whole, Dim) and op.may_be_empty([whole])]
    # To torch the smaller of two sizes is 1 also where the other is 0, and then nothing is on the diagonal.
    there = one_if_any(cut[0]) if length == 1 and cut else length
    if size != there:
        values = op.Pad(values, [0] * (2 * values.rank - 1) + [size - there]).with_shape([*values.shape[:-1], size])
    return op.Where(mask.with_shape([height, width]), op.unsqueeze(values, [axis]), otherwise)


@translates("aten::diag_embed", complex="by_parts")
def diag_embed(op: Builder, self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    size = self.shape[-1] + abs(offset)
    matrices = on_diagonal(op, self, size, size, offset, op.scalar(0, self.dtype))
    return op.transpose(
        matrices.with_shape([*self.shape[:-1], size, size]), inverse_permutation(last_two(self.rank + 1, dim1, dim2))
    )


@translates("aten::diag", complex="by_parts")
def diag(op: Builder, self: Tensor, diagonal: int) -> Tensor:
    return diag_embed(op, self, diagonal, 0, 1) if self.rank == 1 else _diagonal_of_matrix(op, self, diagonal)


def _diagonal_of_matrix(op: Builder, self: Tensor, offset: int) -> Tensor:
    return diagonal(op, self, offset, 0, 1)


@translates("aten::diagflat", complex="by_parts")
def diagflat(op: Builder, self: Tensor, offset: int) -> Tensor:
    return diag_embed(op, op.reshape(self, [product(self.shape)]), offset, 0, 1)


@translates("aten::diagonal_scatter", complex="by_parts")
def diagonal_scatter(op: Builder, self: Tensor, src: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    order = last_two(self.rank, dim1, dim2)
    matrices = op.transpose(self, order)
    height, width = matrices.shape[-2:]
    written = on_diagonal(op, op.cast(src, self.dtype), height, width, offset, matrices)
    return op.transpose(written.with_shape(matrices.shape), inverse_permutation(order))


# Windows and strides


@translates("aten::unfold", complex="same")
def unfold(op: Builder, self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    if self.rank == 0:
        return op.slice(op.reshape(self, [1]), 0, 0, size)
    axis = axis_of(dimension, self.rank)
    room = self.shape[axis] - size + 1
    if isinstance(room, int):
        starts = counter(op, -(-room // step), step=step)
    else:
        starts = op.Range(*(op.scalar(bound, torch.int64) for bound in (0, room, step)))
    taken = op.Gather(self, op.Unsqueeze(starts, [1]) + op.unsqueeze(counter(op, size), [0]), axis=axis)
    order = [*(place for place in range(self.rank + 1) if place != axis + 1), axis + 1]
    if self.is_complex:
        taken = taken.with_shape([op.result_shapes()[0][place] for place in inverse_permutation(order)])
    return op.transpose(taken, order)


def _storage(op: Builder, self: Tensor) -> tuple[Tensor, list[int], int]:
    """A tensor's elements as they lie in memory, the permutation that leads there, and where their storage starts."""
    assert op.call is not None
    operand = op.call.args[0]
    assert isinstance(operand, torch.fx.Node)
    laid_out: torch.Tensor = operand.meta["val"]
    strides = laid_out.stride()
    if not is_static(strides):
        order, dense = list(range(self.rank)), laid_out.is_contiguous()
    else:
        order, dense = sorted(range(self.rank), key=lambda axis: (-strides[axis], axis)), True
        expected: Int = 1
        for axis in reversed(order):
            dense = dense and (self.shape[axis] == 1 or strides[axis] == expected)
            expected = expected * self.shape[axis]
    if not dense and 0 not in self.shape:
        raise TranslationError(
            "a strided view of a tensor that does not fill its memory has no ONNX form; "
            "call `.contiguous()` on the tensor first and give strides to match, or use indexing"
        )
    memory = op.reshape(op.transpose(self, order), [product(self.shape)])
    begin = laid_out.storage_offset()
    if not isinstance(begin, int):
        raise TranslationError("a strided view of a tensor that starts at a run-time place in memory has no ONNX form")
    return memory, order, begin


def _places(
    op: Builder, memory: Tensor, size: Sequence[Int], stride: Sequence[Int], offset: Int | None, begin: int
) -> Tensor:
    """Where in memory the elements of a strided view lie, as an int64 tensor of the view's shape."""
    start: Int = 0 if offset is None else offset - begin
    (length,) = memory.shape
    if is_static(size) and is_static(stride) and isinstance(start, int) and isinstance(length, int) and 0 not in size:
        last = start + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
        if start < 0 or last >= length:
            raise TranslationError("a strided view that reaches beyond the tensor it is taken of has no ONNX form")
    places = op.scalar(start, torch.int64)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        if count != 1:
            moved = counter(op, count) * op.scalar(step, torch.int64)
            places = places + op.unsqueeze(
                moved.with_shape([count]), [place for place in range(len(size)) if place != axis]
            )
    return op.expand(places, size)


@translates("aten::as_strided", complex="same")
def as_strided(
    op: Builder, self: Tensor, size: Sequence[Int], stride: Sequence[Int], storage_offset: Int | None
) -> Tensor:
    memory, _, begin = _storage(op, self)
    return op.Gather(memory, _places(op, memory, size, stride, storage_offset, begin), axis=0)


@translates("aten::as_strided_scatter", complex="by_parts")
def as_strided_scatter(
    op: Builder, self: Tensor, src: Tensor, size: Sequence[Int], stride: Sequence[Int], storage_offset: Int | None
) -> Tensor:
    memory, order, begin = _storage(op, self)
    places = op.reshape(_places(op, memory, size, stride, storage_offset, begin), [product(size)])
    updates = op.reshape(op.cast(src, self.dtype), [product(size)])
    written = op.ScatterElements(memory, places, updates, axis=0)
    laid_out = op.reshape(written.with_shape([product(self.shape)]), [self.shape[axis] for axis in order])
    return op.transpose(laid_out, inverse_permutation(order))
