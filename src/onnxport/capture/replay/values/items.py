"""The items of lists, some of which stand for as many as only run time knows: how many there are, and single ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from onnxport.capture.replay.values.kinds import Kind, Number, Sequenced, Stacked, materialized, parts_of, rebuilt
from onnxport.capture.replay.values.sequences import operator
from onnxport.errors import CaptureError

_UNKNOWN = -1


def varies(value: Any) -> bool:
    """Whether a value is a list whose length only run time knows."""
    return type(value) is list and any(isinstance(item, Stacked | Sequenced) for item in value)


def kind_of(items: Sequence[Any]) -> Kind | None:
    """What the items have in common; None if there are none."""
    found: Kind | None = None
    for item in items:
        found = common(found, _kind(item))
    return found


def _kind(item: Any) -> Kind | None:
    if isinstance(item, Sequenced):
        return item.kind
    if isinstance(item, Stacked):
        return Kind(item.tensor.dtype, tuple(item.tensor.shape[1:]))
    if isinstance(item, torch.Tensor):
        return Kind(item.dtype, tuple(item.shape))
    if isinstance(item, Number):
        return Kind(item.dtype, ())
    raise CaptureError(
        f"A list whose length only run time knows has a {type(item).__name__} in it; ONNX has lists of tensors only. "
        "Put tensors into the list, such as torch.tensor(number), or give it a fixed length."
    )


def common(one: Kind | None, other: Kind | None) -> Kind | None:
    """What holds for the items of two lists."""
    if one is None or other is None:
        return other if one is None else one
    if one.dtype != other.dtype:
        raise CaptureError(
            f"A list whose length only run time knows has tensors of {one.dtype} and of {other.dtype} in it; in ONNX "
            "they all have one type. Convert them before they are put into the list."
        )
    if one.sizes is None or other.sizes is None or len(one.sizes) != len(other.sizes):
        return Kind(one.dtype, None)
    return Kind(one.dtype, tuple(a if same(a, b) else None for a, b in zip(one.sizes, other.sizes, strict=True)))


def same(one: Any, other: Any) -> bool:
    """Whether two sizes are certainly equal."""
    if one is None or other is None:
        return one is other
    return statically_known_true(one == other)


def widened(kind: Kind | None, around: Collection[Any]) -> Kind | None:
    """A kind without the sizes that nothing tells but a branch or a body; ``around`` are the symbols known outside."""
    if kind is None or kind.sizes is None:
        return kind
    return Kind(kind.dtype, tuple(None if _is_inner(size, around) else size for size in kind.sizes))


def _is_inner(size: Any, around: Collection[Any]) -> bool:
    return isinstance(size, torch.SymInt) and any(symbol not in around for symbol in free_unbacked_symbols(size))


def equal(one: Kind | None, other: Kind | None) -> bool:
    """Whether two kinds say the same."""
    if one is None or other is None or one.sizes is None or other.sizes is None:
        return one is other or (one is not None and other is not None and one.sizes is other.sizes)
    return len(one.sizes) == len(other.sizes) and all(same(a, b) for a, b in zip(one.sizes, other.sizes, strict=True))


def handle_of(items: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
    """The sequence of all items, as the tensor that carries it."""
    items = [item for item in items if not (isinstance(item, Sequenced) and item.kind is None)]
    kind = kind_of(items)
    if kind is None:
        return operator("empty")(dtype)
    first = next((n for n, item in enumerate(items) if isinstance(item, Stacked | Sequenced)), len(items))
    leading = materialized(list(items[:first]))
    if first == len(items):
        return operator("construct")(leading)
    handle = _handle(items[first])
    for position, item in enumerate(leading):
        handle = operator("insert")(handle, item, position)
    for item in items[first + 1 :]:
        if isinstance(item, Stacked | Sequenced):
            handle = operator("extend")(handle, _handle(item))
        else:
            handle = operator("insert")(handle, materialized(item), None)
    return handle


def _handle(run: Stacked | Sequenced) -> torch.Tensor:
    return run.handle if isinstance(run, Sequenced) else operator("unbind")(run.tensor)


def whole(items: Sequence[Any]) -> Stacked | Sequenced:
    """All items as one: stacked if they have one shape, else a sequence."""
    if len(items) == 1 and isinstance(items[0], Stacked | Sequenced):
        one: Stacked | Sequenced = items[0]
        return one
    kind = kind_of(items)
    if any(isinstance(item, Sequenced) for item in items) or kind is None or kind.sizes is None or None in kind.sizes:
        return Sequenced(handle_of(items, torch.float32 if kind is None else kind.dtype), kind)
    return Stacked(
        torch.cat([item.tensor if isinstance(item, Stacked) else materialized(item).unsqueeze(0) for item in items])
    )


def length(items: Sequence[Any]) -> Any:
    """The number of items."""
    count: Any = 0
    for item in items:
        if isinstance(item, Stacked):
            count = count + item.tensor.shape[0]
        elif isinstance(item, Sequenced):
            number = operator("length")(item.handle).item()
            torch._check(number >= 0)
            count = count + number
        else:
            count = count + 1
    return count


def at(items: Sequence[Any], position: Any) -> Any:
    """One of the items."""
    if isinstance(position, int):
        # As far as the items before it, or behind it, are known.
        near = items[: position + 1] if position >= 0 else items[position:]
        wanted = position + 1 if position >= 0 else -position
        if len(near) == wanted and not varies(list(near)):
            return items[position]
    run = whole(items)
    if isinstance(run, Stacked):
        return run.tensor.select(0, position)
    return operator("at")(run.handle, position, _sizes(run.kind))


def _sizes(kind: Kind | None) -> list[Any]:
    if kind is None:
        raise CaptureError(
            "An item is read from a list that has none yet as far as the graph tells, so that its type is not known. "
            "Put an item of the same type into the list before the branch or loop."
        )
    if kind.sizes is None:
        raise CaptureError(
            "An item is read from a list whose length only run time knows and whose tensors have different numbers of "
            "dimensions. Give them the same number of dimensions, for instance with unsqueeze."
        )
    return [_UNKNOWN if size is None else size for size in kind.sizes]


def joined(items: Sequence[Any], axis: int, new_axis: bool) -> torch.Tensor:
    """The items one after another along an axis of theirs, or along a new one."""
    if any(isinstance(item, Sequenced) for item in items):
        run = whole(items)
        assert isinstance(run, Sequenced)
        sizes = _sizes(run.kind)
        axis = axis % (len(sizes) + new_axis)
        sizes[axis : axis if new_axis else axis + 1] = [_UNKNOWN]
        return operator("join")(run.handle, axis, new_axis, sizes)
    parts = []
    for item in items:
        if isinstance(item, Stacked):
            parts.append(item.stacked(axis) if new_axis else item.joined(axis))
        else:
            parts.append(materialized(item).unsqueeze(axis) if new_axis else materialized(item))
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)


def taken(items: Sequence[Any], positions: torch.Tensor) -> Stacked | Sequenced:
    """The items at some positions."""
    run = whole(items)
    if isinstance(run, Stacked):
        return Stacked(run.tensor.index_select(0, positions))
    return Sequenced(operator("take")(run.handle, positions), run.kind)


def inserted(items: Sequence[Any], position: Any, item: Any) -> Sequenced:
    """The items with another one before the one at a position."""
    kind = common(kind_of(items), kind_of([item]))
    assert kind is not None
    return Sequenced(operator("insert")(handle_of(items, kind.dtype), materialized(item), position), kind)


def erased(items: Sequence[Any], position: Any) -> Sequenced:
    """The items without the one at a position."""
    kind = kind_of(items)
    return Sequenced(operator("erase")(handle_of(items, torch.float32 if kind is None else kind.dtype), position), kind)


def returned(value: Any) -> Any:
    """A result with a handle in the place of each list whose length only run time knows."""
    if varies(value):
        kind = kind_of(value)
        return handle_of(value, torch.float32 if kind is None else kind.dtype).clone()
    if isinstance(value, list | tuple | dict):
        return rebuilt(value, [returned(part) for part in parts_of(value)])
    return value
