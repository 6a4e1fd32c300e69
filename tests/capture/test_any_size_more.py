"""Layers and operators at sizes other than the traced ones, where several axes vary or a size follows from another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnxport
from cases import Wrapped
from onnxport.errors import DynamicShapeError

R = torch.randn
Shapes = list[tuple[int, ...]]
Case = tuple[Callable[..., Any], Shapes, list[Shapes], list[dict[int, str]]]


def _resized(mode: str, **options: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: F.interpolate(x, mode=mode, **options)


def _lanczos(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.ops.aten._upsample_lanczos2d_aa(x, [x.shape[2] // 2, 7], False)
    return result


LINE, IMAGE, VOLUME = [(2, 3, 8)], [(2, 3, 8, 9)], [(1, 2, 8, 6, 7)]
LINES, IMAGES, VOLUMES = [[(1, 3, 11)], [(3, 3, 30)]], [[(1, 3, 11, 13)], [(3, 3, 30, 5)]], [[(1, 2, 5, 9, 20)]]
ON_LINE, ON_IMAGE = [{0: "b", 2: "n"}], [{0: "b", 2: "n", 3: "m"}]

RESIZED: dict[str, Case] = {
    "linear-0.7": (_resized("linear", scale_factor=0.7), LINE, LINES, ON_LINE),
    "bilinear-0.7": (_resized("bilinear", scale_factor=0.7), IMAGE, IMAGES, ON_IMAGE),
    "bilinear-0.7-one-axis": (_resized("bilinear", scale_factor=0.7), IMAGE, [[(2, 3, 8, 30)]], [{3: "m"}]),
    "bilinear-two-factors": (_resized("bilinear", scale_factor=(0.7, 1.1)), IMAGE, IMAGES, ON_IMAGE),
    "bicubic-0.7": (_resized("bicubic", scale_factor=0.7), IMAGE, IMAGES, ON_IMAGE),
    "trilinear-0.7": (_resized("trilinear", scale_factor=0.7), VOLUME, VOLUMES, [{2: "n", 3: "m", 4: "d"}]),
    "bilinear-double": (
        lambda x: F.interpolate(x.double(), mode="bilinear", scale_factor=0.7),
        IMAGE,
        IMAGES,
        ON_IMAGE,
    ),
    "antialiased-0.7": (_resized("bilinear", scale_factor=0.7, antialias=True), IMAGE, IMAGES, ON_IMAGE),
    "antialiased-cubic-0.7": (_resized("bicubic", scale_factor=0.7, antialias=True), IMAGE, IMAGES, ON_IMAGE),
    "antialiased-corners": (
        lambda x: F.interpolate(x, (x.shape[2] // 2, 5), mode="bilinear", antialias=True, align_corners=True),
        IMAGE,
        IMAGES,
        ON_IMAGE,
    ),
    "antialiased-cubic-corners": (
        _resized("bicubic", scale_factor=1.5, antialias=True, align_corners=True),
        IMAGE,
        IMAGES,
        ON_IMAGE,
    ),
    "antialiased-corners-to-one": (
        lambda x: F.interpolate(x, (x.shape[2] // 8, 5), mode="bilinear", antialias=True, align_corners=True),
        IMAGE,
        IMAGES,
        ON_IMAGE,
    ),
    "lanczos": (_lanczos, IMAGE, IMAGES, ON_IMAGE),
}


# A factor that leaves short axes as long as they were.
SHORT: list[Shapes] = [[(1, 3, 5, 5)], [(1, 3, 5, 14)], [(1, 3, 14, 5)]]
RESIZED |= {
    f"{mode}-1.1": (_resized(mode, scale_factor=1.1), IMAGE, SHORT, ON_IMAGE)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")
}
RESIZED |= {
    f"{mode}-1.1-line": (_resized(mode, scale_factor=1.1), LINE, [[(1, 3, 5)], [(1, 3, 14)]], ON_LINE)
    for mode in ("nearest", "nearest-exact", "linear")
}
RESIZED["antialiased-1.1"] = (_resized("bilinear", scale_factor=1.1, antialias=True), IMAGE, SHORT, ON_IMAGE)

POOLED: dict[str, Case] = {
    "max-pool-1": (
        lambda x: F.adaptive_max_pool1d(x, x.shape[2] // 2, return_indices=True),
        LINE,
        LINES,
        ON_LINE,
    ),
    "max-pool-2": (
        lambda x: F.adaptive_max_pool2d(x, (x.shape[2] // 2, x.shape[3] // 3 + 1), return_indices=True),
        IMAGE,
        IMAGES,
        ON_IMAGE,
    ),
    "max-pool-2-one-axis": (torch.nn.AdaptiveMaxPool2d((None, 3), return_indices=True), IMAGE, IMAGES, ON_IMAGE),
    "max-pool-2-other-axis": (torch.nn.AdaptiveMaxPool2d((3, None)), IMAGE, IMAGES, ON_IMAGE),
    "max-pool-2-unbatched": (torch.nn.AdaptiveMaxPool2d((3, None)), [(2, 8, 9)], [[(2, 11, 4)]], [{1: "n", 2: "m"}]),
    "max-pool-3": (
        torch.nn.AdaptiveMaxPool3d((None, 3, None), return_indices=True),
        VOLUME,
        VOLUMES,
        [{2: "n", 3: "m", 4: "d"}],
    ),
}

OTHERS: dict[str, Case] = {
    "smoothed-labels": (
        lambda x, y: F.cross_entropy(x, (y > 0).long(), label_smoothing=0.1),
        [(2, 5), (2,)],
        [[(3, 7), (3,)]],
        [{0: "b", 1: "c"}, {0: "b"}],
    ),
    "smoothed-probabilities": (
        lambda x, y: F.cross_entropy(x, y.softmax(1), label_smoothing=0.1),
        [(2, 5), (2, 5)],
        [[(3, 7), (3, 7)]],
        [{0: "b", 1: "c"}, {0: "b", 1: "c"}],
    ),
    "tensor-split": (
        lambda x: torch.tensor_split(x, 3, -1),
        [(2, 5)],
        [[(2, size)] for size in (2, 6, 7, 9)],
        [{1: "n"}],
    ),
    "stft-of-pairs": (
        lambda x: torch.stft(x, 10, window=torch.hann_window(10), return_complex=False),
        [(2, 100)],
        [[(3, 123)]],
        [{0: "b", 1: "n"}],
    ),
}

CASES = {**RESIZED, **POOLED, **OTHERS}


@pytest.mark.parametrize(("function", "traced", "others", "axes"), CASES.values(), ids=CASES.keys())
def test_other_sizes(
    function: Callable[..., Any], traced: Shapes, others: list[Shapes], axes: list[dict[int, str]]
) -> None:
    torch.manual_seed(0)
    program = onnxport.export(Wrapped(function), tuple(map(R, traced)), dynamic_shapes={"inputs": tuple(axes)})
    for other in others:
        inputs = tuple(map(R, other))
        expected = torch.utils._pytree.tree_leaves(function(*inputs))
        for ours, eager in zip(program(*inputs), expected, strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("size", [10, 30, 41, 90])
def test_a_factor_whose_product_is_rounded(size: int) -> None:
    x = R(1, 2, size)
    resize = _resized("linear", scale_factor=0.7)
    torch.testing.assert_close(onnxport.export(Wrapped(resize), (x,))(x)[0], resize(x), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("shape", [(1, 2, 5, 5), (1, 2, 5, 14)])
def test_a_factor_that_keeps_a_size(mode: str, shape: tuple[int, ...]) -> None:
    x = R(*shape)
    resize = _resized(mode, scale_factor=1.1)
    torch.testing.assert_close(onnxport.export(Wrapped(resize), (x,))(x)[0], resize(x), rtol=1e-4, atol=2e-5)


class Rows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.new_zeros(3)
        for row in x:  # here
            total = total * 2 + row
        return total


def test_a_loop_over_an_axis_that_varies_is_refused_with_its_line() -> None:
    with pytest.raises(DynamicShapeError, match=r"test_any_size_more\.py:\d+ in forward: for row in x:  # here"):
        onnxport.export(Rows(), (R(5, 3),), dynamic_shapes=({0: "n"},))
