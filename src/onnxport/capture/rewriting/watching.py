"""Watching a block of the model's code: what becomes of each variable tells what kind of variable it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from onnxport.capture.patches.tensor_numbers import ListedTensor
from onnxport.capture.replay.values.items import common_type, is_inner, item_type_of, without_inner_sizes
from onnxport.capture.replay.values.stand_ins import ItemType, ReplayValue
from onnxport.capture.rewriting.collected_rows import CollectingRows, may_be_rows
from onnxport.capture.rewriting.contents import contents_of, has_contents, same_contents
from onnxport.capture.rewriting.open_lists import OpenList, Size
from onnxport.capture.rewriting.variables import (
    UNDEFINED,
    Carried,
    Collecting,
    Counting,
    Passing,
    Sequential,
    Structured,
    Variable,
    Varying,
    WatchedList,
    parts_in,
)
from onnxport.errors import with_article

_WHOLE = (int, torch.SymInt)
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat)
_TRUTHS = (bool, torch.SymBool)


class Unlike(Exception):
    """A variable is another kind of thing after an iteration than before."""


class UnevenList(Unlike):
    """Only data says how many items a block adds to a list. ``held`` is the list, ``items`` are like its items."""

    def __init__(self, name: str, held: object, items: Sequence[ReplayValue]) -> None:
        super().__init__(f"only data says how many items it adds to the list `{name}`")
        self.held, self.items = held, items


class Watch:
    """What a block that is only watched gets: what was in containers, and how often tensors were written to.

    ``known`` are the symbols that there are outside of the block. ``count`` is how often it is repeated, None where
    only repeating it tells.
    """

    def __init__(
        self, values: Sequence[object], variables: Sequence[Variable], known: set[object], count: Size | None = None
    ) -> None:
        self.known, self.count = known, count
        self.own = [variable.any_value(value) for variable, value in zip(variables, values, strict=True)]
        self._parts: dict[int, list[Any]] = {}
        self._versions: dict[int, int] = {}
        self._items: dict[int, list[object]] = {}
        for value in self.own:
            self._note(value)

    def _note(self, value: object) -> None:
        if isinstance(value, torch.Tensor):
            self._versions[id(value)] = value._version
        elif isinstance(value, list | tuple | dict):
            self._parts[id(value)] = parts_in(value)
            for part in self._parts[id(value)]:
                self._note(part)
        elif has_contents(value):
            self._items[id(value)] = contents_of(value)

    def gave(self, leaf: object) -> bool:
        """Whether the block got a tensor from here."""
        return id(leaf) in self._versions

    def parts(self, container: object) -> list[Any]:
        """What was in a container."""
        return self._parts[id(container)]

    def was_written(self, tensor: torch.Tensor) -> bool:
        """Whether the block wrote to a tensor."""
        return tensor._version != self._versions[id(tensor)]

    def was_changed(self, container: object) -> bool:
        """Whether the block put something into a dict, set or the like that it got, or took something out."""
        if isinstance(container, dict):
            return True  # of other keys than before, or the variable has parts
        given = self._items.get(id(container))
        return given is not None and not same_contents(given, contents_of(container))


def variable_of(name: str, before: Any, own: object, after: object, watch: Watch, *, needed: bool) -> Variable:
    """The kind of a variable, from what it holds before and after an iteration; ``own`` is what that one got."""
    if isinstance(own, OpenList) and own.has_sequence:
        return _sequence(name, own, after, watch)
    if isinstance(own, WatchedList) and (after is own or not isinstance(after, list)):
        return _list(name, before, own, after, watch)
    if are_alike(before, after):
        return _structure(name, before, own, after, watch)
    if after is own and watch.was_changed(own):
        raise Unlike(f"it changes what is in `{name}`, {kind_of(own)}")
    if after is own:
        written = isinstance(own, torch.Tensor) and isinstance(before, torch.Tensor) and watch.was_written(own)
        return Carried.like(before, written=True) if written else Variable()
    if isinstance(after, torch.Tensor):
        return _tensor(name, before, own, after, watch, needed)
    if isinstance(before, _TRUTHS) and isinstance(after, _TRUTHS):
        return Variable() if before is after else truth()
    if is_number(before) and is_number(after):
        whole = isinstance(before, _WHOLE) and isinstance(after, _WHOLE)
        if not whole and isinstance(before, _WHOLE):
            raise Unlike(f"`{name}` is a whole number before an iteration and none after it")
        return Counting(whole)
    if before is UNDEFINED:
        return undefined_before(name, after, watch.known) if needed else Passing()
    if type(after) is type(before) and isinstance(after, str | None.__class__) and after == before:
        return Variable()
    if not needed and isinstance(before, list) and isinstance(after, list):
        # Each iteration begins with another list. One that reads what it had before fails, as it gets nothing.
        return Passing()
    raise Unlike(f"`{name}` is {kind_of(before)} before an iteration and {kind_of(after)} after it")


def is_number(value: object) -> bool:
    """Whether a value is a number, one that only run time knows or not."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def is_plain(value: object) -> bool:
    """Whether a value is a number or a truth, and no tensor."""
    return is_number(value) or isinstance(value, _TRUTHS)


