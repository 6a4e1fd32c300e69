"""Items and lists of which only run time knows how many there are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from onnxport.capture.patches.pieces import Pieces
from onnxport.capture.patches.tensor_numbers import ListedTensor, listed, numbers_of
from onnxport.capture.replay.values.items import (
    NUMBERS,
    holds_numbers,
    item_at,
    item_count,
    join_items,
    numbers_in,
)
from onnxport.capture.replay.values.stand_ins import (
    Number,
    ReplayValue,
    Sequenced,
    Stacked,
    parts_of,
    rebuilt,
)
from onnxport.torch_internals import pytree
from onnxport.torch_internals.arrays import Array

Size = int | torch.SymInt
ModelValue: TypeAlias = Any
"""A value of the model's code, which alone knows its type: an item, a number, a truth, a list of these."""
ModelFunction: TypeAlias = Callable[..., Any]
"""A function of the model's code, or one of Python's that it calls."""


class OnlyRunTimeKnows(TypeError):
    """What is asked of a list can't be done to one of which only run time knows the length."""


@dataclass(frozen=True)
class OpenItems:
    """What a loop runs over: items of which only run time knows how many. Iterating makes the number plain."""

    length: Size
    at: Callable[[Size], ModelValue]

    def __iter__(self) -> Iterator[ModelValue]:
        return (self.at(place) for place in range(self.length))

    def __len__(self) -> int:
        return int(self.length)

    def __getitem__(self, place: ModelValue) -> ModelValue:
        if isinstance(place, slice):
            return list(self)[place]
        return self.at(place if not isinstance(place, int) or place >= 0 else self.length + place)


@dataclass(frozen=True)
class OpenRange(OpenItems):
    """A ``range`` of which only run time knows the end."""

    start: ModelValue
    step: int

    @property
    def numbers(self) -> torch.Tensor:
        """Its numbers in a tensor."""
        numbers: torch.Tensor = torch.arange(self.length) * self.step + self.start  # type: ignore[arg-type]
        return numbers


def items_of(iterable: object) -> ModelValue:
    """What a loop runs over, open if its length is."""
    if isinstance(iterable, torch.Tensor) and iterable.dim() and isinstance(iterable.shape[0], torch.SymInt):
        # A number is read from a tensor of its own: torch reads none from a view at a place that varies.
        own = torch.clone if iterable.dim() == 1 else _as_it_is
        return OpenItems(iterable.shape[0], lambda place: own(iterable.select(0, place)))
    if isinstance(iterable, Array) and isinstance(items_of(iterable.tensor), OpenItems):
        return OpenItems(iterable.tensor.shape[0], lambda place: Array(iterable.tensor.select(0, place)))
    if isinstance(iterable, ListedTensor):
        return OpenItems(iterable.tensor.shape[0], lambda place: numbers_of(iterable.tensor.select(0, place)))
    if isinstance(iterable, Pieces) and iterable.cut.most is None:
        return _pieces(iterable)
    return iterable.items() if isinstance(iterable, OpenList) and iterable.has_open_length else iterable


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _pieces(pieces: Pieces) -> OpenItems:
    """Rows, or the pieces of one size, of which the last may be smaller."""
    cut = pieces.cut
    size: object = cut.size
    before = (slice(None),) * cut.dim

    def at(place: ModelValue) -> torch.Tensor:
        place = cut.count - 1 - place if pieces.is_reversed else place
        if size is None:
            row: torch.Tensor = cut.tensor.select(cut.dim, place)
            return row if row.dim() else row.clone()
        start = place * size
        return cut.tensor[(*before, slice(start, start + size))]

    return OpenItems(cut.count, at)


@dataclass(frozen=True)
class OpenRun:
    """Tensors of one shape, of which only run time knows how many: stacked along axis 0. They stand in an OpenList."""

    tensor: torch.Tensor


