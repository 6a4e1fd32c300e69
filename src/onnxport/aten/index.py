"""Reading by index."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.aten.axes import axis_of
from onnxport.errors import TranslationError
from onnxport.translate import Builder, Int, Tensor, translates


@translates("aten::select.int")
def select(op: Builder, self: Tensor, dim: int, index: Int) -> Tensor:
    return op.Gather(self, op.scalar(index, torch.int64), axis=axis_of(dim, self.rank))


@translates("aten::index_select")
def index_select(op: Builder, self: Tensor, dim: int, index: Tensor) -> Tensor:
    return op.Gather(self, index, axis=axis_of(dim, self.rank))


@translates("aten::gather")
def gather(op: Builder, self: Tensor, dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    return op.GatherElements(self, index, axis=axis_of(dim, self.rank))


@translates("aten::index.Tensor")
def index(op: Builder, self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    used = [axis for axis, item in enumerate(indices) if item is not None]
    tensors = [item for item in indices if item is not None]
    if any(item.dtype == torch.bool for item in tensors):
        raise TranslationError("Reading by a mask has no translation.")
    if len(used) == 1:
        return op.Gather(self, tensors[0], axis=used[0])
    if used != list(range(len(used))):
        raise TranslationError("Reading by index tensors on other than the leading dimensions has no translation.")
    rank = max(item.rank for item in tensors)
    whole = [op.cast(item, torch.int64) for item in tensors]
    common = op.shape(whole[0])
    for item in whole[1:]:
        common = op.Shape(op.Add(op.Expand(item, common), op.const(0, torch.int64)))
    stacked = op.Concat(*(op.Unsqueeze(op.Expand(item, common), [rank]) for item in whole), axis=rank)
    return op.GatherND(self, stacked)
