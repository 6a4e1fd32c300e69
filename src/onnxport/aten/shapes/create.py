"""Creation of tensors from sizes and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.aten.shapes.rearrange import counter
from onnxport.translate import Builder, Dim, Int, Number, Tensor, translates
from onnxport.translate.first_elements import shape_if_empty


def _or_default(dtype: torch.dtype | None) -> torch.dtype:
    return torch.get_default_dtype() if dtype is None else dtype


# One value


def _like(op: Builder, x: Tensor, value: Tensor | Number | Dim, dtype: torch.dtype | None) -> Tensor:
    """One value in the shape of a tensor."""
    dtype = x.dtype if dtype is None else dtype
    return op.full(value, shape_if_empty(op, x), dtype)


@translates("aten::zeros", "aten::empty.memory_format", complex="same")
def zeros(op: Builder, size: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return op.full(0, size, _or_default(dtype))


@translates("aten::empty_strided", complex="same")
def empty_strided(op: Builder, size: Sequence[Int], stride: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return op.full(0, size, _or_default(dtype))


@translates("aten::empty_permuted", complex="same")
def empty_permuted(
    op: Builder, size: Sequence[Int], physical_layout: Sequence[int], dtype: torch.dtype | None
) -> Tensor:
    return op.full(0, size, _or_default(dtype))


@translates("aten::ones", complex="same")
def ones(op: Builder, size: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return op.full(1, size, _or_default(dtype))


@translates("aten::full", complex="same")
def full(op: Builder, size: Sequence[Int], fill_value: Number | Dim, dtype: torch.dtype | None) -> Tensor:
    if dtype is None:
        kind = fill_value.kind if isinstance(fill_value, Dim) else type(fill_value)
        dtype = {bool: torch.bool, int: torch.int64}.get(kind, torch.get_default_dtype())
    return op.full(fill_value, size, dtype)


@translates("aten::zeros_like", "aten::empty_like", complex="same")
def zeros_like(op: Builder, self: Tensor, dtype: torch.dtype | None) -> Tensor:
    return _like(op, self, 0, dtype)


@translates("aten::ones_like", complex="same")
def ones_like(op: Builder, self: Tensor, dtype: torch.dtype | None) -> Tensor:
    return _like(op, self, 1, dtype)


@translates("aten::full_like", complex="same")
def full_like(op: Builder, self: Tensor, fill_value: Number | Dim, dtype: torch.dtype | None) -> Tensor:
    return _like(op, self, fill_value, dtype)


@translates("aten::new_zeros", "aten::new_empty", complex="same")
def new_zeros(op: Builder, self: Tensor, size: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return op.full(0, size, self.dtype if dtype is None else dtype)


@translates("aten::new_empty_strided", complex="same")
def new_empty_strided(
    op: Builder, self: Tensor, size: Sequence[Int], stride: Sequence[Int], dtype: torch.dtype | None
) -> Tensor:
    return op.full(0, size, self.dtype if dtype is None else dtype)


@translates("aten::new_ones", complex="same")
def new_ones(op: Builder, self: Tensor, size: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return op.full(1, size, self.dtype if dtype is None else dtype)


@translates("aten::new_full", complex="same")
def new_full(
    op: Builder, self: Tensor, size: Sequence[Int], fill_value: Number | Dim, dtype: torch.dtype | None
) -> Tensor:
    return op.full(fill_value, size, self.dtype if dtype is None else dtype)


@translates("aten::zero", complex="same")
def zero(op: Builder, self: Tensor) -> Tensor:
    return _like(op, self, 0, None)


@translates("aten::fill.Scalar", "aten::fill.Tensor", complex="same")
def fill(op: Builder, self: Tensor, value: Tensor | Number | Dim) -> Tensor:
    return _like(op, self, value, None)


@translates("aten::scalar_tensor", complex="same")
def scalar_tensor(op: Builder, s: Number | Dim, dtype: torch.dtype | None) -> Tensor:
    return op.scalar(s, _or_default(dtype))


# Sequences of numbers


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
    if not whole and not dtype.is_floating_point:
        # How many there are is counted by rules of each element type's own, which the result's shape knows; the
        # numbers themselves go in whole steps.
        size = op.result_shapes()[0][0]
        first, stride = (_truncated(op, bound) for bound in (start, step))
        return op.cast(counter(op, size) * stride + first, dtype)
    # torch counts in the bounds' own type and converts afterwards; Range has no half or 8-bit form.
    counted = torch.int64 if whole else torch.float64
    return op.cast(op.Range(*(op.scalar(bound, counted) for bound in bounds)), dtype)


def _truncated(op: Builder, number: Number | Dim) -> Tensor:
    whole = number if isinstance(number, Dim) else math.trunc(number)  # type: ignore[arg-type]
    fraction = isinstance(whole, Dim) and whole.kind is not int
    return op.cast(op.scalar(whole, torch.float64 if fraction else torch.int64), torch.int64)


_Bound = Tensor | Number | Dim


@translates(
    "aten::linspace", "aten::linspace.Tensor_Tensor", "aten::linspace.Tensor_Scalar", "aten::linspace.Scalar_Tensor"
)
def linspace(op: Builder, start: _Bound, end: _Bound, steps: int, dtype: torch.dtype | None) -> Tensor:
    wanted = _or_default(dtype)
    if not isinstance(start, Tensor | Dim) and not isinstance(end, Tensor | Dim):
        numbers = torch.linspace(start, end, steps, dtype=wanted, device="cpu")
        return op.const(numbers.tolist(), wanted)
    if steps == 0:
        return op.full(0, [0], wanted)
    return _evenly(op, start, end, steps, wanted, wanted if wanted.is_floating_point else torch.float64)


def _evenly(op: Builder, start: _Bound, end: _Bound, steps: int, wanted: torch.dtype, computed: torch.dtype) -> Tensor:
    """Numbers at equal distances, in the dtype to compute in.

    The bounds of a sequence of whole numbers are whole first; the steps between them need not be.
    """
    first, last = (
        op.cast(op.cast(bound, wanted) if isinstance(bound, Tensor) else op.scalar(bound, wanted), computed)
        for bound in (start, end)
    )
    if steps == 1:
        return op.reshape(first, [1])
    # Counted from the nearer end, so that both ends come out exactly.
    stride = (last - first) / (steps - 1)
    middle = steps // 2
    lower = first + stride * op.const(list(range(middle)), computed)
    upper = last - stride * op.const(list(range(steps - middle - 1, -1, -1)), computed)
    return op.Concat(lower, upper, axis=0)


@translates(
    "aten::logspace", "aten::logspace.Tensor_Tensor", "aten::logspace.Tensor_Scalar", "aten::logspace.Scalar_Tensor"
)
def logspace(op: Builder, start: _Bound, end: _Bound, steps: int, base: float, dtype: torch.dtype | None) -> Tensor:
    wanted = _or_default(dtype)
    if not isinstance(start, Tensor | Dim) and not isinstance(end, Tensor | Dim):
        numbers = torch.logspace(start, end, steps, base, dtype=wanted, device="cpu")
        return op.const(numbers.tolist(), wanted)
    if steps == 0:
        return op.full(0, [0], wanted)
    # A power that falls short of a whole number would lose one.
    computed = wanted if wanted.is_floating_point else torch.float64
    return op.Pow(op.scalar(base, computed), _evenly(op, start, end, steps, wanted, computed))


# Matrices


@translates("aten::eye", "aten::eye.m")
def eye(op: Builder, n: Int, dtype: torch.dtype | None, m: Int | None = None) -> Tensor:
    zero = op.full(0, [n, n if m is None else m], _or_default(dtype))
    return op.EyeLike(zero, out_dtype=zero.dtype)


@translates("aten::tril", complex="by_parts")
def tril(op: Builder, self: Tensor, diagonal: Int) -> Tensor:
    return op.Trilu(self, op.scalar(diagonal, torch.int64), upper=0)


@translates("aten::triu", complex="by_parts")
def triu(op: Builder, self: Tensor, diagonal: Int) -> Tensor:
    return op.Trilu(self, op.scalar(diagonal, torch.int64), upper=1)


@translates("aten::tril_indices")
def tril_indices(op: Builder, row: int, col: int, offset: int, dtype: torch.dtype | None) -> Tensor:
    return op.NonZero(tril(op, op.full(1, [row, col], torch.int64), offset))


@translates("aten::triu_indices")
def triu_indices(op: Builder, row: int, col: int, offset: int, dtype: torch.dtype | None) -> Tensor:
    return op.NonZero(triu(op, op.full(1, [row, col], torch.int64), offset))
