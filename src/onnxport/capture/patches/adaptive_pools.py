"""Adaptive pooling to a size that varies: torch takes plain numbers there, and would fix it to the example's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import statically_known_true

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.operators import nn_bindings

Pool = Callable[..., Any]


def pooled_to_any_size() -> contextlib.AbstractContextManager[None]:
    """While this is open, adaptive pools take sizes that vary; those of plain numbers are as before."""
    average = F.adaptive_avg_pool1d

    def line(input: torch.Tensor, output_size: int | Sequence[int]) -> torch.Tensor:
        # As one of two axes, whose operator takes sizes of any kind.
        size = output_size[0] if isinstance(output_size, Sequence) else output_size
        if not isinstance(size, torch.SymInt):
            return average(input, [size])
        return F.adaptive_avg_pool2d(input.unsqueeze(-2), [1, size]).squeeze(-2)

    bindings = nn_bindings
    return attributes_replaced(
        [
            (F, "adaptive_avg_pool1d", line),
            (torch, "adaptive_avg_pool1d", line),
            (torch, "adaptive_max_pool1d", _largest(torch.adaptive_max_pool1d, 1)),
            (bindings, "adaptive_max_pool2d", _largest(bindings.adaptive_max_pool2d, 2)),
            (bindings, "adaptive_max_pool3d", _largest(bindings.adaptive_max_pool3d, 3)),
        ]
    )


def _largest(original: Pool, spatial: int) -> Pool:
    def pool(input: torch.Tensor, output_size: int | Sequence[int]) -> object:
        counts = list(output_size) if isinstance(output_size, Sequence) else [output_size] * spatial
        if not any(isinstance(count, torch.SymInt) for count in counts):
            return original(input, counts)
        return _largest_of_windows(input, counts)

    return pool


def _largest_of_windows(x: torch.Tensor, counts: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Gather the windows of all axes, then take the largest of each and where it came from.

    A window shorter than the longest repeats its last element, which comes after the one it repeats.
    """
    first = x.dim() - len(counts)
    planes, sizes = list(x.shape[:first]), x.shape[first:]
    taken, flat = x, torch.zeros([], dtype=torch.int64)
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        places, longest = _windows(size, count)
        at = first + 2 * axis
        if statically_known_true(size == count):
            taken = taken.unsqueeze(at + 1)
        else:
            shape = [*taken.shape[:at], count, longest, *taken.shape[at + 1 :]]
            taken = taken.index_select(at, places.reshape(-1)).reshape(shape)
        flat = (flat * size).unsqueeze(-1).unsqueeze(-1) + places
    spatial = len(counts)
    order = [*range(0, 2 * spatial, 2), *range(1, 2 * spatial, 2)]
    window = [*counts, -1]
    taken = taken.permute([*range(first), *(first + axis for axis in order)]).reshape([*planes, *window])
    flat = flat.permute(order).reshape(window).expand([*planes, *counts, taken.shape[-1]])
    values, best = taken.max(-1, keepdim=True)
    return values.squeeze(-1), flat.gather(-1, best).squeeze(-1)


def _windows(size: int, count: int) -> tuple[torch.Tensor, int]:
    """Which elements each window has, [count, longest], and the length of the longest."""
    index = torch.arange(count).unsqueeze(1)
    if statically_known_true(size == count):
        return index, 1
    starts = (index * size) // count
    ends = ((index + 1) * size + (count - 1)) // count
    longest = (size + count - 1) // count + 1
    return torch.minimum(starts + torch.arange(longest), ends - 1), longest
