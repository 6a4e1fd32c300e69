"""Shifts of truth values, which torch computes as whole numbers, and refuses to tell the dtype of."""

from __future__ import annotations

import contextlib

import torch

from onnxport.capture.patches.replacing import Kernels, kernels_replaced
from onnxport.torch_internals.operators import DispatchKey, OpOverload


def shifts_of_truth_values() -> contextlib.AbstractContextManager[None]:
    """While this is open, ``mask << 1`` is an int64 tensor on fake tensors too."""
    aten = torch.ops.aten
    operators: tuple[OpOverload, ...] = (
        aten.__lshift__.Scalar,
        aten.__lshift__.Tensor,
        aten.__rshift__.Scalar,
        aten.__rshift__.Tensor,
    )
    kernels: dict[OpOverload, Kernels] = {operator: {DispatchKey.Meta: _shifted} for operator in operators}
    return kernels_replaced(kernels)


def _shifted(self: torch.Tensor, other: torch.Tensor | int) -> torch.Tensor:
    # The same operator by another name, whose rule for dtypes is the one of the kernel.
    return torch.bitwise_left_shift(self, other)