@dataclass(frozen=True)
class OpenRows:
    """Numbers, or tuples and dicts of numbers and tensors, of which only run time knows how many. In an OpenList.

    ``like`` is one of them, and ``columns`` has what stands in each place of them, stacked along axis 0.
    """

    like: ModelValue
    columns: tuple[torch.Tensor, ...]

    @staticmethod
    def of(item: ModelValue) -> OpenRows:
        """One item, or the items that there are."""
        if isinstance(item, OpenRows):
            return item
        return OpenRows(item, tuple(column_of(leaf).unsqueeze(0) for leaf in leaves_of_row(item)))

    @property
    def length(self) -> Size:
        """How many there are."""
        return self.columns[0].shape[0]

    @property
    def is_of_numbers(self) -> bool:
        """Whether they are numbers or truths."""
        return isinstance(self.like, NUMBERS)

    def changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> OpenRows:
        """The same with other columns."""
        return OpenRows(self.like, tuple(map(change, self.columns)))

    def followed_by(self, other: OpenRows) -> OpenRows:
        """These and others behind them."""
        pairs = list(zip(self.columns, other.columns, strict=False))
        alike = [a.dtype == b.dtype and a.dim() == b.dim() for a, b in pairs]
        if shape_of_row(self.like) != shape_of_row(other.like) or not all(alike):
            raise OnlyRunTimeKnows("items of other kinds are in a list of which only run time knows the length")
        return OpenRows(self.like, tuple(torch.cat(pair) for pair in pairs))

    def at(self, place: Size) -> ModelValue:
        """The item at a place."""
        columns = iter(self.columns)
        return _row(self.like, lambda leaf: _read(leaf, next(columns).select(0, place)))


def leaves_of_row(value: ModelValue) -> list[ModelValue]:
    """What is in tuples, lists and dicts, however deep."""
    if isinstance(value, tuple | list | dict):
        return [leaf for part in parts_of(value) for leaf in leaves_of_row(part)]
    return [value]


def shape_of_row(value: ModelValue) -> object:
    """What tells items from others that can't follow them."""
    if isinstance(value, tuple | list | dict):
        keys = list(value) if isinstance(value, dict) else None
        return type(value), keys, [shape_of_row(part) for part in parts_of(value)]
    return isinstance(value, torch.Tensor), isinstance(value, Array)


def column_of(leaf: ModelValue) -> torch.Tensor:
    """A number, tensor or array as a tensor."""
    if isinstance(leaf, NUMBERS):
        number = Number.of(leaf).tensor()
        return number.to(torch.float64) if number.dtype.is_floating_point else number
    return leaf.tensor if isinstance(leaf, Array) else leaf


def _row(like: ModelValue, make: Callable[[ModelValue], ModelValue]) -> ModelValue:
    if isinstance(like, tuple | list | dict):
        return rebuilt(like, [_row(part, make) for part in parts_of(like)])
    return make(like)


def _read(leaf: ModelValue, found: torch.Tensor) -> ModelValue:
    if isinstance(leaf, Array):
        return Array(found)
    # A number is read from a tensor of its own: torch reads none from a view at a place that varies.
    return found.clone().item() if isinstance(leaf, NUMBERS) else found


def stacked(tensors: ModelValue, dim: int = 0) -> torch.Tensor:
    """``torch.stack`` of tensors, some of which may be runs."""
    if not isinstance(tensors, OpenList) or not tensors.has_open_length:
        return torch.stack(tensors, dim)
    # What is stacked is a copy; a run alone shows the memory of the tensor that it was taken from.
    return _in_a_row(tensors, dim).clone()


