"""Operators of low precision that compute on a CPU what their rules for shapes refuse."""

from __future__ import annotations

import contextlib

import torch

from onnxport.capture.patches.replacing import Kernels, kernels_replaced
from onnxport.torch_internals.operators import DispatchKey, OpOverload


def low_precision_as_computed() -> contextlib.AbstractContextManager[None]:
    """While this is open, grouped products of any type and fake quantization at any size tell their shapes."""
    aten = torch.ops.aten
    kernels: dict[OpOverload, Kernels] = {
        aten._grouped_mm.default: {DispatchKey.Meta: _grouped},
        aten.fake_quantize_per_tensor_affine_cachemask.default: {DispatchKey.Meta: _with_mask},
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: {DispatchKey.Meta: _with_mask},
        aten.fake_quantize_per_channel_affine_cachemask.default: {DispatchKey.Meta: _with_mask},
    }
    return kernels_replaced(kernels)


def _grouped(
    self: torch.Tensor,
    mat2: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    rows, columns = self.shape[-2], mat2.shape[-1]
    groups: list[int] = []
    if self.dim() == 3 and mat2.dim() == 3:
        groups = [self.shape[0]]
    elif self.dim() == 2 and mat2.dim() == 2 and offs is not None:
        groups = [offs.shape[0]]
    return self.new_empty([*groups, rows, columns], dtype=self.dtype if out_dtype is None else out_dtype)


def _with_mask(self: torch.Tensor, *parameters: object) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(self), torch.empty_like(self, dtype=torch.bool)
