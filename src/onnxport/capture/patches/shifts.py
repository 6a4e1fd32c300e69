"""Truth values that are taken for bytes, and bytes for truth values: torch computes both, and tells dtypes of neither.

``mask << 1`` is a shift of whole numbers, and ``torch.where(mask.byte(), x, y)`` chooses by truth values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxport.capture.patches.replacing import Kernels, items_replaced, kernels_replaced
from onnxport.torch_internals.operators import DispatchKey, OpOverload, decomposition_table


@contextlib.contextmanager
def bytes_and_truth_values() -> Iterator[None]:
    """While this is open, fake tensors pass through both."""
    aten = torch.ops.aten
    operators: tuple[OpOverload, ...] = (
        aten.__lshift__.Scalar,
        aten.__lshift__.Tensor,
        aten.__rshift__.Scalar,
        aten.__rshift__.Tensor,
    )
    kernels: dict[OpOverload, Kernels] = {operator: {DispatchKey.Meta: _shifted} for operator in operators}
    where: OpOverload = aten.where.self
    chosen: dict[Any, Any] = {where: _chosen(decomposition_table[where])}
    with kernels_replaced(kernels), items_replaced(decomposition_table, chosen):
        yield


def _chosen(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def where(condition: torch.Tensor, self: object, other: object) -> torch.Tensor:
        return original(condition.to(torch.bool) if condition.dtype == torch.uint8 else condition, self, other)

    return where


def _shifted(self: torch.Tensor, other: torch.Tensor | int) -> torch.Tensor:
    # The same operator by another name, whose rule for dtypes is the one of the kernel.
    return torch.bitwise_left_shift(self, other)
