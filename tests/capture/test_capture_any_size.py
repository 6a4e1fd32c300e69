"""Operators whose kernels know plain numbers only leave sizes open all the same."""

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
Case = tuple[Callable[..., Any], Shapes, Shapes, list[dict[int, str]]]

CASES: dict[str, Case] = {
    "max-pool": (lambda x: F.max_pool1d(x, 3, 2, 1), [(2, 3, 12)], [(2, 3, 19)], [{2: "n"}]),
    "max-pool-unbatched": (lambda x: F.max_pool1d(x, 3, 2, ceil_mode=True), [(3, 12)], [(3, 19)], [{1: "n"}]),
    "max-pool-indices": (
        lambda x: F.max_pool1d(x, 3, 2, return_indices=True),
        [(2, 3, 12)],
        [(2, 3, 19)],
        [{2: "n"}],
    ),
    "adaptive-max-pool": (
        lambda x: F.adaptive_max_pool3d(x, (2, 3, 2)),
        [(1, 2, 4, 6, 8)],
        [(1, 2, 9, 5, 6)],
        [{2: "d", 3: "h", 4: "w"}],
    ),
    "kron": (torch.kron, [(2, 3), (4, 5)], [(7, 3), (4, 6)], [{0: "n"}, {1: "m"}]),
    "kron-ranks": (torch.kron, [(3,), (4, 5)], [(4,), (4, 6)], [{0: "n"}, {1: "m"}]),
    "take-along": (
        lambda x, y: torch.take_along_dim(x, (y > 0).long(), 1),
        [(2, 3), (2, 5)],
        [(7, 4), (7, 6)],
        [{0: "n", 1: "a"}, {0: "n", 1: "m"}],
    ),
    "take-along-broadcast": (
        lambda x, y: torch.take_along_dim(x, (y > 0).long(), 1),
        [(2, 3), (1, 5)],
        [(7, 4), (1, 6)],
        [{0: "n", 1: "a"}, {1: "m"}],
    ),
    "average-pool-to-any-length": (
        lambda x: F.adaptive_avg_pool1d(x, x.shape[-1] // 2),
        [(1, 2, 8)],
        [(1, 2, 13)],
        [{2: "n"}],
    ),
    "interpolate-area": (
        lambda x: F.interpolate(x, scale_factor=1.5, mode="area"),
        [(1, 2, 8)],
        [(1, 2, 12)],
        [{2: "n"}],
    ),
    "cov": (torch.cov, [(3, 5)], [(4, 9)], [{0: "m", 1: "n"}]),
    "cov-of-one": (torch.cov, [(5,)], [(9,)], [{0: "n"}]),
    "cov-weighted": (
        lambda x, w, a: torch.cov(x, fweights=w.abs().ceil().long(), aweights=a.abs()),
        [(3, 5), (5,), (5,)],
        [(3, 9), (9,), (9,)],
        [{1: "n"}, {0: "n"}, {0: "n"}],
    ),
    "corrcoef": (torch.corrcoef, [(3, 5)], [(4, 9)], [{0: "m", 1: "n"}]),
    "reflections": (lambda x: torch.geqrf(x)[0].abs(), [(5, 3)], [(8, 3)], [{0: "n"}]),
    "fft": (lambda x: torch.view_as_real(torch.fft.fft(x, n=5)), [(3, 5)], [(3, 7)], [{1: "n"}]),
    "ifft": (lambda x: torch.fft.ifft(x, n=5, norm="ortho").abs(), [(3, 5)], [(3, 4)], [{1: "n"}]),
    "rfft": (lambda x: torch.view_as_real(torch.fft.rfft(x, n=5)), [(3, 5)], [(3, 4)], [{1: "n"}]),
    "irfft": (lambda x: torch.fft.irfft(torch.view_as_complex(x), n=8), [(3, 5, 2)], [(3, 7, 2)], [{1: "n"}]),
    "hfft": (
        lambda x: torch.fft.hfft(torch.view_as_complex(x), n=8, norm="forward"),
        [(3, 5, 2)],
        [(3, 4, 2)],
        [{1: "n"}],
    ),
    "ihfft": (lambda x: torch.view_as_real(torch.fft.ihfft(x, n=6).resolve_conj()), [(3, 6)], [(3, 9)], [{1: "n"}]),
    "fft-of-two": (
        lambda x: torch.view_as_real(torch.fft.fft2(x, s=(4, -1))),
        [(4, 5)],
        [(6, 7)],
        [{0: "m", 1: "n"}],
    ),
    "irfft-of-several": (
        lambda x: torch.fft.irfftn(torch.view_as_complex(x), s=(3, 8)),
        [(3, 5, 2)],
        [(4, 7, 2)],
        [{0: "m", 1: "n"}],
    ),
    "gradient": (torch.gradient, [(6,)], [(9,)], [{0: "n"}]),
    "gradient-of-second-order": (
        lambda x: torch.gradient(x, spacing=2.0, dim=1, edge_order=2),
        [(6, 5)],
        [(9, 8)],
        [{0: "n", 1: "m"}],
    ),
    "gradient-of-spacings": (lambda x: torch.gradient(x, spacing=[2.0, 0.5]), [(6, 5)], [(9, 8)], [{0: "n", 1: "m"}]),
}


@pytest.mark.parametrize(("function", "traced", "other", "axes"), CASES.values(), ids=CASES.keys())
def test_other_sizes(function: Callable[..., Any], traced: Shapes, other: Shapes, axes: list[dict[int, str]]) -> None:
    torch.manual_seed(0)
    program = onnxport.export(Wrapped(function), tuple(map(R, traced)), dynamic_shapes={"inputs": tuple(axes)})
    inputs = tuple(map(R, other))
    expected = torch.utils._pytree.tree_leaves(function(*inputs))
    for ours, eager in zip(program(*inputs), expected, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=2e-5)


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
