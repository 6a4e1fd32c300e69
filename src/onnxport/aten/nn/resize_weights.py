"""Interpolation along one axis by weights that are computed at run time, where Resize does not do what torch does.

Resize takes either a size or a factor. torch may take the number of new elements from one and their positions from
the other, and rounds sizes in float64; then the elements and their weights are found here, in torch's own arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from onnxport.aten.nn.fold import steps
from onnxport.translate import Builder, Int, Tensor

_RADIUS = {"linear": 1, "cubic": 2, "lanczos": 3}


@dataclass(frozen=True)
class Line:
    """One axis: its size, the number of new elements, and the factor where positions follow from it."""

    axis: int
    size: Int
    wanted: Int | Tensor
    factor: float | None
    align_corners: bool
    dtype: torch.dtype
    """What torch computes positions in: float64 for such tensors, float32 for all others."""
    copies: bool
    """Whether an axis that stays as long as it was is copied, whatever the factor."""

    def _count(self, op: Builder) -> Tensor:
        return self.wanted if isinstance(self.wanted, Tensor) else op.scalar(self.wanted, torch.int64)

    def places(self, op: Builder) -> Tensor:
        """0, 1, 2, … up to the number of new elements."""
        if isinstance(self.wanted, Tensor):
            found = op.Range(op.scalar(0, torch.int64), self.wanted, op.scalar(1, torch.int64))
        else:
            found = steps(op, self.wanted)
        return op.cast(found, self.dtype)

    def step(self, op: Builder) -> Tensor:
        """How far apart new elements are, in old ones."""
        if not self.align_corners and self.factor is not None:
            step = op.const(1.0 / self.factor, self.dtype)
            if not self.copies:
                return step
            kept = op.Equal(op.scalar(self.size, torch.int64), self._count(op))
            return op.Where(kept, op.const(1.0, self.dtype), step)
        size = op.scalar(self.size, self.dtype)
        wanted = op.cast(self._count(op), self.dtype)
        if not self.align_corners:
            return op.Div(size, wanted)
        between = op.Max(wanted - 1.0, op.const(1.0, self.dtype))
        return op.Where(wanted > 1.0, op.Div(size - 1.0, between), op.const(0.0, self.dtype))


def interpolated_line(op: Builder, x: Tensor, line: Line, mode: str) -> Tensor:
    """Each new element from its two (linear) or four (cubic) neighbours."""
    behind = list(range(1, x.rank - line.axis))
    total: Tensor | None = None
    for place, weights in interpolated_weights(op, line, mode):
        weight = op.cast(weights, x.dtype)
        term = op.Mul(op.Gather(x, place, axis=line.axis), op.Unsqueeze(weight, behind) if behind else weight)
        total = term if total is None else op.Add(total, term)
    assert total is not None
    return total


def interpolated_weights(op: Builder, line: Line, mode: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Where the neighbours of new elements are, one after the other, and how much each counts."""
    places, step = line.places(op), line.step(op)
    source = op.Mul(places, step) if line.align_corners else op.Mul(places + 0.5, step) - 0.5
    if mode == "linear":
        source = op.Max(source, op.const(0.0, line.dtype))
    first = op.Floor(source)
    last = op.scalar(line.size - 1, torch.int64)
    part = op.Sub(source, first)
    for offset, weights in _weights(op, mode, part):
        place = op.cast(first + float(offset), torch.int64)
        yield op.Min(op.Max(place, op.const(0, torch.int64)), last), weights


def _weights(op: Builder, mode: str, part: Tensor) -> list[tuple[int, Tensor]]:
    """How much the neighbours count whose offsets from the one before are given."""
    if mode == "linear":
        return [(0, 1.0 - part), (1, part)]
    distances = [(-1, part + 1.0), (0, part), (1, 1.0 - part), (2, 2.0 - part)]
    return [(offset, _cubic(op, distance, -0.75)) for offset, distance in distances]


