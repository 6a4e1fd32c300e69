"""Rows for aten/statistics.py."""

from __future__ import annotations

import math

import torch

from cases import B, I, R, case

NAN, INF = math.nan, math.inf
ops = torch.ops.aten


def _quantiles(x: torch.Tensor) -> list[torch.Tensor]:
    q = torch.tensor([0.0, 0.3, 0.5, 1.0])
    modes = ("linear", "lower", "higher", "nearest", "midpoint")
    return [torch.quantile(x, q, dim=1, interpolation=mode) for mode in modes]


def _grid(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    counts, edges = torch.histogramdd(x, [3, 2], range=[-1.0, 1.0, -2.0, 2.0], density=True)
    return counts, *edges


def _grid_of_edges(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    edges = (torch.tensor([-1.0, 0.0, 1.5]), torch.tensor([-2.0, 0.5, 1.0, 2.0]))
    return torch.histogramdd(x, edges, weight=w)[0]


CASES = [
    case("aten::var", lambda x: ops.var(x), R("b", 4)),
    case("aten::var", lambda x: ops.var(x), R(), name="0-d"),
    case("aten::var.dim", lambda x: ops.var.dim(x, [0, 2], False, True), R("b", 3, "n")),
    case("aten::var.correction", lambda x: x.var(1), R("b", "n")),
    case("aten::var.correction", lambda x: x.var(1, correction=0), R("b", "n"), name="of the population"),
    case("aten::var.correction", lambda x: x.var(1, correction=2.5), R("b", "n"), name="fraction"),
    case("aten::var.correction", lambda x: x.var(1), R("b", 1), name="of one"),
    case("aten::var.correction", lambda x: x.var(0), R(0, 3), name="of none"),
    case("aten::std", lambda x: ops.std(x, False), R("b", 4)),
    case("aten::std.dim", lambda x: ops.std.dim(x, [1]), R("b", "n")),
    case("aten::std.correction", lambda x: x.std((0, 1), correction=2, keepdim=True), R("b", "n")),
    case("aten::var_mean", lambda x: ops.var_mean(x, True), R("b", 4)),
    case("aten::var_mean.dim", lambda x: ops.var_mean.dim(x, [1], False), R("b", "n")),
    case("aten::var_mean.correction", lambda x: torch.var_mean(x, (0, 2), correction=0, keepdim=True), R("b", 3, "n")),
    case("aten::std_mean", lambda x: ops.std_mean(x, True), R("b", 4)),
    case("aten::std_mean.dim", lambda x: ops.std_mean.dim(x, [1]), R("b", "n")),
    case("aten::std_mean.correction", lambda x: torch.std_mean(x, 1), R("b", "n")),
    case("aten::median", lambda x: x.median(), R("b", "n")),
    case("aten::median", lambda x: x.median(), R("b", 3, special=(NAN,)), name="nan"),
    case("aten::median", lambda x: x.median(), R(0), name="empty"),
    case("aten::median.dim", lambda x: x.median(1), R("b", "n")),
    case("aten::median.dim", lambda x: x.median(1), R("b", 4, special=(1.0, NAN, NAN)), name="nan"),
    case("aten::median.dim", lambda x: x.median(0, keepdim=True)[0], I("m", 3), name="int"),
    case("aten::median.dim", lambda x: x.median(0), R(), name="0-d"),
    case("aten::nanmedian", lambda x: x.nanmedian(), R("b", "n", special=(NAN, INF, NAN))),
    case("aten::nanmedian.dim", lambda x: x.nanmedian(1)[0], R("b", 3, special=(NAN, 1.0, NAN, NAN, NAN, NAN))),
    case("aten::quantile", _quantiles, R("b", "n")),
    case("aten::quantile", lambda x, q: torch.quantile(x, q), R("b", "n"), R(3, low=0, high=1), name="of all"),
    case("aten::quantile", lambda x: torch.quantile(x, 0.4, 0, keepdim=True), R("m", 2), name="keepdim"),
    case("aten::quantile.scalar", lambda x: torch.quantile(x, 0.25, 1), R("b", "n", special=(NAN,))),
    case(
        "aten::nanquantile",
        lambda x, q: torch.nanquantile(x, q, 1),
        R(3, 2, special=(NAN, NAN, NAN)),
        R(2, low=0, high=1),
    ),
    case("aten::nanquantile.scalar", lambda x: torch.nanquantile(x, 0.7), R("b", "n", special=(NAN, NAN))),
    case("aten::mode", lambda x: x.mode(1), I("b", 9, low=0, high=3)),
    case("aten::mode", lambda x: x.mode(0, keepdim=True), R("b", 3), name="all differ"),
    case("aten::mode", lambda x: x.mode(1), B("b", 5), name="bool"),
    case("aten::mode", lambda x: x.mode(), R(), name="0-d"),
    case("aten::bincount", lambda x: torch.bincount(x), I("m")),
    case("aten::bincount", lambda x, w: torch.bincount(x, w, minlength=9), I("m"), R("m"), name="weights"),
    case("aten::bincount", lambda x: torch.bincount(x, minlength=2), I(0), name="empty"),
    case("aten::histc", lambda x: torch.histc(x, 5), R("b", "n")),
    case("aten::histc", lambda x: torch.histc(x, 4, -1, 1), R("b", "n", special=(NAN, INF, 1.0, -1.0)), name="range"),
    case("aten::histc", lambda x: torch.histc(x * 0 + 2, 4), R("b", 3), name="one value"),
    # torch knows the shapes of these only where all sizes are fixed.
    case("aten::histogram.bins_tensor", lambda x, e: torch.histogram(x, e.sort()[0]), R("b", "n"), R(4), dynamic=False),
    case("aten::histogram.bin_ct", lambda x: torch.histogram(x, 5), R("b", "n"), dynamic=False),
    case(
        "aten::histogram.bin_ct",
        lambda x, w: torch.histogram(x, 3, range=(-1.0, 1.0), weight=w, density=True),
        R("b", "n", special=(1.0, -1.0)),
        R("b", "n", low=0),
        name="weights",
        dynamic=False,
    ),
    case("aten::_histogramdd_from_bin_cts aten::_histogramdd_bin_edges", _grid, R("m", 2), dynamic=False),
    case("aten::_histogramdd_from_bin_tensors", _grid_of_edges, R("m", 2), R("m", low=0), dynamic=False),
]
