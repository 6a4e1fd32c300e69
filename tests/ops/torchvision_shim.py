"""torchvision's operators for tests, where it is not installed: the same schemas, with plain torch as kernels."""

from __future__ import annotations

import importlib.util
import math

import torch

Tensor = torch.Tensor

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,"
    " int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width)"
    " -> (Tensor, Tensor)",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,"
    " int sampling_ratio) -> (Tensor, Tensor)",
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width)"
    " -> (Tensor, Tensor)",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h,"
    " SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups,"
    " SymInt offset_groups, bool use_mask) -> Tensor",
)


def install() -> None:
    """Define the operators unless torchvision does."""
    if importlib.util.find_spec("torchvision") is not None:
        importlib.import_module("torchvision")
        return
    if hasattr(torch.ops.torchvision, "nms"):
        return
    for schema in SCHEMAS:
        name = schema.partition("(")[0]
        torch.library.define(f"torchvision::{name}", schema[len(name) :])
        torch.library.impl(f"torchvision::{name}", "cpu", globals()[f"_{name}"])
        torch.library.register_fake(f"torchvision::{name}", globals()[f"_{name}_fake"])


def _iou(a: Tensor, b: Tensor) -> float:
    low, high = torch.maximum(a[:2], b[:2]), torch.minimum(a[2:], b[2:])
    shared = (high - low).clamp(min=0).prod()
    return float(shared / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - shared))


def _nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    kept: list[int] = []
    for box in scores.argsort(descending=True, stable=True).tolist():
        if all(_iou(dets[box], dets[other]) <= iou_threshold for other in kept):
            kept.append(box)
    return torch.tensor(kept, dtype=torch.int64)


def _nms_fake(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    return dets.new_empty([torch.library.get_ctx().new_dynamic_size()], dtype=torch.int64)


def _sample(plane: Tensor, y: float, x: float) -> Tensor:
    """Bilinear; nothing beyond one pixel outside, the edge within it."""
    height, width = plane.shape[-2:]
    if y < -1 or y > height or x < -1 or x > width:
        return plane.new_zeros(plane.shape[:-2])
    y, x = max(y, 0.0), max(x, 0.0)
    top, left = min(int(y), height - 1), min(int(x), width - 1)
    y, x = (float(top) if top == height - 1 else y), (float(left) if left == width - 1 else x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    upper = plane[..., top, left] * (1 - dx) + plane[..., top, right] * dx
    lower = plane[..., bottom, left] * (1 - dx) + plane[..., bottom, right] * dx
    return upper * (1 - dy) + lower * dy


def _roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int,
    aligned: bool,
) -> Tensor:  # fmt: skip
    result = input.new_zeros(rois.shape[0], input.shape[1], pooled_height, pooled_width)
    for k, roi in enumerate(rois.tolist()):
        shift = 0.5 if aligned else 0.0
        x1, y1, x2, y2 = (corner * spatial_scale - shift for corner in roi[1:])
        width, height = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
        down, across = height / pooled_height, width / pooled_width
        rows = sampling_ratio if sampling_ratio > 0 else math.ceil(down)
        columns = sampling_ratio if sampling_ratio > 0 else math.ceil(across)
        for i in range(pooled_height):
            for j in range(pooled_width):
                points = [
                    _sample(
                        input[int(roi[0])], y1 + (i + (r + 0.5) / rows) * down, x1 + (j + (c + 0.5) / columns) * across
                    )
                    for r in range(rows)
                    for c in range(columns)
                ]
                result[k, :, i, j] = sum(points) / max(1, len(points))
    return result


def _roi_align_fake(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int,
    aligned: bool,
) -> Tensor:  # fmt: skip
    return input.new_empty(rois.shape[0], input.shape[1], pooled_height, pooled_width)


def _round(value: float) -> int:
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _bin(index: int, step: float, start: int, size: int) -> tuple[int, int]:
    low, high = math.floor(index * step) + start, math.ceil((index + 1) * step) + start
    return min(max(low, 0), size), min(max(high, 0), size)


def _roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    size_y, size_x = input.shape[2:]
    result = input.new_zeros(rois.shape[0], input.shape[1], pooled_height, pooled_width)
    for k, roi in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (_round(corner * spatial_scale) for corner in roi[1:])
        down, across = max(y2 - y1 + 1, 1) / pooled_height, max(x2 - x1 + 1, 1) / pooled_width
        for i in range(pooled_height):
            for j in range(pooled_width):
                top, bottom = _bin(i, down, y1, size_y)
                left, right = _bin(j, across, x1, size_x)
                if bottom > top and right > left:
                    result[k, :, i, j] = input[int(roi[0]), :, top:bottom, left:right].amax((1, 2))
    return result, torch.zeros_like(result, dtype=torch.int32)


def _roi_pool_fake(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    shape = (rois.shape[0], input.shape[1], pooled_height, pooled_width)
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int32)


def _own_channels(every: Tensor, pooled_height: int, pooled_width: int) -> Tensor:
    channels = every.shape[1] // (pooled_height * pooled_width)
    result = every.new_zeros(every.shape[0], channels, pooled_height, pooled_width)
    for c in range(channels):
        for i in range(pooled_height):
            for j in range(pooled_width):
                result[:, c, i, j] = every[:, (c * pooled_height + i) * pooled_width + j, i, j]
    return result


def _ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    every = _roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, True)
    result = _own_channels(every, pooled_height, pooled_width)
    return result, torch.zeros_like(result, dtype=torch.int32)


