"""Ties: results that jump when numbers on the way are rounded otherwise, so that no other runtime gives the same.

A model that takes the best of scores that are nearly equal takes others wherever sums are added up in another order.
Whether that is so shows when the model is run again with each inexact result a few roundings away from what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import TorchDispatchMode
from onnxport.verification.info import VerificationInfo

_ROUNDINGS = 4
_SEEDS = 3


class _RoundedOtherwise(TorchDispatchMode):
    """While this is open, inexact results of operators are some roundings away from what they would be.

    Whole numbers are exact, and stay: a position or a count that moved would be a mistake, not a rounding.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        if any(returned.alias_info is not None for returned in func._schema.returns):
            return result
        return pytree.tree_map(self._moved, result)

    def _moved(self, value: object) -> object:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        drawn = 2 * torch.rand(value.shape, generator=self.generator) - 1
        factor = 1 + drawn.to(value.dtype) * _ROUNDINGS * torch.finfo(value.dtype).eps
        return torch.where(value == value.round(), value, value * factor)


def jumps(run: Callable[[], Mapping[str, torch.Tensor]]) -> dict[str, float]:
    """How far results jump when numbers on the way are rounded otherwise; those that stay where they are have no entry.

    >>> import torch
    >>> from onnxport.verification.ties import jumps
    >>> scores = torch.ones(5) / 3
    >>> sorted(jumps(lambda: {"best": (scores * 1.7).topk(2).indices, "sum": (scores * 1.7).sum()}))
    ['best']
    """
    still = run()
    found: dict[str, float] = {}
    for seed in range(_SEEDS):
        with _RoundedOtherwise(seed):
            moved = run()
        for name, wanted in still.items():
            info = VerificationInfo.from_tensors(name, wanted, moved[name])
            if not info.matches:
                found[name] = max(found.get(name, 0.0), info.max_abs_diff)
    return found
