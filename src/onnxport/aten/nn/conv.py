"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.aten.nn.fold import im2col
from onnxport.aten.nn.spatial import per_axis, with_batch
from onnxport.aten.shapes.pad import padded
from onnxport.errors import TranslationError
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import is_static, product


@translates("aten::conv1d", "aten::conv2d", "aten::conv3d")
def conv(
    op: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: Int,
) -> Tensor:
    spatial = weight.rank - 2
    if not isinstance(groups, int):
        return _conv_in_varying_groups(op, input, weight, bias, stride, padding, dilation, groups)
    return _conv(op, input, weight, bias, stride, per_axis(padding, spatial) * 2, dilation, groups)


def _conv_in_varying_groups(
    op: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: Int,
) -> Tensor:
    """As a product of the windows of each group: a kernel for each image of a batch makes as many groups as images."""
    kernel, spatial = weight.shape[2:], weight.rank - 2
    if spatial != 2 or input.rank != 4 or not is_static(kernel):
        raise TranslationError(
            f"A convolution of {spatial} axes in {groups} groups, of which only run time knows the number, is "
            "written for batches of images and kernels of fixed sizes only."
        )
    amounts = [per_axis(given, spatial) for given in (dilation, padding, stride)]
    [shape] = op.result_shapes()
    batch, inside, outside = input.shape[0], weight.shape[1], weight.shape[0] // groups
    each = op.reshape(input, [batch * groups, inside, *input.shape[2:]])
    window = inside * math.prod(kernel)
    windows = op.reshape(im2col(op, each, kernel, *amounts), [batch, groups, window, product(shape[2:])])
    factors = op.reshape(weight, [groups, outside, window])
    result = op.reshape(op.MatMul(factors, windows), shape)
    return result if bias is None else op.Add(result, op.unsqueeze(bias, [1, 2]))


@translates("aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding")
def conv_by_name(
    op: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: str,
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    spatial = weight.rank - 2
    pads = [0] * (2 * spatial)
    if padding == "same":
        dilations = per_axis(dilation, spatial)
        totals = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
        # The odd one goes to the end, as ONNX's SAME_UPPER would; spelt out, it needs no input size.
        if is_static(totals):
            pads = [total // 2 for total in totals] + [total - total // 2 for total in totals]
        else:
            around = [amount for total in reversed(totals) for amount in (total // 2, total - total // 2)]
            input = padded(op, input, around, "constant")
    return _conv(op, input, weight, bias, stride, pads, dilation, groups)


def _conv(
    op: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    pads: list[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    spatial = weight.rank - 2
    input, weight, bias = _floats(op, input, weight, bias)
    batched = with_batch(op, input, spatial + 2)
    result = op.Conv(
        batched,
        weight,
        bias,
        kernel_shape=_kernel(weight),
        strides=per_axis(stride, spatial),
        pads=pads,
        dilations=per_axis(dilation, spatial),
        group=groups,
    )
    return result if batched is input else op.Squeeze(result, [0])


@translates("aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::conv_transpose3d.input")
def conv_transpose(
    op: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Tensor:
    spatial = weight.rank - 2
    input, weight, bias = _floats(op, input, weight, bias)
    batched = with_batch(op, input, spatial + 2)
    strides, extra = per_axis(stride, spatial), per_axis(output_padding, spatial)
    before = per_axis(padding, spatial)
    after, beyond = before, [0] * spatial
    if any(more >= step for more, step in zip(extra, strides, strict=True)):
        # Runtimes refuse more output padding than the stride: cut off less at the end, and beyond that is only bias.
        after = [max(0, pad - more) for pad, more in zip(before, extra, strict=True)]
        beyond = [max(0, more - pad) for pad, more in zip(before, extra, strict=True)]
        extra = [0] * spatial
    result = op.ConvTranspose(
        batched,
        weight,
        None if any(beyond) else bias,
        kernel_shape=_kernel(weight),
        strides=strides,
        pads=before + after,
        dilations=per_axis(dilation, spatial),
        output_padding=extra if any(extra) else None,
        group=groups,
    )
    if any(beyond):
        result = op.Pad(result, [0] * (spatial + 4) + beyond, mode="constant")
        result = result if bias is None else op.Add(result, op.unsqueeze(bias, list(range(1, spatial + 1))))
    return result if batched is input else op.Squeeze(result, [0])


def _kernel(weight: Tensor) -> list[int] | None:
    """The size of the kernel, which older readers want to be told; left out where only run time knows it."""
    sizes = weight.shape[2:]
    return list(sizes) if is_static(sizes) else None


def _floats(op: Builder, input: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """ONNX convolves floats only; the sums of integers that are met in practice are whole in float64."""
    if not input.is_integer:
        return input, weight, bias
    wide = torch.float64
    return op.cast(input, wide), op.cast(weight, wide), None if bias is None else op.cast(bias, wide)


@translates("aten::convolution", "aten::_convolution", "aten::_convolution.deprecated")
def convolution(
    op: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    benchmark: bool = False,
    deterministic: bool = False,
    cudnn_enabled: bool = False,
    allow_tf32: bool = False,
) -> Tensor:
    if transposed:
        return conv_transpose(op, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(op, input, weight, bias, stride, padding, dilation, groups)


@translates("aten::conv_tbc")
def conv_tbc(op: Builder, self: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Tensor:
    kernel = op.transpose(weight, [2, 1, 0])
    result = op.Conv(op.transpose(self, [1, 2, 0]), kernel, bias, kernel_shape=_kernel(kernel), pads=[pad, pad])
    return op.Transpose(result, perm=[2, 0, 1])
