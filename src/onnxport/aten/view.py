"""Views and rearrangements: the same elements in another shape or order."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.aten.axes import axis_of
from onnxport.translate import Builder, Dim, Int, Tensor, translates
from onnxport.translate.builder import INT64_MAX
from onnxport.translate.dims import product


@translates(
    "aten::alias",
    "aten::clone",
    "aten::contiguous",
    "aten::detach",
    "aten::detach_",
    "aten::lift_fresh",
    "aten::lift_fresh_copy",
    "aten::positive",
)
def identity(op: Builder, self: Tensor) -> Tensor:
    return self


@translates("aten::dropout", "aten::feature_dropout")
def dropout(op: Builder, input: Tensor, p: float, train: bool) -> Tensor:
    if not train or p == 0:
        return input
    ratio, training = op.scalar(p, torch.float32), op.scalar(True, torch.bool)
    return op.Dropout(input, ratio, training)


@translates("aten::to.dtype", "aten::to.dtype_layout", "aten::to.device", "aten::to.other", "aten::_to_copy")
def to(op: Builder, self: Tensor, dtype: torch.dtype | None = None, other: Tensor | None = None) -> Tensor:
    if other is not None:
        dtype = other.dtype
    return self if dtype is None else op.cast(self, dtype)


@translates("aten::type_as")
def type_as(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return op.cast(self, other.dtype)


@translates("aten::view", "aten::_unsafe_view")
def view(op: Builder, self: Tensor, size: Sequence[Int]) -> Tensor:
    return op.reshape(self, _resolved(self, size))


@translates("aten::reshape")
def reshape(op: Builder, self: Tensor, shape: Sequence[Int]) -> Tensor:
    return op.reshape(self, _resolved(self, shape))


def _resolved(self: Tensor, shape: Sequence[Int]) -> list[Int]:
    """The shape with a ``-1`` replaced by the size it stands for."""
    sizes = list(shape)
    if -1 in sizes:
        missing = sizes.index(-1)
        sizes[missing] = product(self.shape) // product(size for size in sizes if size != -1)
    return sizes


@translates("aten::flatten.using_ints")
def flatten(op: Builder, self: Tensor, start_dim: int, end_dim: int) -> Tensor:
    first, last = axis_of(start_dim, self.rank), axis_of(end_dim, self.rank)
    sizes = self.shape
    return op.reshape(self, [*sizes[:first], product(sizes[first : last + 1]), *sizes[last + 1 :]])


@translates("aten::unflatten.int")
def unflatten(op: Builder, self: Tensor, dim: int, sizes: Sequence[Int]) -> Tensor:
    axis = axis_of(dim, self.rank)
    wanted = list(sizes)
    if -1 in wanted:
        wanted[wanted.index(-1)] = self.shape[axis] // product(size for size in wanted if size != -1)
    return op.reshape(self, [*self.shape[:axis], *wanted, *self.shape[axis + 1 :]])


@translates("aten::unsqueeze")
def unsqueeze(op: Builder, self: Tensor, dim: int) -> Tensor:
    return op.unsqueeze(self, [axis_of(dim, self.rank + 1)])


@translates("aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims")
def squeeze(op: Builder, self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    candidates = range(self.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = sorted(axis_of(axis, self.rank) for axis in candidates) if self.rank else []
    return op.squeeze(self, [axis for axis in axes if self.shape[axis] == 1])


@translates("aten::transpose.int")
def transpose(op: Builder, self: Tensor, dim0: int, dim1: int) -> Tensor:
    order = list(range(self.rank))
    if order:
        first, second = axis_of(dim0, self.rank), axis_of(dim1, self.rank)
        order[first], order[second] = second, first
    return op.transpose(self, order)


@translates("aten::t")
def t(op: Builder, self: Tensor) -> Tensor:
    return op.transpose(self, list(reversed(range(self.rank))))


@translates("aten::permute")
def permute(op: Builder, self: Tensor, dims: Sequence[int]) -> Tensor:
    return op.transpose(self, [axis_of(dim, self.rank) for dim in dims])


@translates("aten::expand")
def expand(op: Builder, self: Tensor, size: Sequence[Int], implicit: bool) -> Tensor:
    kept = [1] * (len(size) - self.rank) + list(self.shape)
    return op.expand(self, [old if new == -1 else new for old, new in zip(kept, size, strict=True)])


@translates("aten::expand_as")
def expand_as(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return op.expand(self, other.shape)


@translates("aten::slice.Tensor")
def slice_(op: Builder, self: Tensor, dim: int, start: Int | None, end: Int | None, step: int) -> Tensor:
    axis = axis_of(dim, self.rank)
    size = self.shape[axis]
    first: Int = 0 if start is None else start
    last: Int = INT64_MAX if end is None else end
    takes_all = first == 0 and step == 1 and (last == size or (isinstance(last, int) and last >= INT64_MAX))
    if takes_all or (first == 0 and step == 1 and isinstance(last, int) and isinstance(size, int) and last >= size):
        return self
    return op.slice(self, axis, first, last, step)


@translates("aten::narrow")
def narrow(op: Builder, self: Tensor, dim: int, start: Int, length: Int) -> Tensor:
    axis = axis_of(dim, self.rank)
    first = start + self.shape[axis] if isinstance(start, int) and start < 0 else start
    return op.slice(self, axis, first, first + length)


@translates("aten::cat", "aten::concat")
def cat(op: Builder, tensors: Sequence[Tensor], dim: int) -> Tensor:
    # torch lets an empty 1-d tensor stand in a list of tensors of any rank, and ignores it.
    rank = max(tensor.rank for tensor in tensors)
    parts = [tensor for tensor in tensors if not (tensor.shape == (0,) and rank > 1)]
    dtype = parts[0].dtype
    for part in parts[1:]:
        dtype = torch.promote_types(dtype, part.dtype)
    if len(parts) == 1:
        return parts[0]
    return op.Concat(*(op.cast(part, dtype) for part in parts), axis=axis_of(dim, rank))


@translates("aten::stack")
def stack(op: Builder, tensors: Sequence[Tensor], dim: int) -> Tensor:
    axis = axis_of(dim, tensors[0].rank + 1)
    return cat(op, [op.unsqueeze(tensor, [axis]) for tensor in tensors], axis)


@translates("aten::split_with_sizes", "aten::split.sizes")
def split_sizes(
    op: Builder, self: Tensor, dim: int, split_sizes: Sequence[Int] = (), split_size: Sequence[Int] = ()
) -> Sequence[Tensor]:
    sizes = split_sizes if len(split_sizes) else split_size
    return op.multi("Split", self, list(sizes), axis=axis_of(dim, self.rank), outputs=len(sizes))


@translates("aten::split.Tensor")
def split(op: Builder, self: Tensor, split_size: Int, dim: int) -> Sequence[Tensor]:
    axis = axis_of(dim, self.rank)
    size = self.shape[axis]
    if isinstance(size, Dim) or isinstance(split_size, Dim):
        raise AssertionError("The number of pieces of a split depends on a run-time size.")
    pieces = max(1, -(-size // split_size)) if split_size else 1
    last = size - split_size * (pieces - 1)
    return split_sizes(op, self, axis, [*[split_size] * (pieces - 1), last])


@translates("aten::chunk")
def chunk(op: Builder, self: Tensor, chunks: int, dim: int) -> Sequence[Tensor]:
    size = self.shape[axis_of(dim, self.rank)]
    return split(op, self, -(-size // chunks), dim)


@translates("aten::unbind.int")
def unbind(op: Builder, self: Tensor, dim: int) -> Sequence[Tensor]:
    axis = axis_of(dim, self.rank)
    size = self.shape[axis]
    if isinstance(size, Dim):
        raise AssertionError("The number of pieces of an unbind depends on a run-time size.")
    parts = split_sizes(op, self, axis, [1] * size)
    return [op.Squeeze(part, [axis]) for part in parts]
