"""Reductions over some or all dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.aten.axes import axes_of, axis_of
from onnxport.translate import Builder, Tensor, translates


@translates("aten::sum", "aten::sum.dim_IntList")
def sum_(
    op: Builder,
    self: Tensor,
    dtype: torch.dtype | None,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
) -> Tensor:
    if dtype is None:
        dtype = self.dtype if self.is_float else torch.int64
    self = op.cast(self, dtype)
    axes = axes_of(dim, self.rank)
    return op.ReduceSum(self, axes, keepdims=keepdim) if axes else self


@translates("aten::mean", "aten::mean.dim")
def mean(
    op: Builder,
    self: Tensor,
    dtype: torch.dtype | None,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
) -> Tensor:
    self = self if dtype is None else op.cast(self, dtype)
    axes = axes_of(dim, self.rank)
    return op.ReduceMean(self, axes, keepdims=keepdim) if axes else self


@translates("aten::amax")
def amax(op: Builder, self: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    return op.ReduceMax(self, axes_of(dim, self.rank), keepdims=keepdim)


@translates("aten::amin")
def amin(op: Builder, self: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    return op.ReduceMin(self, axes_of(dim, self.rank), keepdims=keepdim)


@translates("aten::argmax")
def argmax(op: Builder, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None:
        flat = op.ArgMax(op.reshape(self, [-1]), axis=0, keepdims=False)
        return op.reshape(flat.with_shape([]), [1] * self.rank) if keepdim else flat
    return op.ArgMax(self, axis=axis_of(dim, self.rank), keepdims=keepdim)


@translates("aten::cumsum")
def cumsum(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    if dtype is None:
        dtype = self.dtype if self.is_float else torch.int64
    self = op.cast(self, dtype)
    return op.CumSum(self, op.scalar(axis_of(dim, self.rank), torch.int64)) if self.rank else self
