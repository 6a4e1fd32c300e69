"""torchvision's operators: suppression of boxes, regions of interest, deformable convolution.

They are registered by name, so torchvision need not be installed for onnxport to be imported.
"""

from __future__ import annotations

import torch

from onnxport.aten.nn.fold import steps
from onnxport.errors import TranslationError
from onnxport.onnx_build.literals import INT64_MAX
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import is_static


@translates("torchvision::nms")
def nms(op: Builder, dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    selected = op.NonMaxSuppression(
        op.unsqueeze(op.cast(dets, torch.float32), [0]),
        op.unsqueeze(op.cast(scores, torch.float32), [0, 1]),
        op.const([INT64_MAX], torch.int64),
        op.const([iou_threshold], torch.float32),
    )
    # Rows are (batch, class, box), and the boxes come by falling score, as torchvision's do.
    return op.Gather(selected, op.const(2, torch.int64), axis=1)


def _split_rois(op: Builder, rois: Tensor) -> tuple[Tensor, Tensor]:
    """The image each region is in, and its corners."""
    images = op.Gather(rois, op.const(0, torch.int64), axis=1)
    return op.cast(images.with_shape(rois.shape[:1]), torch.int64), op.slice(rois, 1, 1, 5)


@translates("torchvision::roi_align")
def roi_align(
    op: Builder,
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    images, corners = _split_rois(op, rois)
    return op.RoiAlign(
        input,
        corners,
        images,
        output_height=pooled_height,
        output_width=pooled_width,
        sampling_ratio=max(0, sampling_ratio),
        spatial_scale=spatial_scale,
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )


@translates("torchvision::roi_pool")
def roi_pool(
    op: Builder, input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, None]:
    """The second result, where the maxima were, is only of use to the gradient."""
    shape = [pooled_height, pooled_width]
    return op.MaxRoiPool(input, rois, pooled_shape=shape, spatial_scale=spatial_scale), None


@translates("torchvision::ps_roi_align")
def ps_roi_align(
    op: Builder,
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> tuple[Tensor, None]:
    """Align all channels, then keep for each bin only the channels that are its own."""
    bins = pooled_height * pooled_width
    channels = input.shape[1] // bins
    every = roi_align(op, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, True)
    count = rois.shape[0]
    flat = op.reshape(every.with_shape([count, input.shape[1], pooled_height, pooled_width]),
                      [count, channels, bins * bins])  # fmt: skip
    own = op.Gather(flat, op.const([place * (bins + 1) for place in range(bins)], torch.int64), axis=2)
    return op.reshape(own.with_shape([count, channels, bins]), [count, channels, pooled_height, pooled_width]), None


@translates("torchvision::ps_roi_pool")
def ps_roi_pool(
    op: Builder, input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, None]:
    """The mean of each bin of whole pixels, by a matrix of ones over rows and one over columns."""
    _, channels, height, width = input.shape
    kept = channels // (pooled_height * pooled_width)
    count = rois.shape[0]
    images, corners = _split_rois(op, rois)
    x1, y1, x2, y2 = op.multi("Split", corners, [1, 1, 1, 1], axis=1, outputs=4)
    rows, row_counts = _whole_bins(op, y1, y2, spatial_scale, pooled_height, height)
    columns, column_counts = _whole_bins(op, x1, x2, spatial_scale, pooled_width, width)
    pixels = op.reshape(
        op.Gather(input, images, axis=0).with_shape([count, channels, height, width]),
        [count, kept, pooled_height, pooled_width, height, width],
    )
    rows = op.Unsqueeze(rows, [1, 3, 4])  # [regions, 1, bins down, 1, 1, height]
    columns = op.Unsqueeze(columns, [1, 2, 5])  # [regions, 1, 1, bins across, width, 1]
    total = op.Squeeze(op.MatMul(op.MatMul(rows, pixels), columns), [4, 5])
    area = op.Mul(op.Unsqueeze(row_counts, [1, 3]), op.Unsqueeze(column_counts, [1, 2]))
    return op.Div(total, op.Max(area, op.scalar(1, input.dtype))), None


def _whole_bins(op: Builder, low: Tensor, high: Tensor, scale: float, bins: int, size: Int) -> tuple[Tensor, Tensor]:
    """Which pixels are in which bin, [regions, bins, pixels] of ones and zeros, and how many."""
    start, end = (_rounded(op, corner * scale) for corner in (low, high))
    step = op.Div(op.Max(op.Sub(end, start), op.scalar(1, low.dtype)), op.scalar(bins, low.dtype))
    index = op.const(list(range(bins)), low.dtype)

    def edge(position: Tensor) -> Tensor:
        return op.Clip(op.Add(position, start), op.scalar(0, low.dtype), op.scalar(size, low.dtype))

    first = op.Unsqueeze(edge(op.Floor(op.Mul(step, index))), [2])
    last = op.Unsqueeze(edge(op.Ceil(op.Mul(step, op.Add(index, op.scalar(1, low.dtype))))), [2])
    pixels = op.cast(steps(op, size), low.dtype)
    inside = op.And(op.GreaterOrEqual(pixels, first), op.Less(pixels, last))
    ones = op.cast(inside, low.dtype)
    return ones, op.ReduceSum(ones, [2], keepdims=0)


def _rounded(op: Builder, x: Tensor) -> Tensor:
    """Halves away from zero, as C rounds."""
    return op.Mul(op.Sign(x), op.Floor(op.Add(op.Abs(x), op.scalar(0.5, x.dtype))))


@translates("torchvision::deform_conv2d")
def deform_conv2d(
    op: Builder,
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    kernel = weight.shape[2:]
    if not is_static(kernel):
        raise TranslationError("A deformable convolution needs a kernel of fixed size.")
    return op.DeformConv(
        input,
        weight,
        offset,
        bias,
        mask if use_mask else None,
        kernel_shape=list(kernel),
        strides=[stride_h, stride_w],
        pads=[pad_h, pad_w] * 2,
        dilations=[dilation_h, dilation_w],
        group=groups,
        offset_group=offset_groups,
    )
