"""PyTorch's type promotion, in one function."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.translate.dims import Dim
from onnxport.translate.tensor import Number, Tensor

_COMPLEX_OF = {torch.float16: torch.complex32, torch.float32: torch.complex64, torch.float64: torch.complex128}


def number_dtype(value: Number | Dim) -> torch.dtype:
    """The dtype a Python (or symbolic) number has in promotion."""
    kind = value.kind if isinstance(value, Dim) else type(value)
    if kind is bool:
        return torch.bool
    if kind is int:
        return torch.int64
    return torch.get_default_dtype() if kind is float else _COMPLEX_OF[torch.get_default_dtype()]


def result_dtype(
    dimensioned: Sequence[torch.dtype], zero_dim: Sequence[torch.dtype], numbers: Sequence[torch.dtype]
) -> torch.dtype:
    """The common dtype: tensors with dimensions win over 0-d ones, those over numbers, unless of a lower category.

    >>> import torch
    >>> from onnxport.translate.promotion import result_dtype
    >>> result_dtype([torch.int32], [torch.float64], [torch.float32])
    torch.float64
    >>> result_dtype([torch.float16], [torch.float64], [])
    torch.float16
    """
    result: torch.dtype | None = None
    for group in (numbers, zero_dim, dimensioned):
        common: torch.dtype | None = None
        for dtype in group:
            common = dtype if common is None else torch.promote_types(common, dtype)
        result = _combine(common, result)
    if result is None:
        raise AssertionError("There is nothing to promote.")
    return result


def _combine(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        if not lower.is_complex:
            return higher
        # bfloat16 has no complex counterpart of its own.
        return _COMPLEX_OF.get(higher, torch.complex64)
    if higher == torch.bool or lower.is_floating_point or lower.is_complex:
        return torch.promote_types(higher, lower)
    return higher


def common_dtype(operands: Sequence[Tensor | Number | Dim]) -> torch.dtype:
    """The dtype in which PyTorch would compute with these operands."""
    dimensioned: list[torch.dtype] = []
    zero_dim: list[torch.dtype] = []
    numbers: list[torch.dtype] = []
    for operand in operands:
        if isinstance(operand, Tensor):
            (dimensioned if operand.rank else zero_dim).append(operand.dtype)
        else:
            numbers.append(number_dtype(operand))
    return result_dtype(dimensioned, zero_dim, numbers)


def promoted_to_float(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a function of real numbers (sin, true division) computes."""
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.get_default_dtype()
