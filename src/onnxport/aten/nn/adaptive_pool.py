"""Adaptive pooling: a given number of windows, as equal as the size allows.

Window ``i`` of ``n`` goes from ⌊i·size/n⌋ to ⌈(i+1)·size/n⌉. Where these are evenly spaced and of one
length it is plain pooling; otherwise the windows are gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnxport.aten.nn.fold import steps
from onnxport.aten.nn.spatial import averages, with_batch
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import product


def _plain(size: Int, count: Int) -> tuple[int, int] | None:
    """Kernel and stride of plain pooling that has the same windows, if there is one.

    >>> from onnxport.aten.nn.adaptive_pool import _plain
    >>> _plain(7, 3), _plain(5, 3)
    ((3, 2), None)
    """
    if isinstance(size, int) and isinstance(count, int):
        if size == 0 or count == 0:
            return None
        starts, ends = _bounds(size, count)
        length, stride = ends[0], starts[1] if count > 1 else size
        even = starts == [i * stride for i in range(count)] and ends == [start + length for start in starts]
        return (length, stride) if even and stride > 0 else None
    kernel = size // count
    return (kernel, kernel) if isinstance(kernel, int) and count * kernel == size else None


def _bounds(size: int, count: int) -> tuple[list[int], list[int]]:
    return [i * size // count for i in range(count)], [-(-(i + 1) * size // count) for i in range(count)]


@dataclass(frozen=True)
class Windows:
    """The windows of one axis: which elements, padded to one length, and which of these are in it."""

    places: Tensor
    inside: Tensor
    lengths: Tensor
    longest: Int


def _windows(op: Builder, size: Int, count: Int) -> Windows:
    if isinstance(size, int) and isinstance(count, int):
        low, high = _bounds(size, count)
        longest: Int = max((end - start for start, end in zip(low, high, strict=True)), default=0)
        starts, ends = op.const([[i] for i in low], torch.int64), op.const([[i] for i in high], torch.int64)
    else:
        index = op.unsqueeze(steps(op, count), [1])
        starts = op.Div(index * size, op.scalar(count, torch.int64))
        ends = op.Div((index + 1) * size + (count - 1), op.scalar(count, torch.int64))
        longest = (size + count - 1) // count + 1
    every = op.Add(starts, steps(op, longest))
    return Windows(op.Min(every, ends - 1), every < ends, ends - starts, longest)


@translates(
    "aten::adaptive_avg_pool1d",
    "aten::adaptive_avg_pool2d",
    "aten::adaptive_avg_pool3d",
    "aten::_adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool3d",
)
def adaptive_avg_pool(op: Builder, self: Tensor, output_size: Sequence[Int]) -> Tensor:
    spatial = len(output_size)
    first = self.rank - spatial
    sizes = self.shape[first:]
    ones = [first + axis for axis in range(spatial) if output_size[axis] == 1 and sizes[axis] != 1]
    shape = list(self.shape)
    result = self
    if ones:
        for axis in ones:
            shape[axis] = 1
        # onnxruntime keeps the layout of its convolutions through the former, and others quantize it; of videos it has
        # no such layout, and OpenCV no such pool.
        whole = len(ones) == spatial < 3 and first == 2 and self.dtype == torch.float32
        pooled = op.GlobalAveragePool(result) if whole else op.ReduceMean(result, ones, keepdims=1)
        result = pooled.with_shape(shape)
    uneven: list[int] = []
    kernel, strides = [1] * spatial, [1] * spatial
    for axis, count in enumerate(output_size):
        plain = (1, 1) if shape[first + axis] == count else _plain(shape[first + axis], count)
        if plain is None:
            uneven.append(first + axis)
        else:
            kernel[axis], strides[axis] = plain
            shape[first + axis] = count
    if any(k != 1 for k in kernel):
        result = _averages(op, result, kernel, strides).with_shape(shape)
    for axis in uneven:
        windows = _windows(op, shape[axis], output_size[axis - first])
        behind = list(range(2, 1 + self.rank - axis))
        taken = op.Gather(result, windows.places, axis=axis)
        inside = op.unsqueeze(windows.inside.with_shape([output_size[axis - first], windows.longest]), behind)
        lengths = op.unsqueeze(windows.lengths.with_shape([output_size[axis - first], 1]), behind)
        lengths = op.squeeze(lengths, [1])
        total = op.ReduceSum(op.Where(inside, taken, op.scalar(0, self.dtype)), [axis + 1], keepdims=0)
        shape[axis] = output_size[axis - first]
        result = op.Div(total, op.cast(lengths, self.dtype)).with_shape(shape)
    return result


def _averages(op: Builder, x: Tensor, kernel: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Averages of planes. onnxruntime (1.31) pools an empty batch, but no zero channels: they change places with it."""
    rank = len(kernel) + 2
    if not op.may_be_empty([x.shape[-len(kernel) - 1]]):
        batched = with_batch(op, x, rank)
        pooled = averages(op, batched, kernel, strides)
        return pooled if batched is x else op.Squeeze(pooled, [0])
    if x.rank < rank:
        return op.Squeeze(averages(op, op.unsqueeze(x, [1]), kernel, strides), [1])
    if x.shape[0] == 1:
        # A Transpose would end up in a fused MatMul, which ends the process where there are no channels.
        return op.Unsqueeze(_averages(op, op.squeeze(x, [0]), kernel, strides), [0])
    order = [1, 0, *range(2, rank)]
    return op.transpose(averages(op, op.transpose(x, order), kernel, strides), order)


