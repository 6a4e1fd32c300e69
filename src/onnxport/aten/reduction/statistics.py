"""Statistics: variance, medians, quantiles, modes, counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport.aten.axes import axes_of, axis_of
from onnxport.aten.indexing.sort import at_rank, insertion_points, ordered
from onnxport.aten.reduction.reduce import count_of, flat, mean, reduced, reduced_shape, sum_of_squares
from onnxport.errors import TranslationError
from onnxport.translate import Builder, Int, Number, Tensor, translates
from onnxport.translate.registry import ForComplex

Pair = tuple[Tensor, Tensor]
Variance = Callable[[Builder, Tensor, Sequence[int] | None, bool, Number | None, bool], Pair]


# Variance


def variance_and_mean(
    op: Builder, x: Tensor, dim: Sequence[int] | None, unbiased: bool, correction: Number | None, keepdim: bool
) -> Pair:
    """The variance and the mean, both with the reduced dimensions as asked."""
    axes = axes_of(dim, x.rank)
    if correction is None:
        correction = 1 if unbiased else 0
    assert not isinstance(correction, complex)
    centre = mean(op, x, None, axes, True)
    deviation = (x - centre).with_shape(x.shape)
    if correction == 0 and axes:
        variance = mean(op, (deviation * deviation).with_shape(x.shape), None, axes, keepdim)
    else:
        total = sum_of_squares(op, deviation, axes, keepdim)
        variance = total / _freedom(op, count_of(x, axes), correction, x.dtype)
    return variance, centre if keepdim else op.squeeze(centre, axes)


def _freedom(op: Builder, count: Int, correction: float, dtype: torch.dtype) -> Tensor:
    """The divisor of a variance, never negative: too few values have a variance of 0/0 = NaN or of infinity."""
    if isinstance(count, int):
        return op.scalar(max(count - correction, 0), dtype)
    return op.Max(op.scalar(count, dtype) - correction, op.scalar(0, dtype))


def translate_moments(variance: Variance, complex: ForComplex = "no") -> None:
    """Register variance and standard deviation, alone and with the mean, by what gives variance and mean."""
    results: dict[str, Callable[[Builder, Tensor, Tensor], Tensor | Pair]] = {
        "var": lambda op, squared, centre: squared,
        "std": lambda op, squared, centre: op.Sqrt(squared),
        "var_mean": lambda op, squared, centre: (squared, centre),
        "std_mean": lambda op, squared, centre: (op.Sqrt(squared), centre),
    }
    for name, result in results.items():
        overloads = (f"aten::{name}{suffix}" for suffix in ("", ".dim", ".correction"))
        translates(*overloads, complex=complex)(_moment(variance, result))


def _moment(variance: Variance, result: Callable[[Builder, Tensor, Tensor], Tensor | Pair]) -> Callable[..., Any]:
    def moment(
        op: Builder,
        self: Tensor,
        dim: Sequence[int] | None = None,
        unbiased: bool = True,
        correction: Number | None = None,
        keepdim: bool = False,
    ) -> Tensor | Pair:
        return result(op, *variance(op, self, dim, unbiased, correction, keepdim))

    return moment


translate_moments(variance_and_mean)


# Medians and quantiles


def _first_nan(op: Builder, x: Tensor, axis: int, keepdim: bool) -> Pair:
    """Whether there is a NaN along the axis, and where the first one is."""
    nans = op.cast(op.IsNaN(x), torch.uint8)
    found = op.cast(reduced(op, "ReduceMax", nans, [axis], keepdim), torch.bool)
    return found, op.ArgMax(nans, axis=axis, keepdims=keepdim)


@translates("aten::median.dim")
def median_dim(op: Builder, self: Tensor, dim: int, keepdim: bool) -> Pair:
    if not self.rank:
        return op.Identity(self), op.scalar(0, torch.int64)
    axis = axis_of(dim, self.rank)
    middle = (self.shape[axis] - 1) // 2
    values, positions = ordered(op, self, axis, middle + 1, False)
    value, position = at_rank(op, values, axis, middle, keepdim), at_rank(op, positions, axis, middle, keepdim)
    if not self.is_float:
        return value, position
    some, where = _first_nan(op, self, axis, keepdim)
    return op.Where(some, op.scalar(math.nan, self.dtype), value), op.Where(some, where, position)


def _with_one_more(op: Builder, x: Tensor, number: float) -> Tensor:
    """A vector and one more element."""
    return op.Concat(x, op.full(number, [1], x.dtype), axis=0).with_shape([x.shape[0] + 1])


def _or_nothing(op: Builder, x: Tensor) -> Tensor:
    """The median of a vector that may have no elements: torch has a NaN then, in C++ the least of whole numbers."""
    [length] = x.shape
    largest, nothing = (math.inf, math.nan) if x.is_float else (torch.iinfo(x.dtype).max, torch.iinfo(x.dtype).min)
    extended = _with_one_more(op, x, largest)
    middle = op.Max(op.scalar((length - 1) // 2, torch.int64), op.scalar(0, torch.int64))
    value = op.Gather(ordered(op, extended, 0, length // 2 + 1, False)[0], middle, axis=0).with_shape([])
    without = op.Equal(op.scalar(length, torch.int64), op.scalar(0, torch.int64))
    if x.is_float:
        without = without | _first_nan(op, extended, 0, False)[0]
    return op.Where(without, op.scalar(nothing, x.dtype), value)


@translates("aten::median")
def median(op: Builder, self: Tensor) -> Tensor:
    x = flat(op, self)
    return _or_nothing(op, x) if op.may_be_empty(x.shape) else median_dim(op, x, 0, False)[0]


@translates("aten::nanmedian.dim")
def nanmedian_dim(op: Builder, self: Tensor, dim: int, keepdim: bool) -> Pair:
    if not self.rank or not self.is_float:
        return median_dim(op, self, dim, keepdim)
    axis = axis_of(dim, self.rank)
    nans = op.IsNaN(self)
    # Replaced by infinity NaNs come last, and equal infinities among the numbers are infinities still.
    values, positions = ordered(
        op, op.Where(nans, op.scalar(math.inf, self.dtype), self), axis, self.shape[axis], False
    )
    count = reduced(op, "ReduceSum", op.cast(~nans, torch.int64), [axis], True)
    middle = op.Max(count - 1, op.scalar(0, torch.int64)) / 2
    value = op.GatherElements(values, middle, axis=axis).with_shape(count.shape)
    position = op.GatherElements(positions, middle, axis=axis).with_shape(count.shape)
    value = op.Where(count > 0, value, op.scalar(math.nan, self.dtype))
    return (value, position) if keepdim else (op.squeeze(value, [axis]), op.squeeze(position, [axis]))


@translates("aten::nanmedian")
def nanmedian(op: Builder, self: Tensor) -> Tensor:
    x = flat(op, self)
    if not op.may_be_empty(x.shape):
        return nanmedian_dim(op, x, 0, False)[0]
    return nanmedian_dim(op, _with_one_more(op, x, math.nan), 0, False)[0] if self.is_float else _or_nothing(op, x)


def _quantile(
    op: Builder,
    x: Tensor,
    q: Tensor | float,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
    ignore_nan: bool,
) -> Tensor:
    """Values at fractional ranks of the sorted axis, read between the two nearest whole ranks."""
    if dim is None or not x.rank:
        kept_shape: list[Int] = [1] * x.rank
        x, axis = flat(op, x), 0
    else:
        axis = axis_of(dim, x.rank)
        kept_shape = reduced_shape(x, [axis], True)
    x = op.transpose(x, [*(p for p in range(x.rank) if p != axis), axis])
    nans = op.IsNaN(x)
    last = x.rank - 1
    values, _ = ordered(op, op.Where(nans, op.scalar(math.inf, x.dtype), x), last, x.shape[last], False)
    many = isinstance(q, Tensor) and q.rank == 1
    fractions = op.reshape(q, [q.shape[0] if many else 1]) if isinstance(q, Tensor) else op.const([q], x.dtype)
    fractions = op.cast(fractions, x.dtype)
    if ignore_nan:
        count = reduced(op, "ReduceSum", op.cast(~nans, x.dtype), [last], True)
        # All NaN: any rank will do, what is read is replaced below.
        ranks = op.Max(count - 1, op.scalar(0, x.dtype)) * fractions
        missing = op.Equal(count, op.scalar(0, x.dtype))
    else:
        ranks = op.expand(fractions * (x.shape[last] - 1), [*x.shape[:last], fractions.shape[0]])
        missing = op.cast(reduced(op, "ReduceMax", op.cast(nans, torch.uint8), [last], True), torch.bool)
    result = _between(op, values, ranks, interpolation, last)
    result = op.Where(missing, op.scalar(math.nan, x.dtype), result)
    result = result.with_shape([*x.shape[:last], fractions.shape[0]])
    result = op.transpose(result, [last, *range(last)])
    return op.reshape(result, [*([fractions.shape[0]] if many else []), *(kept_shape if keepdim else x.shape[:last])])


def _between(op: Builder, values: Tensor, ranks: Tensor, interpolation: str, axis: int) -> Tensor:
    def read(rank: Tensor) -> Tensor:
        return op.GatherElements(values, op.cast(rank, torch.int64), axis=axis)

    if interpolation in ("lower", "higher", "nearest"):
        rounding = {"lower": op.Floor, "higher": op.Ceil, "nearest": op.Round}[interpolation]
        return read(rounding(ranks))
    below = op.Floor(ranks)
    low, high = read(below), read(op.Ceil(ranks))
    weight = op.scalar(0.5, values.dtype) if interpolation == "midpoint" else ranks - below
    # Equal neighbours need no step between them, which keeps infinities from becoming NaN.
    step = op.Where(op.Equal(low, high), op.scalar(0, values.dtype), (high - low) * weight)
    return low + step


@translates("aten::quantile", "aten::quantile.scalar")
def quantile(
    op: Builder, self: Tensor, q: Tensor | float, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    return _quantile(op, self, q, dim, keepdim, interpolation, False)


@translates("aten::nanquantile", "aten::nanquantile.scalar")
def nanquantile(
    op: Builder, self: Tensor, q: Tensor | float, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    return _quantile(op, self, q, dim, keepdim, interpolation, True)


@translates("aten::mode")
def mode(op: Builder, self: Tensor, dim: int, keepdim: bool) -> Pair:
    """The most frequent value (the least of several) and its last position.

    In the sorted axis equal values are runs; a run is as long as its number is frequent in the running count of starts.
    """
    if not self.rank:
        return op.Identity(self), op.scalar(0, torch.int64)
    axis = axis_of(dim, self.rank)
    length = self.shape[axis]
    values, positions = ordered(op, self, axis, length, False)
    comparable = op.cast(values, torch.uint8) if self.dtype == torch.bool else values
    starts = op.cast(~op.Equal(op.slice(comparable, axis, 1, None), op.slice(comparable, axis, 0, -1)), torch.int64)
    first = op.full(0, [1 if p == axis else size for p, size in enumerate(self.shape)], torch.int64)
    axis_scalar = op.scalar(axis, torch.int64)
    runs = op.CumSum(op.Concat(first, starts, axis=axis), axis_scalar).with_shape(self.shape)
    lengths = op.ScatterElements(
        op.full(0, self.shape, torch.int64), runs, op.full(1, self.shape, torch.int64), axis=axis, reduction="add"
    )
    longest = op.ArgMax(lengths, axis=axis, keepdims=True).with_shape(first.shape)
    end = op.GatherElements(op.CumSum(lengths, axis_scalar), longest, axis=axis) - 1
    value = op.GatherElements(values, end, axis=axis).with_shape(first.shape)
    position = op.GatherElements(positions, end, axis=axis).with_shape(first.shape)
    return (value, position) if keepdim else (op.squeeze(value, [axis]), op.squeeze(position, [axis]))


# Counting


def bin_sums(op: Builder, bins: Tensor, weights: Tensor, size: Int | Tensor) -> Tensor:
    """The sums of the weights that fall in each bin; both are vectors."""
    if isinstance(size, Tensor):
        empty = op.Expand(op.scalar(0, weights.dtype), op.reshape(size, [1]))
    else:
        empty = op.full(0, [size], weights.dtype)
    return op.ScatterElements(empty, bins, weights, axis=0, reduction="add")


@translates("aten::bincount")
def bincount(op: Builder, self: Tensor, weights: Tensor | None, minlength: Int) -> Tensor:
    bins = op.cast(self, torch.int64)
    if weights is None:
        weights = op.full(1, self.shape, torch.int64)
    elif not weights.is_float:
        weights = op.cast(weights, torch.float64)
    # A value below all bins makes the largest one well defined where there are none.
    extended = op.Concat(bins, op.const([-1], torch.int64), axis=0)
    largest = op.ReduceMax(extended, [0], keepdims=True).with_shape([1])
    return bin_sums(op, bins, weights, op.Max(largest + 1, op.sizes.vector(minlength)))


@translates("aten::histc")
def histc(op: Builder, self: Tensor, bins: int, min: Number, max: Number) -> Tensor:
    x = flat(op, self)
    assert not isinstance(min, complex) and not isinstance(max, complex)
    if min != max:
        low, high = op.scalar(min, x.dtype), op.scalar(max, x.dtype)
    elif count_of(self, range(self.rank)) == 0:
        return op.full(0, [bins], self.dtype)
    else:
        low, high = _range_of(op, x) if min == 0 else (op.scalar(min, x.dtype), op.scalar(max, x.dtype))
        low, high = _widened(op, low, high, 1)
    inside = (x >= low) & (x <= high)
    scaled = (x - low) * bins / (high - low)
    position = op.Min(
        op.cast(op.Where(inside, scaled, op.scalar(0, x.dtype)), torch.int64), op.const(bins - 1, torch.int64)
    )
    return bin_sums(op, position, op.cast(inside, x.dtype), bins)


def _range_of(op: Builder, x: Tensor) -> Pair:
    return (
        op.ReduceMin(x, [0], keepdims=False).with_shape([]),
        op.ReduceMax(x, [0], keepdims=False).with_shape([]),
    )


def _widened(op: Builder, low: Tensor, high: Tensor, by: float) -> Pair:
    """A range of nothing is widened on both sides."""
    margin = op.cast(op.Equal(low, high), low.dtype) * by
    return low - margin, high + margin


def _binned(op: Builder, x: Tensor, edges: Tensor, count: Int) -> Pair:
    """The bin of each value and whether it lies in any; the last bin includes its right edge."""
    first = op.Gather(edges, op.const(0, torch.int64)).with_shape([])
    last = op.Gather(edges, op.const(-1, torch.int64)).with_shape([])
    inside = (x >= first) & (x <= last)
    position = insertion_points(op, edges, x, True) - 1
    zero = op.scalar(0, torch.int64)
    return op.Where(inside, op.Min(position, op.scalar(count - 1, torch.int64)), zero), inside


def _edges(op: Builder, x: Tensor, bins: int, range: Sequence[float] | None) -> Tensor:
    """Equally spaced edges from the least value to the greatest, or over the range given."""
    if range is None and x.shape[0] == 0:
        range = (0, 1)
    if range is not None:
        low, high = float(range[0]), float(range[1])
        if low == high:
            low, high = low - 0.5, high + 0.5
        return op.const(torch.linspace(low, high, bins + 1, dtype=x.dtype).numpy(), x.dtype)
    least, greatest = _widened(op, *_range_of(op, x), 0.5)
    # As torch spaces them: the first half from the left end, the second half from the right one.
    half = (bins + 1) // 2
    step = (greatest - least) / bins
    left = least + step * op.const(list(_span(0, half)), x.dtype)
    right = greatest - step * op.const(list(_span(bins - half, -1, -1)), x.dtype)
    return op.Concat(op.reshape(left, [half]), op.reshape(right, [bins + 1 - half]), axis=0).with_shape([bins + 1])


def _span(*bounds: int) -> Sequence[int]:
    return range(*bounds)


def _density(op: Builder, counts: Tensor, widths: Sequence[Tensor]) -> Tensor:
    """Counts as a density: divided by their sum and by the volume of the bins."""
    result = counts / op.ReduceSum(counts, keepdims=False).with_shape([])
    for axis, width in enumerate(widths):
        result = result / op.reshape(width, [width.shape[0], *[1] * (len(widths) - axis - 1)])
    return result


def _widths(op: Builder, edges: Tensor) -> Tensor:
    return (op.slice(edges, 0, 1, None) - op.slice(edges, 0, 0, -1)).with_shape([edges.shape[0] - 1])


@translates("aten::histogram.bins_tensor", "aten::histogram.bin_ct")
def histogram(
    op: Builder,
    self: Tensor,
    bins: Tensor | int,
    weight: Tensor | None,
    density: bool,
    range: Sequence[float] | None = None,
) -> Pair:
    x = flat(op, self)
    edges = bins if isinstance(bins, Tensor) else _edges(op, x, bins, range)
    count = edges.shape[0] - 1
    position, inside = _binned(op, x, edges, count)
    weights = op.cast(inside, x.dtype)
    if weight is not None:
        weights = op.Where(inside, flat(op, weight), op.scalar(0, x.dtype))
    counts = bin_sums(op, position, weights, count).with_shape([count])
    return _density(op, counts, [_widths(op, edges)]) if density else counts, edges


def _points(op: Builder, x: Tensor) -> Tensor:
    return op.reshape(x, [count_of(x, range(x.rank - 1)), x.shape[-1]])


@translates("aten::_histogramdd_bin_edges")
def histogramdd_edges(
    op: Builder, self: Tensor, bins: Sequence[int], range: Sequence[float] | None, weight: Tensor | None, density: bool
) -> list[Tensor]:
    points = _points(op, self)
    results = []
    for axis, count in enumerate(bins):
        column = op.Gather(points, op.const(axis, torch.int64), axis=1).with_shape([points.shape[0]])
        results.append(_edges(op, column, count, None if range is None else range[2 * axis : 2 * axis + 2]))
    return results


@translates("aten::_histogramdd_from_bin_cts", "aten::_histogramdd_from_bin_tensors")
def histogramdd(
    op: Builder,
    self: Tensor,
    bins: Sequence[int] | Sequence[Tensor],
    weight: Tensor | None,
    density: bool,
    range: Sequence[float] | None = None,
) -> Tensor:
    if not isinstance(self.shape[-1], int):
        raise TranslationError("The number of coordinates of a point must be known to count points in a grid.")
    points = _points(op, self)
    all_edges = [item for item in bins if isinstance(item, Tensor)]
    if not all_edges:
        all_edges = histogramdd_edges(op, points, bins, range, weight, density)  # type: ignore[arg-type]
    counts = [edges.shape[0] - 1 for edges in all_edges]
    position, inside = None, None
    for axis, edges in enumerate(all_edges):
        column = op.Gather(points, op.const(axis, torch.int64), axis=1).with_shape([points.shape[0]])
        bin_, within = _binned(op, column, edges, counts[axis])
        position = bin_ if position is None else position * counts[axis] + bin_
        inside = within if inside is None else inside & within
    assert position is not None and inside is not None
    weights = op.cast(inside, self.dtype)
    if weight is not None:
        weights = op.Where(inside, flat(op, weight), op.scalar(0, self.dtype))
    size: Int = 1
    for count in counts:
        size = size * count
    grid = op.reshape(bin_sums(op, position, weights, size).with_shape([size]), counts)
    return _density(op, grid, [_widths(op, edges) for edges in all_edges]) if density else grid
