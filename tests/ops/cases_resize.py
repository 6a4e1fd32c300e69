"""Rows for aten/resize.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from cases import Case, R, case

OPS = torch.ops.aten

NEAREST = [
    case(
        f"aten::{'_upsample_nearest_exact' if exact else 'upsample_nearest'}{len(shape) - 2}d.vec",
        lambda x, mode="nearest-exact" if exact else "nearest", options=options: F.interpolate(x, mode=mode, **options),
        R(*shape),
        name=name,
    )
    for exact in (False, True)
    for shape, options, name in [
        (("b", 2, "n"), {"scale_factor": 2}, "doubled"),
        (("b", 2, "n"), {"size": 7}, "size"),
        (("b", 2, "m", "n"), {"scale_factor": (2.0, 3.0)}, "factors"),
        (("b", 2, "m", "n"), {"scale_factor": (1.7, 0.6)}, "odd-factors"),
        (("b", 2, "m", "n"), {"size": (4, 11)}, "size"),
        (("b", 2, 14, 6), {"size": (2, 9)}, "fixed"),
        (("b", 2, 4, 41), {"size": (41, 4)}, "rounding"),
        (("b", 2, 3, "m", "n"), {"scale_factor": 2}, "doubled"),
    ]
]

WEIGHTED = [
    case(
        f"aten::{operator}.vec",
        lambda x, mode=mode, options=options, align=align: F.interpolate(x, mode=mode, align_corners=align, **options),
        R("b", 2, *shape),
        name=f"{name}{'-corners' if align else ''}",
    )
    for align in (False, True)
    for operator, mode, shape, options, name in [
        ("upsample_linear1d", "linear", ("n",), {"size": 8}, "size"),
        ("upsample_linear1d", "linear", ("n",), {"scale_factor": 1.7}, "factor"),
        ("upsample_bilinear2d", "bilinear", ("m", "n"), {"size": (3, 9)}, "size"),
        ("upsample_bilinear2d", "bilinear", ("m", "n"), {"scale_factor": (2.0, 0.5)}, "factors"),
        ("upsample_bilinear2d", "bilinear", (7, 6), {"scale_factor": 0.7}, "down"),
        ("upsample_bilinear2d", "bilinear", (5, 6), {"size": (1, 1)}, "one"),
        ("upsample_trilinear3d", "trilinear", (3, "m", "n"), {"scale_factor": 2}, "doubled"),
        ("upsample_trilinear3d", "trilinear", (3, 4, 5), {"size": (2, 5, 7)}, "size"),
        ("upsample_bicubic2d", "bicubic", ("m", "n"), {"size": (9, 4)}, "size"),
        ("upsample_bicubic2d", "bicubic", ("m", "n"), {"scale_factor": 1.5}, "factor"),
    ]
]

ANTIALIASED = [
    case(
        f"aten::_upsample_{mode}2d_aa.vec",
        lambda x, mode=mode, options=options, align=align: F.interpolate(
            x, mode=mode, align_corners=align, antialias=True, **options
        ),
        R("b", 2, *shape),
        name=f"{name}{'-corners' if align else ''}",
    )
    for mode in ("bilinear", "bicubic")
    for align, shape, options, name in [
        (False, ("m", "n"), {"size": (3, 9)}, "size"),
        (False, (7, 8), {"scale_factor": (0.6, 1.5)}, "factors"),
        (True, (7, 8), {"size": (3, 12)}, "size"),
    ]
]


def _both(operator: str, shape: tuple[int | str, ...], size: list[int], *rest: object, name: str = "both") -> Case:
    # Looked up when it is called: not every version of torch has all of them.
    return case(f"aten::{operator}", lambda x: getattr(OPS, operator)(x, size, *rest), R("b", 2, *shape), name=name)


BOTH = [
    _both("upsample_nearest1d", (5,), [9], 1.9),
    _both("upsample_nearest2d", (5, 4), [10, 6], 2.0, 1.5),
    _both("upsample_nearest3d", (2, 3, 4), [4, 6, 8]),
    _both("_upsample_nearest_exact1d", (5,), [9], 1.9),
    _both("_upsample_nearest_exact2d", (5, 4), [10, 6], 2.0, 1.5),
    _both("_upsample_nearest_exact3d", (2, 3, 4), [4, 6, 8]),
    _both("upsample_linear1d", (5,), [9], False, 1.9),
    _both("upsample_linear1d", (5,), [4], False, 1.9, name="at-odds"),
    _both("upsample_bicubic2d", (5, 4), [4, 9], False, 1.9, None, name="at-odds"),
    _both("_upsample_bilinear2d_aa", (8, 7), [3, 3], False, 1.7, 0.9, name="at-odds"),
    _both("upsample_trilinear3d", (2, 3, 4), [3, 4, 3], False, 2.0, 1.1, 0.5, name="at-odds"),
    _both("upsample_bilinear2d", (5, 4), [9, 6], False, 1.9, 1.5),
    _both("upsample_trilinear3d", (2, 3, 4), [4, 6, 8], True),
    _both("upsample_bicubic2d", (5, 4), [9, 6], False, 1.9, 1.5),
    _both("_upsample_bilinear2d_aa", (8, 7), [4, 5], False),
    _both("_upsample_bicubic2d_aa", (8, 7), [4, 5], False),
    _both("_upsample_lanczos2d_aa", (8, 7), [4, 5], False),
]

SAMPLED = [
    case(
        "aten::grid_sampler",
        lambda x, g, mode=mode, padding=padding, align=align: F.grid_sample(x, g, mode, padding, align),
        R("b", 2, "m", "n"),
        R("b", 3, 4, 2, low=-1.4, high=1.4),
        name=f"{mode}-{padding}{'-corners' if align else ''}",
    )
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for align in (False, True)
]

CASES = [
    *NEAREST,
    *WEIGHTED,
    *ANTIALIASED,
    *BOTH,
    *SAMPLED,
    case(
        "aten::_upsample_lanczos2d_aa.vec",
        lambda x: OPS._upsample_lanczos2d_aa.vec(x, [5, 9], False, None),
        R("b", 2, 8, 7),
    ),
    case(
        "aten::upsample_bilinear2d.vec",
        lambda x: F.interpolate(F.adaptive_avg_pool2d(x, 1), size=x.shape[2:], mode="bilinear", align_corners=True),
        R("b", 2, "n", "m"),
        name="one-element",
    ),
    case(
        "aten::upsample_nearest2d.vec", lambda x: F.interpolate(x, scale_factor=3), R("b", 2, 1, 1), name="one-element"
    ),
    case(
        "aten::upsample_bicubic2d.vec",
        lambda x: F.interpolate(x, size=(5, 4), mode="bicubic"),
        R(2, 3, 1, 1, dtype=torch.uint8, high=255),
        name="one-element",
    ),
    *(
        case(
            f"aten::{operator}.vec",
            lambda x, options=options: F.interpolate(x, **options),
            R(2, 3, *shape, dtype=torch.uint8, high=255),
            name=f"bytes-{name}",
        )
        for operator, shape, options, name in [
            ("upsample_bilinear2d", (5, 6), {"mode": "bilinear", "size": (7, 3)}, "size"),
            ("upsample_bilinear2d", ("m", "n"), {"mode": "bilinear", "scale_factor": 1.7}, "factor"),
            ("upsample_bicubic2d", ("m", "n"), {"mode": "bicubic", "size": (7, 9)}, "size"),
            ("upsample_bicubic2d", (6, 5), {"mode": "bicubic", "scale_factor": 2.5, "align_corners": True}, "corners"),
            ("_upsample_bilinear2d_aa", ("m", "n"), {"mode": "bilinear", "size": (3, 9), "antialias": True}, "size"),
            ("_upsample_bicubic2d_aa", (12, 9), {"mode": "bicubic", "size": (5, 11), "antialias": True}, "size"),
            ("_upsample_bicubic2d_aa", ("m", 9), {"mode": "bicubic", "scale_factor": 0.6, "antialias": True}, "factor"),
        ]
    ),
    case(
        "aten::upsample_nearest2d.vec",
        lambda x, y: F.interpolate(x, size=y.shape[-2:]),
        R("b", 2, "n", 4),
        R("b", 2, "m", 8),
        name="like",
    ),
    case(
        "aten::grid_sampler",
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        R("b", 2, 3, 4, 5),
        R("b", 2, 3, 2, 3, low=-1.2, high=1.2),
        name="volume",
        opsets=False,
    ),
    case("aten::grid_sampler_2d", lambda x, g: OPS.grid_sampler_2d(x, g, 0, 0, True), R("b", 2, 4, 5), R("b", 3, 3, 2)),
    case(
        "aten::grid_sampler_3d",
        lambda x, g: OPS.grid_sampler_3d(x, g, 1, 1, True),
        R("b", 2, 3, 4, 5),
        R("b", 2, 3, 3, 3),
        opsets=False,
    ),
    case("aten::affine_grid_generator", lambda t: F.affine_grid(t, [2, 3, 4, 5], False), R(2, 2, 3), opsets=False),
    case(
        "aten::affine_grid_generator",
        lambda t, x: F.affine_grid(t, x.shape, True),
        R("b", 2, 3),
        R("b", 1, 3, 4),
        name="dynamic",
        opsets=False,
    ),
    case(
        "aten::affine_grid_generator",
        lambda t: F.affine_grid(t, [2, 1, 3, 4, 5], True),
        R(2, 3, 4),
        name="volume",
        opsets=False,
    ),
]