@translates("aten::adaptive_max_pool1d", "aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def adaptive_max_pool(op: Builder, self: Tensor, output_size: Sequence[int]) -> Sequence[Tensor]:
    spatial = len(output_size)
    first = self.rank - spatial
    planes, sizes = self.shape[:first], self.shape[first:]
    if all(count == 1 for count in output_size):
        best = op.ArgMax(op.reshape(self, [*planes, product(sizes)]), axis=first, keepdims=1)
        indices = op.reshape(best.with_shape([*planes, 1]), [*planes, *output_size])
        return op.ReduceMax(self, list(range(first, self.rank)), keepdims=1), indices
    plain = [_plain(size, count) for size, count in zip(sizes, output_size, strict=True)]
    if not self.is_integer and all(pair is not None for pair in plain):
        kernel, strides = zip(*(pair for pair in plain if pair is not None), strict=True)
        batched = with_batch(op, self, spatial + 2)
        pads = [0, 0] * spatial
        values, indices = op.multi("MaxPool", batched, outputs=2, kernel_shape=kernel, strides=strides, pads=pads)
        indices = op.Mod(indices, op.scalar(product(sizes), torch.int64))
        return (values, indices) if batched is self else (op.Squeeze(values, [0]), op.Squeeze(indices, [0]))
    return _gathered_max(op, self, output_size)


def _gathered_max(op: Builder, x: Tensor, counts: Sequence[int]) -> Sequence[Tensor]:
    """Gather the windows of all axes, then take the largest of each and where it came from."""
    spatial = len(counts)
    first = x.rank - spatial
    planes, sizes = list(x.shape[:first]), x.shape[first:]
    grouped: list[Int] = []
    taken, flat = x, op.const(0, torch.int64)
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        windows = _windows(op, size, count)
        taken = op.Gather(taken, windows.places, axis=first + 2 * axis)
        places = windows.places.with_shape([count, windows.longest])
        flat = op.Add(flat * size, op.unsqueeze(places, list(range(2, 2 * (spatial - axis)))))
        grouped += [count, windows.longest]
    window = product(grouped[1::2])
    order = [*range(0, 2 * spatial, 2), *range(1, 2 * spatial, 2)]
    taken = op.transpose(taken.with_shape([*planes, *grouped]), [*range(first), *(first + axis for axis in order)])
    taken = op.reshape(taken, [*planes, *counts, window])
    flat = op.reshape(op.transpose(flat.with_shape(grouped), order), [*counts, window])
    best = op.ArgMax(taken, axis=x.rank, keepdims=1).with_shape([*planes, *counts, 1])
    values = op.ReduceMax(taken, [x.rank], keepdims=0)
    indices = op.GatherElements(op.expand(flat, [*planes, *counts, window]), best, axis=x.rank)
    return values, op.squeeze(indices.with_shape(best.shape), [x.rank])
