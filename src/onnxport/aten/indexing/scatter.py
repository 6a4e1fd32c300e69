"""Writing some elements of a tensor: by index along an axis, or into a part of it."""

from __future__ import annotations

import math

import torch

from onnxport.aten.axes import axis_of
from onnxport.aten.shapes.rearrange import counter
from onnxport.aten.shapes.view import from_front
from onnxport.onnx_build.literals import INT64_MAX
from onnxport.translate import Builder, Dim, Int, Number, Tensor, translates
from onnxport.translate.dims import maximum, product
from onnxport.translate.sizes import floor_divide

_REDUCTIONS = {
    "sum": "add",
    "add": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "amin": "min",
}


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which values that meet in one place are combined: one that can count, and rounds once at the end."""
    return {torch.bool: torch.int64, torch.float16: torch.float32, torch.bfloat16: torch.float32}.get(dtype, dtype)


def _vector(op: Builder, x: Tensor) -> Tensor:
    """A 0-d tensor counts as one of a single element."""
    return op.reshape(x, [1]) if x.rank == 0 else x


# By index along an axis


@translates("aten::scatter.src", complex="by_parts")
@translates("aten::scatter.value", "aten::scatter.reduce", "aten::scatter.value_reduce")
def scatter(
    op: Builder,
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | None = None,
    value: Number | Dim = 0,
    reduce: str | None = None,
) -> Tensor:
    if 0 in index.shape:
        return self
    index = _vector(op, index)
    updates = _as_many(op, value, index, self.dtype) if src is None else _like_index(op, src, index)
    return _scattered(op, self, dim, index, updates, reduce, include_self=True)


@translates("aten::scatter_add", complex="by_parts")
def scatter_add(op: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return scatter(op, self, dim, index, src, reduce="sum")


@translates("aten::scatter_reduce.two")
def scatter_reduce(
    op: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool
) -> Tensor:
    if 0 in index.shape:
        return self
    index = _vector(op, index)
    return _scattered(op, self, dim, index, _like_index(op, src, index), reduce, include_self)


def _as_many(op: Builder, value: Number | Dim, index: Tensor, dtype: torch.dtype) -> Tensor:
    """A value for each index."""
    if op.shared.sizes_of_parts.isdisjoint(index.shape):
        return op.full(value, index.shape, dtype)
    # To torch the index `x[:1]` has a size of 1, also where x is empty and it is too.
    one = op.scalar(value, dtype)
    return op.Where(op.Equal(index, index), one, one).with_shape(index.shape)


def _like_index(op: Builder, src: Tensor, index: Tensor) -> Tensor:
    """The part of ``src`` that has the shape of the index; torch lets it be larger."""
    src = _vector(op, src)
    cut = [axis for axis in range(index.rank) if src.shape[axis] != index.shape[axis]]
    if not cut:
        return src
    part = op.Slice(src, [0] * len(cut), [index.shape[axis] for axis in cut], cut)
    return part.with_shape(index.shape)


def _scattered(
    op: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str | None, include_self: bool
) -> Tensor:
    data = _vector(op, self)
    axis = axis_of(dim, data.rank)
    if reduce is not None:
        data, src = (op.cast(x, accumulator(self.dtype)) for x in (data, src))
    written = _reduced(op, data, axis, index, src, reduce, include_self)
    return op.reshape(op.cast(written, self.dtype).with_shape(data.shape), self.shape)


def _reduced(
    op: Builder, data: Tensor, axis: int, index: Tensor, src: Tensor, reduce: str | None, include_self: bool
) -> Tensor:
    if reduce is None:
        return op.ScatterElements(data, index, src, axis=axis)
    if not include_self:
        # What is written to must not count: it starts from the neutral element, or from any of the new values.
        neutral = {"sum": 0, "mean": 0, "prod": 1}.get(reduce)
        start = src if neutral is None else op.full(neutral, index.shape, data.dtype)
        data = op.ScatterElements(data, index, start, axis=axis)
    if reduce in ("amax", "amin"):
        return _extreme(op, data, axis, index, src, _REDUCTIONS[reduce])
    if reduce != "mean":
        return op.ScatterElements(data, index, src, axis=axis, reduction=_REDUCTIONS[reduce])
    total = op.ScatterElements(data, index, src, axis=axis, reduction="add")
    once = op.full(1, index.shape, data.dtype)
    count = op.full(1 if include_self else 0, data.shape, data.dtype)
    count = op.ScatterElements(count, index, once, axis=axis, reduction="add")
    if not include_self:
        count = op.Max(count, op.scalar(1, data.dtype))
    return total / count if data.is_float else floor_divide(op, total, count)


def _extreme(op: Builder, data: Tensor, axis: int, index: Tensor, src: Tensor, reduction: str) -> Tensor:
    found = op.ScatterElements(data, index, src, axis=axis, reduction=reduction)
    if not data.is_float:
        return found
    # NaN is the largest and the smallest for torch; runtimes compare it away.
    marks = [op.cast(op.IsNaN(x), torch.int32) for x in (data, src)]
    marked = op.ScatterElements(marks[0], index, marks[1], axis=axis, reduction="max")
    return op.Where(op.cast(marked, torch.bool), op.scalar(math.nan, data.dtype), found)


def _along(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str | None) -> Tensor:
    """Write the slices of ``source`` at positions along one axis."""
    if 0 in source.shape:
        return self
    data, index, source = _vector(op, self), _vector(op, index), _vector(op, source)
    axis = axis_of(dim, data.rank)
    if reduce is not None:
        data, source = (op.cast(x, accumulator(self.dtype)) for x in (data, source))
    if axis == 0:
        rows = op.unsqueeze(op.cast(index, torch.int64), [1])
        written = op.ScatterND(data, rows, source, reduction=None if reduce is None else _REDUCTIONS[reduce])
    else:
        written = _reduced(op, data, axis, _spread(op, index, axis, source), source, reduce, include_self=True)
    return op.reshape(op.cast(written, self.dtype).with_shape(data.shape), self.shape)


def _spread(op: Builder, index: Tensor, axis: int, source: Tensor) -> Tensor:
    """An index of slices along an axis as an index of elements."""
    return op.expand(op.unsqueeze(index, [place for place in range(source.rank) if place != axis]), source.shape)


@translates("aten::index_add", complex="by_parts")
def index_add(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Number | Dim) -> Tensor:
    if alpha != 1:
        source = op.cast(source, accumulator(source.dtype)) * alpha
    return _along(op, self, dim, index, source, "sum")


@translates("aten::index_copy", complex="by_parts")
def index_copy(op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _along(op, self, dim, index, source, None)


@translates("aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor")
def index_fill(op: Builder, self: Tensor, dim: int, index: Tensor, value: Tensor | Number | Dim) -> Tensor:
    data, index = _vector(op, self), _vector(op, index)
    axis = axis_of(dim, data.rank)
    source = op.full(value, [*data.shape[:axis], index.shape[0], *data.shape[axis + 1 :]], self.dtype)
    return op.reshape(_along(op, data, axis, index, source, None), self.shape)


@translates("aten::index_reduce")
def index_reduce(
    op: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    source = _vector(op, source)
    axis = axis_of(dim, source.rank)
    return _scattered(op, self, axis, _spread(op, _vector(op, index), axis, source), source, reduce, include_self)


@translates("aten::put", complex="by_parts")
def put(op: Builder, self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    flat, places, values = (op.reshape(x, [product(x.shape)]) for x in (self, index, source))
    return op.reshape(_along(op, flat, 0, places, values, "sum" if accumulate else None), self.shape)


# Into a part


@translates("aten::select_scatter", complex="by_parts")
def select_scatter(op: Builder, self: Tensor, src: Tensor, dim: int, index: Int) -> Tensor:
    axis = axis_of(dim, self.rank)
    size = self.shape[axis]
    place = from_front(op, index, size)
    chosen = op.Equal(counter(op, size), _position(op, place))
    where = op.unsqueeze(chosen.with_shape([size]), list(range(1, self.rank - axis)))
    return op.Where(where, op.unsqueeze(op.cast(src, self.dtype), [axis]), self)


@translates("aten::slice_scatter", complex="by_parts")
def slice_scatter(
    op: Builder, self: Tensor, src: Tensor, dim: int, start: Int | None, end: Int | None, step: Int
) -> Tensor:
    axis = axis_of(dim, self.rank)
    size = self.shape[axis]
    (shape,) = op.result_shapes()
    first = _clamped(op, 0 if start is None else start, size)
    count = src.shape[axis]
    source = op.expand(op.cast(src, self.dtype), [*shape[:axis], count, *shape[axis + 1 :]])
    if step != 1:
        places = counter(op, count) * op.scalar(step, torch.int64) + _position(op, first)
        return _along(op, self, axis, places.with_shape([count]), source, None)
    if axis and isinstance(start, Dim):
        # A cache, filled from a place that only the run tells: runtimes can do this without moving the rest.
        begin = op.expand(_position(op, first).with_shape([1]), [shape[0]])
        attributes = {"axis": None if axis == self.rank - 2 else axis}
        return op.custom("", "TensorScatter", [self, source, begin], attributes, [(self.dtype, shape)], version=24)[0]
    after: Int | Tensor
    if isinstance(first, int) and isinstance(end, int) and first <= end:
        after = end
    else:
        # The slice ends where the source does, whatever ``end`` says beyond the size.
        after = first + op.ints([count]) if isinstance(first, Tensor) else first + count
    parts = [source]
    if first != 0:
        parts.insert(0, op.Slice(self, [0], _position(op, first), [axis]))
    if after != size and not (isinstance(after, int) and (after == INT64_MAX or after == first + count == size)):
        parts.append(op.Slice(self, _position(op, after), [INT64_MAX], [axis]))
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


def _clamped(op: Builder, position: Int, size: Int) -> Int | Tensor:
    """Where a slice starts, counted from the front and never before it."""
    first = from_front(op, position, size)
    if isinstance(first, Tensor):
        return op.Max(first, op.ints([0]))
    return maximum(first, 0) if isinstance(position, int) and position < 0 else first


def _position(op: Builder, position: Int | Tensor) -> Tensor:
    return position if isinstance(position, Tensor) else op.ints([position])
