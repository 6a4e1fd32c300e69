"""Running sums, products and extremes, whole products, and differences along an axis."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import torch

from onnxport.aten.axes import axes_of, axis_of
from onnxport.aten.reduction.reduce import count_of, flat, reduced, sum_operand
from onnxport.translate import Builder, Tensor, translates
from onnxport.translate.dims import is_static
from onnxport.translate.first_elements import shape_if_empty
from onnxport.translate.loop import Outcome, emit_scan
from onnxport.translate.ranges import bits_of

ScanBody = Callable[[Builder, Sequence[Tensor], Sequence[Tensor]], Outcome]


@translates("aten::cumsum")
def cumsum(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    self = sum_operand(op, self, dtype)
    return op.CumSum(self, op.scalar(axis_of(dim, self.rank), torch.int64)) if self.rank else self


def _scanned(op: Builder, body: ScanBody, start: Sequence[Tensor], over: Sequence[Tensor], axis: int) -> list[Tensor]:
    """What a Scan along an axis of tensors stacks there, for a body that leaves the start as it is when given it.

    onnxruntime's Scan fails along an empty axis, and takes the process down along any but the first axis of an empty
    tensor. Where sizes vary the axis is put first, and the start before it.
    """
    shape = shape_if_empty(op, over[0])
    if is_static(shape):
        return emit_scan(op, body, start, [(x, axis) for x in over], [axis] * len(over))[1]
    others = [place for place in range(len(shape)) if place != axis]
    rest = [shape[place] for place in others]
    moved = [op.transpose(x, [axis, *others]) for x in over]
    longer = [
        (op.Concat(op.unsqueeze(first, [0]), x, axis=0).with_shape([shape[axis] + 1, *rest]), 0)
        for first, x in zip(start, moved, strict=True)
    ]
    _, stacked = emit_scan(op, body, start, longer, [0] * len(over))
    results = [op.slice(x, 0, 1, None).with_shape([shape[axis], *rest]) for x in stacked]
    return [op.transpose(x, [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]) for x in results]


def _running(
    op: Builder, x: Tensor, dim: int, start: float, combine: Callable[[Builder, Tensor, Tensor], Tensor]
) -> Tensor:
    """The results of combining the elements of an axis one after the other, by a Scan."""
    axis = axis_of(dim, x.rank)
    rest = [size for position, size in enumerate(shape_if_empty(op, x)) if position != axis]

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        following = combine(inner, state[0], slices[0]).with_shape(rest)
        return [following], [following]

    return _scanned(op, body, [op.full(start, rest, x.dtype)], [x], axis)[0]


@translates("aten::cumprod")
def cumprod(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    self = sum_operand(op, self, dtype)
    if not self.rank or 0 in self.shape:
        return self
    if self.dtype in (torch.float16, torch.bfloat16):
        # Multiplied in single precision, and rounded on the way out only.
        return op.cast(cumprod(op, op.cast(self, torch.float32), dim, None), self.dtype)
    # onnxruntime 1.31's CumProd crashes on an empty tensor, which one of any size may be.
    if not is_static(shape_if_empty(op, self)):
        return _running(op, self, dim, 1, lambda inner, a, b: a * b)
    axis = op.scalar(axis_of(dim, self.rank), torch.int64)
    return op.custom("", "CumProd", [self, axis], {}, [(self.dtype, self.shape)], version=26)[0]


@translates("aten::prod", "aten::prod.dim_int")
def prod(op: Builder, self: Tensor, dtype: torch.dtype | None, dim: int | None = None, keepdim: bool = False) -> Tensor:
    self = sum_operand(op, self, dtype)
    axes = axes_of(dim, self.rank)
    if not axes:
        return self
    if self.dtype != torch.int64 or _product_bits(self, axes) <= _EXACT_BITS:
        return reduced(op, "ReduceProd", self, axes, keepdim)
    if dim is None:
        self, axes = flat(op, self), [0]
    product = _exact_product(op, self, axes[0])
    return op.unsqueeze(product, axes) if keepdim else product


_EXACT_BITS = 53
_FEW = 8


def _product_bits(x: Tensor, axes: Sequence[int]) -> int:
    """How many bits hold a product of elements: factors of 0, 1 and -1 never need more than one."""
    bits, count = bits_of(x), count_of(x, axes)
    if bits <= 1:
        return bits
    return bits * count if isinstance(count, int) else 2 * _EXACT_BITS


def _exact_product(op: Builder, x: Tensor, axis: int) -> Tensor:
    """A product of int64 along an axis to the last bit; onnxruntime's ReduceProd multiplies in float64."""
    count = x.shape[axis]
    rest = [size for place, size in enumerate(x.shape) if place != axis]
    if isinstance(count, int) and 0 < count <= _FEW:
        factors = [op.Gather(x, op.scalar(place, torch.int64), axis=axis).with_shape(rest) for place in range(count)]
        return functools.reduce(lambda a, b: (a * b).with_shape(rest), factors)
    products = _running(op, x, axis, 1, lambda inner, a, b: a * b)
    # The product of nothing is 1, so that this is where the last one is looked for.
    longer = op.Concat(op.full(1, [*x.shape[:axis], 1, *x.shape[axis + 1 :]], x.dtype), products, axis=axis)
    return op.Gather(longer, op.scalar(-1, torch.int64), axis=axis).with_shape(rest)


