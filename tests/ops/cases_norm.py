"""Rows for aten/norm.py."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from cases import R, case

OPS = torch.ops.aten
IMAGE = R("b", 4, "m", "n")
C, V = R(4), R(4, low=0.5, high=2.0)


def settled(module: nn.Module) -> nn.Module:
    """The module with statistics and weights that are not just zeros and ones."""
    generator = torch.Generator().manual_seed(3)
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 1.5, generator=generator)
    return module


BATCH = [
    case("aten::batch_norm", settled(nn.BatchNorm2d(4)), IMAGE),
    case("aten::batch_norm", settled(nn.BatchNorm1d(4)), R("b", 4), name="rows"),
    case(
        "aten::batch_norm",
        lambda x, m: (torch.nn.functional.batch_norm(x, m, m.exp(), training=True), m),
        R(0),
        R(0),
        name="empty",
    ),
    case("aten::batch_norm", settled(nn.BatchNorm2d(4, affine=False)), IMAGE, name="no-weights"),
    case("aten::batch_norm", nn.BatchNorm2d(4, track_running_stats=False), IMAGE, name="own-statistics"),
    case(
        "aten::batch_norm",
        lambda x, m, v: F.batch_norm(x, m.clone(), v.clone(), training=True),
        IMAGE, C, V,
        name="training",
    ),
    case(
        "aten::native_batch_norm",
        lambda x, m, v: OPS.native_batch_norm(x, None, None, m, v, False, 0.1, 1e-5)[0],
        IMAGE, C, V,
    ),
    case(
        "aten::_native_batch_norm_legit.no_stats",
        lambda x, w, b: OPS._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5),
        IMAGE, C, C,
    ),
    case(
        "aten::_native_batch_norm_legit",
        lambda x, w, m, v: OPS._native_batch_norm_legit(x, w, None, m, v, False, 0.1, 1e-5)[0],
        IMAGE, C, C, V,
    ),
    case(
        "aten::_native_batch_norm_legit_no_training",
        lambda x, w, m, v: OPS._native_batch_norm_legit_no_training(x, w, None, m, v, 0.1, 1e-5),
        IMAGE, C, C, V,
    ),
    case(
        "aten::_batch_norm_no_update",
        lambda x, w, b, m, v: OPS._batch_norm_no_update(x, w, b, m, v, 0.1, 1e-5)[0],
        IMAGE, C, C, C, V,
    ),
    *(
        case(
            "aten::_native_batch_norm_legit_functional",
            lambda x, w, b, m, v, training=training: OPS._native_batch_norm_legit_functional(
                x, w, b, m, v, training, 0.1, 1e-5
            ),
            IMAGE, C, C, C, V,
            name="training" if training else "eval",
        )
        for training in (True, False)
    ),
    case(
        "aten::_batch_norm_with_update_functional",
        lambda x, w, b, m, v: [
            item
            for position, item in enumerate(OPS._batch_norm_with_update_functional(x, w, b, m, v, 0.1, 1e-5))
            if position != 3
        ],
        IMAGE, C, C, C, V,
    ),
]  # fmt: skip

LAYER = [
    case("aten::layer_norm", settled(nn.LayerNorm(8)), R("b", 4, 8)),
    case("aten::layer_norm", settled(nn.LayerNorm((4, 8), bias=False)), R("b", 4, 8), name="two-axes"),
    case("aten::layer_norm", nn.LayerNorm(8, elementwise_affine=False, eps=1e-3), R("b", 8), name="no-weights"),
    case("aten::layer_norm", lambda x, b: F.layer_norm(x, [8], None, b), R("b", 8), R(8), name="only-bias"),
    case("aten::layer_norm", lambda x: F.layer_norm(x, x.shape[1:]), R("b", "n", 3), name="run-time-shape"),
    case("aten::native_layer_norm", lambda x, w: OPS.native_layer_norm(x, [8], w, None, 1e-5), R("b", 4, 8), R(8)),
    case("aten::rms_norm", settled(nn.RMSNorm(8)), R("b", 4, 8)),
    case("aten::rms_norm", nn.RMSNorm((4, 8), eps=1e-3, elementwise_affine=False), R("b", 4, 8), name="no-weights"),
    case("aten::rms_norm", lambda x: F.rms_norm(x, [8]), R("b", 8, low=-1e-4, high=1e-4), name="default-epsilon"),
    case("aten::_fused_rms_norm", lambda x, w: OPS._fused_rms_norm(x, [8], w, 1e-5), R("b", 4, 8), R(8)),
]

GROUP = [
    case("aten::instance_norm", settled(nn.InstanceNorm2d(4, affine=True)), IMAGE),
    case("aten::instance_norm", nn.InstanceNorm1d(4), R("b", 4, "n"), name="no-weights"),
    case("aten::instance_norm", settled(nn.InstanceNorm2d(4, track_running_stats=True)), IMAGE, name="tracked"),
    case("aten::instance_norm", nn.InstanceNorm2d(4), R(4, 5, 6), name="unbatched"),
    case("aten::group_norm", settled(nn.GroupNorm(2, 4)), IMAGE),
    case("aten::group_norm", nn.GroupNorm(2, 4, affine=False), R("b", 4), name="rows"),
    case("aten::group_norm", lambda x: F.group_norm(x, 2), R(0, 4, 3), name="empty"),
    case(
        "aten::native_group_norm",
        lambda x, w, b: OPS.native_group_norm(x, w, b, x.shape[0], 4, 6, 2, 1e-5),
        R("b", 4, 2, 3), C, C,
    ),
]  # fmt: skip


class Weighted(nn.Module):
    """A linear layer whose weight is a direction and a length."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.layer: Any = torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3), dim=dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


CASES = [
    *BATCH,
    *LAYER,
    *GROUP,
    case("aten::_weight_norm", Weighted(0), R("b", 4), name="rows"),
    case("aten::_weight_norm", lambda v, g: torch._weight_norm(v, g, 1), R(3, 5, 2), R(1, 5, 1), name="middle"),
    case("aten::_weight_norm", lambda v, g: torch._weight_norm(v, g, -1), R(3, "n"), R(1), name="all"),
    case("aten::_weight_norm_interface", lambda v, g: OPS._weight_norm_interface(v, g, 0), R("n", 4), R("n", 1)),
    case("aten::avg_pool2d", nn.LocalResponseNorm(3), R("b", 5, "n"), name="response"),
    case("aten::clamp_min", lambda x: F.normalize(x, dim=1), R("b", 5, special=(0.0,) * 5), name="normalize"),
]
