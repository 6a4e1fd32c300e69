"""Pooling over sliding windows."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch

from onnxport.aten.nn.spatial import averages, per_axis, with_batch
from onnxport.aten.shapes.pad import padded
from onnxport.onnx_build.literals import INT64_MAX
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import maximum, minimum, product


def _max_pool_with_indices(
    op: Builder,
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    *,
    spatial: int,
    wanted: int = 2,
) -> Sequence[Tensor]:
    kernel = per_axis(kernel_size, spatial)
    pads = per_axis(padding, spatial)
    dilations = per_axis(dilation, spatial)
    # ONNX pools floats and bytes; float64 holds every integer that is compared in practice.
    data = op.cast(self, torch.float64) if self.is_integer else self
    batched = with_batch(op, data, spatial + 2)
    strides = per_axis(stride, spatial) if len(stride) else kernel
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    ceil_mode = ceil_mode and _rounds_up(batched.shape[2:], reach, strides, pads)
    values, *indices = op.multi(
        "MaxPool",
        batched,
        outputs=wanted,
        kernel_shape=kernel,
        strides=strides,
        pads=pads * 2,
        dilations=dilations if any(d != 1 for d in dilations) else None,
        ceil_mode=ceil_mode if ceil_mode else None,
    )
    # ONNX counts through the whole tensor, torch starts at 0 in every plane.
    in_plane = [op.Mod(each, op.scalar(product(batched.shape[2:]), torch.int64)) for each in indices]
    return [each if batched is data else op.Squeeze(each, [0]) for each in (values, *in_plane)]


def _max_pool(
    op: Builder,
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    *,
    spatial: int,
) -> Tensor:
    # A second output that nobody reads keeps onnxruntime from its fastest kernels.
    results = _max_pool_with_indices(
        op, self, kernel_size, stride, padding, dilation, ceil_mode, spatial=spatial, wanted=1
    )
    return results[0]


def _avg_pool(
    op: Builder,
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
    *,
    spatial: int,
) -> Tensor:
    kernel, pads = per_axis(kernel_size, spatial), per_axis(padding, spatial)
    strides = per_axis(stride, spatial) if len(stride) else kernel
    if math.prod(kernel) == 1 and not any(pads) and divisor_override is None:
        return _every(op, self, strides)
    batched = with_batch(op, self, spatial + 2)
    ceil_mode = ceil_mode and _rounds_up(batched.shape[2:], kernel, strides, pads)
    if self.is_integer:
        result = _whole_average(op, batched, kernel, strides, pads, ceil_mode, count_include_pad, divisor_override)
    elif divisor_override is not None:
        factor = math.prod(kernel) / divisor_override
        mean = _padded_average(op, batched, kernel, strides, pads, ceil_mode)
        result = mean if factor == 1 else mean * factor
    else:
        if ceil_mode and count_include_pad and all(s <= k - p for k, s, p in zip(kernel, strides, pads, strict=True)):
            # No window begins in the padding behind. OpenVINO and OpenCV would count what reaches over that, too.
            batched = padded(op, batched, [pad for pad in reversed(pads) for _ in range(2)], "constant")
            pads = [0] * spatial
        result = op.AveragePool(
            batched,
            kernel_shape=kernel,
            strides=strides,
            pads=pads * 2,
            ceil_mode=ceil_mode if ceil_mode else None,
            # Stated also where it is 0: OpenCV takes it for 1 otherwise.
            count_include_pad=int(count_include_pad and any(pads)) if any(pads) or ceil_mode else None,
        )
    return result if self.rank == spatial + 2 else op.Squeeze(result, [0])


def _rounds_up(sizes: Sequence[Int], kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]) -> bool:
    """Whether windows may reach over the end at all."""
    return any((size + 2 * p - k) % s != 0 for size, k, s, p in zip(sizes, kernel, strides, pads, strict=True))


def _every(op: Builder, x: Tensor, strides: Sequence[int]) -> Tensor:
    """Windows of one element. onnxruntime moves a Pad before such a pool into the pool, which then refuses it."""
    moved = [axis for axis, stride in enumerate(strides, x.rank - len(strides)) if stride != 1]
    if not moved:
        return op.Identity(x)
    steps = [stride for stride in strides if stride != 1]
    return op.Slice(x, [0] * len(moved), [INT64_MAX] * len(moved), moved, steps)


def _padded_average(
    op: Builder, x: Tensor, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], ceil_mode: bool
) -> Tensor:
    """The mean over whole windows, where all that lies outside of ``x`` counts as zeros."""
    amounts: list[Int] = []
    for size, k, s, pad in zip(reversed(x.shape[2:]), reversed(kernel), reversed(strides), reversed(pads), strict=True):
        extra: Int = 0
        if ceil_mode:
            # A last window must start in the input or the padding before it.
            count = minimum((size + 2 * pad - k + s - 1) // s, (size + pad - 1) // s)
            extra = maximum(0, count * s + k - size - 2 * pad)
        amounts += [pad, pad + extra]
    return averages(op, padded(op, x, amounts, "constant"), kernel, strides)


def _whole_average(
    op: Builder,
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Tensor:
    """The mean of integers, which torch divides as integers: from the exact sums."""

    def summed(values: Tensor, pads: Sequence[int]) -> Tensor:
        mean = _padded_average(op, op.cast(values, torch.float64), kernel, strides, pads, ceil_mode)
        return op.cast(op.Round(mean * math.prod(kernel)), torch.int64)

    count = op.const(math.prod(kernel) if divisor is None else divisor, torch.int64)
    if divisor is None and (ceil_mode or (any(pads) and not count_include_pad)):
        ones = op.full(1, [1, 1, *x.shape[2:]], torch.float64)
        inner = [amount for pad in reversed(pads) for amount in (pad, pad)]
        if count_include_pad:
            ones = padded(op, ones, inner, "constant", 1)
            ones = ones.with_shape([1, 1, *(size + 2 * pad for size, pad in zip(x.shape[2:], pads, strict=True))])
        count = summed(ones, [0] * len(pads) if count_include_pad else pads)
    return op.Div(summed(x, pads), count)


for _spatial in (1, 2, 3):
    translates(f"aten::max_pool{_spatial}d")(functools.partial(_max_pool, spatial=_spatial))
    translates(f"aten::max_pool{_spatial}d_with_indices")(functools.partial(_max_pool_with_indices, spatial=_spatial))
    translates(f"aten::avg_pool{_spatial}d")(functools.partial(_avg_pool, spatial=_spatial))


def _fractional_max_pool(
    op: Builder,
    self: Tensor,
    kernel_size: Sequence[int],
    output_size: Sequence[int],
    random_samples: Tensor,
    *,
    spatial: int,
) -> Sequence[Tensor]:
    """Windows that start at random, one set of starts for each plane."""
    batched = with_batch(op, self, spatial + 2)
    batch, channels, *sizes = batched.shape
    planes: list[Int] = [batch, channels]
    kernel, outputs = per_axis(kernel_size, spatial), per_axis(output_size, spatial)
    flat: Tensor | None = None
    for axis, (size, k, out) in enumerate(zip(sizes, kernel, outputs, strict=True)):
        # In two dimensions torch draws for the width first.
        drawn = spatial - 1 - axis if spatial == 2 else axis
        sample = op.slice(random_samples, 2, drawn, drawn + 1)
        starts = _fractional_starts(op, sample, size, k, out).with_shape([*planes, out])
        lines = op.Add(op.unsqueeze(starts, [3]), op.const(list(range(k)), torch.int64))
        behind = 2 * (spatial - 1 - axis)
        lines = op.reshape(lines.with_shape([*planes, out, k]), [*planes, *[1] * (2 * axis), out, k, *[1] * behind])
        flat = lines if flat is None else flat * size + lines
    assert flat is not None
    order = [0, 1, *range(2, 2 + 2 * spatial, 2), *range(3, 3 + 2 * spatial, 2)]
    grouped = [*planes, *(length for pair in zip(outputs, kernel, strict=True) for length in pair)]
    window = math.prod(kernel)
    places = op.reshape(op.transpose(flat.with_shape(grouped), order), [*planes, math.prod(outputs) * window])
    taken = op.GatherElements(op.reshape(batched, [*planes, product(sizes)]), places, axis=2)
    shape = [*planes, math.prod(outputs), window]
    taken = op.reshape(taken.with_shape(places.shape), shape)
    best = op.ArgMax(taken, axis=3, keepdims=1)
    result = [*self.shape[: self.rank - spatial], *outputs]
    values = op.reshape(op.ReduceMax(taken, [3], keepdims=0).with_shape(shape[:3]), result)
    indices = op.GatherElements(op.reshape(places, shape), best, axis=3).with_shape([*shape[:3], 1])
    return values, op.reshape(indices, result)


def _fractional_starts(op: Builder, sample: Tensor, size: Int, kernel: int, count: int) -> Tensor:
    """Where the windows start: at even fractions shifted by the sample, the last one at the very end."""
    last = op.scalar(size - kernel, torch.int64)
    if count == 1:
        return op.Add(op.cast(sample * 0, torch.int64), last)
    alpha = op.Div(op.cast(last, sample.dtype), op.scalar(count - 1, sample.dtype))
    steps = op.const(list(range(count)), sample.dtype)
    moved = op.cast(op.Mul(op.Add(steps, sample), alpha), torch.int64)
    starts = op.Sub(moved, op.cast(op.Mul(sample, alpha), torch.int64))
    return op.Where(op.const([index == count - 1 for index in range(count)], torch.bool), last, starts)


for _spatial in (2, 3):
    translates(f"aten::fractional_max_pool{_spatial}d")(functools.partial(_fractional_max_pool, spatial=_spatial))


@translates("aten::max_unpool2d", "aten::max_unpool3d")
def max_unpool(
    op: Builder,
    self: Tensor,
    indices: Tensor,
    output_size: Sequence[Int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
) -> Tensor:
    """Each value where it was taken from; the stride and padding it was taken by are of no more use."""
    spatial = len(output_size)
    planes = self.shape[: self.rank - spatial]
    lines = [*planes, product(self.shape[-spatial:])]
    empty = op.full(0, [*planes, product(output_size)], self.dtype)
    filled = op.ScatterElements(empty, op.reshape(indices, lines), op.reshape(self, lines), axis=len(planes))
    return op.reshape(filled.with_shape(empty.shape), [*planes, *output_size])
