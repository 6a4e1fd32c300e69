"""Reading and writing by index tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from onnxport.aten.axes import axis_of
from onnxport.aten.indexing.in_order import read_in_order
from onnxport.aten.indexing.indexing_plan import Entry, IndexingPlan, inverse_permutation, plan_indexing
from onnxport.aten.indexing.masked import compress
from onnxport.aten.indexing.scatter import accumulator
from onnxport.translate import Builder, Dim, Int, Number, Tensor, translates
from onnxport.translate.dims import broadcast, product

Indices = Sequence[Tensor | None]


@translates("aten::select.int", complex="same")
def select(op: Builder, self: Tensor, dim: int, index: Int) -> Tensor:
    return op.Gather(self, op.scalar(index, torch.int64), axis=axis_of(dim, self.rank))


@translates("aten::index_select", complex="same")
def index_select(op: Builder, self: Tensor, dim: int, index: Tensor) -> Tensor:
    if self.rank == 0:
        return op.reshape(op.Gather(op.reshape(self, [1]), op.reshape(index, [1]), axis=0), [])
    positions = op.reshape(index, [1]) if index.rank == 0 else index
    return op.Gather(self, positions, axis=axis_of(dim, self.rank))


@translates("aten::gather", complex="by_parts")
def gather(op: Builder, self: Tensor, dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    if 0 in index.shape:
        return op.full(0, index.shape, self.dtype)
    # A 0-d tensor counts as one of a single element.
    data = op.reshape(self, [1]) if self.rank == 0 else self
    positions = op.reshape(index, [1]) if index.rank == 0 else index
    return op.reshape(
        op.GatherElements(data, positions, axis=axis_of(dim, data.rank)).with_shape(positions.shape), index.shape
    )


@translates("aten::take", complex="same")
def take(op: Builder, self: Tensor, index: Tensor) -> Tensor:
    return op.Gather(op.reshape(self, [product(self.shape)]), index, axis=0)


@translates("aten::take_along_dim", complex="by_parts")
def take_along_dim(op: Builder, self: Tensor, indices: Tensor, dim: int | None) -> Tensor:
    if dim is None:
        self = op.reshape(self, [product(self.shape)])
        return op.GatherElements(self, op.reshape(indices, [product(indices.shape)]), axis=0)
    axis = axis_of(dim, self.rank)
    common = list(op.result_shapes()[0])
    source = [*common[:axis], self.shape[axis], *common[axis + 1 :]]
    return op.GatherElements(op.expand(self, source), op.expand(indices, common), axis=axis)


# Lists of index tensors


def _with_axes_for_scalar_masks(op: Builder, self: Tensor, indices: Indices) -> tuple[Tensor, list[Tensor | None]]:
    """A 0-d mask takes or leaves a new dimension of size 1: give it one."""
    items: list[Tensor | None] = []
    added, axis = [], 0
    for item in indices:
        if item is not None and item.dtype == torch.bool:
            if item.rank == 0:
                added.append(axis)
                item = op.reshape(item, [1])
            axis += item.rank
        else:
            axis += 1
        items.append(item)
    return op.unsqueeze(self, added), items


def _plan(self: Tensor, items: Indices) -> IndexingPlan:
    entries = [None if item is None else Entry(item.rank, item.dtype == torch.bool) for item in items]
    return plan_indexing(self.rank, entries)


def _coordinates(op: Builder, plan: IndexingPlan, items: Indices) -> Tensor:
    """The positions along the indexed dimensions as one int64 tensor, a row of coordinates for each element taken."""
    rows: dict[int, Tensor] = {}
    positions = []
    for entry, row in plan.sources:
        item = items[entry]
        assert item is not None
        if item.dtype != torch.bool:
            positions.append(op.cast(item, torch.int64))
            continue
        if entry not in rows:
            rows[entry] = op.NonZero(item)
        if len(rows) == 1 and len(plan.sources) == item.rank:
            return op.Transpose(rows[entry], perm=[1, 0])
        positions.append(op.Gather(rows[entry], op.scalar(row, torch.int64), axis=0))
    shapes = [item.known_shape for item in positions]
    common = None if any(shape is None for shape in shapes) else broadcast(shapes)
    if common is not None:
        positions = [op.expand(item, common) for item in positions]
    elif len(positions) > 1:
        # With masks only run time can tell how many there are.
        size = op.Shape(functools.reduce(op.Add, positions))
        positions = [op.Expand(item, size) for item in positions]
    columns = [op.Unsqueeze(item, [plan.index_rank]) for item in positions]
    stacked = columns[0] if len(columns) == 1 else op.Concat(*columns, axis=plan.index_rank)
    return stacked if common is None else stacked.with_shape([*common, len(columns)])


@translates("aten::index.Tensor", "aten::_unsafe_index.Tensor", complex="same")
def index(op: Builder, self: Tensor, indices: Indices) -> Tensor:
    if all(item is None for item in indices):
        return self
    self, items = _with_axes_for_scalar_masks(op, self, indices)
    given = [item for item in items if item is not None]
    plan = _plan(self, items)
    if len(given) == 1:
        (item,) = given
        if item.dtype == torch.bool:
            return compress(op, self, item, plan.axes[0])
        return op.Gather(self, item, axis=plan.axes[0])
    whole = read_in_order(op, self, items)
    if whole is not None:
        return whole
    taken = op.GatherND(op.transpose(self, plan.order), _coordinates(op, plan, items))
    if self.is_complex and plan.front:
        taken = taken.with_shape([op.result_shapes()[0][axis] for axis in inverse_permutation(plan.result_order)])
    return op.transpose(taken, plan.result_order)


@translates("aten::_unsafe_masked_index", complex="by_parts")
def unsafe_masked_index(op: Builder, self: Tensor, mask: Tensor, indices: Indices, fill: Number | Dim) -> Tensor:
    taken = index(op, self, _within(op, self, indices))
    return op.Where(mask, taken, op.scalar(fill, self.dtype))


def _within(op: Builder, self: Tensor, indices: Indices) -> list[Tensor | None]:
    """Indices forced into their dimensions: what lies outside is masked, but must not stop the run."""
    clipped: list[Tensor | None] = []
    for item, size in zip(indices, self.shape, strict=False):
        if item is None:
            clipped.append(None)
            continue
        positions = op.cast(item, torch.int64)
        clipped.append(op.Clip(positions, op.scalar(-size, torch.int64), op.scalar(size - 1, torch.int64)))
    return clipped


@translates("aten::index_put", "aten::_unsafe_index_put", complex="by_parts")
def index_put(op: Builder, self: Tensor, indices: Indices, values: Tensor, accumulate: bool) -> Tensor:
    if accumulate and accumulator(self.dtype) != self.dtype:
        data, added = (op.cast(x, accumulator(self.dtype)) for x in (self, values))
        return op.cast(index_put(op, data, indices, added, accumulate), self.dtype)
    values = op.cast(values, self.dtype)
    if all(item is None for item in indices):
        return self + values if accumulate else op.expand(values, self.shape)
    shape = self.shape
    self, items = _with_axes_for_scalar_masks(op, self, indices)
    plan = _plan(self, items)
    given = [item for item in items if item is not None]
    if len(given) == 1 and given[0].dtype == torch.bool:
        written = _where_masked(op, self, given[0], plan.axes[0], values, accumulate)
        if written is not None:
            return op.reshape(written.with_shape(self.shape), shape)
    written = _written(op, self, plan, _coordinates(op, plan, items), values, accumulate)
    return op.reshape(written, shape)


def _where_masked(
    op: Builder, self: Tensor, mask: Tensor, axis: int, values: Tensor, accumulate: bool
) -> Tensor | None:
    """Write values that are the same for all true elements: no positions are needed."""
    after = self.rank - axis - mask.rank
    if values.rank > after:
        place = values.rank - after - 1
        if values.shape[place] != 1:
            return None
        sizes = values.shape
        values = op.reshape(values, [*sizes[:place], *[1] * mask.rank, *sizes[place + 1 :]])
    where = op.unsqueeze(mask, list(range(mask.rank, mask.rank + after)))
    return op.Where(where, self + values if accumulate else values, self)


def _written(
    op: Builder, self: Tensor, plan: IndexingPlan, coordinates: Tensor, values: Tensor, accumulate: bool
) -> Tensor:
    data = op.transpose(self, plan.order)
    rest = data.shape[len(plan.axes) :]
    before, after = rest[: plan.front], rest[plan.front :]
    # torch broadcasts the values to the shape that reading would give.
    if coordinates.known_shape is not None:
        read = op.expand(values, [*before, *coordinates.shape[:-1], *after])
    else:
        sizes = [op.ints(before)] if before else []
        sizes.append(op.Shape(coordinates, end=-1))
        sizes += [op.ints(after)] if after else []
        read = op.Expand(values, sizes[0] if len(sizes) == 1 else op.Concat(*sizes, axis=0))
    updates = op.transpose(read, inverse_permutation(plan.result_order))
    written = op.ScatterND(data, coordinates, updates, reduction="add" if accumulate else None)
    return op.transpose(written.with_shape(data.shape), inverse_permutation(plan.order))


@translates("aten::_unsafe_masked_index_put_accumulate", complex="by_parts")
def unsafe_masked_index_put(op: Builder, self: Tensor, mask: Tensor, indices: Indices, values: Tensor) -> Tensor:
    kept = op.Where(mask, values, op.scalar(0, values.dtype))
    return index_put(op, self, _within(op, self, indices), kept, accumulate=True)
