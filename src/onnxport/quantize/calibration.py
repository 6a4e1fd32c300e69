"""The ranges of values that a model computes, found by running it on inputs that are like those to come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

RangeMethod = Literal["min-max", "percentile", "entropy"]
_BINS = 2048
_STEPS = 255


@dataclass
class ObservedRange:
    """What was seen of one value: its bounds in a first run over all inputs, how it is spread in a second.

    >>> import torch
    >>> from onnxport.quantize.calibration import ObservedRange
    >>> seen = ObservedRange()
    >>> seen.see_bounds(torch.tensor([-1.0, 3.0]))
    >>> seen.range("min-max")
    (-1.0, 3.0)
    """

    low: float = 0.0
    high: float = 0.0
    counts: torch.Tensor | None = None

    def see_bounds(self, values: torch.Tensor) -> None:
        """Take note of the least and the largest of some values; zero is always within."""
        if values.numel():
            least, most = torch.aminmax(values.float())
            self.low, self.high = min(self.low, float(least)), max(self.high, float(most))

    def see_spread(self, values: torch.Tensor) -> None:
        """Count values between the bounds, which are known by now."""
        counts = torch.histc(values.float(), _BINS, self.low, max(self.high, self.low + 1e-12))
        self.counts = counts if self.counts is None else self.counts + counts

    def range(self, method: RangeMethod, percentile: float = 99.99) -> tuple[float, float]:
        """The range that a grid is to span."""
        if method == "min-max" or self.counts is None or self.counts.sum() == 0 or self.low == self.high:
            return self.low, self.high
        if method == "percentile":
            return self._without_tails((100 - percentile) / 200)
        limit = self._least_divergence()
        return max(self.low, -limit), min(self.high, limit)

    def _without_tails(self, part: float) -> tuple[float, float]:
        assert self.counts is not None
        share = self.counts.double().cumsum(0) / self.counts.double().sum()
        width = (self.high - self.low) / _BINS
        first = int(torch.searchsorted(share, part, right=True))
        last = int(torch.searchsorted(share, 1 - part))
        return min(self.low + first * width, 0.0), max(self.low + (min(last, _BINS - 1) + 1) * width, 0.0)

    def _least_divergence(self) -> float:
        """The magnitude at which clipping and rounding together change the distribution least (Kullback-Leibler)."""
        assert self.counts is not None
        width = (self.high - self.low) / _BINS
        centers = self.low + (torch.arange(_BINS) + 0.5) * width
        largest = max(-self.low, self.high)
        places = (centers.abs() / largest * _BINS).long().clamp(max=_BINS - 1)
        magnitudes = torch.zeros(_BINS, dtype=torch.float64).scatter_add_(0, places, self.counts.double())
        # Zero is on every grid, and what a ReLU has cut off to it says nothing of where the others are.
        magnitudes[0] = magnitudes[1]
        # Behind a ReLU all steps are on one side of zero.
        levels = round(_STEPS * largest / (self.high - self.low))
        best, limit = float("inf"), largest
        for kept in range(levels, _BINS + 1, 16):
            wanted = magnitudes[:kept].clone()
            wanted[-1] += magnitudes[kept:].sum()
            divergence = _divergence(wanted, magnitudes[:kept], levels)
            if divergence < best:
                best, limit = divergence, largest * kept / _BINS
        return limit


def _divergence(wanted: torch.Tensor, seen: torch.Tensor, levels: int) -> float:
    """How far a distribution is from the same in fewer levels, each spread evenly over the bins that had anything."""
    level = torch.arange(len(seen)) * levels // len(seen)
    held = (seen > 0).double()
    sums = torch.zeros(levels, dtype=torch.float64).scatter_add_(0, level, seen)
    filled = torch.zeros(levels, dtype=torch.float64).scatter_add_(0, level, held)
    rounded = (sums / filled.clamp(min=1))[level] * held
    p, q = wanted / wanted.sum(), rounded / rounded.sum().clamp(min=1e-300)
    there = p > 0
    return float((p[there] * (p[there] / q[there].clamp(min=1e-12)).log()).sum())