def _in_a_row(tensors: OpenList, dim: int = 0) -> torch.Tensor:
    """The items along an axis; those of one run are still views of what they were taken from."""
    if tensors.has_sequence:
        return join_items(tensors.as_in_scripts, dim, new_axis=True)
    parts = [
        part.tensor.movedim(0, dim) if isinstance(part, OpenRun) else part.unsqueeze(dim) for part in tensors.parts
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def concatenated(tensors: ModelValue, dim: int = 0) -> torch.Tensor:
    """``torch.cat`` of tensors, some of which may be runs."""
    if not isinstance(tensors, OpenList) or not tensors.has_open_length:
        return torch.cat(tensors, dim)
    if tensors.has_sequence:
        return join_items(tensors.as_in_scripts, dim, new_axis=False)
    parts = []
    for part in tensors.parts:
        if isinstance(part, OpenRun):
            axis = dim % (part.tensor.dim() - 1)
            copy = part.tensor.movedim(0, axis).clone(memory_format=torch.contiguous_format)
            part = copy.flatten(axis, axis + 1)
        parts.append(part)
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


class OpenList(list[ModelValue]):
    """A list with runs among its items. What needs their number as a plain one is refused.

    Lists that rewritten functions make are of this class from the start, so that whoever has one finds in it what
    a loop adds.
    """

    @staticmethod
    def of(items: object) -> OpenList:
        """A list of what is in another, or in what can be iterated."""
        return OpenList(_parts(items))

    @property
    def has_open_length(self) -> bool:
        """Whether there are runs among the items."""
        return any(isinstance(part, OpenRun | OpenRows | Sequenced) for part in self.parts)

    @property
    def has_sequence(self) -> bool:
        """Whether there is a sequence of ONNX among the items."""
        return any(isinstance(part, Sequenced) for part in self.parts)

    @property
    def rows(self) -> OpenRows | None:
        """The items as rows, where there are any among them."""
        if not any(isinstance(part, OpenRows) for part in self.parts):
            return None
        first, *others = map(OpenRows.of, self.parts)
        return functools.reduce(OpenRows.followed_by, others, first)

    @property
    def numbers(self) -> ModelValue:
        """The list that is made of a tensor, if all items are numbers; otherwise the list as it is."""
        if self.has_sequence and holds_numbers(self.as_in_scripts):
            return listed(numbers_in(self.as_in_scripts))
        rows = self.rows
        return self if rows is None or not rows.is_of_numbers else listed(rows.columns[0])

    @property
    def table(self) -> ModelValue:
        """Tuples of numbers as the list of what is in them, which is made of a tensor; another list as it is."""
        rows = self.rows
        parts = rows.like if rows is not None and isinstance(rows.like, tuple | list) else ()
        if rows is None or not parts or not all(isinstance(part, NUMBERS) for part in parts):
            return self.numbers
        dtype = functools.reduce(torch.promote_types, (column.dtype for column in rows.columns))
        return listed(torch.stack([column.to(dtype) for column in rows.columns], 1))

    @property
    def as_in_scripts(self) -> list[ReplayValue]:
        """The items as they stand in a list of a script that is replayed."""
        return [Stacked(part.tensor) if isinstance(part, OpenRun) else part for part in self.parts]

    @property
    def length(self) -> Size:
        """How many items there are."""
        rows = self.rows
        return item_count(self.as_in_scripts) if rows is None else rows.length

    @property
    def parts(self) -> list[ModelValue]:
        """The items and runs."""
        return [list.__getitem__(self, place) for place in range(list.__len__(self))]

    def items(self) -> OpenItems:
        """What a loop over the list runs over; without a sequence all items must be tensors of one shape."""
        if self.has_sequence:
            return OpenItems(self.length, lambda place: item_at(self.as_in_scripts, place))
        rows = self.rows
        if rows is not None:
            return OpenItems(rows.length, rows.at)
        whole = _in_a_row(self)
        return OpenItems(whole.shape[0], lambda place: whole.select(0, place))

    def __len__(self) -> int:
        return int(self.length)

    def __bool__(self) -> bool:
        return bool(self.length > 0)

    def __iter__(self) -> Iterator[object]:
        return iter(self.items() if self.has_open_length else self.parts)

    def __getitem__(self, place: ModelValue) -> ModelValue:
        if not self.has_open_length:
            found = list.__getitem__(self, place)
            return OpenList(found) if isinstance(place, slice) else found
        if self.has_sequence and not isinstance(place, slice):
            return item_at(self.as_in_scripts, place)
        rows = self.rows
        if rows is not None:
            is_part = isinstance(place, slice)
            return OpenList([rows.changed(lambda column: _cut(column, place))]) if is_part else rows.at(place)
        whole = _in_a_row(self)
        return OpenList([OpenRun(_cut(whole, place))]) if isinstance(place, slice) else whole[place]

    def __reversed__(self) -> Iterator[object]:
        return iter(self[::-1])

    def __add__(self, other: ModelValue) -> OpenList:
        return OpenList([*self.parts, *_parts(other)])

    def __radd__(self, other: object) -> OpenList:
        return OpenList([*_parts(other), *self.parts])

    def __iadd__(self, other: ModelValue) -> OpenList:
        self.extend(other)
        return self

    def extend(self, other: Iterable[object]) -> None:
        """Add items at the end, and runs."""
        super().extend(_parts(other))

    def copy(self) -> OpenList:
        """Another list of the same items."""
        return OpenList(self.parts)

    def reverse(self) -> None:
        """Let the items be in the opposite order, those of runs too."""
        if self.has_sequence:
            self[:] = [OpenRun(_in_a_row(self).flip(0))]
            return
        self[:] = [_backwards(part) for part in self.parts][::-1]

    def pop(self, place: ModelValue = -1) -> object:
        """Take an item out, the last or the first where there are runs."""
        if not self.has_open_length:
            return super().pop(place)
        if place not in (-1, 0):
            raise OnlyRunTimeKnows("an item is taken out of a list of which only run time knows the length")
        parts = [OpenRun(_in_a_row(self))] if self.has_sequence else self.parts
        run = parts[place]
        if isinstance(run, OpenRows):
            parts[place] = run.changed(lambda column: column[1:] if place == 0 else column[:-1])
            self[:] = parts
            return run.at(place)
        if not isinstance(run, OpenRun):
            return super().pop(place)
        parts[place] = OpenRun(run.tensor[:-1] if place else run.tensor[1:])
        self[:] = parts
        return run.tensor[place]

    def insert(self, place: ModelValue, item: object) -> None:
        """Put an item before another; where there are runs, at the beginning."""
        if self.has_open_length and place != 0:
            raise OnlyRunTimeKnows("an item is put into a list of which only run time knows the length")
        super().insert(place, item)

    def _refused(name: str) -> ModelValue:  # type: ignore[misc]
        plain = getattr(list, name)

        def method(self: ModelValue, *args: object, **kwargs: object) -> object:
            if self.has_open_length:
                raise OnlyRunTimeKnows(f"list.{name} is asked of a list of which only run time knows the length")
            return plain(self, *args, **kwargs)

        return method

    __contains__ = _refused("__contains__")
    __delitem__ = _refused("__delitem__")
    __eq__ = _refused("__eq__")
    __ne__ = _refused("__ne__")
    __lt__ = _refused("__lt__")
    __le__ = _refused("__le__")
    __gt__ = _refused("__gt__")
    __ge__ = _refused("__ge__")
    __mul__ = _refused("__mul__")
    __imul__ = _refused("__imul__")
    count = _refused("count")
    index = _refused("index")
    remove = _refused("remove")
    sort = _refused("sort")
    __hash__ = None

    def __setitem__(self, place: ModelValue, value: object) -> None:
        if self.has_open_length and place != slice(None):
            raise OnlyRunTimeKnows("an item is replaced in a list of which only run time knows the length")
        super().__setitem__(place, _parts(value) if isinstance(place, slice) else value)


def _cut(whole: torch.Tensor, place: slice) -> torch.Tensor:
    if place.step is None or place.step > 0:
        return whole[place]
    if place.start is not None or place.stop is not None:
        raise OnlyRunTimeKnows("a list of which only run time knows the length is cut from behind")
    return whole.flip(0)[:: -place.step]


def _backwards(part: ModelValue) -> ModelValue:
    if isinstance(part, OpenRows):
        return part.changed(lambda column: column.flip(0))
    return OpenRun(part.tensor.flip(0)) if isinstance(part, OpenRun) else part


def _parts(items: ModelValue) -> ModelValue:
    return items.parts if isinstance(items, OpenList) else list(items)


def without_open_lists(value: object) -> object:
    """What a function returns, with plain lists in the place of those that turned out to be plain."""
    if isinstance(value, OpenList) and not value.has_open_length:
        return [without_open_lists(part) for part in value.parts]
    if type(value) is tuple:
        return tuple(map(without_open_lists, value))
    if type(value) is dict:
        return {key: without_open_lists(part) for key, part in value.items()}
    return value


# Operators are given such lists, and what reads their arguments looks for tensors in them.
pytree.register_pytree_node(OpenList, lambda held: (held.parts, None), lambda parts, _: OpenList(parts))
