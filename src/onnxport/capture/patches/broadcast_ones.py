"""Sizes computed of those that vary which are 1 in the example, where they meet a size that is not.

``x * t.view(x.shape[0], -1, 4)`` with one row of ``t`` for each of ``x``: the example fits by broadcasting alone.
torch's fast rule for shapes refuses the example; its slow one guards that the size is 1 and does not find that again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.fake_tensors import fake_impls, refs
from onnxport.torch_internals.symbolic_sizes import forget_what_was_settled, optimization_hint

_Size = int | torch.SymInt


def examples_ones_broadcast() -> contextlib.AbstractContextManager[None]:
    """While this is open, computed sizes that fit to the example by broadcasting alone are 1, which a guard says."""
    rules = [(fake_impls, "infer_size"), (refs, "_broadcast_shapes")]
    return attributes_replaced([(owner, name, _again_with_ones(getattr(owner, name))) for owner, name in rules])


def _again_with_ones(original: Callable[..., Any]) -> Callable[..., Any]:
    def broadcast(*shapes: Sequence[_Size] | None) -> Any:
        try:
            return original(*shapes)
        except RuntimeError:
            if not _guard_ones([shape for shape in shapes if isinstance(shape, Sequence)]):
                raise
            return original(*shapes)

    return broadcast


def _guard_ones(shapes: Sequence[Sequence[_Size]]) -> bool:
    """Take sizes for 1 that are so in the example and meet others there; whether there are any."""
    found = False
    for size in _ones_among_others(shapes):
        # The truth is a guard, and so an assumption that is told of.
        found = bool(size == 1) or found
        forget_what_was_settled(size)
    return found


def _ones_among_others(shapes: Sequence[Sequence[_Size]]) -> Iterator[torch.SymInt]:
    for axis in range(1, 1 + max(map(len, shapes), default=0)):
        sizes = [shape[-axis] for shape in shapes if len(shape) >= axis]
        # What data count is taken for more than 1, as torch does.
        if any(optimization_hint(size, 2) != 1 for size in sizes):
            yield from (size for size in sizes if isinstance(size, torch.SymInt) and _is_computed_one(size))


def _is_computed_one(size: torch.SymInt) -> bool:
    # An axis that is 1 in the example itself is told of as such, with what to do.
    return not size.node.expr.is_Symbol and optimization_hint(size, 2) == 1
