"""Creation of tensors from sizes and numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.translate import Builder, Dim, Int, Number, Tensor, translates


@translates("aten::zeros")
def zeros(op: Builder, size: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return op.full(0, size, torch.get_default_dtype() if dtype is None else dtype)


@translates("aten::ones")
def ones(op: Builder, size: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return op.full(1, size, torch.get_default_dtype() if dtype is None else dtype)


@translates("aten::full")
def full(op: Builder, size: Sequence[Int], fill_value: Number | Dim, dtype: torch.dtype | None) -> Tensor:
    if dtype is None:
        kind = fill_value.kind if isinstance(fill_value, Dim) else type(fill_value)
        dtype = {bool: torch.bool, int: torch.int64}.get(kind, torch.get_default_dtype())
    return op.full(fill_value, size, dtype)


@translates("aten::zeros_like", "aten::empty_like")
def zeros_like(op: Builder, self: Tensor, dtype: torch.dtype | None) -> Tensor:
    return op.full(0, self.shape, self.dtype if dtype is None else dtype)


@translates("aten::ones_like")
def ones_like(op: Builder, self: Tensor, dtype: torch.dtype | None) -> Tensor:
    return op.full(1, self.shape, self.dtype if dtype is None else dtype)


@translates("aten::full_like")
def full_like(op: Builder, self: Tensor, fill_value: Number | Dim, dtype: torch.dtype | None) -> Tensor:
    return op.full(fill_value, self.shape, self.dtype if dtype is None else dtype)


@translates("aten::new_zeros", "aten::new_empty")
def new_zeros(op: Builder, self: Tensor, size: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return op.full(0, size, self.dtype if dtype is None else dtype)


@translates("aten::new_ones")
def new_ones(op: Builder, self: Tensor, size: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return op.full(1, size, self.dtype if dtype is None else dtype)


@translates("aten::new_full")
def new_full(
    op: Builder, self: Tensor, size: Sequence[Int], fill_value: Number | Dim, dtype: torch.dtype | None
) -> Tensor:
    return op.full(fill_value, size, self.dtype if dtype is None else dtype)


@translates("aten::arange", "aten::arange.start", "aten::arange.start_step")
def arange(
    op: Builder,
    end: Number | Dim,
    dtype: torch.dtype | None,
    start: Number | Dim = 0,
    step: Number | Dim = 1,
) -> Tensor:
    bounds = (start, end, step)
    whole = all(isinstance(bound, int) or (isinstance(bound, Dim) and bound.kind is int) for bound in bounds)
    if dtype is None:
        dtype = torch.int64 if whole else torch.get_default_dtype()
    # torch counts in the bounds' own type and converts afterwards; Range has no half or 8-bit form.
    counted = torch.int64 if whole else torch.float64
    return op.cast(op.Range(*(op.scalar(bound, counted) for bound in bounds)), dtype)


@translates("aten::scalar_tensor")
def scalar_tensor(op: Builder, s: Number | Dim, dtype: torch.dtype | None) -> Tensor:
    return op.scalar(s, torch.get_default_dtype() if dtype is None else dtype)


@translates("aten::tril")
def tril(op: Builder, self: Tensor, diagonal: Int) -> Tensor:
    return op.Trilu(self, op.scalar(diagonal, torch.int64), upper=0)


@translates("aten::triu")
def triu(op: Builder, self: Tensor, diagonal: Int) -> Tensor:
    return op.Trilu(self, op.scalar(diagonal, torch.int64), upper=1)
