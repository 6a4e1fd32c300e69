"""What rewritten code calls: functions that keep sizes open, and loops that are captured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from onnxport.capture.diagnosis.user_lines import line_of_caller
from onnxport.capture.forks.choosing import Choosing, Unchosen, is_defined, truths_refused
from onnxport.capture.forks.decisions import MOST_AT_ONE_LINE, is_of_data, unasked
from onnxport.capture.forks.kinds import is_literal, with_plain_truths
from onnxport.capture.patches.tensor_numbers import ListedTensor
from onnxport.capture.rewriting.choices import counting_choices, either, way_taken
from onnxport.capture.rewriting.chosen_functions import chosen_function, named_function
from onnxport.capture.rewriting.open_arrays import array_function
from onnxport.capture.rewriting.open_blocks import is_in_block
from onnxport.capture.rewriting.open_iterators import LOOPING, collected, generated, yielded
from onnxport.capture.rewriting.open_keys import asks_for_key, distinct, entry, has_key, put_entry
from onnxport.capture.rewriting.open_lists import OpenItems, OpenList, items_of, without_open_lists
from onnxport.capture.rewriting.open_loops import CountedLoop, LoopRefused, RepeatedLoop
from onnxport.capture.rewriting.open_numbers import (
    COMPARING,
    as_tensor,
    is_open_truth,
    item_of,
    least_or_greatest,
    open_function,
    plain_bound,
    truth_of,
)
from onnxport.capture.rewriting.open_selections import (
    SELECTING,
    extreme_item,
    first_item,
    has_open_items,
    one_after_another,
    selected,
)
from onnxport.capture.rewriting.opened_branches import OpenedBranches
from onnxport.capture.rewriting.variables import UNDEFINED, WatchedList, parts_in
from onnxport.capture.rewriting.watching import UnevenList
from onnxport.errors import Problem
from onnxport.torch_internals.symbolic_sizes import truth_in_range

_LEAVES = (
    "Let every iteration run to its end: choose with torch.where what it leaves, or write torch.while_loop with the "
    "condition to go on."
)


# What code raises that was not meant to run: the other side of a condition.
_FAILING = (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError)
_PLAIN_KEYS = (int, str, slice, tuple)


class Helpers:
    """Called by the code of rewritten functions only; ``syntax.py`` shows how."""

    items = staticmethod(items_of)
    is_literal = staticmethod(is_literal)
    with_truths = staticmethod(with_plain_truths)
    chosen = staticmethod(way_taken)
    either = staticmethod(either)
    listed = OpenList
    distinct = staticmethod(distinct)
    collected = staticmethod(collected)
    generated = staticmethod(generated)
    selected = staticmethod(selected)
    yielded = staticmethod(yielded)
    returned = staticmethod(without_open_lists)

    def __init__(self, choosing: Choosing, branches: OpenedBranches) -> None:
        self._choosing = choosing
        self.branch_taken = branches.taken

    def open(self, function: object) -> object:
        """The function that keeps sizes open in the place of one."""
        # While torch.export runs the code, some of these are others.
        tabulates = function is torch.tensor or function is torch.as_tensor
        if tabulates or (isinstance(function, Hashable) and function in (sum, min, max, any, all, sorted)):
            return partial(_with_numbers, tabulates, self._opened(function))
        return self._opened(function)

    def _opened(self, function: object) -> Any:
        # While torch.export runs the code, these are its own.
        if function is max or function is min:
            return partial(self._extreme, function)
        with contextlib.suppress(TypeError):
            # What can't be hashed is none of these.
            function = SELECTING.get(function, LOOPING.get(function, function))
            function = array_function(function)
        return open_function(function)

    def _extreme(self, function: Callable[..., object], *values: object, **options: Any) -> object:
        if len(values) == 1 and has_open_items(values[0]):
            return extreme_item(values[0], greatest=function is max, **options)
        if len(values) > 1 and not options and self._choosing.may():
            with contextlib.suppress(Unchosen):
                return self._choosing.extreme(values, greatest=function is max)
        if is_in_block() and len(values) > 1 and not options:
            found = least_or_greatest(values, greatest=function is max)
            if found is not None:
                return found
        if "key" in options:
            options["key"] = open_function(options["key"])
        return open_function(function)(*values, **options)

    def number_chosen(
        self,
        test: Callable[[], Any],
        ways: tuple[Callable[..., tuple[object, ...]], ...],
        names: Sequence[str],
        around: Mapping[str, object],
    ) -> tuple[object, ...] | None:
        """What a condition on sizes leaves of variables where both ways make numbers of them; None where not."""
        if not self._choosing.may():
            return None
        try:
            with truths_refused():
                condition = test()
                if not _is_of_sizes(condition):
                    return None
                one, other = (way(*(around.get(name, UNDEFINED) for name in names)) for way in ways)
                return tuple(self._choosing.between(condition, *pair) for pair in zip(one, other, strict=True))
        except (Unchosen, *_FAILING):
            # Where it is asked for one way only, it fails in its own time.
            return None

    def number_either(
        self,
        test: Callable[[], Any],
        one: Callable[[], Any],
        other: Callable[[], Any],
        plain: Callable[[], Any],
    ) -> object:
        """The one of two numbers that a condition on sizes chooses, or what else a ternary gives."""
        ways = (lambda value: (one(),)), (lambda value: (other(),))
        chosen = self.number_chosen(test, ways, ("value",), {})
        return plain() if chosen is None else chosen[0]

    def either_opened(
        self,
        test: object,
        one: Callable[[], object],
        other: Callable[[], object],
        plain: Callable[[object], object],
    ) -> object:
        """What a ternary gives, of which one run may capture both sides."""
        ways = (lambda value: (one(),)), (lambda value: (other(),))
        taken = self.branch_taken(test, ways, ("value",), ("value",), {})
        return plain(test) if taken is None else taken[0]

    def joined_truths(self, test: Callable[[], Any], plain: Callable[[], Any]) -> object:
        """A condition of several truths that sizes tell, as one; else what Python makes of them, one by one."""
        if not self._choosing.may():
            return plain()
        try:
            with truths_refused():
                condition = test()
        except (Unchosen, *_FAILING):
            return plain()
        return condition if _is_of_sizes(condition) and is_defined(condition.node.expr) else plain()

    @staticmethod
    def every(*parts: object) -> object:
        """``and`` of truths that sizes tell."""
        return _of_sizes_together(parts, True)

    @staticmethod
    def some(*parts: object) -> object:
        """``or`` of truths that sizes tell."""
        return _of_sizes_together(parts, False)

    @staticmethod
    def opposite(part: object) -> object:
        """``not`` of a truth that sizes tell."""
        return torch.sym_not(_as_condition(part)) if _is_of_sizes(part) else not part

    @staticmethod
    def counted(items: object, *described: object) -> CountedLoop | None:
        """A ``for`` that is captured, or None for one that Python runs: it knows how often, and data decides little."""
        if isinstance(items, OpenItems):
            return CountedLoop(items, *described)
        if not isinstance(items, range) or len(items) <= MOST_AT_ONE_LINE or not _chooses(items[0], *described):
            return None
        return CountedLoop(OpenItems(len(items), lambda place: items.start + place * items.step), *described)

    @staticmethod
    def compared(owner: object, name: str) -> Callable[..., object]:
        """``torch.equal`` or ``torch.allclose``, whose truth is asked for later, or what else has such a name."""
        if owner is torch:
            return COMPARING[name]
        return partial(COMPARING[name], owner) if isinstance(owner, torch.Tensor) else getattr(owner, name)

    @staticmethod
    def truth_kept(function: Callable[[object], object], part: object) -> object:
        """``bool`` of what only the iteration knows, whose truth is asked for later."""
        truth = truth_of(part)
        if function is not bool or not is_open_truth(truth):
            return function(part)
        return as_tensor(truth).to(torch.bool).reshape(()).item()

    @staticmethod
    def holds(part: object) -> object:
        """Whether an assertion holds; of what only the iteration knows it is taken to."""
        return True if is_open_truth(part) else part

    @staticmethod
    def refuse_open(items: object, text: str, reason: str) -> None:
        """Refuse a loop that is no function of its variables where only run time knows how many items there are."""
        if isinstance(items, OpenItems):
            what = f"How often `{text}` runs only run time knows, and {reason}."
            raise LoopRefused("A loop can't be captured:", [Problem(what, line_of_caller(), _LEAVES)])

    @staticmethod
    def item(owner: Any, key: object) -> object:
        """``owner[key]``, where a number that run time knows may choose among Python's objects."""
        if isinstance(owner, dict) and asks_for_key(owner, key):
            return entry(owner, key)
        if isinstance(owner, torch.Tensor):
            return owner[_as_index(key)]
        if type(key) in _PLAIN_KEYS:
            return owner[key]
        if isinstance(owner, WatchedList) and isinstance(key, torch.SymInt) and parts_in(owner):
            raise UnevenList("", owner, parts_in(owner))
        chosen = chosen_function(owner, key)
        return item_of(owner, key) if chosen is None else chosen

    @staticmethod
    def index(key: object) -> object:
        """What rows are taken by, beside slices."""
        return _as_index(key)

    @staticmethod
    def named_item(owner: Any, name: Callable[[object], str], number: object) -> object:
        """``owner[f"layer_{number}"]``, where only run time may know the number."""
        found = named_function(owner, name, number)
        return owner[name(number)] if found is None else found

    @staticmethod
    def contains(key: object, owner: Any) -> object:
        """``key in owner``, where only run time may know the key."""
        return has_key(owner, key) if asks_for_key(owner, key) else key in owner

    @staticmethod
    def put(value: object, owner: Any, key: Any) -> None:
        """``owner[key] = value``, where only run time may know the key of a dict."""
        if isinstance(owner, dict) and asks_for_key(owner, key):
            put_entry(owner, key, value)
        else:
            owner[_as_index(key)] = value

    @staticmethod
    def joined(*parts: object) -> OpenList:
        """The items of several, one after another."""
        if any(map(has_open_items, parts)):
            joined: OpenList = one_after_another(*parts)
            return joined
        return sum(map(OpenList.of, parts), OpenList())

    @staticmethod
    def first_of(function: Callable[..., object]) -> Callable[..., object]:
        """``next``, of a generator that nothing else reads from."""
        return first_item if function is next else function

    @staticmethod
    def part(owner: Any, start: Any, stop: Any, step: Any) -> object:
        """``owner[start:stop:step]``, where bounds that run time knows may cut a list of the model's own."""
        is_open = isinstance(start, torch.SymInt) or isinstance(stop, torch.SymInt)
        is_plain = isinstance(owner, list | tuple | str | torch.nn.ModuleList | torch.nn.Sequential)
        if is_open and is_plain and not (isinstance(owner, OpenList) and owner.has_open_length):
            start, stop = (plain_bound(bound, len(owner)) for bound in (start, stop))
        return owner[start:stop:step]

    @staticmethod
    def repeated(test: Callable[..., object], *described: Any) -> RepeatedLoop | None:
        """A ``while`` that run time ends, or None for one on what Python knows, or on sizes that decide otherwise."""
        *_, names, _, _, _, _, around = described
        with unasked() as compared:
            asked = test(*(around.get(name, UNDEFINED) for name in names))
        if isinstance(asked, torch.Tensor):
            return RepeatedLoop(test, *described)
        if isinstance(asked, torch.SymBool | torch.SymInt | torch.SymFloat):
            if is_of_data(asked.node.expr) and not compared:
                return RepeatedLoop(test, *described)
            if not compared and truth_in_range(asked.node) is not None:
                return None
        elif not asked:
            return None
        try:
            loop = RepeatedLoop(test, *described)
        except LoopRefused:
            # How often it runs is asked each time, as long as that leads somewhere.
            return None
        is_plain = not isinstance(asked, torch.SymBool | torch.SymInt | torch.SymFloat)
        return None if is_plain and not loop.is_ended_by_data else loop

    @staticmethod
    def all_of(in_turn: bool, *parts: Callable[[], object]) -> object:
        """``and`` of truths, some of which only run time knows."""
        return _in_turn(parts, True) if in_turn else _together(parts, torch.logical_and, True)

    @staticmethod
    def any_of(in_turn: bool, *parts: Callable[[], object]) -> object:
        """``or`` of truths, some of which only run time knows."""
        return _in_turn(parts, False) if in_turn else _together(parts, torch.logical_or, False)

    @staticmethod
    def negated(part: object) -> object:
        """``not`` of a truth that only run time may know."""
        part = truth_of(part)
        return torch.logical_not(as_tensor(part)) if _is_open_truth(part) else not part