def _ps_roi_align_fake(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    return _ps_roi_pool_fake(input, rois, spatial_scale, pooled_height, pooled_width)


def _ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    size_y, size_x = input.shape[2:]
    every = input.new_zeros(rois.shape[0], input.shape[1], pooled_height, pooled_width)
    for k, roi in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (_round(corner * spatial_scale) for corner in roi[1:])
        down, across = max(y2 - y1, 1) / pooled_height, max(x2 - x1, 1) / pooled_width
        for i in range(pooled_height):
            for j in range(pooled_width):
                top, bottom = _bin(i, down, y1, size_y)
                left, right = _bin(j, across, x1, size_x)
                if bottom > top and right > left:
                    every[k, :, i, j] = input[int(roi[0]), :, top:bottom, left:right].mean((1, 2))
    result = _own_channels(every, pooled_height, pooled_width)
    return result, torch.zeros_like(result, dtype=torch.int32)


def _ps_roi_pool_fake(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    shape = (rois.shape[0], input.shape[1] // (pooled_height * pooled_width), pooled_height, pooled_width)
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int32)


def _deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int, stride_w: int,
    pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    batch, channels = input.shape[:2]
    outputs, per_group, kernel_h, kernel_w = weight.shape
    height, width = offset.shape[2:]
    taps = kernel_h * kernel_w
    moves = offset.reshape(batch, offset_groups, taps, 2, height, width)
    factors = mask.reshape(batch, offset_groups, taps, height, width) if use_mask else None
    columns = input.new_zeros(batch, channels, taps, height, width)
    wide = torch.nn.functional.pad(input, (1, 1, 1, 1))
    for n in range(batch):
        for c in range(channels):
            group = c // (channels // offset_groups)
            for tap in range(taps):
                for i in range(height):
                    for j in range(width):
                        dy, dx = moves[n, group, tap, :, i, j].tolist()
                        y = i * stride_h - pad_h + (tap // kernel_w) * dilation_h + dy
                        x = j * stride_w - pad_w + (tap % kernel_w) * dilation_w + dx
                        inside = -1 < y < input.shape[2] and -1 < x < input.shape[3]
                        value = _sample(wide[n, c], y + 1, x + 1) if inside else 0.0
                        columns[n, c, tap, i, j] = value * (1 if factors is None else factors[n, group, tap, i, j])
    grouped = columns.reshape(batch, groups, per_group * taps, height * width)
    kernels = weight.reshape(groups, outputs // groups, per_group * taps)
    result = torch.einsum("gok,bgkp->bgop", kernels, grouped).reshape(batch, outputs, height, width)
    return result + bias[:, None, None]


def _deform_conv2d_fake(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int, stride_w: int,
    pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    return input.new_empty(input.shape[0], weight.shape[0], *offset.shape[2:])
