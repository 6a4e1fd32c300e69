"""Rows for aten/vision.py."""

from __future__ import annotations

import torch
import torchvision_shim

from cases import R, case

torchvision_shim.install()
VISION = torch.ops.torchvision


def boxes(points: torch.Tensor) -> torch.Tensor:
    """Corners of boxes from any numbers: the first two are the low corner, the others how far the high one is."""
    return torch.cat([points[:, :2], points[:, :2] + points[:, 2:]], 1)


def rois(points: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Boxes with the number of the image they are in."""
    return torch.cat([images, boxes(points)], 1)


P = R("n", 4, low=0.5, high=9.0)
N = R("n", 1, dtype=torch.int64, low=0, high=1)
X = R(2, 8, 7, 9)

# onnxruntime has no kernels for regions of interest and deformable convolution at every opset: only the default one.
CASES = [
    case(
        "torchvision::nms",
        lambda p, s: VISION.nms(boxes(p), s, 0.2),
        R("n", 4, low=0.0, high=8.0),
        R("n"),
        refused="NonMaxSuppression does not exist",
    ),
    *(
        case(
            "torchvision::roi_align",
            lambda x, p, i, ratio=ratio, aligned=aligned: VISION.roi_align(x, rois(p, i), 0.5, 2, 3, ratio, aligned),
            X, P, N,
            name=name,
            opsets=False,
        )
        for ratio, aligned, name in [
            (2, True, "aligned"),
            (2, False, "not-aligned"),
            (-1, True, "adaptive"),
            (0, True, "adaptive-aligned"),
            (0, False, "adaptive-not-aligned"),
        ]
    ),
    case("torchvision::roi_pool", lambda x, p, i: VISION.roi_pool(x, rois(p, i), 0.5, 2, 3)[0], X, P, N, opsets=False),
    case(
        "torchvision::ps_roi_align",
        lambda x, p, i: VISION.ps_roi_align(x, rois(p, i), 0.5, 2, 2, 2)[0],
        X, P, N,
        opsets=False,
    ),
    case("torchvision::ps_roi_pool", lambda x, p, i: VISION.ps_roi_pool(x, rois(p, i), 0.5, 2, 2)[0], X, P, N),
    case(
        "torchvision::deform_conv2d",
        lambda x, w, o, m, b: VISION.deform_conv2d(x, w, o, m, b, 2, 1, 1, 1, 1, 1, 1, 2, True),
        R("b", 4, 5, 5), R(3, 4, 3, 3), R("b", 36, 3, 5), R("b", 18, 3, 5), R(3),
        name="mask",
        opsets=False,
    ),
    case(
        "torchvision::deform_conv2d",
        lambda x, w, o, m, b: VISION.deform_conv2d(x, w, o, m, b, 1, 1, 0, 0, 1, 2, 2, 1, False),
        R("b", 4, 5, 6), R(2, 2, 2, 2), R("b", 8, 4, 4), R("b", 1), R(2),
        name="groups",
        opsets=False,
    ),
]  # fmt: skip
