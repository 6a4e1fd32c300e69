"""Results whose size depends on values: masks, positions of elements, and numbers read from tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.errors import TranslationError
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import broadcast, product


def compress(op: Builder, self: Tensor, mask: Tensor, axis: int) -> Tensor:
    """The parts of ``self`` where ``mask``, which spans its dimensions from ``axis`` on, is true."""
    sizes = self.shape
    where = op.reshape(mask, [product(mask.shape)])
    if mask.rank == self.rank and not self.is_complex:
        return op.Compress(self, where)
    covered = product(sizes[axis : axis + mask.rank])
    merged = op.reshape(self, [*sizes[:axis], covered, *sizes[axis + mask.rank :]])
    if self.is_complex:
        kept = op.Squeeze(op.NonZero(where), [0])
        return op.Gather(merged, kept, axis=axis)
    return op.Compress(merged, where, axis=axis)


@translates("aten::masked_select", complex="same")
def masked_select(op: Builder, self: Tensor, mask: Tensor) -> Tensor:
    common = broadcast([self.shape, mask.shape])
    for size, other in zip(reversed(self.shape), reversed(mask.shape), strict=False):
        # The one operator of its kind whose fake implementation does not compare them.
        if isinstance(size, int) and isinstance(other, int) and size != other and 1 not in (size, other):
            raise TranslationError(f"the mask has a size of {other} where the tensor has {size}")
    where = op.cast(mask, torch.bool)
    if common is None:
        # Sizes that only run time can compare; Expand broadcasts both ways.
        spread = op.Reshape(op.Expand(where, op.shape(self)), [-1])
        if not self.is_complex:
            return op.Compress(op.Expand(self, op.shape(where)), spread)
        pairs = op.Expand(self, op.Concat(op.shape(where), op.ints([2]), axis=0))
        return op.Gather(op.Reshape(pairs, [-1, 2]), op.Squeeze(op.NonZero(spread), [0]), axis=0)
    self, where = op.expand(self, common), op.expand(where, common)
    if self.rank == 0:
        self, where = op.reshape(self, [1]), op.reshape(where, [1])
    return compress(op, self, where, 0)


@translates("aten::masked_scatter", complex="by_parts")
def masked_scatter(op: Builder, self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise TranslationError(f"the mask must be of bool, and is of {mask.dtype}; compare it with 0 first")
    (shape,) = op.result_shapes()
    data, where = op.expand(self, shape), op.expand(mask, shape)
    if not shape:
        data, where = op.reshape(data, [1]), op.reshape(where, [1])
    places = op.Transpose(op.NonZero(where), perm=[1, 0])
    taken = op.Slice(op.reshape(source, [product(source.shape)]), [0], op.Shape(places, end=1), [0])
    return op.reshape(op.ScatterND(data, places, taken), shape)


# Positions


def _truth(op: Builder, x: Tensor) -> Tensor:
    """Something that is zero exactly where ``x`` is."""
    return op.Or(op.cast(x.real, torch.bool), op.cast(x.imag, torch.bool)) if x.is_complex else x


@translates("aten::nonzero", "aten::argwhere", complex="same")
def nonzero(op: Builder, self: Tensor) -> Tensor:
    self = _truth(op, self)
    if self.rank == 0:
        found = op.Transpose(op.NonZero(op.reshape(self, [1])), perm=[1, 0])
        return op.slice(found, 1, 0, 0)
    return op.Transpose(op.NonZero(self), perm=[1, 0])


@translates("aten::nonzero_numpy", "aten::where", complex="same")
def where_true(op: Builder, self: Tensor | None = None, condition: Tensor | None = None) -> Sequence[Tensor]:
    given = condition if self is None else self
    assert given is not None
    given = _truth(op, given)
    found = op.NonZero(op.reshape(given, [1]) if given.rank == 0 else given)
    if given.rank <= 1:
        return [op.Squeeze(found, [0])]
    return [op.Gather(found, op.scalar(axis, torch.int64), axis=0) for axis in range(given.rank)]


@translates("aten::nonzero_static", complex="same")
def nonzero_static(op: Builder, self: Tensor, size: Int, fill_value: int) -> Tensor:
    found = nonzero(op, self)
    if self.rank == 0:
        return op.full(fill_value, [size, 0], torch.int64)
    padded = op.Pad(found, [0, 0, size, 0], op.scalar(fill_value, torch.int64))
    return op.slice(padded, 0, 0, size)


@translates("aten::one_hot")
def one_hot(op: Builder, self: Tensor, num_classes: int) -> Tensor:
    indices = op.reshape(self, [1]) if self.rank == 0 else self
    coded = op.OneHot(indices, op.ints([num_classes]), op.const([0, 1], torch.int64), axis=-1)
    return op.reshape(coded, [num_classes]) if self.rank == 0 else coded


# Numbers


@translates("aten::item", "aten::_local_scalar_dense")
def item(op: Builder, self: Tensor) -> Tensor:
    if self.dtype == torch.bool:
        return self
    return op.cast(self, torch.float64 if self.is_float else torch.int64)
