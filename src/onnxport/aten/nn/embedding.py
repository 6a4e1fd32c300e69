"""Embeddings: rows of a table by index, alone or in bags."""

from __future__ import annotations

import math

import torch

from onnxport.aten.reduction.distance import shortened
from onnxport.aten.reduction.reduce import flat
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import Dim
from onnxport.translate.ranges import is_range_from_zero, step_from_zero

_SUM, _MEAN, _MAX = 0, 1, 2


@translates("aten::embedding")
def embedding(
    op: Builder, weight: Tensor, indices: Tensor, padding_idx: Int, scale_grad_by_freq: bool, sparse: bool
) -> Tensor:
    return op.Gather(weight, indices)


@translates("aten::embedding_renorm")
def embedding_renorm(op: Builder, self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The table with the rows that are used brought to the maximal norm."""
    used = flat(op, indices)
    rows = op.Gather(self, used).with_shape([used.shape[0], self.shape[1]])
    return op.ScatterND(
        self, op.unsqueeze(op.cast(used, torch.int64), [1]), shortened(op, rows, norm_type, [1], max_norm)
    )


@translates("aten::embedding_bag.padding_idx")
def padded_embedding_bag(
    op: Builder,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int | None,
) -> tuple[Tensor, None, None, None]:
    """Here a row may be counted from the end, where -1 is no row to the other overloads."""
    padding: Int | None = padding_idx
    if padding_idx is not None and padding_idx < 0:
        padding = weight.shape[0] + padding_idx
    return _bags(op, weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding)


@translates("aten::embedding_bag", "aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    op: Builder,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int = -1,
) -> tuple[Tensor, None, None, None]:
    padding = None if padding_idx < 0 else padding_idx
    return _bags(op, weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding)


def _bags(
    op: Builder,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padded_row: Int | None,
) -> tuple[Tensor, None, None, None]:
    """Rows added up (or averaged, or the largest taken) by bag; the other three results serve gradients only."""
    count, bags = indices.shape[0], offsets.shape[0]
    length = _length_of_bags(op, offsets)
    if length is not None and not include_last_offset:
        equal = count // length
        if equal * length == count and bags in (equal, (count + length - 1) // length):
            shape = [equal, length]
            return _equal_bags(op, weight, indices, shape, mode, per_sample_weights, padded_row), None, None, None
    indices, offsets = op.cast(indices, torch.int64), op.cast(offsets, torch.int64)
    ends = include_last_offset and padded_row is None and _ends_by_offset(weight, mode)
    if include_last_offset and not ends:
        bags = bags - 1
        offsets = op.slice(offsets, 0, 0, -1).with_shape([bags])
    # A bag begins where its offset points; how many have begun at an index is the index's bag.
    begins = op.ScatterElements(
        op.full(0, [count + 1], torch.int64), offsets, op.full(1, [bags], torch.int64), axis=0, reduction="add"
    )
    bag = op.CumSum(op.slice(begins, 0, 0, -1), op.const(0, torch.int64)) - 1
    rows = op.Gather(weight, indices).with_shape([count, weight.shape[1]])
    counted = op.full(1, [count, 1], weight.dtype)
    padding = None
    if padded_row is not None:
        padding = op.Equal(indices, op.scalar(padded_row, torch.int64))
        padding = op.unsqueeze(padding.with_shape([count]), [1])
        counted = op.cast(~padding, weight.dtype)
    target = op.unsqueeze(bag.with_shape([count]), [1])
    shape = [bags, weight.shape[1]]
    if mode == _MAX:
        lowest = op.scalar(-math.inf, weight.dtype)
        if padding is not None:
            rows = op.Where(padding, lowest, rows)
        result = op.ScatterND(op.full(-math.inf, shape, weight.dtype), target, rows, reduction="max")
        empty = op.Equal(
            op.ScatterND(op.full(0, [bags, 1], weight.dtype), target, counted, reduction="add"),
            op.scalar(0, weight.dtype),
        )
        return op.Where(empty, op.scalar(0, weight.dtype), result), None, None, None
    if per_sample_weights is not None:
        rows = rows * op.unsqueeze(per_sample_weights, [1])
    if padding is not None:
        rows = op.Where(padding, op.scalar(0, weight.dtype), rows)
    result = op.ScatterND(op.full(0, shape, weight.dtype), target, rows, reduction="add")
    if ends:
        bags = bags - 1
        result = op.slice(result.with_shape(shape), 0, 0, -1).with_shape([bags, weight.shape[1]])
        # Though what follows the last bag is not added to it, torch counts it for the mean.
        target = op.Min(target, op.scalar(bags - 1, torch.int64))
    if mode == _MEAN:
        sizes = op.ScatterND(op.full(0, [bags, 1], weight.dtype), target, counted, reduction="add")
        result = result / op.Max(sizes, op.scalar(1, weight.dtype))
    return result, None, None, None


def _length_of_bags(op: Builder, offsets: Tensor) -> Int | None:
    """The step of offsets that count from 0: a number, or a size that their number is a quotient by."""
    step = step_from_zero(offsets)
    bags = offsets.shape[0]
    counted = offsets.value.producer()
    if step is not None or counted is None or not isinstance(bags, Dim) or not is_range_from_zero(offsets):
        return step
    size = bags.divisor
    scalar = counted.inputs[2].producer() if size is not None and counted.inputs[2] is not None else None
    if size is None or scalar is None or scalar.op_type != "Squeeze":
        return None
    return size if scalar.inputs[0] is op.sizes.vector(size).value else None


def _equal_bags(
    op: Builder,
    weight: Tensor,
    indices: Tensor,
    shape: list[Int],
    mode: int,
    per_sample_weights: Tensor | None,
    padded_row: Int | None,
) -> Tensor:
    """Bags of one length, as a matrix of indices has in its rows: each is an axis."""
    indices = op.reshape(indices, shape)
    rows = op.Gather(weight, indices).with_shape([*shape, weight.shape[1]])
    if per_sample_weights is not None:
        rows = rows * op.reshape(per_sample_weights, [*shape, 1])
    if padded_row is None:
        reduce = {_SUM: op.ReduceSum, _MEAN: op.ReduceMean, _MAX: op.ReduceMax}[mode]
        return reduce(rows, [1], keepdims=0).with_shape([shape[0], weight.shape[1]])
    padding = op.unsqueeze(op.Equal(indices, op.scalar(padded_row, indices.dtype)).with_shape(shape), [2])
    counted = op.ReduceSum(op.cast(~padding, weight.dtype), [1], keepdims=0).with_shape([shape[0], 1])
    zero = op.scalar(0, weight.dtype)
    if mode == _MAX:
        most = op.ReduceMax(op.Where(padding, op.scalar(-math.inf, weight.dtype), rows), [1], keepdims=0)
        return op.Where(op.Equal(counted, zero), zero, most.with_shape([shape[0], weight.shape[1]]))
    total = op.ReduceSum(op.Where(padding, zero, rows), [1], keepdims=0).with_shape([shape[0], weight.shape[1]])
    return total / op.Max(counted, op.scalar(1, weight.dtype)) if mode == _MEAN else total


def _ends_by_offset(weight: Tensor, mode: int) -> bool:
    """Whether the last bag ends where the last offset points: the usual kernel does so, others add all that follow."""
    return mode != _MAX and weight.dtype != torch.float64