def check_holds(name: str, dtype: torch.dtype, value: object) -> None:
    """Check that a tensor of some dtype can stand for a number, as one of whole numbers can't for infinity."""
    is_float = isinstance(value, float | torch.SymFloat)
    is_truth = isinstance(value, _TRUTHS) or (isinstance(value, int) and value in (0, 1))
    if (is_float and not (dtype.is_floating_point or dtype.is_complex)) or (dtype == torch.bool and not is_truth):
        raise Unlike(f"`{name}` is the number {value} or a tensor of {dtype}")


def truth() -> Variable:
    """The kind of a variable that holds truths: they are carried as a tensor, and are one from then on."""
    return Carried((), torch.bool, from_plain=True)


def undefined_before(name: str, after: object, known: set[object]) -> Variable:
    """The kind of a variable that a block defines, from what it holds then."""
    if isinstance(after, torch.Tensor):
        if any(is_inner(size, known) for size in after.shape):
            raise Unlike(f"the shape of `{name}` depends on the iteration")
        return Carried.like(after)
    if isinstance(after, _TRUTHS):
        return truth()
    if is_number(after):
        return Counting(whole=isinstance(after, _WHOLE))
    if isinstance(after, tuple | dict):
        return Structured([undefined_before(name, part, known) for part in parts_in(after)], like=after)
    raise Unlike(f"`{name}` is not defined before an iteration and {kind_of(after)} after it")


def are_alike(before: object, after: object) -> bool:
    """Whether two containers have as many parts, by the same keys."""
    if not isinstance(before, tuple | dict | list) or not isinstance(after, tuple | dict | list):
        return False
    if _is_open(before) or _is_open(after) or isinstance(before, list) != isinstance(after, list):
        return False
    if isinstance(before, dict) or isinstance(after, dict):
        return isinstance(before, dict) and isinstance(after, dict) and list(before) == list(after)
    return len(before) == len(parts_in(after))


def _is_open(value: object) -> bool:
    return isinstance(value, OpenList) and value.has_open_length


def _structure(name: str, before: object, own: object, after: object, watch: Watch) -> Variable:
    parts = zip(parts_in(before), watch.parts(own), parts_in(after), strict=True)
    return Structured([variable_of(name, *part, watch, needed=True) for part in parts])


def _list(name: str, before: Any, own: WatchedList, after: object, watch: Watch) -> Variable:
    if after is not own:
        raise Unlike(f"`{name}` is a list before an iteration and {kind_of(after)} after it")
    count = list.__len__(before)
    added = parts_in(own)[count:]
    if not added and list.__len__(own) == count and not _is_open(before):
        return _structure(name, before, own, own, watch)
    if not added and not own.read:
        return Variable()
    if not all(isinstance(item, torch.Tensor) for item in added):
        if own.read or watch.count is None or not may_be_rows(added, watch.known):
            return _of_numbers(name, before, own, added, watch)
        return CollectingRows(len(added), like=added[0])
    found = without_inner_sizes(common_type(_type_before(before), item_type_of(added)), watch.known)
    has_one_shape = found is not None and found.sizes is not None and None not in found.sizes
    if not own.read and watch.count is not None and has_one_shape:
        return Collecting(len(added))
    if found is None or _was_cut(before, own, watch):
        raise Unlike(f"it does more with the list `{name}` than to append to it and to read its items")
    return Sequential(found)


