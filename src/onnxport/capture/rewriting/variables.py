"""The variables of a loop that is captured: how each enters an iteration, leaves it and comes out of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols, statically_known_true

from onnxport.capture.replay.values.stand_ins import parts_of, rebuilt
from onnxport.capture.rewriting.open_lists import OpenList, OpenRun
from onnxport.capture.rewriting.open_numbers import as_tensor

_WHOLE = (int, torch.SymInt)
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat)


class _Undefined:
    """What a variable holds that was never assigned."""


UNDEFINED = _Undefined()


class Unlike(Exception):
    """A variable is another kind of thing after an iteration than before."""


class Variable:
    """A variable that iterations leave as it is, or whose value nobody reads after one."""

    contributes = False

    def passed_on(self, value: Any) -> list[torch.Tensor]:
        """The tensors from before the loop that an iteration gets as they are."""
        return [leaf for leaf in leaves_of(value) if isinstance(leaf, torch.Tensor)]

    def start(self, value: Any) -> list[torch.Tensor]:
        """The states before the first iteration."""
        return []

    def given(self, states: Iterator[torch.Tensor], value: Any) -> Any:
        """What an iteration gets, from the next of the states; ``value`` is what there was before the loop."""
        return value

    def state(self, value: Any) -> list[torch.Tensor]:
        """The states after an iteration that leaves this."""
        return []

    def contribution(self, value: Any) -> list[torch.Tensor]:
        """What an iteration adds to a list."""
        return []

    def result(self, value: Any, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> Any:
        """What the variable holds after the loop."""
        return value


class _Changing(Variable):
    def passed_on(self, value: Any) -> list[torch.Tensor]:
        """None."""
        return []


@dataclass
class Passing(_Changing):
    """A variable that each iteration assigns before it reads it, and that nobody reads after the loop."""

    def given(self, states: Iterator[torch.Tensor], value: Any) -> Any:
        """Nothing."""
        return UNDEFINED

    def result(self, value: Any, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> Any:
        """Nothing."""
        return UNDEFINED


@dataclass
class Carried(_Changing):
    """A tensor that keeps its shape and dtype. ``example`` is like it where there is none before the loop.

    ``written`` says that iterations write to it in place: after the loop it is the same tensor with what they wrote.
    """

    example: torch.Tensor
    written: bool = False

    def start(self, value: Any) -> list[torch.Tensor]:
        """The tensor."""
        if not isinstance(value, torch.Tensor):
            return [torch.zeros(self.example.shape, dtype=self.example.dtype)]
        # Strides that an expanded tensor has are no iteration's.
        return [value.clone(memory_format=torch.contiguous_format)]

    def given(self, states: Iterator[torch.Tensor], value: Any) -> Any:
        """The tensor, or a copy that may be written to."""
        state = next(states)
        return state.clone() if self.written else state

    def state(self, value: Any) -> list[torch.Tensor]:
        """The tensor."""
        return [value.clone(memory_format=torch.contiguous_format)]

    def result(self, value: Any, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> Any:
        """The tensor after the last iteration."""
        state = next(states)
        return value.copy_(state) if self.written else state


@dataclass
class Counting(_Changing):
    """A number, which is carried in a tensor."""

    whole: bool

    def start(self, value: Any) -> list[torch.Tensor]:
        """The number as a tensor."""
        return self.state(0 if value is UNDEFINED else value)

    def given(self, states: Iterator[torch.Tensor], value: Any) -> Any:
        """The number that the tensor holds."""
        return next(states).item()

    def state(self, value: Any) -> list[torch.Tensor]:
        """The number as a tensor."""
        return [as_tensor(value).to(torch.int64 if self.whole else torch.float64)]

    def result(self, value: Any, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> Any:
        """The number after the last iteration."""
        return next(states).item()


@dataclass
class Collecting(_Changing):
    """A list that each iteration adds tensors of one shape to, and does nothing else with."""

    count: int
    contributes: bool = field(default=True, init=False)

    def given(self, states: Iterator[torch.Tensor], value: Any) -> Any:
        """An empty list."""
        return []

    def contribution(self, value: Any) -> list[torch.Tensor]:
        """What is in the list after the iteration."""
        return list(value)

    def result(self, value: Any, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> Any:
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
class Structured(Variable):
    """A list, tuple or dict that keeps its length: a variable for each part."""

    parts: list[Variable]

    @property
    def contributes(self) -> bool:  # type: ignore[override]
        """Whether iterations add to a list among the parts."""
        return any(part.contributes for part in self.parts)

    def contribution(self, value: Any) -> list[torch.Tensor]:
        """Those of all parts."""
        pairs = zip(self.parts, parts_of(value), strict=True)
        return [piece for part, held in pairs for piece in part.contribution(held)]

    def passed_on(self, value: Any) -> list[torch.Tensor]:
        """Those of all parts."""
        pairs = zip(self.parts, parts_of(value), strict=True)
        return [leaf for part, held in pairs for leaf in part.passed_on(held)]

    def start(self, value: Any) -> list[torch.Tensor]:
        """Those of all parts."""
        return [state for part, held in zip(self.parts, parts_of(value), strict=True) for state in part.start(held)]

    def given(self, states: Iterator[torch.Tensor], value: Any) -> Any:
        """A container of its own."""
        pairs = zip(self.parts, parts_of(value), strict=True)
        return rebuilt(value, [part.given(states, held) for part, held in pairs])

    def state(self, value: Any) -> list[torch.Tensor]:
        """Those of all parts."""
        return [state for part, held in zip(self.parts, parts_of(value), strict=True) for state in part.state(held)]

    def result(self, value: Any, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> Any:
        """The container that it was, with what is in it now."""
        pairs = zip(self.parts, parts_of(value), strict=True)
        made = rebuilt(value, [part.result(held, states, stacks) for part, held in pairs])
        if isinstance(value, dict):
            value.update(made)
        elif isinstance(value, list):
            value[:] = made
        return made if isinstance(value, tuple) else value


class _Watched(list[Any]):
    """A list that tells whether anything was done with it but adding to its end."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items)
        self.read = False

    def _reading(name: str) -> Any:  # type: ignore[misc]
        plain = getattr(list, name)

        def method(self: Any, *args: Any) -> Any:
            self.read = True
            return plain(self, *args)

        return method

    __getitem__ = _reading("__getitem__")
    __setitem__ = _reading("__setitem__")
    __delitem__ = _reading("__delitem__")
    __iter__ = _reading("__iter__")
    __len__ = _reading("__len__")
    __contains__ = _reading("__contains__")
    __reversed__ = _reading("__reversed__")
    insert = _reading("insert")
    pop = _reading("pop")
    remove = _reading("remove")
    clear = _reading("clear")
    reverse = _reading("reverse")
    sort = _reading("sort")


