"""The items of lists, some of which stand for as many as only run time knows: how many there are, and single ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeGuard

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from onnxport.capture.replay.values.sequences import handle_operator, sequence_operator
from onnxport.capture.replay.values.stand_ins import (
    FreeRank,
    ItemType,
    Number,
    Optionally,
    ReplayValue,
    Sequenced,
    Stacked,
    Truth,
    materialized,
    parts_of,
    rebuilt,
)
from onnxport.errors import CaptureError, with_article
from onnxport.torch_graph import Type

Size = int | torch.SymInt
Run = Stacked | Sequenced
"""What stands in a list for as many items as run time will tell."""
Symbols = Collection[object]
"""Unbacked symbols, of sympy, which has no types."""

_UNKNOWN = -1
_FIRST_WITH_SEQUENCES = 11
_FIRST_WITH_OPTIONALS = 15
NUMBERS = (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool)


def has_run_time_length(value: ReplayValue) -> TypeGuard[list[ReplayValue]]:
    """Whether a value is a list whose length only run time knows."""
    return type(value) is list and any(isinstance(item, Stacked | Sequenced) for item in value)


def item_type_of(items: Sequence[ReplayValue]) -> ItemType | None:
    """What the items have in common; None if there are none."""
    found: ItemType | None = None
    for item in items:
        found = common_type(found, _type_of_one(item))
    return found


def have_one_shape(items: Sequence[ReplayValue]) -> bool:
    """Whether all items are tensors, of one element type and certainly of one shape."""
    found = item_type_of(items) if all(isinstance(item, torch.Tensor) for item in items) else None
    return found is not None and found.sizes is not None and None not in found.sizes


def _type_of_one(item: ReplayValue) -> ItemType | None:
    if isinstance(item, Sequenced):
        return item.item_type
    if isinstance(item, Stacked):
        return ItemType(item.tensor.dtype, tuple(item.tensor.shape[1:]), item.is_number)
    if isinstance(item, torch.Tensor):
        return ItemType(item.dtype, tuple(item.shape))
    if isinstance(item, Number):
        return ItemType(item.dtype, ())
    if isinstance(item, Truth):
        return ItemType(torch.bool, (), is_number=True)
    if isinstance(item, NUMBERS):
        return ItemType(Number.of(item).dtype, (), is_number=True)
    raise CaptureError(
        f"A list whose length only run time knows has {with_article(type(item).__name__)} in it; "
        "ONNX has lists of tensors only. Put tensors into it, such as torch.tensor(number), or give it a fixed length."
    )


def common_type(one: ItemType | None, other: ItemType | None) -> ItemType | None:
    """What holds for the items of two lists."""
    if one is None or other is None:
        return other if one is None else one
    if one.dtype != other.dtype:
        raise CaptureError(
            f"A list whose length only run time knows has tensors of {one.dtype} and of {other.dtype} in it; in ONNX "
            "they all have one type. Convert them before they are put into the list."
        )
    if one.sizes is None or other.sizes is None or len(one.sizes) != len(other.sizes):
        return ItemType(one.dtype, None, one.is_number)
    pairs = zip(one.sizes, other.sizes, strict=True)
    return ItemType(one.dtype, tuple(a if _certainly_equal(a, b) else None for a, b in pairs), one.is_number)


def _certainly_equal(one: Size | None, other: Size | None) -> bool:
    if one is None or other is None:
        return one is other
    return statically_known_true(one == other)


def without_inner_sizes(item_type: ItemType | None, symbols: Symbols) -> ItemType | None:
    """A type without the sizes that only a branch or a loop body knows.

    ``symbols`` are the unbacked symbols that are known outside of it.
    """
    if item_type is None or item_type.sizes is None:
        return item_type
    sizes = (None if is_inner(size, symbols) else size for size in item_type.sizes)
    return ItemType(item_type.dtype, tuple(sizes), item_type.is_number)


def is_inner(size: Size | None, symbols: Symbols) -> bool:
    """Whether only a branch or a loop body knows a size."""
    return isinstance(size, torch.SymInt) and any(symbol not in symbols for symbol in free_unbacked_symbols(size))


def says_the_same(one: ItemType | None, other: ItemType | None) -> bool:
    """Whether two types have the same sizes, as far as these are known."""
    if one is None or other is None or one.sizes is None or other.sizes is None:
        return one is other or (one is not None and other is not None and one.sizes is other.sizes)
    if len(one.sizes) != len(other.sizes):
        return False
    return all(_certainly_equal(a, b) for a, b in zip(one.sizes, other.sizes, strict=True))


def handle_of(items: Sequence[ReplayValue], dtype: torch.dtype) -> torch.Tensor:
    """The sequence of all items, as the tensor that carries it; ``dtype`` is that of a sequence without any."""
    items = [item for item in items if not (isinstance(item, Sequenced) and item.item_type is None)]
    if item_type_of(items) is None:
        return sequence_operator("empty")(dtype)
    first = next((n for n, item in enumerate(items) if isinstance(item, Stacked | Sequenced)), len(items))
    leading = [item_tensor(item) for item in items[:first]]
    if first == len(items):
        return sequence_operator("construct")(leading)
    handle = _handle(items[first])
    for position, tensor in enumerate(leading):
        handle = sequence_operator("insert")(handle, tensor, position)
    for item in items[first + 1 :]:
        if isinstance(item, Stacked | Sequenced):
            handle = sequence_operator("extend")(handle, _handle(item))
        else:
            handle = sequence_operator("insert")(handle, item_tensor(item), None)
    return handle


def item_tensor(item: ReplayValue) -> torch.Tensor:
    """An item as a tensor: a number is one without axes."""
    tensor: torch.Tensor = materialized(Number.of(item) if isinstance(item, NUMBERS) else item)
    return tensor


def _handle(run: ReplayValue) -> torch.Tensor:
    if isinstance(run, Sequenced):
        return run.handle
    assert isinstance(run, Stacked)
    return sequence_operator("unbind")(run.tensor)


def _handle_of_all(items: Sequence[ReplayValue], item_type: ItemType | None) -> torch.Tensor:
    # What has never had an item in it may have any type.
    return handle_of(items, torch.float32 if item_type is None else item_type.dtype)


def as_one_run(items: Sequence[ReplayValue]) -> Run:
    """All items as one: stacked if they have one shape, else a sequence."""
    if len(items) == 1 and isinstance(items[0], Stacked | Sequenced):
        return items[0]
    found = item_type_of(items)
    is_sequence = any(isinstance(item, Sequenced) for item in items)
    if is_sequence or found is None or found.sizes is None or None in found.sizes:
        return Sequenced(_handle_of_all(items, found), found)
    parts = [item.tensor if isinstance(item, Stacked) else item_tensor(item).unsqueeze(0) for item in items]
    return Stacked(torch.cat(parts), found.is_number)


def item_count(items: Sequence[ReplayValue]) -> Size:
    """The number of items."""
    count: Size = 0
    for item in items:
        if isinstance(item, Stacked):
            count = count + item.tensor.shape[0]
        elif isinstance(item, Sequenced):
            number = sequence_operator("length")(item.handle).item()
            torch._check(number >= 0)
            count = count + number  # type: ignore[assignment]
        else:
            count = count + 1
    return count


def item_at(items: Sequence[ReplayValue], position: Size) -> ReplayValue:
    """One of the items."""
    if isinstance(position, int):
        # As far as the items before it, or behind it, are known.
        near = items[: position + 1] if position >= 0 else items[position:]
        wanted = position + 1 if position >= 0 else -position
        if len(near) == wanted and not has_run_time_length(list(near)):
            return items[position]
    run = as_one_run(items)
    if isinstance(run, Stacked):
        item = run.tensor.select(0, position)
        # A number is read from a tensor of its own: torch reads none from a view at a place that varies.
        return _read(item.clone(), is_number=True) if run.is_number else item
    item = sequence_operator("at")(run.handle, position, _sizes(run.item_type))
    return _read(item, run.item_type is not None and run.item_type.is_number)


def _read(item: torch.Tensor, is_number: bool) -> ReplayValue:
    if is_number and item.dtype == torch.bool:
        return Truth(item)
    return item.item() if is_number else item


def numbers_in(items: Sequence[ReplayValue]) -> torch.Tensor:
    """All numbers of a list of numbers as one tensor; there may be none."""
    run = as_one_run(items)
    if isinstance(run, Stacked):
        return run.tensor
    # A number before them all: nothing can't be joined.
    first = torch.zeros([], dtype=run.handle.dtype)
    handle = sequence_operator("insert")(run.handle, first, 0)
    return sequence_operator("join")(handle, 0, True, [_UNKNOWN])[1:]


def holds_numbers(items: Sequence[ReplayValue]) -> bool:
    """Whether a list is one of numbers."""
    found = item_type_of(items)
    return found is not None and found.is_number


def _sizes(item_type: ItemType | None) -> list[Size]:
    if item_type is None:
        raise CaptureError(
            "An item is read from a list that has none yet as far as the graph tells, so that its type is not known. "
            "Put an item of the same type into the list before the branch or loop."
        )
    if item_type.sizes is None:
        raise CaptureError(
            "An item is read from a list whose length only run time knows and whose tensors have different numbers of "
            "dimensions. Give them the same number of dimensions, for instance with unsqueeze."
        )
    return [_UNKNOWN if size is None else size for size in item_type.sizes]


def join_items(items: Sequence[ReplayValue], axis: int, new_axis: bool) -> torch.Tensor:
    """The items one after another along an axis of theirs, or along a new one."""
    if any(isinstance(item, Sequenced) for item in items):
        run = as_one_run(items)
        assert isinstance(run, Sequenced)
        sizes = _sizes(run.item_type)
        axis = axis % (len(sizes) + new_axis)
        sizes[axis : axis if new_axis else axis + 1] = [_UNKNOWN]
        return sequence_operator("join")(run.handle, axis, new_axis, sizes)
    parts = []
    for item in items:
        if isinstance(item, Stacked):
            parts.append(item.stacked(axis) if new_axis else item.joined(axis))
        else:
            parts.append(item_tensor(item).unsqueeze(axis) if new_axis else item_tensor(item))
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)


def take_items(items: Sequence[ReplayValue], positions: torch.Tensor) -> Run:
    """The items at some positions."""
    run = as_one_run(items)
    if isinstance(run, Stacked):
        return Stacked(run.tensor.index_select(0, positions), run.is_number)
    return Sequenced(sequence_operator("take")(run.handle, positions), run.item_type)


def with_item(items: Sequence[ReplayValue], position: Size, item: ReplayValue) -> Sequenced:
    """The items with another one before the one at a position."""
    found = common_type(item_type_of(items), item_type_of([item]))
    assert found is not None
    handle = sequence_operator("insert")(handle_of(items, found.dtype), item_tensor(item), position)
    return Sequenced(handle, found)


def without_item(items: Sequence[ReplayValue], position: Size) -> Sequenced:
    """The items without the one at a position."""
    found = item_type_of(items)
    return Sequenced(sequence_operator("erase")(_handle_of_all(items, found), position), found)


def may_be_none(value: ReplayValue) -> bool:
    """Whether there is a tensor in a result of which only run time knows whether it is there."""
    if isinstance(value, list | tuple | dict):
        return any(may_be_none(part) for part in parts_of(value))
    return isinstance(value, Optionally)


def typed_for(opset: int, value: ReplayValue, type_: Type) -> ReplayValue:
    """A result as TorchScript types it: a list of tensors is a sequence, and None an optional value without any.

    Where an opset has no such type, or no list of that kind, the result stays as it is.
    """
    if type_.kind() == "TupleType" and isinstance(value, tuple):
        pairs = zip(value, type_.containedTypes(), strict=True)
        return rebuilt(value, [typed_for(opset, *pair) for pair in pairs])
    if value is None and opset >= _FIRST_WITH_OPTIONALS:
        # What is never there has no number of axes either.
        return Optionally(torch.zeros([], dtype=torch.bool), handle_operator("of_any_rank")(torch.zeros([])))
    is_list = type_.kind() == "ListType" and type_.getElementType().kind() == "TensorType"
    if opset < _FIRST_WITH_SEQUENCES or not is_list or not isinstance(value, list) or has_run_time_length(value):
        return value
    tensors = [item_tensor(item) for item in value if isinstance(item, torch.Tensor | Number)]
    if len(tensors) < len(value) or len({tensor.dtype for tensor in tensors}) > 1:
        return value
    # What has never had an item in it may have any type.
    return [Sequenced(handle_of(tensors, torch.float32), item_type_of(tensors))]


def with_handles(value: ReplayValue) -> ReplayValue:
    """A result with a handle in the place of each list whose length only run time knows, and of what is like it."""
    if has_run_time_length(value):
        return _handle_of_all(value, item_type_of(value)).clone()
    if isinstance(value, Optionally):
        return handle_operator("optional")(value.tensor, value.is_there)
    if isinstance(value, FreeRank):
        return value.handle.clone()
    if isinstance(value, list | tuple | dict):
        return rebuilt(value, [with_handles(part) for part in parts_of(value)])
    return value
