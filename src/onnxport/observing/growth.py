"""Example inputs large enough to capture: sizes of 0 and 1 make Python code and torch decide things for good.

A step of a generating model takes one token at a time. Captured with that, ``if length > 1`` is decided. So the axes
that vary are made longer, all those together that were as long as each other in every call, and with them the axes that
were as long as two others together (the mask over past and new tokens).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from onnxport.capture.request.trees import leaves
from onnxport.observing.observed_calls import ObservedCall, nested, varying_axes

_SMALLEST = 2
Lengths = tuple[int, ...]


def grown(example: ObservedCall, calls: Sequence[ObservedCall], varying: Mapping[str, object]) -> ObservedCall:
    """The example with no varying axis shorter than two; ``calls`` are complete and tell which axes go together."""
    sizes = observed_sizes(example, calls, varying)
    targets = _targets({vector for by_axis in sizes.values() for vector in by_axis.values()})
    arguments = {
        name: nested(
            value,
            lambda leaf: _extended(leaf.value, {axis: targets[v] for axis, v in sizes.get(leaf.path, {}).items()}),
            name,
        )
        for name, value in example.arguments.items()
    }
    return replace(example, arguments=arguments)


def observed_sizes(
    example: ObservedCall, calls: Sequence[ObservedCall], varying: Mapping[str, object]
) -> dict[str, dict[int, Lengths]]:
    """For each axis that varies its size in the example, and in every call."""
    shapes: dict[str, list[torch.Size]] = {}
    for call in (example, *calls):
        for name, value in call.arguments.items():
            for leaf in leaves(value, name, (name,)):
                if isinstance(leaf.value, torch.Tensor):
                    shapes.setdefault(leaf.path, []).append(leaf.value.shape)
    return {
        path: {axis: tuple(shape[axis] for shape in found) for axis in varying_axes(varying[path])}
        for path, found in shapes.items()
    }


def _targets(vectors: set[Lengths]) -> dict[Lengths, int]:
    """The size to make of each: at least two, and a sum where it was one in all calls."""
    ordered = sorted(vectors)
    targets = {vector: max(vector[0], _SMALLEST) for vector in ordered}
    for vector in ordered:
        for index, one in enumerate(ordered):
            for other in ordered[index:]:
                is_sum = all(total == a + b for total, a, b in zip(vector, one, other, strict=True))
                if is_sum and vector not in (one, other) and any(one) and any(other):
                    targets[vector] = targets[one] + targets[other]
    return targets


def _extended(value: object, sizes: Mapping[int, int]) -> object:
    """A tensor whose last entries along some axes are repeated; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    for axis, size in sizes.items():
        old = value.shape[axis]
        if old == 0:
            value = value.new_zeros([size if index == axis else n for index, n in enumerate(value.shape)])
        elif old != size:
            value = value.index_select(axis, torch.arange(size, device=value.device).clamp(max=old - 1))
    return value
