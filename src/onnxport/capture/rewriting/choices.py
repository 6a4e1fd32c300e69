"""Choices: an ``if`` in the body of a loop, where only the iteration knows which way to go, captured as ``cond``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from onnxport.capture.forks.decisions import learning
from onnxport.capture.replay.control.closures import sampling
from onnxport.capture.replay.values.items import is_inner, item_type_of, without_inner_sizes
from onnxport.capture.rewriting.effects import Place, Surroundings
from onnxport.capture.rewriting.open_blocks import OpenBlock, Operand, Reading, symbols_so_far
from onnxport.capture.rewriting.open_lists import OpenList
from onnxport.capture.rewriting.open_numbers import as_tensor, is_open_truth, truth_of
from onnxport.capture.rewriting.variables import (
    UNDEFINED,
    Appending,
    Assigned,
    Carried,
    Counting,
    Passing,
    Sequential,
    Structured,
    Variable,
    WatchedList,
    leaves_of,
    own_value,
    parts_in,
)
from onnxport.capture.rewriting.watching import (
    UnevenList,
    Unlike,
    Watch,
    are_alike,
    certainly_same_shape,
    check_holds,
    is_number,
    is_plain,
    kind_of,
    truth,
    undefined_before,
    varying,
)
from onnxport.torch_internals.operators import cond_op
from onnxport.torch_internals.symbolic_sizes import get_proxy_mode
from onnxport.undoing import pushed

Way = Callable[..., tuple[object, ...]]


_counting: list[list[OpenChoice]] = []


@contextlib.contextmanager
def counting_choices() -> Iterator[Sequence[OpenChoice]]:
    """While the block runs, the choices that are made."""
    with pushed(_counting, []) as made:
        yield made


def either(test: object, one: Callable[[], object], other: Callable[[], object]) -> object:
    """What one of two functions gives."""
    (value,) = way_taken(
        test, (lambda value: (one(),), lambda value: (other(),)), (False, False), ("value",), ("value",), {}
    )
    return value


def way_taken(
    test: object,
    ways: tuple[Way, Way],
    raises: tuple[bool, bool],
    names: Sequence[str],
    needed: Sequence[str],
    around: Mapping[str, object],
) -> Sequence[object]:
    """What one of two ways leaves of variables; both are captured where only the iteration knows which is taken.

    A way that raises is for inputs that the model does not take.
    """
    test = truth_of(test)
    is_open = is_open_truth(test)
    if is_open and not any(raises):
        choice = OpenChoice(test, ways, names, needed, around)
        choice.learn()
        for made in _counting:
            made.append(choice)
        return choice.run()
    taken = raises.index(False) if is_open and not all(raises) else 0 if test else 1
    return ways[taken](*(around.get(name, UNDEFINED) for name in names))


class OpenChoice(OpenBlock):
    """Two ways through a block of the model's code, of which the iteration takes one."""

    def __init__(self, test: Any, ways: tuple[Way, Way], *described: Any) -> None:
        super().__init__(*described)
        self.test, self.ways = test, ways
        self._sample: list[torch.Tensor] = []

    def _run(self, way: int, values: Sequence[object]) -> tuple[object, ...]:
        return self.in_block(lambda own: self.ways[way](*own), values)

    def watch(self) -> list[Place]:
        """Go both ways; return what they change besides what is known to be changed."""
        with sampling(), Reading() as self._reading:
            known = symbols_so_far()
            given = [Watch(self.values, [Variable() for _ in self.values], known) for _ in self.ways]
            sides = []
            read: list[Operand] = []
            for number, (way, watch) in enumerate(zip(self.ways, given, strict=True)):
                around = Surroundings(way, self.places, dict(zip(self.names, watch.own, strict=False)))
                self._reading.in_block.clear()
                try:
                    with learning():
                        after = self._run(number, watch.own)
                    read += self._reading.in_block.values()
                except UnevenList as uneven:
                    raise self._of_outer(uneven, watch) from uneven
                finally:
                    changed = around.changed()
                if changed:
                    return changed
                sides.append((watch, after))
            self.variables = [
                self._merged(
                    name, before, [_Side(w.own[n], after[n], w) for w, after in sides], needed=self.is_needed(name)
                )
                for n, (name, before) in enumerate(zip(self.all_names, self.values, strict=True))
            ]
            self.check_shared(read)
            self._sample, _ = (self.states(after) for _, after in sides)
            as_tensor(self.test)
            for value in self.values:
                if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
                    as_tensor(value)
            seen = [one for one in self._reading.operands.values() if not any(watch.gave(one) for watch in given)]
            seen += [leaf for leaf in leaves_of(self.values) if isinstance(leaf, torch.Tensor)]
        self.note_operands(list({id(leaf): leaf for leaf in seen}.values()), known)
        return []

    def _of_outer(self, uneven: UnevenList, watch: Watch) -> UnevenList:
        """The same of the list that the block around knows."""
        for before, own in zip(self.values, watch.own, strict=True):
            if own is uneven.held:
                return UnevenList("", before, uneven.items)
        return uneven

    def run(self) -> list[Any]:
        """Capture both ways; return what the variables hold after the one that is taken."""
        states: Sequence[torch.Tensor]
        if not self._sample:
            states = ()
        elif get_proxy_mode() is None:
            states = [state.clone() for state in self._sample]
        else:
            predicate = as_tensor(self.test).to(torch.bool).reshape([])
            given = (predicate, self._way(0), self._way(1), tuple(self.operands))
            states = cast(Sequence[torch.Tensor], cond_op(*given))
        return self.results(states)

    def _way(self, number: int) -> Callable[..., tuple[torch.Tensor, ...]]:
        def branch(*operands: Operand) -> tuple[torch.Tensor, ...]:
            with self.substituting(operands):
                after = self._run(number, [own_value(value) for value in self.values])
                return tuple(state.clone() for state in self.states(after))

        return branch

    def _merged(self, name: str, before: Any, sides: Sequence[_Side], *, needed: bool) -> Variable:
        """The kind of a variable from what two ways leave of it."""
        one, other = sides
        if before is UNDEFINED and (not needed or one.after is other.after is UNDEFINED):
            return Passing()
        if all(side.keeps for side in sides):
            if isinstance(before, list | tuple | dict):
                return self._contents(name, before, sides)
            if any(side.watch.was_changed(side.own) for side in sides):
                raise Unlike(f"it changes what is in `{name}`, {kind_of(before)}")
            return Carried.like(before, written=True) if any(side.writes for side in sides) else Variable()
        if any(side.writes for side in sides):
            raise Unlike(f"one way writes to `{name}` in place and the other assigns to it")
        if one.after is UNDEFINED or other.after is UNDEFINED:
            return self.defined(name, other.after if one.after is UNDEFINED else one.after, one.watch)
        return self.either(name, one.after, other.after, one.watch)

    def defined(self, name: str, after: object, watch: Watch) -> Variable:
        """The kind of a variable that one of the ways defines."""
        return undefined_before(name, after, watch.known)

    def either(self, name: str, one: object, other: object, watch: Watch) -> Variable:
        """The kind of a variable that is assigned to."""
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            same = certainly_same_shape(one, other) and not any(is_inner(size, watch.known) for size in one.shape)
            return Carried.like(one) if same else varying(name, one, one, other, watch)
        if is_number(one) and is_number(other) and _is_float(one) is not _is_float(other):
            raise Unlike(f"`{name}` is a whole number after one way and none after the other")
        if type(one) is type(other) and isinstance(one, bool | int | float | str | None.__class__) and one == other:
            return Assigned(one)
        if all(isinstance(value, bool | torch.SymBool) for value in (one, other)):
            return truth()
        if is_number(one) and is_number(other):
            return Counting(whole=not _is_float(one))
        tensors = [value for value in (one, other) if isinstance(value, torch.Tensor)]
        if tensors and tensors[0].dim() == 0 and all(value is tensors[0] or is_plain(value) for value in (one, other)):
            check_holds(name, tensors[0].dtype, other if one is tensors[0] else one)
            return Carried.like(tensors[0])
        if are_alike(one, other):
            pairs = zip(parts_in(one), parts_in(other), strict=True)
            return Structured([self.either(name, *pair, watch) for pair in pairs], like=one, is_new=True)
        if one is other:
            return Assigned(one)
        raise Unlike(f"`{name}` is {kind_of(one)} after one way and {kind_of(other)} after the other")

    def _contents(self, name: str, before: object, sides: Sequence[_Side]) -> Variable:
        """The kind of a list, tuple or dict that stays the same object, with perhaps other things in it."""
        if isinstance(before, OpenList) and before.has_sequence:
            if all(_is_unchanged(side) for side in sides):
                return Variable()
            items = [item for side in sides for item in side.after.as_in_scripts]
            found = without_inner_sizes(item_type_of(items), sides[0].watch.known)
            assert found is not None
            return Sequential(found)
        if isinstance(before, WatchedList) and any(side.own.read for side in sides):
            before.read = True
        parts = [parts_in(side.after) for side in sides]
        held = parts_in(before)
        if isinstance(before, dict) and any(list(side.after) != list(before) for side in sides):
            raise Unlike(f"it puts other keys into the dict `{name}`")
        if len(parts[0]) != len(parts[1]) or len(parts[0]) < len(held):
            raise UnevenList(name, before, [*held, *(item for part in parts for item in part[len(held) :])])
        kept = [
            self._merged(
                name,
                held[n],
                [
                    _Side(side.watch.parts(side.own)[n], part[n], side.watch)
                    for side, part in zip(sides, parts, strict=True)
                ],
                needed=True,
            )
            for n in range(len(held))
        ]
        known = sides[0].watch
        pairs = zip(parts[0][len(held) :], parts[1][len(held) :], strict=True)
        added = [self.either(name, first, second, known) for first, second in pairs]
        changed = Variable() if all(type(part) is Variable for part in kept) else Structured(kept)
        return Appending(changed, added, len(held)) if added else changed


@dataclass(frozen=True)
class _Side:
    """What one way got of a variable and what it left, and the watch over it."""

    own: Any
    after: Any
    watch: Watch

    @property
    def keeps(self) -> bool:
        """Whether the variable holds the same object as before."""
        return self.after is self.own

    @property
    def writes(self) -> bool:
        """Whether the way wrote to the tensor that the variable holds."""
        return self.keeps and isinstance(self.own, torch.Tensor) and self.watch.was_written(self.own)


def _is_float(value: object) -> bool:
    return isinstance(value, float | torch.SymFloat)


def _is_unchanged(side: _Side) -> bool:
    was, now = side.watch.parts(side.own), side.after.parts
    return len(was) == len(now) and all(a is b for a, b in zip(was, now, strict=True))
