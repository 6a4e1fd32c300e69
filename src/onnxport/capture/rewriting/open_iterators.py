"""Functions of Python's that go through items of which only run time knows how many, each with a loop in its place."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence

import torch

from onnxport.capture.rewriting.open_lists import ModelFunction, ModelValue, OpenItems, OpenList, items_of
from onnxport.capture.rewriting.open_loops import CountedLoop
from onnxport.capture.rewriting.open_numbers import open_function


def collected(
    iterable: object, plain: Callable[[object], object], in_loop: Callable[[object], object] | None = None
) -> ModelValue:
    """What a function gives for each item, as a list; of numbers, one that is made of a tensor.

    ``in_loop`` is the function for items of which only run time knows how many, where it is another.
    """
    items = items_of(iterable)
    if not isinstance(items, OpenItems):
        return OpenList(plain(item) for item in items)
    function = plain if in_loop is None else in_loop
    loop = _comprehension(items, function)
    if loop.unlike is not None:
        raise loop.refused(loop.unlike)
    (found,) = loop.run()
    return found.numbers


def _comprehension(items: OpenItems, function: Callable[[object], object]) -> CountedLoop:
    def body(item: object, found: list[object]) -> tuple[list[ModelValue]]:
        found.append(function(item))
        return (found,)

    return CountedLoop(items, body, ("found",), ("found",), (), "for ... in a comprehension", "", {"found": []})


def generated(iterable: object, plain: Callable[[object], object], in_loop: Callable[[object], object]) -> ModelValue:
    """What a function gives for each item, one after another where their number is plain."""
    items = items_of(iterable)
    return collected(items, in_loop) if isinstance(items, OpenItems) else (plain(item) for item in items)


def yielded(iterable: object, function: Callable[[object], object]) -> ModelValue:
    """What a generator yields for each item, when it is asked for."""
    items = items_of(iterable)
    if isinstance(items, OpenItems):
        return OpenItems(items.length, lambda place: function(items.at(place)))
    return (function(item) for item in items)


def _gathered(plain: ModelFunction) -> ModelFunction:
    """A function of a list, which is made of items that are computed when they are asked for."""

    def apply(*given: ModelValue, **options: ModelValue) -> ModelValue:
        if given and type(given[0]) is OpenItems:
            given = (collected(given[0], lambda item: item), *given[1:])
        return open_function(plain)(*given, **options)

    return apply


def looped(
    items: OpenItems, body: Callable[..., tuple[ModelValue, ...]], around: Mapping[str, ModelValue], text: str
) -> Sequence[ModelValue]:
    """Capture a loop over items; return what is left of the variables."""
    names = tuple(around)
    loop = CountedLoop(items, body, names, names, (), text, "", around)
    if loop.unlike is not None:
        raise loop.refused(loop.unlike)
    return loop.run()


def _behind_first(items: OpenItems) -> OpenItems:
    return OpenItems(items.length - 1, lambda place: items.at(place + 1))


def _reduced(function: ModelFunction, iterable: object, *initial: ModelValue) -> ModelValue:
    items = items_of(iterable)
    if not isinstance(items, OpenItems):
        return functools.reduce(function, items, *initial)
    if not initial:
        initial, items = (items.at(0),), _behind_first(items)

    def body(item: object, value: object) -> tuple[ModelValue]:
        return (function(value, item),)

    (value,) = looped(items, body, {"value": initial[0]}, "functools.reduce(...)")
    return value


def _sum_of_items(iterable: ModelValue, start: ModelValue = 0) -> ModelValue:
    if isinstance(iterable, OpenList) and iterable.has_sequence:
        # There may be nothing in it, which joins to nothing.
        return _reduced(operator.add, iterable, start)
    return _gathered(sum)(iterable, start)


def _accumulated(
    iterable: object, func: ModelFunction | None = operator.add, *, initial: ModelValue = None
) -> ModelValue:
    items = items_of(iterable)
    if not isinstance(items, OpenItems):
        return itertools.accumulate(items, func, initial=initial)
    join = operator.add if func is None else func
    if initial is None:
        initial, items = items.at(0), _behind_first(items)

    def body(item: object, value: object, found: list[object]) -> tuple[ModelValue, ModelValue]:
        value = join(value, item)
        found.append(value)
        return value, found

    _, found = looped(items, body, {"value": initial, "found": OpenList([initial])}, "itertools.accumulate(...)")
    return found


def _pairs_of_neighbours(iterable: object) -> ModelValue:
    items = items_of(iterable)
    if not isinstance(items, OpenItems):
        return itertools.pairwise(items)
    count = torch.sym_max(items.length - 1, 0)
    return OpenItems(count, lambda place: (items.at(place), items.at(place + 1)))


def _combined(*iterables: object, **options: ModelValue) -> ModelValue:
    parts = [items_of(one) for one in iterables]
    if options or not any(isinstance(part, OpenItems) for part in parts):
        return itertools.product(*parts, **options)
    counted = [_as_open(part) for part in parts]
    count: ModelValue = 1
    for part in counted:
        count = count * part.length

    def at(place: ModelValue) -> tuple[ModelValue, ...]:
        found = []
        for part in reversed(counted):
            found.append(part.at(place % part.length))
            place = place // part.length
        return tuple(reversed(found))

    return OpenItems(count, at)


def _as_open(part: ModelValue) -> OpenItems:
    if isinstance(part, OpenItems):
        return part
    if isinstance(part, range):
        return OpenItems(len(part), lambda place: part.start + place * part.step)
    rows = part if isinstance(part, torch.Tensor) else torch.stack(list(part))
    return OpenItems(rows.shape[0], lambda place: rows.select(0, place))


LOOPING: dict[object, ModelFunction] = {
    functools.reduce: _reduced,
    itertools.accumulate: _accumulated,
    itertools.pairwise: _pairs_of_neighbours,
    itertools.product: _combined,
    **{function: _gathered(function) for function in (list, tuple)},
    sum: _sum_of_items,
}
"""What goes through items, by the function whose place it takes."""
