"""Reductions over some or all dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.aten.axes import axes_of, axis_of
from onnxport.translate import Builder, Dim, Int, Tensor, translates
from onnxport.translate.dims import product
from onnxport.translate.first_elements import shape_if_empty
from onnxport.translate.ranges import EXACT_BITS, beyond_int32, bits_of

Dims = int | Sequence[int] | None


def reduced_shape(x: Tensor, axes: Sequence[int], keepdim: bool) -> list[Int]:
    """The shape that is left when ``axes`` are reduced."""
    if keepdim:
        return [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    return [size for axis, size in enumerate(x.shape) if axis not in axes]


def reduced(op: Builder, op_type: str, x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    """One reducing node; a 0-d tensor is reduced as it is."""
    shape = reduced_shape(x, axes, keepdim)
    if 0 in shape:
        # Runtimes forget to drop the reduced dimensions of what has no elements.
        return op.full(0, shape, x.dtype)
    (result,) = op.multi(op_type, x, axes if axes else None, outputs=1, keepdims=keepdim)
    return result.with_shape(shape)


def sum_of_squares(op: Builder, x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    """The sum of squares along some axes, as a product and its sum, which more readers follow.

    From opset 18 on the axes of ReduceSumSquare and ReduceL2 are an input, which onnxruntime's symbolic shape inference
    reads of sums and means only, and OpenCV 5.0 takes what is divided by ReduceL2 for a normalization. Squares in 16
    bits would not fit.
    """
    if x.dtype not in (torch.float32, torch.float64):
        return reduced(op, "ReduceSumSquare", x, axes, keepdim)
    return reduced(op, "ReduceSum", (x * x).with_shape(x.shape), axes, keepdim)


def length_of(op: Builder, x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    """The root of the sum of squares along some axes."""
    if x.dtype not in (torch.float32, torch.float64):
        return reduced(op, "ReduceL2", x, axes, keepdim)
    return op.Sqrt(sum_of_squares(op, x, axes, keepdim))


def count_of(x: Tensor, axes: Sequence[int]) -> Int:
    """How many elements are reduced to one."""
    return product(x.shape[axis] for axis in axes)


def flat(op: Builder, x: Tensor) -> Tensor:
    """All elements in one dimension."""
    return op.reshape(x, [product(x.shape)])


def sum_operand(op: Builder, x: Tensor, dtype: torch.dtype | None) -> Tensor:
    """The operand of a sum or product: whole numbers add up in int64 unless told otherwise."""
    if dtype is None:
        dtype = x.dtype if x.is_float or x.is_complex else torch.int64
    x = op.cast(x, dtype)
    # Truth values add up and multiply as 0 and 1; the result is one again.
    return op.cast(x, torch.int64) if dtype == torch.bool else x


@translates("aten::sum", "aten::sum.dim_IntList")
def sum_(
    op: Builder,
    self: Tensor,
    dtype: torch.dtype | None,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
) -> Tensor:
    self = sum_operand(op, self, dtype)
    axes = axes_of(dim, self.rank)
    if not axes:
        return self
    if self.dtype == torch.int64 and bits_of(self) > EXACT_BITS:
        return sum_of_halves(op, self, axes, keepdim)
    return reduced(op, "ReduceSum", self, axes, keepdim)


def sum_of_halves(op: Builder, x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    """A sum of int64 to the last bit; onnxruntime's ReduceSum adds in float64, which holds only 53.

    OpenCV 5.0 divides by the lower 32 bits of a number, so the parts are none of 32.
    """
    base = op.scalar(2**30, torch.int64)
    low = op.Mod(x, base).with_shape(x.shape)
    high = op.Div(x - low, base).with_shape(x.shape)
    return reduced(op, "ReduceSum", high, axes, keepdim) * base + reduced(op, "ReduceSum", low, axes, keepdim)


@translates("aten::mean", "aten::mean.dim")
def mean(
    op: Builder,
    self: Tensor,
    dtype: torch.dtype | None,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
) -> Tensor:
    self = self if dtype is None else op.cast(self, dtype)
    axes = axes_of(dim, self.rank)
    if not axes:
        return self
    count = count_of(self, axes)
    if count == 0:
        # Runtimes give 0 here; the mean of nothing is NaN.
        return op.full(math.nan, reduced_shape(self, axes, keepdim), self.dtype)
    result = reduced(op, "ReduceMean", self, axes, keepdim)
    if isinstance(count, int):
        elements = shape_if_empty(op, self)
        count = product(elements[axis] for axis in axes)
    if not op.may_be_empty([count]):
        return result
    return nan_of_nothing(op, result, _counted(op, self, axes) if _takes_away(count) else count)


def _takes_away(count: Int) -> bool:
    """Whether a number is of axes that have elements: for ``x[1:]`` it is one less, and -1 where there are none."""
    if not isinstance(count, Dim):
        return False
    nothing = dict.fromkeys(count.expr.free_symbols, sympy.S.Zero)
    return any(part.xreplace(nothing).is_negative for part in count.expr.atoms(sympy.Add))


def _counted(op: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """How many elements are reduced to one, counted at run time."""
    sizes = [op.Shape(x, start=axis, end=axis + 1) for axis in axes]
    return functools.reduce(op.Mul, sizes)


def nan_of_nothing(op: Builder, result: Tensor, count: Int | Tensor) -> Tensor:
    """NaN in place of what runtimes make of no elements, where ``count``, a run-time size, is 0."""
    if isinstance(count, Tensor):
        elements = count if result.rank else op.Squeeze(count, [0])
    else:
        elements = op.ints([count]) if result.rank else op.scalar(count, torch.int64)
    nothing = op.Equal(elements, op.const([0] if result.rank else 0, torch.int64))
    return op.Where(nothing, op.scalar(math.nan, result.dtype), result).with_shape(result.shape)


@translates("aten::nansum")
def nansum(op: Builder, self: Tensor, dim: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    if self.is_float:
        self = op.Where(op.IsNaN(self), op.scalar(0, self.dtype), self)
    return sum_(op, self, dtype, dim, keepdim)


@translates("aten::nanmean")
def nanmean(op: Builder, self: Tensor, dim: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    self = self if dtype is None else op.cast(self, dtype)
    axes = axes_of(dim, self.rank)
    if not axes:
        return self
    missing = op.IsNaN(self)
    total = reduced(op, "ReduceSum", op.Where(missing, op.scalar(0, self.dtype), self), axes, keepdim)
    return total / reduced(op, "ReduceSum", op.cast(~missing, self.dtype), axes, keepdim)


@translates("aten::logsumexp", "aten::special_logsumexp", promote=("self",), to_float=True)
def logsumexp(op: Builder, self: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    axes = axes_of(dim, self.rank)
    return log_of_sum_of_powers(op, self, axes, keepdim) if axes else self


def log_of_sum_of_powers(op: Builder, x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    """ReduceLogSumExp as its formula: onnxruntime 1.31 takes a quarter of the time, and OpenVINO reads all axes of it.

    Sums of 16 bits need not fit. Numbers are taken relative to the largest, unless that is infinite.
    """
    shape = reduced_shape(x, axes, keepdim)
    if x.dtype not in (torch.float32, torch.float64) or 0 in shape:
        return reduced(op, "ReduceLogSumExp", x, axes, keepdim)
    largest = reduced(op, "ReduceMax", x, axes, True)
    largest = op.Where(op.Abs(largest) < math.inf, largest, op.scalar(0, x.dtype)).with_shape(largest.shape)
    total = reduced(op, "ReduceSum", op.Exp(x - largest).with_shape(x.shape), axes, True)
    result = (op.Log(total) + largest).with_shape(total.shape)
    return result if keepdim else op.squeeze(result, axes)


@translates("aten::count_nonzero", "aten::count_nonzero.dim_IntList")
def count_nonzero(op: Builder, self: Tensor, dim: int | Sequence[int] | None) -> Tensor:
    ones = op.cast(op.cast(self, torch.bool), torch.int64)
    axes = axes_of(dim, self.rank)
    return reduced(op, "ReduceSum", ones, axes, False) if axes else ones


# Extremes


def _extreme(op: Builder, which: str, x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    """The largest or smallest elements; those of large int64 by their positions, which runtimes find rightly."""
    if not axes or not beyond_int32(x):
        return reduced(op, f"Reduce{which}", x, axes, keepdim) if axes else x
    result = x
    for axis in axes:
        (found,) = op.multi(f"Arg{which}", result, outputs=1, axis=axis, keepdims=True)
        shape = reduced_shape(result, [axis], True)
        result = op.GatherElements(result, found.with_shape(shape), axis=axis).with_shape(shape)
    return result if keepdim else op.squeeze(result, sorted(axes))


@translates("aten::amax")
def amax(op: Builder, self: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    return _extreme(op, "Max", self, axes_of(dim, self.rank), keepdim)


@translates("aten::amin")
def amin(op: Builder, self: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    return _extreme(op, "Min", self, axes_of(dim, self.rank), keepdim)


@translates("aten::max")
def max_(op: Builder, self: Tensor) -> Tensor:
    return amax(op, self, [], False)


@translates("aten::min")
def min_(op: Builder, self: Tensor) -> Tensor:
    return amin(op, self, [], False)


@translates("aten::aminmax")
def aminmax(op: Builder, self: Tensor, dim: int | None, keepdim: bool) -> tuple[Tensor, Tensor]:
    dims = [] if dim is None else [dim]
    return amin(op, self, dims, keepdim), amax(op, self, dims, keepdim)


def _position(op: Builder, op_type: str, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    # Ties go to the first position, as ONNX's default has it too.
    if not x.rank:
        return op.scalar(0, torch.int64)
    if x.dtype == torch.bool:
        x = op.cast(x, torch.uint8)
    if dim is None:
        (found,) = op.multi(op_type, flat(op, x), outputs=1, axis=0, keepdims=False)
        return op.reshape(found.with_shape([]), [1] * x.rank) if keepdim else found
    axis = axis_of(dim, x.rank)
    (found,) = op.multi(op_type, x, outputs=1, axis=axis, keepdims=keepdim)
    return found.with_shape(reduced_shape(x, [axis], keepdim))


@translates("aten::argmax")
def argmax(op: Builder, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    return _position(op, "ArgMax", self, dim, keepdim)


@translates("aten::argmin")
def argmin(op: Builder, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    return _position(op, "ArgMin", self, dim, keepdim)


@translates("aten::max.dim")
def max_dim(op: Builder, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    return amax(op, self, [dim], keepdim), argmax(op, self, dim, keepdim)


@translates("aten::min.dim")
def min_dim(op: Builder, self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    return amin(op, self, [dim], keepdim), argmin(op, self, dim, keepdim)


# Logic


def _quantified(op: Builder, op_type: str, x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    x = op.cast(x, torch.bool)
    if not x.rank or (isinstance(dim, Sequence) and len(dim) == 0):
        return x
    axes = axes_of(dim, x.rank)
    count = count_of(x, axes)
    if isinstance(count, int) and count > 0:
        return reduced(op, op_type, x, axes, keepdim)
    # Runtimes refuse to reduce no booleans at all; the extremes of uint8 are what "all" and "any" of nothing are.
    return op.cast(reduced(op, op_type, op.cast(x, torch.uint8), axes, keepdim), torch.bool)


@translates("aten::all", "aten::all.dim", "aten::all.dims")
def all_(op: Builder, self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return _quantified(op, "ReduceMin", self, dim, keepdim)


@translates("aten::any", "aten::any.dim", "aten::any.dims")
def any_(op: Builder, self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return _quantified(op, "ReduceMax", self, dim, keepdim)