def leaves_of(value: Any) -> list[Any]:
    """What is in lists, tuples and dicts, however deep."""
    if isinstance(value, _Watched | OpenList):
        return [leaf for part in _parts(value) for leaf in leaves_of(part)]
    if isinstance(value, list | tuple | dict):
        return [leaf for part in parts_of(value) for leaf in leaves_of(part)]
    return [value.tensor if isinstance(value, OpenRun) else value]


def own_value(value: Any) -> Any:
    """What an iteration that is only watched gets of a variable: it may write to it."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, list):
        return _Watched(own_value(part) for part in _parts(value))
    if isinstance(value, tuple | dict):
        return rebuilt(value, [own_value(part) for part in parts_of(value)])
    return value


class Watch:
    """What an iteration that is only watched gets: what was in containers, and how often tensors were written to."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.own = [own_value(value) for value in values]
        self._parts: dict[int, list[Any]] = {}
        self._versions: dict[int, int] = {}
        for value in self.own:
            self._note(value)

    def _note(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self._versions[id(value)] = value._version
        elif isinstance(value, list | tuple | dict):
            self._parts[id(value)] = _parts(value)
            for part in self._parts[id(value)]:
                self._note(part)

    def gave(self, leaf: object) -> bool:
        """Whether the iteration got a tensor from here."""
        return id(leaf) in self._versions

    def parts(self, container: Any) -> list[Any]:
        """What was in a container."""
        return self._parts[id(container)]

    def was_written(self, tensor: torch.Tensor) -> bool:
        """Whether the iteration wrote to a tensor."""
        return tensor._version != self._versions[id(tensor)]


def variable_of(name: str, before: Any, own: Any, after: Any, watch: Watch, *, needed: bool) -> Variable:
    """The kind of a variable, from what it holds before and after an iteration; ``own`` is what that one got."""
    if isinstance(own, _Watched) and (after is own or not isinstance(after, list)):
        return _list(name, before, own, after, watch)
    if _are_alike(before, after):
        return _structure(name, before, own, after, watch)
    if after is own:
        written = isinstance(own, torch.Tensor) and watch.was_written(own)
        return Carried(before, written=True) if written else Variable()
    if isinstance(after, torch.Tensor):
        return _tensor(name, before, after, needed)
    if isinstance(before, _NUMBERS) and isinstance(after, _NUMBERS) and not isinstance(after, bool):
        whole = isinstance(before, _WHOLE) and isinstance(after, _WHOLE)
        if not whole and isinstance(before, _WHOLE):
            raise Unlike(f"`{name}` is a whole number before an iteration and none after it")
        return Counting(whole)
    if before is UNDEFINED and not needed:
        return Passing()
    if before is UNDEFINED and isinstance(after, _WHOLE) and not isinstance(after, bool):
        return Counting(whole=True)
    if type(after) is type(before) and isinstance(after, bool | str | None.__class__) and after == before:
        return Variable()
    raise Unlike(f"`{name}` is {_kind(before)} before an iteration and {_kind(after)} after it")


def _are_alike(before: Any, after: Any) -> bool:
    """Whether two containers have as many parts, by the same keys."""
    if not isinstance(before, tuple | dict | list) or not isinstance(after, tuple | dict | list):
        return False
    if _is_open(before) or _is_open(after) or isinstance(before, list) != isinstance(after, list):
        return False
    if isinstance(before, dict) or isinstance(after, dict):
        return isinstance(before, dict) and isinstance(after, dict) and list(before) == list(after)
    return len(before) == len(_parts(after))


def _is_open(value: Any) -> bool:
    return isinstance(value, OpenList) and value.has_open_length


def _structure(name: str, before: Any, own: Any, after: Any, watch: Watch) -> Variable:
    parts = zip(_parts(before), watch.parts(own), _parts(after), strict=True)
    return Structured([variable_of(name, *part, watch, needed=True) for part in parts])


def _parts(container: Any) -> list[Any]:
    if isinstance(container, list):
        return [list.__getitem__(container, place) for place in range(list.__len__(container))]
    return parts_of(container)


def _list(name: str, before: Any, own: _Watched, after: Any, watch: Watch) -> Variable:
    if after is not own:
        raise Unlike(f"`{name}` is a list before an iteration and {_kind(after)} after it")
    count = list.__len__(before)
    added = _parts(own)[count:]
    if not added and list.__len__(own) == count and not _is_open(before):
        return _structure(name, before, own, own, watch)
    if own.read:
        raise Unlike(f"it does more with the list `{name}` than to append to it")
    if not added:
        return Variable()
    if not all(isinstance(item, torch.Tensor) for item in added):
        raise Unlike(f"it appends to `{name}` what is no tensor")
    first = added[0]
    if not all(_same_shape(item, first) for item in added) or _has_own_sizes(first):
        raise Unlike(f"the tensors that it appends to `{name}` have not one shape")
    return Collecting(len(added))


def _tensor(name: str, before: Any, after: torch.Tensor, needed: bool) -> Variable:
    if isinstance(before, torch.Tensor):
        if _same_shape(before, after):
            return Carried(before)
        if before.dtype != after.dtype:
            raise Unlike(f"`{name}` is {before.dtype} before an iteration and {after.dtype} after it")
        shapes = " and ".join(str(tuple(one.shape)) for one in (before, after))
        raise Unlike(f"the shape of `{name}` changes from one iteration to the next ({shapes})")
    if before is not UNDEFINED:
        raise Unlike(f"`{name}` is {_kind(before)} before an iteration and a tensor after it")
    if not needed:
        return Passing()
    if _has_own_sizes(after):
        raise Unlike(f"the shape of `{name}` depends on the iteration")
    return Carried(after)


def _same_shape(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.dim() != other.dim():
        return False
    return all(statically_known_true(a == b) for a, b in zip(one.shape, other.shape, strict=True))


def _has_own_sizes(tensor: torch.Tensor) -> bool:
    """Whether a size of a tensor that an iteration makes is known in that iteration only."""
    return any(isinstance(size, torch.SymInt) and has_free_unbacked_symbols(size) for size in tensor.shape)


def _kind(value: Any) -> str:
    if value is UNDEFINED:
        return "not defined"
    if value is None:
        return "None"
    return "a tensor" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
