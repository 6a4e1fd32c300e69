"""Rows for aten/pad.py and aten/fold.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from cases import B, I, R, case

OPS = torch.ops.aten

PAD = [
    case("aten::pad", lambda x: F.pad(x, (1, 2)), R("b", 3, "n")),
    case("aten::pad", lambda x: F.pad(x, (1, 2, 0, 3), value=1.5), R("b", 3, "n"), name="value"),
    case("aten::pad", lambda x: F.pad(x, (-1, 2, 1, -1)), R("b", 4, "n"), name="negative"),
    case("aten::pad", lambda x: F.pad(x, (0, 0)), R("b", 4), name="nothing"),
    case("aten::pad", lambda x: F.pad(x, (1, 2), value=-3), I("b", 4), name="whole"),
    case("aten::pad", lambda x: F.pad(x, (1, 2), value=True), B("b", 4), name="bool"),
    case("aten::pad", lambda x: F.pad(x, (1, 2), value=2.0), R(2, 0), name="empty"),
    case("aten::pad", lambda x, y: F.pad(x, (0, y.shape[0])), R("b", "n"), R("m"), name="run-time"),
    *(
        case("aten::pad", lambda x, mode=mode, amounts=amounts: F.pad(x, amounts, mode=mode), R(*shape), name=name)
        for mode in ("reflect", "replicate", "circular")
        for shape, amounts, name in [
            (("b", 2, "n"), (2, 1), f"{mode}-line"),
            (("b", 2, "m", "n"), (2, 1, 0, 2), f"{mode}-image"),
            (("b", 2, 3, 4, "n"), (1, 2, 2, 0, 1, 1), f"{mode}-volume"),
            ((2, "m", "n"), (1, 2, 2, 1), f"{mode}-unbatched"),
        ]
    ),
    case("aten::pad", lambda x: F.pad(x, (-2, 2), mode="replicate"), R("b", 2, 2), name="replicate-negative"),
    case("aten::pad", lambda x: F.pad(x, (-1, 2), mode="circular"), R("b", 2, "n"), name="circular-negative"),
    case("aten::pad", lambda x: F.pad(x, (-1, 2), mode="reflect"), R("b", 2, "n"), name="reflect-negative"),
    case("aten::constant_pad_nd", lambda x: OPS.constant_pad_nd(x, [1, 0, 2, 1], 3), R("b", "n")),
    case("aten::_pad_enum", lambda x: OPS._pad_enum(x, [1, 1], 2), R("b", 2, "n")),
    case("aten::_pad_circular", lambda x: OPS._pad_circular(x, [1, 2]), R("b", 2, "n")),
    case("aten::reflection_pad1d", lambda x: OPS.reflection_pad1d(x, [1, 2]), R("b", 2, "n")),
    case("aten::reflection_pad2d", lambda x: OPS.reflection_pad2d(x, [1, 2, 0, 1]), R("b", 2, "m", "n")),
    case("aten::reflection_pad3d", lambda x: OPS.reflection_pad3d(x, [1, 1, 0, 1, 2, 0]), R("b", 2, 3, 4, 5)),
    case("aten::replication_pad1d", lambda x: OPS.replication_pad1d(x, [1, 2]), R("b", 2, "n")),
    case("aten::replication_pad2d", lambda x: OPS.replication_pad2d(x, [1, 2, 0, 1]), R("b", 2, "m", "n")),
    case("aten::replication_pad3d", lambda x: OPS.replication_pad3d(x, [1, 1, 0, 1, 2, 0]), R("b", 2, 3, 4, 5)),
    case(
        "aten::pad_sequence",
        lambda x, y, z: pad_sequence([x, y, z], padding_value=-1.0),
        R("n", 2),
        R("m", 2),
        R("k", 2),
    ),
    case(
        "aten::pad_sequence",
        lambda x, y: pad_sequence([x, y], batch_first=True, padding_side="left"),
        R("m"),
        R("n", dtype=torch.int64),
        name="left",
    ),
]

FOLD = [
    case("aten::im2col", nn.Unfold((2, 3)), R("b", 2, "m", "n")),
    case("aten::im2col", nn.Unfold(2, dilation=2, padding=1, stride=(1, 2)), R("b", 2, 5, 6), name="dilated"),
    case("aten::im2col", nn.Unfold(2, stride=2), R(2, 4, 6), name="unbatched"),
    case("aten::col2im", nn.Fold((5, 6), (2, 3)), R("b", 12, 16)),
    case("aten::col2im", nn.Fold((5, 6), 2, dilation=2, padding=1, stride=(1, 2)), R("b", 8, 15), name="dilated"),
    case("aten::col2im", nn.Fold((4, 6), 2, stride=2), R(8, 6), name="unbatched"),
    case("aten::pixel_shuffle", nn.PixelShuffle(2), R("b", 8, "m", "n")),
    case("aten::pixel_shuffle", nn.PixelShuffle(2), R("b", 3, 8, 2, 3), name="more-axes"),
    case("aten::pixel_shuffle", nn.PixelShuffle(3), R(9, 2, 3), name="unbatched"),
    case("aten::pixel_unshuffle", nn.PixelUnshuffle(2), R("b", 3, 4, 6)),
    case("aten::pixel_unshuffle", nn.PixelUnshuffle(2), R(3, 4, 6), name="unbatched"),
    case("aten::channel_shuffle", nn.ChannelShuffle(2), R("b", 6, "m", "n")),
    case("aten::native_channel_shuffle", lambda x: OPS.native_channel_shuffle(x, 3), R(2, 6, 4, 2)),
]

CASES = [*PAD, *FOLD]
