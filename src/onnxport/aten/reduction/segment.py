"""Reductions of consecutive segments of an axis."""

from __future__ import annotations

import math

import torch

from onnxport.aten.axes import axis_of
from onnxport.translate import Builder, Number, Tensor, translates

_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_SCATTER = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}


@translates("aten::segment_reduce")
def segment_reduce(
    op: Builder,
    data: Tensor,
    reduce: str,
    lengths: Tensor | None,
    indices: Tensor | None,
    offsets: Tensor | None,
    axis: int,
    unsafe: bool,
    initial: Number | None,
) -> Tensor:
    """Each element is added to (or compared with) the result of the segment it lies in.

    Segments lie along the last axis of ``lengths``; the axes before it are batches of their own.
    """
    axis = axis_of(axis, data.rank)
    bounds = offsets if lengths is None else lengths
    assert bounds is not None
    bounds = op.cast(bounds, torch.int64)
    count = bounds.shape[-1] if lengths is not None else bounds.shape[-1] - 1
    position = op.const(axis, torch.int64)
    if lengths is not None:
        ends = op.CumSum(bounds, position)
    else:
        ends = op.slice(bounds, axis, 1, None)
    # An element's segment is how many segments have ended at it or before; elements past the last one belong to none.
    numbers = op.Range(op.const(0, torch.int64), op.scalar(data.shape[axis], torch.int64), op.const(1, torch.int64))
    ended = op.Unsqueeze(ends, [axis]) <= op.Unsqueeze(numbers, [1])
    segment = op.ReduceSum(op.cast(ended, torch.int64), [axis + 1], keepdims=False)
    segment = segment.with_shape(data.shape[: axis + 1])
    trailing = list(range(axis + 1, data.rank))
    target = op.expand(op.unsqueeze(segment, trailing), data.shape)
    shape = [count + 1 if p == axis else size for p, size in enumerate(data.shape)]
    start = _START[reduce] if initial is None else initial
    result = op.ScatterElements(op.full(start, shape, data.dtype), target, data, axis=axis, reduction=_SCATTER[reduce])
    result = op.slice(result, axis, 0, -1)
    if reduce != "mean":
        return result
    sizes = op.ScatterElements(
        op.full(0, shape, data.dtype), target, op.full(1, data.shape, data.dtype), axis=axis, reduction="add"
    )
    sizes = op.slice(sizes, axis, 0, -1)
    average = result / sizes
    return average if initial is None else op.Where(op.Equal(sizes, op.scalar(0, data.dtype)), result, average)
