"""Distinct values. How many there are is known at run time only."""

from __future__ import annotations

import torch

from onnxport.aten.axes import axis_of
from onnxport.aten.reduction.reduce import flat
from onnxport.translate import Builder, Tensor, translates

Triple = tuple[Tensor, Tensor | None, Tensor | None]
"""Values, and where asked for the place of each element among them and how often each occurs."""


def _distinct(op: Builder, x: Tensor, axis: int | None, return_inverse: bool, return_counts: bool) -> Triple:
    """ONNX's Unique, sorted always: an order that is left open may well be this one."""
    values, _, inverse, counts = op.multi("Unique", x, outputs=4, axis=axis, sorted=1)
    return values, inverse if return_inverse else None, counts if return_counts else None


@translates("aten::_unique2", "aten::_unique")
def unique(
    op: Builder, self: Tensor, sorted: bool, return_inverse: bool, return_counts: bool | None = None
) -> tuple[Tensor | None, ...]:
    values, inverse, counts = _distinct(op, self, None, return_inverse, return_counts is True)
    if inverse is not None:
        inverse = op.reshape(inverse, self.shape)
    return (values, inverse) if return_counts is None else (values, inverse, counts)


@translates("aten::unique_dim")
def unique_dim(op: Builder, self: Tensor, dim: int, sorted: bool, return_inverse: bool, return_counts: bool) -> Triple:
    return _distinct(op, self, axis_of(dim, self.rank), return_inverse, return_counts)


@translates("aten::unique_consecutive", "aten::unique_dim_consecutive")
def unique_consecutive(op: Builder, self: Tensor, return_inverse: bool, return_counts: bool, dim: int | None) -> Triple:
    """One of each run of equal slices: those that differ from the slice before them, and the first."""
    x, axis = (flat(op, self), 0) if dim is None or not self.rank else (self, axis_of(dim, self.rank))
    length = x.shape[axis]
    others = [position for position in range(x.rank) if position != axis]
    differs = ~op.Equal(op.slice(x, axis, 1, None), op.slice(x, axis, 0, -1))
    if others:
        changes = op.ReduceMax(op.cast(differs, torch.uint8), others, keepdims=False)
        differs = op.cast(changes, torch.bool)
    first = op.const([True], torch.bool)
    if length == 0:
        starts = op.const([], torch.bool)
    else:
        starts = op.Concat(first, differs, axis=0)
    starts = starts.with_shape([length])
    values = op.Compress(x, starts, axis=axis)
    inverse = counts = None
    if return_inverse:
        runs = op.CumSum(op.cast(starts, torch.int64), op.const(0, torch.int64)) - 1
        inverse = op.reshape(runs, self.shape if x is not self else [length])
    if return_counts:
        begins = op.Squeeze(op.NonZero(starts), [0])
        ends = op.Concat(op.slice(begins, 0, 1, None), op.ints([length]), axis=0)
        counts = ends - begins
    return values, inverse, counts
