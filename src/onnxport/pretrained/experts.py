"""Mixtures of experts that compute one expert after another: they compute all at once while they are exported."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

_LOOP, _AT_ONCE = "eager", "grouped_mm"
"""What transformers calls its ways to compute experts: in a loop over those that tokens chose, and in one product."""


@contextlib.contextmanager
def experts_at_once(model: torch.nn.Module) -> Iterator[None]:
    """While this is open, no experts of a model are computed in a loop over data, where the library has another way."""
    changed = []
    for module in model.modules():
        get = getattr(module, "get_experts_implementation", None)
        if get is not None and get()[""] == _LOOP and _can_change(module):
            changed.append(module)
    try:
        for module in changed:
            module.set_experts_implementation({"": _AT_ONCE})  # type: ignore[operator]
        yield
    finally:
        for module in changed:
            module.set_experts_implementation({"": _LOOP})  # type: ignore[operator]


def _can_change(module: torch.nn.Module) -> bool:
    """Whether a model has experts that the library computes in more than one way: it refuses the others by an error."""
    try:
        module.get_correct_experts_implementation(_AT_ONCE)  # type: ignore[operator]
    except ValueError:
        return False
    return True