def add_exponentials(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """``log(exp(a) + exp(b))`` without overflow; infinities, where the difference is NaN, are their own answer."""
    larger = op.Max(a, b)
    sum_ = larger + op.Log(op.Exp(-op.Abs(a - b)) + 1)
    return op.Where(op.IsInf(larger), larger, sum_)


@translates("aten::logcumsumexp", "aten::_logcumsumexp")
def logcumsumexp(op: Builder, self: Tensor, dim: int) -> Tensor:
    return _running(op, self, dim, -math.inf, add_exponentials) if self.rank else self


def _extremes(op: Builder, x: Tensor, dim: int, op_type: str) -> tuple[Tensor, Tensor]:
    """Running extremes and where they were last met: a later equal value moves the position, NaN stays for good."""
    if not x.rank:
        return op.Identity(x), op.scalar(0, torch.int64)
    axis = axis_of(dim, x.rank)
    as_bool = x.dtype == torch.bool
    if as_bool:
        x = op.cast(x, torch.uint8)
    shape = shape_if_empty(op, x)
    rest = [size for position, size in enumerate(shape) if position != axis]
    length = shape[axis]
    counter = op.Range(op.scalar(0, torch.int64), op.scalar(length, torch.int64), op.scalar(1, torch.int64))
    positions = op.expand(
        op.reshape(counter.with_shape([length]), [length, *[1] * (x.rank - axis - 1)]),
        shape,
    )

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        best, place = state
        value, position = slices
        new = (value >= best) if op_type == "max" else (value <= best)
        if value.is_float:
            new = new | inner.IsNaN(value)
        following = [inner.Where(new, value, best), inner.Where(new, position, place)]
        return following, following

    # The first element is no worse than the start, so that it is always taken.
    start = [op.full(_worst(x.dtype, op_type), rest, x.dtype), op.full(0, rest, torch.int64)]
    values, places = _scanned(op, body, start, [x, positions], axis)
    return (op.cast(values, torch.bool) if as_bool else values), places


def _worst(dtype: torch.dtype, op_type: str) -> float:
    if dtype.is_floating_point:
        return -math.inf if op_type == "max" else math.inf
    limits = torch.iinfo(dtype)
    return limits.min if op_type == "max" else limits.max


@translates("aten::cummax")
def cummax(op: Builder, self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _extremes(op, self, dim, "max")


@translates("aten::cummin")
def cummin(op: Builder, self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _extremes(op, self, dim, "min")


@translates("aten::diff", complex="by_parts")
def diff(op: Builder, self: Tensor, n: int, dim: int, prepend: Tensor | None, append: Tensor | None) -> Tensor:
    if n == 0:
        return self
    axis = axis_of(dim, self.rank)
    parts = [part for part in (prepend, self, append) if part is not None]
    if len(parts) > 1:
        length = parts[0].shape[axis]
        for part in parts[1:]:
            length = length + part.shape[axis]
        shape = [length if position == axis else size for position, size in enumerate(self.shape)]
        self = op.Concat(*parts, axis=axis).with_shape(shape)
    for _ in range(n):
        shape = list(self.shape)
        if shape[axis] == 0:
            return self
        shape[axis] = shape[axis] - 1
        later, earlier = op.slice(self, axis, 1, None), op.slice(self, axis, 0, -1)
        self = (op.Xor(later, earlier) if self.dtype == torch.bool else later - earlier).with_shape(shape)
    return self
