"""Interpolation of images of bytes, in the fixed-point arithmetic that torch and PIL have for them.

Each axis by itself: weights are whole numbers of 15 bits, sums of 32, and what comes of an axis is a byte again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from onnxport.aten.nn.fold import steps
from onnxport.aten.nn.resize_weights import Line, antialiased_weights, interpolated_weights
from onnxport.translate import Builder, Tensor

_MOST_BITS = 22
_WEIGHT_BITS = 15


@dataclass(frozen=True)
class Taps:
    """For each new element which old ones count, how much, and in how many bits; both tables are [new, counted]."""

    places: Tensor
    weights: Tensor
    unit: Tensor
    """What a weight of one is in them, as int32."""


def taps_of(op: Builder, weights: torch.Tensor) -> Taps:
    """The taps of a matrix of weights, [new, old], that is known now."""
    bits = _bits(float(weights.max()))
    whole = np.trunc(weights.numpy() * 2.0**bits + np.copysign(0.5, weights.numpy())).astype(np.int32)
    counted = whole != 0
    first = counted.argmax(axis=1)
    reach = int((weights.shape[1] - counted[:, ::-1].argmax(axis=1) - first).max())
    places = np.minimum(first[:, None] + np.arange(reach), weights.shape[1] - 1)
    beyond = first[:, None] + np.arange(reach) >= weights.shape[1]
    kept = np.where(beyond, 0, np.take_along_axis(whole, places, axis=1))
    return Taps(op.const(places, torch.int64), op.const(kept, torch.int32), op.const(1 << bits, torch.int32))


def _bits(largest: float) -> int:
    fitting = (bits for bits in range(_MOST_BITS) if int(0.5 + largest * (1 << bits + 1)) >= 1 << _WEIGHT_BITS)
    return next(fitting, _MOST_BITS)


def taps_at_run_time(op: Builder, line: Line, mode: str, antialias: bool) -> Taps:
    """The taps of an axis whose sizes only run time knows."""
    places, weights = (antialiased_weights if antialias else _at_the_edges)(op, line, mode)
    powers = op.const([2.0 ** (bits + 1) for bits in range(_MOST_BITS)], torch.float64)
    largest = op.ReduceMax(weights, None, keepdims=False).with_shape([])
    fits = op.Less(op.Floor(largest * powers + 0.5), op.const(float(1 << _WEIGHT_BITS), torch.float64))
    unit = op.ReduceMax(
        op.Concat(op.const([1.0], torch.float64), op.Where(fits, powers, op.const(0.0, torch.float64)), axis=0),
        None,
        keepdims=False,
    ).with_shape([])
    half = op.Where(weights < 0.0, op.const(-0.5, torch.float64), op.const(0.5, torch.float64))
    return Taps(places, op.cast(op.Mul(weights, unit) + half, torch.int32), op.cast(unit, torch.int32))


def _at_the_edges(op: Builder, line: Line, mode: str) -> tuple[Tensor, Tensor]:
    """Two or four neighbours each, where those beyond the edge count for the last before it."""
    positions, parts = zip(*interpolated_weights(op, line, mode), strict=True)
    places = op.Concat(*(op.Unsqueeze(place, [1]) for place in positions), axis=1)
    weights = op.Concat(*(op.Unsqueeze(part, [1]) for part in parts), axis=1)
    if mode == "linear":
        return places, weights
    # Those that are shown twice are one before they are rounded.
    first = op.Gather(places, op.const([0], torch.int64), axis=1)
    each = first + steps(op, len(positions))
    same = op.Equal(op.Unsqueeze(each, [2]), op.Unsqueeze(places, [1]))
    together = op.ReduceSum(
        op.Where(same, op.Unsqueeze(weights, [1]), op.const(0.0, torch.float64)), [2], keepdims=False
    )
    return op.Min(each, op.scalar(line.size - 1, torch.int64)), together


def weighted_bytes(op: Builder, x: Tensor, axis: int, taps: Taps) -> Tensor:
    """An axis of ``x`` by its taps."""
    read = op.cast(op.Gather(x, taps.places, axis=axis), torch.int32)
    behind = list(range(2, x.rank + 1 - axis))
    weights = op.Unsqueeze(taps.weights, behind) if behind else taps.weights
    total = op.ReduceSum(op.Mul(read, weights), [axis + 1], keepdims=False)
    zero = op.const(0, torch.int32)
    rounded = op.Div(op.Max(op.Add(total, op.Div(taps.unit, op.const(2, torch.int32))), zero), taps.unit)
    return op.cast(op.Min(rounded, op.const(255, torch.int32)), torch.uint8)