def _of_numbers(name: str, before: Any, own: WatchedList, added: list[Any], watch: Watch) -> Variable:
    """A list of numbers that iterations read, or add to as data says, is a sequence."""
    if not all(map(is_plain, [*parts_in(before), *added])) or _was_cut(before, own, watch):
        raise Unlike(f"it appends to `{name}` what is no tensor")
    found = common_type(_type_before(before), item_type_of(added))
    assert found is not None
    return Sequential(found)


def _type_before(before: object) -> ItemType | None:
    return item_type_of(OpenList.of(before).as_in_scripts)


def _was_cut(before: object, own: WatchedList, watch: Watch) -> bool:
    """Whether a list lost items that it had, or has others in their place."""
    given = watch.parts(own)
    return list.__len__(own) < len(given) or any(a is not b for a, b in zip(given, parts_in(own), strict=False))


def _sequence(name: str, own: OpenList, after: object, watch: Watch) -> Variable:
    if not isinstance(after, OpenList):
        raise Unlike(f"`{name}` is a list before an iteration and {kind_of(after)} after it")
    found = without_inner_sizes(item_type_of(after.as_in_scripts), watch.known)
    if found is None:
        raise Unlike(f"it takes all items out of the list `{name}`")
    unchanged = after is own and all(a is b for a, b in zip(after.parts, watch.parts(own), strict=False))
    return Variable() if unchanged and len(after.parts) == len(watch.parts(own)) else Sequential(found)


def _tensor(name: str, before: object, own: Any, after: torch.Tensor, watch: Watch, needed: bool) -> Variable:
    if before is UNDEFINED:
        return undefined_before(name, after, watch.known) if needed else Passing()
    if is_plain(before) and after.dim() == 0:
        check_holds(name, after.dtype, before)
        return Carried.like(after, from_plain=True)
    if not isinstance(before, torch.Tensor):
        raise Unlike(f"`{name}` is {kind_of(before)} before an iteration and a tensor after it")
    if certainly_same_shape(before, own) and certainly_same_shape(before, after):
        return Carried.like(before)
    return varying(name, before, own, after, watch)


def varying(name: str, before: torch.Tensor, own: torch.Tensor, after: torch.Tensor, watch: Watch) -> Variable:
    """The kind of a tensor that has other sizes after a block than before."""
    if before.dtype != after.dtype:
        raise Unlike(f"`{name}` is {before.dtype} before an iteration and {after.dtype} after it")
    if before.dim() != after.dim():
        raise Unlike(f"`{name}` has {before.dim()} axes before an iteration and {after.dim()} after it")
    kept = [_same(a, b) and _same(b, c) for a, b, c in zip(before.shape, own.shape, after.shape, strict=True)]
    sizes = tuple(
        size if same and not is_inner(size, watch.known) else -1 for size, same in zip(before.shape, kept, strict=True)
    )
    growth = tuple(_growth(b, c, watch.known) for b, c in zip(own.shape, after.shape, strict=True))
    return Varying(before.dtype, sizes, growth, watch.count)


def _growth(before: Size, after: Size, known: set[object]) -> Size | None:
    """By how much a size grows, if that is the same in every iteration."""
    growth = after - before
    if isinstance(growth, torch.SymInt) and growth.node.expr.is_number:
        return int(growth.node.expr)
    return None if is_inner(growth, known) else growth


def certainly_same_shape(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors certainly have one dtype and shape."""
    if one.dtype != other.dtype or one.dim() != other.dim():
        return False
    return all(_same(a, b) for a, b in zip(one.shape, other.shape, strict=True))


def _same(one: Size, other: Size) -> bool:
    return statically_known_true(one == other)


def kind_of(value: object) -> str:
    """What a value is, for a message."""
    if value is UNDEFINED:
        return "not defined"
    if value is None:
        return "None"
    if isinstance(value, ListedTensor):
        return "a list"
    return "a tensor" if isinstance(value, torch.Tensor) else with_article(type(value).__name__)