def _cubic(op: Builder, distance: Tensor, a: float) -> Tensor:
    """Keys' kernel at distances from 0 to 2."""
    near = ((distance * (a + 2.0)) - (a + 3.0)) * distance * distance + 1.0
    far = ((distance * a - 5.0 * a) * distance + 8.0 * a) * distance - 4.0 * a
    return op.Where(distance <= 1.0, near, far)


def antialiased(op: Builder, x: Tensor, line: Line, mode: str) -> Tensor:
    """Each new element from all within the kernel's reach, which grows with the distance of new elements."""
    weights = op.cast(_window(op, line, mode).weights(op, op.cast(steps(op, line.size), line.dtype), mode), x.dtype)
    last = x.rank - 1
    if line.axis == last:
        return op.MatMul(x, op.Transpose(weights, perm=[1, 0]))
    if line.axis != last - 1:
        raise AssertionError("Only images are antialiased, and they have two axes.")
    return op.MatMul(weights, x)


def antialiased_weights(op: Builder, line: Line, mode: str) -> tuple[Tensor, Tensor]:
    """Which elements count for each new one and how much, [new, counted], with zeros behind those that do."""
    window = _window(op, line, mode)
    zero, one = op.scalar(0, torch.int64), op.scalar(1, torch.int64)
    most = op.cast(op.Ceil(window.reach) * 2.0 + 1.0, torch.int64)
    old = op.Add(window.low, op.cast(op.Range(zero, most, one), line.dtype))
    places = op.Min(op.cast(old, torch.int64), op.scalar(line.size - 1, torch.int64))
    return places, window.weights(op, old, mode)


@dataclass(frozen=True)
class _Window:
    """Which old elements count for the new ones: columns of their centres and ends, and how far the kernel reaches."""

    centre: Tensor
    low: Tensor
    high: Tensor
    stretch: Tensor
    reach: Tensor

    def weights(self, op: Builder, old: Tensor, mode: str) -> Tensor:
        """How much each of the old elements counts."""
        distance = op.Abs(op.Div(op.Sub(old + 0.5, self.centre), self.stretch))
        inside = op.And(op.GreaterOrEqual(old, self.low), op.Less(old, self.high))
        counts = op.Where(inside, _kernel(op, distance, mode), op.const(0.0, old.dtype))
        return op.Div(counts, op.ReduceSum(counts, [1], keepdims=1))


def _window(op: Builder, line: Line, mode: str) -> _Window:
    step = line.step(op)
    stretch = op.Max(step, op.const(1.0, line.dtype))
    centre = op.Unsqueeze(op.Mul(line.places(op) + 0.5, step), [1])
    reach = stretch * float(_RADIUS[mode])
    # Whole numbers cut off: at the edge of its reach torch leaves out what lies beyond.
    low = op.Floor(op.Max(op.Sub(centre, reach) + 0.5, op.const(0.0, line.dtype)))
    size = op.scalar(line.size, line.dtype)
    high = op.Min(op.Floor(op.Add(centre, reach) + 0.5), size)
    return _Window(centre, low, high, stretch, reach)


def _kernel(op: Builder, distance: Tensor, mode: str) -> Tensor:
    zero = op.const(0.0, distance.dtype)
    if mode == "linear":
        return op.Max(1.0 - distance, zero)
    if mode == "cubic":
        return op.Where(distance < 2.0, _cubic(op, distance, -0.5), zero)
    found = op.Mul(_sinc(op, distance), _sinc(op, distance * (1.0 / 3.0)))
    return op.Where(distance < 3.0, found, zero)


def _sinc(op: Builder, x: Tensor) -> Tensor:
    angle = x * torch.pi
    none = op.Equal(angle, op.const(0.0, x.dtype))
    one = op.const(1.0, x.dtype)
    return op.Where(none, one, op.Div(op.Sin(angle), op.Where(none, one, angle)))
