"""Order: sorting, selection by rank, and search in sorted sequences."""

from __future__ import annotations

import torch

from onnxport.aten.axes import axis_of
from onnxport.errors import TranslationError
from onnxport.translate import Builder, Dim, Int, Number, Tensor, translates


def ordered(op: Builder, x: Tensor, axis: int, count: Int, largest: bool, sort: bool = True) -> tuple[Tensor, Tensor]:
    """The first ``count`` values along an axis in order, and their positions; equal values keep their order."""
    if x.dtype == torch.bool:
        values, positions = ordered(op, op.cast(x, torch.uint8), axis, count, largest, sort)
        return op.cast(values, torch.bool), positions
    # All there are is counted where they are: a size is told for axes that have elements (`x[1:]` has one less).
    counted = isinstance(count, Dim) and count == x.shape[axis]
    wanted = op.Shape(x, start=axis, end=axis + 1) if counted else op.ints([count])
    found = op.multi("TopK", x, wanted, outputs=2, axis=axis, largest=largest, sorted=sort)
    shape = [count if position == axis else size for position, size in enumerate(x.shape)]
    values, positions = (part.with_shape(shape) for part in found)
    return values, positions


@translates("aten::sort", "aten::sort.stable")
def sort(op: Builder, self: Tensor, dim: int, descending: bool, stable: bool | None = None) -> tuple[Tensor, Tensor]:
    if not self.rank:
        return op.Identity(self), op.scalar(0, torch.int64)
    axis = axis_of(dim, self.rank)
    return ordered(op, self, axis, self.shape[axis], descending)


@translates("aten::argsort", "aten::argsort.stable")
def argsort(op: Builder, self: Tensor, dim: int, descending: bool, stable: bool = False) -> Tensor:
    return sort(op, self, dim, descending)[1]


@translates("aten::msort")
def msort(op: Builder, self: Tensor) -> Tensor:
    return sort(op, self, 0, False)[0]


@translates("aten::topk")
def topk(op: Builder, self: Tensor, k: Int, dim: int, largest: bool, sorted: bool) -> tuple[Tensor, Tensor]:
    if not self.rank:
        values, positions = ordered(op, op.reshape(self, [1]), 0, k, largest)
        return op.reshape(values, []), op.reshape(positions, [])
    # torch orders the values even where it need not, and models come to rely on it.
    return ordered(op, self, axis_of(dim, self.rank), k, largest)


@translates("aten::kthvalue")
def kthvalue(op: Builder, self: Tensor, k: Int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    if not self.rank:
        return op.Identity(self), op.scalar(0, torch.int64)
    axis = axis_of(dim, self.rank)
    values, positions = ordered(op, self, axis, k, False)
    return at_rank(op, values, axis, k - 1, keepdim), at_rank(op, positions, axis, k - 1, keepdim)


def at_rank(op: Builder, x: Tensor, axis: int, index: Int, keepdim: bool) -> Tensor:
    """The elements at one position of an axis."""
    if keepdim:
        return op.Gather(x, [index], axis=axis).with_shape(
            [1 if position == axis else size for position, size in enumerate(x.shape)]
        )
    taken = op.Gather(x, op.scalar(index, torch.int64), axis=axis)
    return taken.with_shape([size for position, size in enumerate(x.shape) if position != axis])


# Search


def insertion_points(op: Builder, boundaries: Tensor, x: Tensor, right: bool) -> Tensor:
    """How many boundaries (on the last axis) lie before each value, in int64.

    Comparing with every boundary takes one pass that runtimes do in parallel, and needs the boundaries sorted no more
    than the definition does. NaN counts as greater than all numbers, as in sorting.
    """
    if 0 in x.shape:
        return op.full(0, x.shape, torch.int64)
    values = op.unsqueeze(x, [x.rank])
    if boundaries.rank > 1:
        boundaries = op.unsqueeze(boundaries, [boundaries.rank - 1])
    before = boundaries <= values if right else boundaries < values
    if x.is_float:
        before = before | op.IsNaN(values)
    counts = op.ReduceSum(op.cast(before, torch.int64), [x.rank], keepdims=False)
    return counts.with_shape(x.shape)


@translates("aten::searchsorted.Tensor", "aten::searchsorted.Scalar")
def searchsorted(
    op: Builder,
    sorted_sequence: Tensor,
    self: Tensor | Number,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Tensor | None,
) -> Tensor:
    if sorter is not None:
        sorted_sequence = op.GatherElements(sorted_sequence, sorter, axis=-1).with_shape(sorted_sequence.shape)
    return _search(op, sorted_sequence, self, right or side == "right")


@translates("aten::bucketize.Tensor", "aten::bucketize.Scalar")
def bucketize(op: Builder, self: Tensor | Number, boundaries: Tensor, out_int32: bool, right: bool) -> Tensor:
    if boundaries.rank != 1:
        raise TranslationError(f"the boundaries must have one dimension, and have {boundaries.rank}")
    return _search(op, boundaries, self, right)


def _search(op: Builder, boundaries: Tensor, x: Tensor | Number, right: bool) -> Tensor:
    if isinstance(x, Tensor):
        common = torch.promote_types(boundaries.dtype, x.dtype)
        x = op.cast(x, common)
    else:
        whole = isinstance(x, int) or boundaries.is_float
        common = boundaries.dtype if whole else torch.get_default_dtype()
        x = op.scalar(x, common)
    boundaries = op.cast(boundaries, common)
    if common in (torch.float16, torch.bfloat16):
        # Runtimes compare these in float32, and may have rounded one side of the comparison only.
        boundaries, x = op.cast(boundaries, torch.float32), op.cast(x, torch.float32)
    return insertion_points(op, boundaries, x, right)