def _with_numbers(tabulates: bool, opened: Callable[..., object], *given: object, **options: object) -> object:
    """Call a function with lists that are made of tensors in the place of those that loops made of numbers."""

    def numbers(value: object) -> object:
        if not isinstance(value, OpenList) or not value.has_open_length:
            return value
        return value.table if tabulates else value.numbers

    return opened(*map(numbers, given), **options)


def _as_index(key: Any) -> Any:
    """What rows are taken by, where numbers that only run time counts are those of a tensor."""
    if type(key) is tuple:
        return tuple(map(_as_index, key))
    if isinstance(key, OpenList) and key.has_open_length:
        key = key.numbers
    return key.tensor if isinstance(key, ListedTensor) else key


def _is_of_sizes(value: Any) -> bool:
    symbolic = isinstance(value, torch.SymBool | torch.SymInt | torch.SymFloat)
    return symbolic and not is_of_data(value.node.expr)


def _as_condition(value: Any) -> torch.SymBool:
    return value if isinstance(value, torch.SymBool) else value != 0


def _of_sizes_together(parts: Sequence[object], neutral: bool) -> object:
    """``and`` of truths, to which True is neutral, or ``or``."""
    found: Any = neutral
    for part in parts:
        if not _is_of_sizes(part):
            if bool(part) is not neutral:
                return part
            continue
        condition = _as_condition(part)
        found = condition if found is neutral else found & condition if neutral else found | condition
    return found


