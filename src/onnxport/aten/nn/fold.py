"""Blocks and patches: sliding windows as columns and back, and channels traded for pixels."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.aten.nn.spatial import per_axis, with_batch
from onnxport.aten.shapes.pad import padded
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import product


@translates("aten::im2col")
def im2col(
    op: Builder,
    self: Tensor,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    kernel, dilations, pads, strides = (per_axis(v, 2) for v in (kernel_size, dilation, padding, stride))
    image = with_batch(op, self, 4)
    batch, channels, *sizes = image.shape
    counts: list[Int] = [
        (size + 2 * pad - d * (k - 1) - 1) // s + 1
        for size, k, d, pad, s in zip(sizes, kernel, dilations, pads, strides, strict=True)
    ]
    image = padded(op, image, [pads[1], pads[1], pads[0], pads[0]], "constant")
    # One axis after the other becomes two: the place in the window, then the window.
    for axis, k, d, s, count in zip((2, 4), kernel, dilations, strides, counts, strict=True):
        places = op.const([[d * place] for place in range(k)], torch.int64)
        image = op.Gather(image, op.Add(places, steps(op, count, s)), axis=axis)
    columns = op.Transpose(image, perm=[0, 1, 2, 4, 3, 5]).with_shape([batch, channels, *kernel, *counts])
    columns = op.reshape(columns, [batch, channels * product(kernel), product(counts)])
    return columns if self.rank == 4 else op.squeeze(columns, [0])


def steps(op: Builder, count: Int, step: int = 1) -> Tensor:
    """The int64 vector 0, step, 2·step, … of ``count`` elements."""
    if isinstance(count, int):
        return op.const([step * index for index in range(count)], torch.int64)
    zero, one = op.scalar(0, torch.int64), op.scalar(1, torch.int64)
    counted = op.Range(zero, op.scalar(count, torch.int64), one).with_shape([count])
    return counted if step == 1 else counted * step


@translates("aten::col2im")
def col2im(
    op: Builder,
    self: Tensor,
    output_size: Sequence[Int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    columns = with_batch(op, self, 3)
    image = op.Col2Im(
        columns,
        list(output_size),
        per_axis(kernel_size, 2),
        dilations=per_axis(dilation, 2),
        pads=per_axis(padding, 2) * 2,
        strides=per_axis(stride, 2),
    )
    return image if columns is self else op.Squeeze(image, [0])


@translates("aten::pixel_shuffle")
def pixel_shuffle(op: Builder, self: Tensor, upscale_factor: int) -> Tensor:
    *leading, channels, height, width = self.shape
    r = upscale_factor
    batched = op.reshape(self, [product(leading), channels, height, width])
    result = op.DepthToSpace(batched, blocksize=r, mode="CRD")
    shape = [channels // (r * r), height * r, width * r]
    return result if self.rank == 4 else op.reshape(result.with_shape([product(leading), *shape]), [*leading, *shape])


@translates("aten::pixel_unshuffle")
def pixel_unshuffle(op: Builder, self: Tensor, downscale_factor: int) -> Tensor:
    # SpaceToDepth puts the place in the block before the channel, torch behind it.
    *leading, channels, height, width = self.shape
    r = downscale_factor
    count = product(leading)
    blocks = op.reshape(self, [count, channels, height // r, r, width // r, r])
    moved = op.transpose(blocks, [0, 1, 3, 5, 2, 4])
    return op.reshape(moved, [*leading, channels * r * r, height // r, width // r])


@translates("aten::channel_shuffle", "aten::native_channel_shuffle")
def channel_shuffle(op: Builder, self: Tensor, groups: int) -> Tensor:
    batch, channels, *rest = self.shape
    grouped = op.reshape(self, [batch, groups, channels // groups, product(rest)])
    return op.reshape(op.transpose(grouped, [0, 2, 1, 3]), self.shape)
