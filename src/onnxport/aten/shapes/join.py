"""Putting tensors together and taking them apart."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import torch

from onnxport.aten.axes import axis_of
from onnxport.translate import Builder, Dim, Int, Tensor, translates
from onnxport.translate.dims import product


def _promoted(op: Builder, tensors: Sequence[Tensor]) -> list[Tensor]:
    dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    return [op.cast(tensor, dtype) for tensor in tensors]


@translates("aten::cat", "aten::concat", "aten::concatenate", complex="same")
def cat(op: Builder, tensors: Sequence[Tensor], dim: int) -> Tensor:
    # torch lets an empty 1-d tensor stand in a list of tensors of any rank, and ignores it. One whose size data decide
    # is there for the same reason.
    rank = max(tensor.rank for tensor in tensors)
    parts = [tensor for tensor in _promoted(op, tensors) if tensor.rank == rank]
    if len(parts) == 1:
        return parts[0]
    return op.Concat(*parts, axis=axis_of(dim, rank))


@translates("aten::stack", complex="same")
def stack(op: Builder, tensors: Sequence[Tensor], dim: int) -> Tensor:
    axis = axis_of(dim, tensors[0].rank + 1)
    return cat(op, [op.unsqueeze(tensor, [axis]) for tensor in tensors], axis)


@translates("aten::block_diag", complex="by_parts")
def block_diag(op: Builder, tensors: Sequence[Tensor]) -> Tensor:
    blocks = [op.unsqueeze(tensor, list(range(2 - tensor.rank))) for tensor in _promoted(op, tensors)]
    width = functools.reduce(lambda total, block: total + block.shape[1], blocks, _ZERO)
    rows, before = [], _ZERO
    for block in blocks:
        after = width - before - block.shape[1]
        rows.append(op.Pad(block, [0, before, 0, after]).with_shape([block.shape[0], width]))
        before = before + block.shape[1]
    return cat(op, rows, 0)


_ZERO: Int = 0


@translates("aten::meshgrid", "aten::meshgrid.indexing", complex="same")
def meshgrid(op: Builder, tensors: Sequence[Tensor], indexing: str = "ij") -> Sequence[Tensor]:
    swapped = indexing == "xy" and len(tensors) >= 2
    axes = [1, 0, *range(2, len(tensors))] if swapped else list(range(len(tensors)))
    sizes: list[Int] = [1] * len(tensors)
    for axis, tensor in zip(axes, tensors, strict=True):
        sizes[axis] = product(tensor.shape)
    grids = []
    for axis, tensor in zip(axes, tensors, strict=True):
        alone = op.reshape(tensor, [size if place == axis else 1 for place, size in enumerate(sizes)])
        grids.append(op.expand(alone, sizes))
    return grids


@translates("aten::cartesian_prod", complex="same")
def cartesian_prod(op: Builder, tensors: Sequence[Tensor]) -> Tensor:
    if len(tensors) == 1:
        return tensors[0]
    count = product(tensor.shape[0] for tensor in tensors)
    return stack(op, [op.reshape(grid, [count]) for grid in meshgrid(op, tensors)], 1)


# Taking apart


@translates("aten::split_with_sizes", "aten::split.sizes", "aten::unsafe_split_with_sizes", complex="same")
def split_sizes(
    op: Builder, self: Tensor, dim: int, split_sizes: Sequence[Int] = (), split_size: Sequence[Int] = ()
) -> Sequence[Tensor]:
    sizes = split_sizes if len(split_sizes) else split_size
    if len(sizes) < 2:
        return [self] * len(sizes)
    axis = axis_of(dim, self.rank)
    parts = op.multi("Split", self, list(sizes), axis=axis, outputs=len(sizes))
    shape = self.shape
    return [part.with_shape([*shape[:axis], size, *shape[axis + 1 :]]) for part, size in zip(parts, sizes, strict=True)]


def _split_as_torch(op: Builder, self: Tensor, dim: int) -> Sequence[Tensor]:
    """Cut an axis into the pieces torch says there are: with run-time sizes only it knows how many."""
    axis = axis_of(dim, self.rank)
    return split_sizes(op, self, axis, [shape[axis] for shape in op.result_shapes()])


@translates("aten::split.Tensor", "aten::unsafe_split.Tensor", complex="same")
def split(op: Builder, self: Tensor, split_size: Int, dim: int) -> Sequence[Tensor]:
    axis = axis_of(dim, self.rank)
    shapes = op.result_shapes()
    if len(shapes) < 2 or not isinstance(self.shape[axis], Dim):
        return _split_as_torch(op, self, dim)
    # At another size there may be fewer pieces than in the example: the others are empty, where Split would fail.
    ends = [*(split_size * (n + 1) for n in range(len(shapes) - 1)), None]
    return [
        op.slice(self, axis, split_size * n, end).with_shape(shape)
        for n, (end, shape) in enumerate(zip(ends, shapes, strict=True))
    ]


@translates("aten::chunk", "aten::unsafe_chunk", complex="same")
def chunk(op: Builder, self: Tensor, chunks: int, dim: int) -> Sequence[Tensor]:
    axis = axis_of(dim, self.rank)
    pieces = len(op.result_shapes())
    length = self.shape[axis]
    if isinstance(length, Dim) and pieces == chunks > 1:
        # ONNX's Split rounds the size of a piece up as torch does, but wants as many elements as there are pieces.
        size = (length + (chunks - 1)) // chunks
        ends = [*(size * (n + 1) for n in range(chunks - 1)), None]
        parts = [op.slice(self, axis, size * n, end) for n, end in enumerate(ends)]
        return [part.with_shape(shape) for part, shape in zip(parts, op.result_shapes(), strict=True)]
    return _split_as_torch(op, self, dim)


@translates("aten::tensor_split.sections", "aten::tensor_split.indices", complex="same")
def tensor_split(
    op: Builder, self: Tensor, dim: int, sections: Int = 1, indices: Sequence[Int] = ()
) -> Sequence[Tensor]:
    axis = axis_of(dim, self.rank)
    length = self.shape[axis]
    if not indices and isinstance(length, Dim) and isinstance(sections, int) and sections > 1:
        # Of computed sizes torch makes new unknowns. The first pieces are one longer where it does not divide.
        indices = list(itertools.accumulate((length + (sections - 1 - n)) // sections for n in range(sections - 1)))
    elif not indices:
        return _split_as_torch(op, self, dim)
    # Pieces may overlap or leave gaps, so each is a slice of its own.
    bounds: list[Int | None] = [0, *indices, None]
    return [op.slice(self, axis, 0 if a is None else a, b) for a, b in itertools.pairwise(bounds)]


@translates("aten::hsplit.int", "aten::hsplit.array", complex="same")
def hsplit(op: Builder, self: Tensor, sections: int = 1, indices: Sequence[int] = ()) -> Sequence[Tensor]:
    return tensor_split(op, self, 0 if self.rank == 1 else 1, sections, indices)


@translates("aten::vsplit.int", "aten::vsplit.array", complex="same")
def vsplit(op: Builder, self: Tensor, sections: int = 1, indices: Sequence[int] = ()) -> Sequence[Tensor]:
    return tensor_split(op, self, 0, sections, indices)


@translates("aten::dsplit.int", "aten::dsplit.array", complex="same")
def dsplit(op: Builder, self: Tensor, sections: int = 1, indices: Sequence[int] = ()) -> Sequence[Tensor]:
    return tensor_split(op, self, 2, sections, indices)


@translates("aten::unbind.int", complex="same")
def unbind(op: Builder, self: Tensor, dim: int) -> Sequence[Tensor]:
    axis = axis_of(dim, self.rank)
    count = self.shape[axis]
    parts = split_sizes(op, self, axis, [1] * (len(op.result_shapes()) if isinstance(count, Dim) else count))
    return [op.squeeze(part, [axis]) for part in parts]
