"""The variables of a loop that is captured: how each enters an iteration, leaves it and comes out of the loop."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from onnxport.capture.replay.values.items import handle_of
from onnxport.capture.replay.values.sequences import handle_operator
from onnxport.capture.replay.values.stand_ins import ItemType, Sequenced, parts_of, rebuilt
from onnxport.capture.rewriting.contents import ITEMS_ONLY
from onnxport.capture.rewriting.open_lists import OpenList, OpenRows, OpenRun, Size
from onnxport.capture.rewriting.open_numbers import as_tensor


class _Undefined:
    """What a variable holds that was never assigned."""


UNDEFINED = _Undefined()


class Variable:
    """A variable that iterations leave as it is, or whose value nobody reads after one."""

    contributes = False
    #: Whether an iteration knows less of it than what there was before the loop.
    is_open = False

    @property
    def description(self) -> object:
        """What tells one kind of variable from another."""
        return type(self)

    def any_value(self, value: object) -> object:
        """A value of which no more is known than in any iteration; ``value`` is what there was before the loop."""
        return own_value(value)

    def passed_on(self, value: object) -> list[torch.Tensor]:
        """The tensors from before the loop that an iteration gets as they are."""
        return [leaf for leaf in leaves_of(value) if isinstance(leaf, torch.Tensor)]

    def written_to(self, value: object) -> list[torch.Tensor]:
        """The tensors from before the loop that iterations write to in place."""
        return []

    def start(self, value: object) -> list[torch.Tensor]:
        """The states before the first iteration."""
        return []

    def given(self, states: Iterator[torch.Tensor], value: object) -> object:
        """What an iteration gets, from the next of the states; ``value`` is what there was before the loop."""
        return value

    def state(self, value: object) -> list[torch.Tensor]:
        """The states after an iteration that leaves this."""
        return []

    def contribution(self, value: object) -> list[torch.Tensor]:
        """What an iteration adds to a list."""
        return []

    def result(self, value: object, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """What the variable holds after the loop."""
        return value


class _Changing(Variable):
    def passed_on(self, value: object) -> list[torch.Tensor]:
        """None."""
        return []

    def any_value(self, value: object) -> object:
        """What an iteration gets from states of which nothing is known."""
        return self.given(iter([torch.empty_like(state) for state in self.start(value)]), value)


@dataclass
class Passing(_Changing):
    """A variable that each iteration assigns before it reads it, and that nobody reads after the loop."""

    def given(self, states: Iterator[torch.Tensor], value: object) -> object:
        """Nothing."""
        return UNDEFINED

    def result(self, value: object, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """Nothing."""
        return UNDEFINED


@dataclass
class Carried(_Changing):
    """A tensor that keeps its shape and dtype.

    ``written`` says that iterations write to it in place: after the loop it is the same tensor with what they wrote.
    ``from_plain`` says that it is a plain number or truth before the loop, as truths that an iteration decides are.
    """

    sizes: tuple[Size, ...]
    dtype: torch.dtype
    written: bool = False
    from_plain: bool = False

    @classmethod
    def like(cls, tensor: torch.Tensor, **options: bool) -> Carried:
        """One of the shape and dtype of a tensor."""
        return cls(tuple(tensor.shape), tensor.dtype, **options)

    @property
    def is_open(self) -> bool:  # type: ignore[override]
        """Whether it is a plain number before the loop."""
        return self.from_plain

    def written_to(self, value: Any) -> list[torch.Tensor]:
        """The tensor, if iterations write to it."""
        return [value] if self.written else []

    def start(self, value: object) -> list[torch.Tensor]:
        """The tensor."""
        if isinstance(value, _Undefined):
            return [torch.zeros(self.sizes, dtype=self.dtype)]
        if not isinstance(value, torch.Tensor):
            return [as_tensor(value).to(self.dtype)]
        # Strides that an expanded tensor has are no iteration's.
        return [value.clone(memory_format=torch.contiguous_format)]

    def given(self, states: Iterator[torch.Tensor], value: object) -> object:
        """The tensor, or a copy that may be written to."""
        state = next(states)
        return state.clone() if self.written else state

    def any_value(self, value: object) -> object:
        """A copy, that may be written to."""
        return super().any_value(value) if not isinstance(value, torch.Tensor) else own_value(value)

    def state(self, value: object) -> list[torch.Tensor]:
        """The tensor."""
        return self.start(value)

    def result(self, value: Any, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """The tensor after the last iteration."""
        state = next(states)
        return value.copy_(state) if self.written else state


@dataclass
class Varying(_Changing):
    """A tensor whose sizes change: what carries it has none. -1 stands for a size that changes.

    ``growth`` is by how much, where each iteration adds the same, and ``count`` the number of iterations, if it is
    known before the loop: then so are the sizes after it.
    """

    dtype: torch.dtype
    sizes: tuple[Size, ...]
    growth: tuple[Size | None, ...] = ()
    count: Size | None = None

    is_open = True

    @property
    def description(self) -> object:
        """The kind and the axes that change."""
        return Varying, tuple(isinstance(size, int) and size < 0 for size in self.sizes)

    def start(self, value: object) -> list[torch.Tensor]:
        """The tensor by what carries any."""
        return [handle_operator("of_any_rank")(value)]

    def given(self, states: Iterator[torch.Tensor], value: object) -> object:
        """The tensor, with sizes that only the iteration knows."""
        return self._of_size(next(states), self.sizes)

    def state(self, value: object) -> list[torch.Tensor]:
        """The tensor by what carries any."""
        return self.start(value)

    def result(self, value: Any, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """The tensor after the last iteration."""
        sizes = list(self.sizes)
        for axis, growth in enumerate(self.growth):
            # Whether one that only data tells is 0 is not asked.
            grows = isinstance(growth, torch.SymInt) or (growth is not None and growth != 0)
            if growth is not None and grows and self.count is not None:
                sizes[axis] = value.shape[axis] + growth * self.count
        return self._of_size(next(states), sizes)

    def _of_size(self, handle: torch.Tensor, sizes: Sequence[Size]) -> torch.Tensor:
        tensor = handle_operator("of_any_size")(handle, list(sizes))
        for size, wanted in zip(tensor.shape, sizes, strict=True):
            if isinstance(wanted, int) and wanted < 0:
                torch._check(size >= 0)
        return tensor


@dataclass
class Counting(_Changing):
    """A number, which is carried in a tensor."""

    whole: bool

    is_open = True

    def start(self, value: object) -> list[torch.Tensor]:
        """The number as a tensor."""
        return self.state(value)

    def given(self, states: Iterator[torch.Tensor], value: object) -> object:
        """The number that the tensor holds."""
        return next(states).item()

    def state(self, value: object) -> list[torch.Tensor]:
        """The number as a tensor."""
        value = 0 if value is UNDEFINED else value
        return [as_tensor(value).to(torch.int64 if self.whole else torch.float64)]

    def result(self, value: object, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """The number after the last iteration."""
        return next(states).item()


@dataclass
class Collecting(_Changing):
    """A list that each iteration adds tensors of one shape to, and does nothing else with."""

    count: int
    contributes: bool = field(default=True, init=False)

    def given(self, states: Iterator[torch.Tensor], value: object) -> object:
        """An empty list."""
        return []

    def any_value(self, value: object) -> object:
        """A list of its own that tells if more is done with it."""
        return own_value(value)

    def contribution(self, value: Any) -> list[torch.Tensor]:
        """What is in the list after the iteration."""
        return list(value)

    def result(self, value: Any, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """The list with all that iterations added."""
        parts = value.parts if isinstance(value, OpenList) else list(value)
        added = [next(stacks) for _ in range(self.count)]
        # Several in each iteration follow one another.
        run = added[0] if self.count == 1 else torch.stack(added, 1).flatten(0, 1)
        whole = OpenList([*parts, OpenRun(run)])
        # Whoever else has the list finds in it what they may stack.
        value[:] = whole.parts
        return value if isinstance(value, OpenList) else whole


@dataclass
class Sequential(_Changing):
    """A list whose items iterations read, or of which only data says how many an iteration adds: a sequence."""

    item_type: ItemType

    is_open = True

    @property
    def description(self) -> object:
        """The kind, and which sizes all items have."""
        sizes = self.item_type.sizes
        return Sequential, None if sizes is None else tuple(size is None for size in sizes)

    def start(self, value: object) -> list[torch.Tensor]:
        """What carries the sequence."""
        return [handle_of(OpenList.of(value).as_in_scripts, self.item_type.dtype).clone()]

    def given(self, states: Iterator[torch.Tensor], value: object) -> object:
        """A list of as many items as there are by then."""
        return OpenList([Sequenced(next(states), self.item_type)])

    def state(self, value: object) -> list[torch.Tensor]:
        """What carries the sequence."""
        return self.start(value)

    def result(self, value: object, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """The list that it was, with all items."""
        held = Sequenced(next(states), self.item_type)
        whole = value if isinstance(value, OpenList) else OpenList()
        whole[:] = [held]
        return whole


@dataclass
class Assigned(_Changing):
    """A variable that holds a certain plain value whichever way is taken."""

    value: object

    def result(self, value: object, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """That value."""
        return self.value


@dataclass
class Appending(_Changing):
    """A list to which both ways add as many items. ``kept`` is the kind of what was in it, ``count`` how much."""

    kept: Variable
    added: list[Variable]
    count: int

    def state(self, value: object) -> list[torch.Tensor]:
        """Those of what was in it, then of what was added."""
        parts = parts_in(value)
        added = zip(self.added, parts[self.count :], strict=True)
        return [*self.kept.state(parts[: self.count]), *(state for part, held in added for state in part.state(held))]

    def result(self, value: Any, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """The list with what was added."""
        self.kept.result(value, states, stacks)
        for part in self.added:
            value.append(part.result(UNDEFINED, states, stacks))
        return value


@dataclass
class Structured(Variable):
    """A list, tuple or dict that keeps its length: a variable for each part.

    ``like`` is one with such parts, where there is none before the loop.
    """

    parts: list[Variable]
    like: object = None
    #: Whether it is another container than the one before.
    is_new: bool = False

    @property
    def is_open(self) -> bool:  # type: ignore[override]
        """Whether that of a part is."""
        return any(part.is_open for part in self.parts)

    @property
    def description(self) -> object:
        """The kinds of all parts."""
        return Structured, tuple(part.description for part in self.parts)

    def any_value(self, value: object) -> object:
        """A container of its own of such values."""
        pairs = zip(self.parts, self._parts_of(value), strict=True)
        made = rebuilt(self._like(value), [part.any_value(held) for part, held in pairs])
        return WatchedList(made) if isinstance(made, list) else made

    def _like(self, value: object) -> object:
        return self.like if isinstance(value, _Undefined) else value

    def _parts_of(self, value: object) -> list[Any]:
        return [UNDEFINED] * len(self.parts) if isinstance(value, _Undefined) else parts_in(value)

    @property
    def contributes(self) -> bool:  # type: ignore[override]
        """Whether iterations add to a list among the parts."""
        return any(part.contributes for part in self.parts)

    def contribution(self, value: object) -> list[torch.Tensor]:
        """Those of all parts."""
        pairs = zip(self.parts, self._parts_of(value), strict=True)
        return [piece for part, held in pairs for piece in part.contribution(held)]

    def passed_on(self, value: object) -> list[torch.Tensor]:
        """Those of all parts."""
        pairs = zip(self.parts, self._parts_of(value), strict=True)
        return [leaf for part, held in pairs for leaf in part.passed_on(held)]

    def written_to(self, value: object) -> list[torch.Tensor]:
        """Those of all parts."""
        pairs = zip(self.parts, self._parts_of(value), strict=True)
        return [tensor for part, held in pairs for tensor in part.written_to(held)]

    def start(self, value: object) -> list[torch.Tensor]:
        """Those of all parts."""
        return [
            state for part, held in zip(self.parts, self._parts_of(value), strict=True) for state in part.start(held)
        ]

    def given(self, states: Iterator[torch.Tensor], value: object) -> object:
        """A container of its own."""
        pairs = zip(self.parts, self._parts_of(value), strict=True)
        return rebuilt(self._like(value), [part.given(states, held) for part, held in pairs])

    def state(self, value: object) -> list[torch.Tensor]:
        """Those of all parts."""
        return [
            state for part, held in zip(self.parts, self._parts_of(value), strict=True) for state in part.state(held)
        ]

    def result(self, value: object, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> Any:
        """The container that it was, with what is in it now."""
        value = UNDEFINED if self.is_new else value
        pairs = zip(self.parts, self._parts_of(value), strict=True)
        made = rebuilt(self._like(value), [part.result(held, states, stacks) for part, held in pairs])
        if isinstance(value, dict):
            value.update(made)
        elif isinstance(value, list):
            value[:] = made
        return made if isinstance(value, tuple | _Undefined) else value


class WatchedList(list[Any]):
    """A list that tells whether anything was done with it but adding to its end."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items)
        self.read = False

    def _reading(name: str) -> Any:  # type: ignore[misc]
        plain = getattr(list, name)

        def method(self: Any, *args: object) -> object:
            self.read = True
            return plain(self, *args)

        return method

    __getitem__ = _reading("__getitem__")
    __setitem__ = _reading("__setitem__")
    __delitem__ = _reading("__delitem__")
    __iter__ = _reading("__iter__")
    __len__ = _reading("__len__")
    __contains__ = _reading("__contains__")
    __add__ = _reading("__add__")
    __mul__ = _reading("__mul__")
    __eq__ = _reading("__eq__")
    __hash__ = None
    copy = _reading("copy")
    count = _reading("count")
    index = _reading("index")
    __reversed__ = _reading("__reversed__")
    insert = _reading("insert")
    pop = _reading("pop")
    remove = _reading("remove")
    clear = _reading("clear")
    reverse = _reading("reverse")
    sort = _reading("sort")


def leaves_of(value: object) -> list[Any]:
    """What is in lists, tuples and dicts, however deep."""
    if isinstance(value, WatchedList | OpenList):
        return [leaf for part in parts_in(value) for leaf in leaves_of(part)]
    if isinstance(value, list | tuple | dict):
        return [leaf for part in parts_of(value) for leaf in leaves_of(part)]
    if isinstance(value, OpenRows):
        return list(value.columns)
    if isinstance(value, Sequenced):
        return [value.handle]
    return [value.tensor if isinstance(value, OpenRun) else value]


def own_value(value: object) -> object:
    """What an iteration that is only watched gets of a variable: it may write to it."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, OpenList) and value.has_sequence:
        return value.copy()
    if isinstance(value, list):
        return WatchedList(own_value(part) for part in parts_in(value))
    if isinstance(value, tuple | dict):
        return rebuilt(value, [own_value(part) for part in parts_of(value)])
    return copy.copy(value) if isinstance(value, ITEMS_ONLY) else value


def parts_in(container: object) -> list[Any]:
    """What is in a list, tuple or dict, whatever a list says of it."""
    if isinstance(container, list):
        return [list.__getitem__(container, place) for place in range(list.__len__(container))]
    return parts_of(container)