def _is_open_truth(value: object) -> bool:
    return isinstance(value, torch.Tensor | torch.SymBool | torch.SymInt | torch.SymFloat)


def _together(parts: tuple[Callable[[], object], ...], join: Callable[..., torch.Tensor], neutral: bool) -> object:
    found: object = neutral
    for part in parts:
        value = truth_of(part())
        if not _is_open_truth(value):
            if bool(value) is not neutral:
                return value
            continue
        found = value if found is neutral else join(as_tensor(found), as_tensor(value))
    return found


def _in_turn(parts: Sequence[Callable[[], object]], neutral: bool) -> object:
    """The same where a part is computed only if those before it don't settle the whole."""
    first, *others = parts
    found = truth_of(first())
    if not others or not (_is_open_truth(found) or bool(found) is neutral):
        return found
    if not is_open_truth(found):
        return found if bool(found) is not neutral else _in_turn(others, neutral)

    def following() -> torch.Tensor:
        return as_tensor(_in_turn(others, neutral)).to(torch.bool).reshape([])

    def settled() -> torch.Tensor:
        return torch.scalar_tensor(not neutral, dtype=torch.bool)

    return either(found, following, settled) if neutral else either(found, settled, following)


def _chooses(item: object, *described: object) -> bool:
    """Whether data decides something in the body of a loop."""
    with counting_choices() as made:
        trial = CountedLoop(OpenItems(1, lambda place: item), *described)
    return trial.unlike is None and bool(made)
