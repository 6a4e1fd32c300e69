"""Rows for aten/pool.py and aten/adaptive_pool.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from cases import I, R, case

IMAGE = R("b", 3, "m", "n")

MAX = [
    case("aten::max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), R("b", 3, 7)),
    case(
        "aten::max_pool2d",
        nn.MaxPool2d(3, 2, 1, dilation=(1, 2)),
        R("b", 3, "m", 9),
        name="dilated",
        refused="its window is dilated",
    ),
    case("aten::max_pool2d", nn.MaxPool2d(2, ceil_mode=True), IMAGE, name="ceil"),
    case("aten::max_pool2d", nn.MaxPool2d(2, 3, 1, ceil_mode=True), R("b", 3, 7, 8), name="dropped-window"),
    case("aten::max_pool2d", nn.MaxPool2d(2), R(3, 6, 5), name="unbatched"),
    # Below opset 11 the padding's value is an attribute, which onnxruntime takes for 0 whatever its sign.
    case(
        "aten::max_pool2d",
        lambda x: F.max_pool2d(F.pad(-x.abs() - 1, (1, 1, 1, 1)), 3, 2),
        IMAGE,
        name="zeros-around",
        opsets=False,
    ),
    case("aten::max_pool2d", lambda x: F.max_pool2d(x, 2), I("b", 2, 4, 6, low=-9, high=9), name="whole"),
    case("aten::max_pool3d", nn.MaxPool3d(2, stride=1), R("b", 2, 3, 4, 5)),
    case("aten::max_pool1d_with_indices", lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True), R("b", 3, "n")),
    case(
        "aten::max_pool2d_with_indices",
        lambda x: F.max_pool2d(x, (2, 3), 2, 1, ceil_mode=True, return_indices=True),
        IMAGE,
        refused="it rounds up the size of its result, and its sizes are not all known",
    ),
    case(
        "aten::max_pool2d_with_indices", lambda x: F.max_pool2d(x, 2, return_indices=True), R(3, 6, 5), name="unbatched"
    ),
    case("aten::max_pool3d_with_indices", lambda x: F.max_pool3d(x, 2, return_indices=True), R("b", 2, 4, 4, 6)),
]

AVERAGE = [
    case("aten::avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), R("b", 3, "n")),
    *(
        case("aten::avg_pool2d", nn.AvgPool2d(3, 2, 1, ceil_mode=ceil, count_include_pad=counted), shape, name=name)
        for shape, which in ((IMAGE, ""), (R("b", 2, 6, 7), "-fixed"))
        for ceil, counted, name in [
            (False, True, f"counted{which}"),
            (False, False, f"not-counted{which}"),
            (True, True, f"ceil-counted{which}"),
            (True, False, f"ceil-not-counted{which}"),
        ]
    ),
    case("aten::avg_pool2d", lambda x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE, name="divisor"),
    case(
        "aten::avg_pool2d",
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=2),
        IMAGE,
        name="divisor-ceil",
    ),
    case("aten::avg_pool2d", nn.AvgPool2d(2), R(3, 6, 5), name="unbatched"),
    case("aten::avg_pool3d", nn.AvgPool3d(2, padding=1), R("b", 2, 3, 4, 5)),
    case("aten::avg_pool3d", lambda x: F.avg_pool3d(x, 2, divisor_override=5), R("b", 2, 4, 4, 5), name="divisor"),
    case("aten::avg_pool2d", nn.LPPool2d(2, 3, stride=2), R("b", 2, 6, 7, low=0.1), name="power"),
]

ADAPTIVE = [
    case("aten::adaptive_avg_pool1d", nn.AdaptiveAvgPool1d(3), R("b", 2, "n")),
    case("aten::adaptive_avg_pool2d", nn.AdaptiveAvgPool2d(1), IMAGE, name="global"),
    case("aten::adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((3, 2)), R("b", 2, 6, 8), name="even"),
    case("aten::adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((3, 5)), R("b", 2, 7, 8), name="overlapping"),
    case("aten::adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((None, 5)), R("b", 2, "m", "n"), name="one-axis"),
    case("aten::adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((1, 4)), IMAGE, name="mixed"),
    case(
        "aten::adaptive_avg_pool2d",
        nn.AdaptiveAvgPool2d(3),
        R("b", 2, 5, 7, special=(float("inf"), float("nan"))),
        name="special",
    ),
    case("aten::adaptive_avg_pool2d", nn.AdaptiveAvgPool2d(3), R(2, 5, 7), name="unbatched"),
    case("aten::adaptive_avg_pool3d", nn.AdaptiveAvgPool3d((2, 3, 2)), R("b", 2, 4, 4, 5)),
    case("aten::_adaptive_avg_pool2d", lambda x: torch.ops.aten._adaptive_avg_pool2d(x, [2, 3]), R("b", 2, 5, 7)),
    case("aten::_adaptive_avg_pool3d", lambda x: torch.ops.aten._adaptive_avg_pool3d(x, [2, 1, 2]), R("b", 2, 3, 4, 5)),
    case("aten::adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 3, True), R("b", 2, "n")),
    case("aten::adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 2), True), R("b", 2, 6, 8), name="even"),
    case("aten::adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 5), True), R("b", 2, 5, 8), name="uneven"),
    case("aten::adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 2), True), IMAGE, name="dynamic"),
    case("aten::adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 1, True), IMAGE, name="global"),
    case("aten::adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 2), R(2, 6, 8), name="unbatched"),
    case("aten::adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, (2, 3, 2), True), R("b", 2, 4, 4, 5)),
]

CASES = [
    *MAX,
    *AVERAGE,
    *ADAPTIVE,
    case(
        "aten::fractional_max_pool2d",
        lambda x, r: F.fractional_max_pool2d(x, (2, 3), (3, 2), return_indices=True, _random_samples=r),
        R("b", 2, 7, 8),
        R("b", 2, 2, low=0.0, high=1.0),
    ),
    case(
        "aten::fractional_max_pool3d",
        lambda x, r: F.fractional_max_pool3d(x, 2, (3, 1, 2), return_indices=True, _random_samples=r),
        R(2, 2, 7, 6, 5),
        R(2, 2, 3, low=0.0, high=1.0),
    ),
    case(
        "aten::max_unpool2d",
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        R("b", 2, 4, 6),
    ),
    case(
        "aten::max_unpool3d",
        lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2),
        R("b", 2, 4, 4, 6),
    ),
    case(
        "aten::max_unpool2d",
        lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2, output_size=[7]),
        R("b", 2, 7),
        name="line",
    ),
]
