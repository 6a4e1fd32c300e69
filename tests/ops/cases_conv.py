"""Rows for aten/conv.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from cases import I, R, case

CASES = [
    case("aten::conv1d", lambda x, w, b: F.conv1d(x, w, b), R("b", 3, "n"), R(4, 3, 3), R(4)),
    case("aten::conv2d", nn.Conv2d(3, 6, (3, 2), stride=(2, 1), padding=(1, 2)), R("b", 3, "m", "n")),
    case("aten::conv2d", nn.Conv2d(4, 8, 3, groups=2, dilation=2, padding=2), R("b", 4, "m", 6), name="groups"),
    case("aten::conv2d", nn.Conv2d(4, 4, 3, groups=4, bias=False), R("b", 4, 5, 6), name="depthwise"),
    case(
        "aten::conv2d",
        lambda x, w: F.conv2d(
            x.flatten(0, 1)[None], w.flatten(0, 1), w[:, :, 0, 0, 0].flatten(), 2, 1, groups=x.shape[0]
        ),
        R("b", 3, "n", 6),
        R("b", 2, 3, 3, 2),
        name="a-kernel-for-each-image",
    ),
    case(
        "aten::conv2d",
        lambda x: F.conv2d(x, x[:1, :, :2, :2].transpose(0, 1), dilation=2, groups=x.shape[1]),
        R(2, "n", 5, 6),
        name="a-kernel-for-each-channel",
    ),
    case("aten::conv2d", lambda x, w: F.conv2d(x, w), R(3, 6, 5), R(4, 3, 2, 2), name="unbatched"),
    case(
        "aten::conv2d", lambda x, w: F.conv2d(x, w), I("b", 3, 4, 5), I(2, 3, 2, 2, low=-4), name="whole", opsets=False
    ),
    case("aten::conv3d", nn.Conv3d(2, 3, 2, padding=1), R("b", 2, 4, 5, 3)),
    case("aten::conv1d.padding", nn.Conv1d(3, 4, 4, padding="same"), R("b", 3, "n"), name="same"),
    case(
        "aten::conv2d.padding",
        nn.Conv2d(3, 4, (4, 3), padding="same", dilation=(1, 2)),
        R("b", 3, "m", "n"),
        name="same",
    ),
    case(
        "aten::conv2d.padding",
        lambda x, w: F.conv2d(x, w, padding="same"),
        R("b", 3, 9, 9),
        R(4, 3, "k", "n"),
        name="run-time-kernel",
    ),
    case("aten::conv2d.padding", nn.Conv2d(3, 4, 3, stride=2, padding="valid"), R("b", 3, 7, 8), name="valid"),
    case("aten::conv3d.padding", nn.Conv3d(2, 3, 2, padding="same"), R("b", 2, 4, 5, 3), name="same"),
    case("aten::conv2d", nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), R("b", 3, 5, 6), name="circular"),
    case("aten::conv2d", nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), R("b", 3, 5, 6), name="reflect"),
    case("aten::conv_transpose1d", nn.ConvTranspose1d(3, 4, 3, stride=2), R("b", 3, "n")),
    case(
        "aten::conv_transpose2d.input",
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        R("b", 4, "m", "n"),
    ),
    case(
        "aten::conv_transpose2d.input",
        nn.ConvTranspose2d(4, 2, (3, 2), stride=(3, 2), dilation=2, output_padding=(2, 1), bias=False),
        R("b", 4, 5, 6),
        name="dilated",
    ),
    case("aten::conv_transpose2d.input", nn.ConvTranspose2d(4, 2, 3), R(4, 5, 6), name="unbatched"),
    case("aten::conv_transpose3d.input", nn.ConvTranspose3d(2, 3, 2, stride=2), R("b", 2, 3, 4, 3)),
    case(
        "aten::convolution",
        lambda x, w: torch.ops.aten.convolution(x, w, None, [2], [1], [1], False, [0], 1),
        R("b", 3, 8),
        R(4, 3, 3),
    ),
    case(
        "aten::convolution",
        lambda x, w: torch.ops.aten.convolution(x, w, None, [2], [1], [1], True, [1], 1),
        R("b", 3, 8),
        R(3, 4, 3),
        name="transposed",
    ),
    case(
        "aten::_convolution",
        lambda x, w: torch.ops.aten._convolution(x, w, None, [1], [1], [1], False, [0], 1, False, False, True, True),
        R("b", 3, 8),
        R(4, 3, 3),
    ),
    case(
        "aten::_convolution.deprecated",
        lambda x, w: torch.ops.aten._convolution.deprecated(
            x, w, None, [1], [1], [1], False, [0], 1, False, False, True
        ),
        R("b", 3, 8),
        R(4, 3, 3),
    ),
    case("aten::conv_tbc", lambda x, w, b: torch.conv_tbc(x, w, b, 1), R(5, 2, 3), R(3, 3, 4), R(4)),
]
