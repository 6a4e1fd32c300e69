"""Sizes other than the traced ones: kernels that want plain numbers, many axes, sizes that follow from another."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import as_tensor, linspace, tensor
from torch.nn.functional import one_hot, pad

import onnxport
from cases import Wrapped
from comparison import exported_and_compared
from onnxport.errors import DynamicShapeError

R = torch.randn
Shapes = list[tuple[int, ...]]
Case = tuple[Callable[..., Any], Shapes, list[Shapes], list[dict[int, str]]]
"""A function, the sizes of its inputs when it is traced, those it is run at then, and the axes that vary."""


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
}
if hasattr(torch.ops.aten, "_upsample_lanczos2d_aa"):
    RESIZED["lanczos"] = (_lanczos, IMAGE, IMAGES, ON_IMAGE)


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
    "max-pool": (lambda x: F.max_pool1d(x, 3, 2, 1), [(2, 3, 12)], [[(2, 3, 19)]], [{2: "n"}]),
    "max-pool-unbatched": (lambda x: F.max_pool1d(x, 3, 2, ceil_mode=True), [(3, 12)], [[(3, 19)]], [{1: "n"}]),
    "max-pool-indices": (
        lambda x: F.max_pool1d(x, 3, 2, return_indices=True),
        [(2, 3, 12)],
        [[(2, 3, 19)]],
        [{2: "n"}],
    ),
    "adaptive-max-pool": (
        lambda x: F.adaptive_max_pool3d(x, (2, 3, 2)),
        [(1, 2, 4, 6, 8)],
        [[(1, 2, 9, 5, 6)]],
        [{2: "d", 3: "h", 4: "w"}],
    ),
    "windows-of-which-the-example-has-one": (
        lambda x: F.group_norm(F.unfold(x, 2, stride=2).reshape(x.shape[0], 2, 4, -1), 1),
        [(2, 2, 2, 3)],
        [[(2, 2, 6, 5)]],
        [{0: "b", 2: "h", 3: "w"}],
    ),
    "windows-of-one-image": (lambda x: F.unfold(x, (2, 3), 1, 1, 2), [(2, 4, 3)], [[(2, 9, 5)]], [{1: "h", 2: "w"}]),
    "pools-of-the-whole": (
        lambda x: (
            F.avg_pool2d(x, x.shape[2:]),
            torch.nn.AvgPool2d((x.size(2), 1))(x),
            F.max_pool2d(x, kernel_size=x.size()[2:]).flatten(1),
            F.lp_pool2d(x, 2.0, (1, x.shape[3])),
        ),
        [(2, 2, 4, 5)],
        [[(3, 2, 7, 3)]],
        [{0: "b", 2: "h", 3: "w"}],
    ),
    "features-of-a-text": (
        lambda x: (F.max_pool1d(F.relu(x), x.shape[-1]).squeeze(-1), F.avg_pool1d(x, x.shape[-1], 1)),
        [(2, 3, 6)],
        [[(1, 3, 9)]],
        [{0: "b", 2: "t"}],
    ),
    "pools-of-a-part": (
        lambda x: (
            F.max_pool1d(x, x.shape[-1] // 2, 1, dilation=2),
            F.max_pool1d(x, x.shape[-1] // 2, padding=x.shape[-1] // 4),
            F.avg_pool1d(x, x.shape[-1] // 3, 2, padding=1),
        ),
        [(1, 2, 8)],
        [[(1, 2, 13)], [(1, 2, 6)]],
        [{2: "n"}],
    ),
    "average-pool-to-any-length": (
        lambda x: F.adaptive_avg_pool1d(x, x.shape[-1] // 2),
        [(1, 2, 8)],
        [[(1, 2, 13)]],
        [{2: "n"}],
    ),
    "interpolate-area": (
        lambda x: F.interpolate(x, scale_factor=1.5, mode="area"),
        [(1, 2, 8)],
        [[(1, 2, 12)]],
        [{2: "n"}],
    ),
    "adaptive-max-pool-1": (
        lambda x: F.adaptive_max_pool1d(x, x.shape[2] // 2, return_indices=True),
        LINE,
        LINES,
        ON_LINE,
    ),
    "adaptive-max-pool-2": (
        lambda x: F.adaptive_max_pool2d(x, (x.shape[2] // 2, x.shape[3] // 3 + 1), return_indices=True),
        IMAGE,
        IMAGES,
        ON_IMAGE,
    ),
    "adaptive-max-pool-2-one-axis": (
        torch.nn.AdaptiveMaxPool2d((None, 3), return_indices=True),
        IMAGE,
        IMAGES,
        ON_IMAGE,
    ),
    "adaptive-max-pool-2-other-axis": (torch.nn.AdaptiveMaxPool2d((3, None)), IMAGE, IMAGES, ON_IMAGE),
    "adaptive-max-pool-2-unbatched": (
        torch.nn.AdaptiveMaxPool2d((3, None)),
        [(2, 8, 9)],
        [[(2, 11, 4)]],
        [{1: "n", 2: "m"}],
    ),
    "adaptive-max-pool-3": (
        torch.nn.AdaptiveMaxPool3d((None, 3, None), return_indices=True),
        VOLUME,
        VOLUMES,
        [{2: "n", 3: "m", 4: "d"}],
    ),
}

TRANSFORMED: dict[str, Case] = {
    "fft": (lambda x: torch.view_as_real(torch.fft.fft(x, n=5)), [(3, 5)], [[(3, 7)]], [{1: "n"}]),
    "ifft": (lambda x: torch.fft.ifft(x, n=5, norm="ortho").abs(), [(3, 5)], [[(3, 4)]], [{1: "n"}]),
    "rfft": (lambda x: torch.view_as_real(torch.fft.rfft(x, n=5)), [(3, 5)], [[(3, 4)]], [{1: "n"}]),
    "irfft": (lambda x: torch.fft.irfft(torch.view_as_complex(x), n=8), [(3, 5, 2)], [[(3, 7, 2)]], [{1: "n"}]),
    "hfft": (
        lambda x: torch.fft.hfft(torch.view_as_complex(x), n=8, norm="forward"),
        [(3, 5, 2)],
        [[(3, 4, 2)]],
        [{1: "n"}],
    ),
    "ihfft": (lambda x: torch.view_as_real(torch.fft.ihfft(x, n=6).resolve_conj()), [(3, 6)], [[(3, 9)]], [{1: "n"}]),
    "fft-of-two": (
        lambda x: torch.view_as_real(torch.fft.fft2(x, s=(4, -1))),
        [(4, 5)],
        [[(6, 7)]],
        [{0: "m", 1: "n"}],
    ),
    "irfft-of-several": (
        lambda x: torch.fft.irfftn(torch.view_as_complex(x), s=(3, 8)),
        [(3, 5, 2)],
        [[(4, 7, 2)]],
        [{0: "m", 1: "n"}],
    ),
    "stft-of-pairs": (
        lambda x: torch.stft(x, 10, window=torch.hann_window(10), return_complex=False),
        [(2, 100)],
        [[(3, 123)]],
        [{0: "b", 1: "n"}],
    ),
}

OF_MATRICES: dict[str, Case] = {
    "kron": (torch.kron, [(2, 3), (4, 5)], [[(7, 3), (4, 6)]], [{0: "n"}, {1: "m"}]),
    "kron-ranks": (torch.kron, [(3,), (4, 5)], [[(4,), (4, 6)]], [{0: "n"}, {1: "m"}]),
    "take-along": (
        lambda x, y: torch.take_along_dim(x, (y > 0).long(), 1),
        [(2, 3), (2, 5)],
        [[(7, 4), (7, 6)]],
        [{0: "n", 1: "a"}, {0: "n", 1: "m"}],
    ),
    "take-along-broadcast": (
        lambda x, y: torch.take_along_dim(x, (y > 0).long(), 1),
        [(2, 3), (1, 5)],
        [[(7, 4), (1, 6)]],
        [{0: "n", 1: "a"}, {1: "m"}],
    ),
    "cov": (torch.cov, [(3, 5)], [[(4, 9)]], [{0: "m", 1: "n"}]),
    "cov-of-one": (torch.cov, [(5,)], [[(9,)]], [{0: "n"}]),
    "cov-weighted": (
        lambda x, w, a: torch.cov(x, fweights=w.abs().ceil().long(), aweights=a.abs()),
        [(3, 5), (5,), (5,)],
        [[(3, 9), (9,), (9,)]],
        [{1: "n"}, {0: "n"}, {0: "n"}],
    ),
    "corrcoef": (torch.corrcoef, [(3, 5)], [[(4, 9)]], [{0: "m", 1: "n"}]),
    "reflections": (lambda x: torch.geqrf(x)[0].abs(), [(5, 3)], [[(8, 3)]], [{0: "n"}]),
    "gradient": (torch.gradient, [(6,)], [[(9,)]], [{0: "n"}]),
    "gradient-of-second-order": (
        lambda x: torch.gradient(x, spacing=2.0, dim=1, edge_order=2),
        [(6, 5)],
        [[(9, 8)]],
        [{0: "n", 1: "m"}],
    ),
    "gradient-of-spacings": (lambda x: torch.gradient(x, spacing=[2.0, 0.5]), [(6, 5)], [[(9, 8)]], [{0: "n", 1: "m"}]),
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
    "places": (lambda x: torch._dim_arange(x, 1) + x, [(2, 5)], [[(3, 8)]], [{0: "n", 1: "m"}]),
    "tensor-split": (
        lambda x: torch.tensor_split(x, 3, -1),
        [(2, 5)],
        [[(2, size)] for size in (2, 6, 7, 9)],
        [{1: "n"}],
    ),
}


def _convolved_between_rows(x: torch.Tensor) -> torch.Tensor:
    x = F.conv2d(x, torch.ones(4, 2, 3, 3), stride=2, padding=1)
    rows = x.flatten(2).transpose(1, 2) @ torch.ones(4, 4)
    x = rows.transpose(1, 2).view(*x.shape)
    x = F.conv2d(x, torch.ones(4, 1, 3, 3), padding=1, groups=4)
    rows = x.flatten(2).transpose(1, 2) @ torch.ones(4, 6)
    return rows.transpose(1, 2).view(x.shape[0], 6, x.shape[2], x.shape[3])


def _padded_and_cut(x: torch.Tensor) -> torch.Tensor:
    size = x.shape[1]
    x = F.pad(x, (0, 0, 0, -size % 4)).roll(1, 1)
    return x[:, :size].contiguous().view(-1, 3)


def _windows_of_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    # Where x has as many rows as y, which nobody knows, the view takes its elements as they lie.
    return x.transpose(0, 1).view(x.shape[1], y.shape[0] // 2, 2, 3) * 2


#: Where the example's sizes, one of a batch above all, would decide how tensors lie in memory.
LAID_OUT: dict[str, Case] = {
    "convolutions-of-one": (
        _convolved_between_rows,
        [(1, 2, 8, 8)],
        [[(3, 2, 12, 8)], [(1, 2, 5, 9)], [(2, 2, 1, 1)]],
        [{0: "b", 2: "h", 3: "w"}],
    ),
    "padded-and-cut": (_padded_and_cut, [(1, 8, 3)], [[(2, 9, 3)], [(1, 3, 3)], [(3, 4, 3)]], [{0: "b", 1: "n"}]),
    "windows-of-rows": (
        _windows_of_rows,
        [(8, 1, 3), (8,)],
        [[(6, 2, 3), (7,)], [(2, 3, 3), (2,)]],
        [{0: "n", 1: "b"}, {0: "m"}],
    ),
}

_MATRIX, _MATRICES, _BOTH = [(5, 4)], [[(3, 1)], [(0, 7)], [(1, 6)], [(8, 0)]], [{0: "n", 1: "m"}]
_ROWS = [[(3, 1)], [(2, 7)], [(1, 6)]]


def _written_to_the_last(x: torch.Tensor) -> Any:
    y = x.clone()
    y.split(2, 0)[-1].mul_(3)
    return y


def _written_after_stacking(x: torch.Tensor) -> Any:
    y = x.clone()
    rows, columns = torch.stack(y.unbind(-1)), torch.cat(y.split(2, -1), -1)
    y[y < 0] *= 2
    return rows, columns, y


#: Of an axis that varies, split and chunk make a number of pieces that varies.
CUT: dict[str, Case] = {
    "one-piece": (lambda x: (x.split(2, -1)[0], x.split(3)[-1], torch.split(x, 2)[0]), _MATRIX, _MATRICES, _BOTH),
    "one-chunk": (
        lambda x: (x.chunk(2, -1)[0], x.chunk(3)[-1], torch.chunk(x, 2, 1)[::-1][-1]),
        _MATRIX,
        _MATRICES,
        _BOTH,
    ),
    "size-of-a-piece": (lambda x: x.new_zeros(x.split(2)[-1].shape), _MATRIX, _MATRICES, _BOTH),
    "pieces-joined": (
        lambda x: (
            torch.cat(x.split(2, -1)[::-1], -1),
            torch.cat(x.chunk(3)[::-1]),
            torch.cat(x.split(1, -1), dim=0),
        ),
        _MATRIX,
        _MATRICES,
        _BOTH,
    ),
    "pieces-stacked": (lambda x: torch.stack(x.chunk(2), 1), [(6, 4)], [[(4, 1)], [(1, 3)], [(0, 2)]], _BOTH),
    "rows": (
        lambda x: (x.unbind(-1)[0], torch.stack(x.unbind()[::-1], -1), torch.cat(x.unbind(1))),
        _MATRIX,
        _ROWS,
        _BOTH,
    ),
    "written": (_written_to_the_last, _MATRIX, _MATRICES, _BOTH),
    "written-after-stacking": (_written_after_stacking, _MATRIX, _ROWS, _BOTH),
    "as-many-as-data-decide": (
        lambda x: (x[x > 0].roll(1), *x[x > 0].cummax(0), *x[x > 0].cummin(0), x[x > 0].logsumexp(0)),
        _MATRIX,
        [[(8, 7)], [(3, 9)], [(0, 2)]],
        _BOTH,
    ),
    "pieces-of-what-data-decides": (
        lambda x: (x[x > 0].split(2)[0], torch.cat(x[x > 0].chunk(2)[::-1])),
        _MATRIX,
        [[(8, 7)], [(3, 9)]],
        _BOTH,
    ),
}

_LINES, _NUMBERS, _ON_LINES = [(6,)], [[(1,)], [(11,)]], [{0: "n"}]
# Numbers by sizes where bindings want plain ones, and functions that code has imported by their names.
SCALARS: dict[str, Case] = {
    "imported-by-name": (
        lambda x: (tensor(x.shape[0]) * as_tensor([x.shape[0], 2.5]), linspace(0, 1, x.shape[0]) + x),
        _LINES,
        _NUMBERS,
        _ON_LINES,
    ),
    "imported-one-hot": (lambda x: one_hot(torch.arange(x.shape[0]), x.shape[0]), _LINES, _NUMBERS, _ON_LINES),
    "new-tensor": (
        lambda x: (x.new_tensor([x.shape[0], 2]), x.new_tensor(x.shape[0], dtype=torch.int32)),
        _LINES,
        _NUMBERS,
        _ON_LINES,
    ),
    "padded-with": (
        lambda x: (F.pad(x, (1, x.shape[0]), value=x.shape[0] * 0.5), pad(x, (2, 0), value=x.shape[0] - 1)),
        _LINES,
        _NUMBERS,
        _ON_LINES,
    ),
    "in-the-place-of-nan": (
        lambda x: (x.log().nan_to_num(x.shape[0]), torch.nan_to_num(x / 0, posinf=x.shape[0], neginf=-x.shape[0])),
        _LINES,
        _NUMBERS,
        _ON_LINES,
    ),
    "quantile": (
        lambda x: (x.quantile(1 / x.shape[0]), torch.nanquantile(x, 0.5 ** x.shape[0])),
        _LINES,
        _NUMBERS,
        _ON_LINES,
    ),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=math.log(x.shape[0] + 1)),
        [(6, 4)],
        [[(1, 4)], [(11, 4)]],
        _ON_LINES,
    ),
    "windows-of-a-part": (
        lambda x: (
            x.unfold(0, x.shape[0] // 4, x.shape[0] // 4).sum(-1),
            x.unfold(0, x.shape[0] // 2, 1).amax(-1),
            F.pad(x, (0, -x.shape[0] % 3)).unfold(-1, (x.shape[0] + 2) // 3, (x.shape[0] + 2) // 3).sum(1),
        ),
        [(8,)],
        [[(5,)], [(14,)]],
        _ON_LINES,
    ),
    "columns-of-windows": (
        lambda x: (
            F.unfold(x[None], (x.shape[1] // 2, 2), padding=1),
            F.unfold(x, 3, stride=(x.shape[1] // 4, 1), dilation=2),
        ),
        [(2, 8, 6)],
        [[(2, 10, 6)], [(2, 15, 6)]],
        [{1: "n"}],
    ),
    "slopes": (
        lambda x: (F.leaky_relu(x, 1 / x.shape[0]), F.elu(x, 0.1 * x.shape[0]), F.celu(x, 1 / x.shape[0])),
        _LINES,
        _NUMBERS,
        _ON_LINES,
    ),
}

CASES = {**RESIZED, **POOLED, **TRANSFORMED, **OF_MATRICES, **OTHERS, **CUT, **SCALARS}
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


@pytest.mark.parametrize(("function", "traced", "others", "axes"), CASES.values(), ids=CASES.keys())
def test_other_sizes(
    function: Callable[..., Any], traced: Shapes, others: list[Shapes], axes: list[dict[int, str]]
) -> None:
    torch.manual_seed(0)
    exported_and_compared(function, *(tuple(map(R, shapes)) for shapes in (traced, *others)), axes=axes, **CLOSE)


@pytest.mark.filterwarnings("error::onnxport.errors.OnnxExporterWarning")
@pytest.mark.parametrize(("function", "traced", "others", "axes"), LAID_OUT.values(), ids=LAID_OUT.keys())
def test_no_size_decides_how_tensors_lie_in_memory(
    function: Callable[..., Any], traced: Shapes, others: list[Shapes], axes: list[dict[int, str]]
) -> None:
    test_other_sizes(function, traced, others, axes)


@pytest.mark.parametrize("reshape", ["unsqueeze_(0)", "transpose_(0, 1)", "t_()", "squeeze_(0)", "swapaxes_(0, -1)"])
def test_an_input_that_is_given_another_shape(reshape: str) -> None:
    def reshaped(x: torch.Tensor) -> torch.Tensor:
        eval(f"x.{reshape}", {"x": x})
        x.mul_(2)
        return x - torch.arange(x.shape[-1])

    axes = [{1: "m"}] if reshape == "squeeze_(0)" else [{0: "n", 1: "m"}]
    exported_and_compared(reshaped, (R(5, 4),), (R(5, 1),) if reshape == "squeeze_(0)" else (R(3, 7),), axes=axes)


def test_every_row_is_there() -> None:
    assert len(CASES) == sum(map(len, (RESIZED, POOLED, TRANSFORMED, OF_MATRICES, OTHERS, CUT, SCALARS)))


@pytest.mark.parametrize("size", [10, 30, 41, 90])
def test_a_factor_whose_product_is_rounded(size: int) -> None:
    exported_and_compared(_resized("linear", scale_factor=0.7), (R(1, 2, size),), **CLOSE)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("shape", [(1, 2, 5, 5), (1, 2, 5, 14)])
def test_a_factor_that_keeps_a_size(mode: str, shape: tuple[int, ...]) -> None:
    exported_and_compared(_resized(mode, scale_factor=1.1), (R(*shape),), **CLOSE)


def test_kernels_are_as_before() -> None:
    onnxport.export(torch.nn.MaxPool1d(2), (R(1, 2, 4),))
    assert not torch.ops.aten.max_pool1d.default.py_kernels
    assert F.adaptive_avg_pool1d is torch.adaptive_avg_pool1d
    assert type(F.adaptive_avg_pool1d).__name__ == "builtin_function_or_method"


def test_an_axis_that_is_fixed_late_is_refused() -> None:
    def slope(x: torch.Tensor, places: torch.Tensor) -> Any:
        return torch.gradient(x, spacing=(places.cumsum(0),), dim=1)

    axes = ({0: "n", 1: "m"}, {0: "m"})
    with pytest.raises(DynamicShapeError, match=r"Axis 1 of input .* was declared dynamic as 'm'"):
        onnxport.export(Wrapped(slope), (R(6, 5), torch.rand(5)), dynamic_shapes={"inputs": axes})


class Unpacked(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.split(2, 1)
        return torch.cat([first * 2, second * 2], 1)


@pytest.mark.filterwarnings("error::onnxport.errors.OnnxExporterWarning")
def test_pieces_that_are_unpacked_are_as_many_as_the_code_takes() -> None:
    program = onnxport.export(Unpacked(), (R(5, 4),), dynamic_shapes=({0: "n", 1: "m"},))
    for x in (R(2, 3), R(3, 4)):
        torch.testing.assert_close(program(x)[0], Unpacked()(x))
    for length in (2, 5):
        with pytest.raises(onnxport.errors.InputError, match=r"m is from 3 to 4(.|\n)*first, second = x") as caught:
            program(R(2, length))
        assert "too many values to unpack (expected 2)" in str(caught.value)


class Rows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.new_zeros(3)
        for row in x:
            total = total * 2 + row
            if total.sum() > 100:
                break
        return total


def test_a_loop_that_may_be_left_is_left_where_eager_leaves_it() -> None:
    program = onnxport.export(Rows(), (R(5, 3),), dynamic_shapes=({0: "n"},))
    for x in (R(1, 3), R(7, 3), torch.full((9, 3), 8.0)):
        torch.testing.assert_close(program(x)[0], Rows()(x))
