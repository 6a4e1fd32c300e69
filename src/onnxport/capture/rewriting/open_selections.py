"""Functions of Python's that choose among items of which only run time knows how many: by truths, keys, places."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import torch

from onnxport.capture.patches.tensor_numbers import ListedTensor, listed
from onnxport.capture.rewriting.choices import way_taken
from onnxport.capture.rewriting.open_iterators import collected, looped
from onnxport.capture.rewriting.open_lists import (
    ModelFunction,
    ModelValue,
    OpenItems,
    OpenList,
    OpenRange,
    OpenRun,
    items_of,
    stacked,
)
from onnxport.capture.rewriting.open_numbers import as_tensor, is_open_truth, open_function, truth_of


def _same(item: object) -> object:
    return item


def _numbers_of(found: ModelValue) -> torch.Tensor:
    """What was collected, one number or truth for each item, as one tensor."""
    if isinstance(found, ListedTensor):
        return found.tensor
    if isinstance(found, OpenRange):
        return found.numbers
    whole = stacked(found)
    if any(size != 1 for size in whole.shape[1:]):
        raise TypeError("items are compared that are no numbers")
    return whole.reshape(-1)


def _is_open(iterable: object) -> bool:
    return isinstance(items_of(iterable), OpenItems)


def _truths(plain: Callable[[ModelValue], bool]) -> ModelFunction:
    """``any`` or ``all`` of truths of data as one truth, however many there are."""

    def ask(iterable: ModelValue) -> ModelValue:
        if not _is_open(iterable):
            return _joined(plain, items_of(iterable))
        found = iterable if isinstance(iterable, ListedTensor | OpenList) else collected(iterable, _same)
        truths = _numbers_of(found).to(torch.bool)
        return (truths.any() if plain is any else truths.all()).item()

    return ask


def _joined(plain: Callable[[ModelValue], bool], truths: Iterable[object]) -> ModelValue:
    """The truths that only data tell are asked for together; a plain one may settle it before they are."""
    found: torch.Tensor | None = None
    settling = plain is any
    for one in truths:
        truth = truth_of(one)
        if not is_open_truth(truth):
            if bool(truth) is settling:
                return settling
            continue
        tensor = as_tensor(truth).to(torch.bool).reshape(())
        found = tensor if found is None else (found | tensor if settling else found & tensor)
    return (not settling) if found is None else found.item()


def _keys(iterable: object, key: ModelFunction | None) -> torch.Tensor:
    found = collected(iterable, _same if key is None else open_function(key))
    return _numbers_of(found)


def extreme_item(
    iterable: object, *, greatest: bool, key: ModelFunction | None = None, **default: ModelValue
) -> ModelValue:
    """The item with the greatest or least key: the first of them, as in Python. ``default`` is for no items."""
    items = items_of(iterable)
    if default and not items.length > 0:
        return default["default"]
    if key is None:
        numbers = _keys(iterable, key)
        return _as_items(iterable, numbers.amax() if greatest else numbers.amin())
    keys = _keys(iterable, key)
    place = (keys.argmax() if greatest else keys.argmin()).item()
    torch._check(place >= 0)
    return items.at(place)


def _as_items(iterable: object, number: torch.Tensor) -> ModelValue:
    """A number that was found among items, as they are: numbers or tensors."""
    return number.item() if isinstance(iterable, ListedTensor | OpenRange) else number


def has_open_items(iterable: object) -> bool:
    """Whether only run time knows how many items there are."""
    return _is_open(iterable)


def _in_order(iterable: ModelValue, /, *, key: ModelFunction | None = None, reverse: bool = False) -> ModelValue:
    if not _is_open(iterable):
        return sorted(iterable, key=open_function(key), reverse=reverse)
    order = _keys(iterable, key).argsort(stable=True, descending=reverse)
    return _chosen_rows(iterable, order)


def _chosen_rows(iterable: ModelValue, places: torch.Tensor) -> ModelValue:
    """The items at these places, which a mask may say."""
    if isinstance(iterable, OpenRange):
        return listed(iterable.numbers[places])
    found = iterable if isinstance(iterable, ListedTensor) else collected(iterable, _same)
    if isinstance(found, ListedTensor):
        return listed(found.tensor[places])
    return OpenList([OpenRun(stacked(found)[places])])


def first_item(items: ModelValue, *default: object) -> ModelValue:
    """What ``next`` gives of items that were made for it, and ``default`` where there are none."""
    if not isinstance(items, OpenItems | OpenList | ListedTensor):
        return next(items, *default)
    count: ModelValue = items.tensor.shape[0] if isinstance(items, ListedTensor) else items.length
    if not default or count > 0:
        return items[0]
    return default[0]


def one_after_another(*iterables: ModelValue) -> ModelValue:
    """The items of several, as ``itertools.chain`` has them."""
    if not any(map(_is_open, iterables)):
        return itertools.chain(*map(items_of, iterables))
    parts = [collected(one, _same) if _is_open(one) else OpenList(one) for one in iterables]
    if any(isinstance(part, ListedTensor) for part in parts):
        numbers = [part.tensor if isinstance(part, ListedTensor) else torch.tensor(list(part)) for part in parts]
        return listed(torch.cat(numbers))
    return sum(parts, OpenList())


def _where_true(function: ModelFunction | None, iterable: ModelValue) -> ModelValue:
    if not _is_open(iterable):
        return filter(function, items_of(iterable))
    return _chosen_rows(iterable, _keys(iterable, function).to(torch.bool))


def _applied(function: ModelFunction, *iterables: ModelValue) -> ModelValue:
    items = [items_of(one) for one in iterables]
    called = open_function(function)
    if not all(isinstance(one, OpenItems) for one in items):
        return map(called, *items)
    rows: ModelValue = items[0] if len(items) == 1 else open_function(zip)(*items)
    return OpenItems(rows.length, lambda place: called(*(one.at(place) for one in items)))


def _part_of_items(iterable: ModelValue, *bounds: ModelValue) -> ModelValue:
    items = items_of(iterable)
    if not isinstance(items, OpenItems):
        return itertools.islice(items, *bounds)
    start, stop, step = (None, *bounds, None) if len(bounds) == 1 else (*bounds, None)[:3]
    first, stride = 0 if start is None else start, 1 if step is None else step
    end = items.length if stop is None else torch.sym_min(items.length, stop)
    count = torch.sym_max((end - first + stride - 1) // stride, 0)
    return OpenItems(count, lambda place: items.at(first + place * stride))


def _without_order(iterable: ModelValue, count: ModelValue) -> ModelValue:
    items = items_of(iterable)
    if not isinstance(items, OpenItems):
        return itertools.combinations(items, count)
    places = torch.combinations(torch.arange(items.length), count)  # type: ignore[arg-type]
    return OpenItems(places.shape[0], lambda place: tuple(items.at(one) for one in _numbers_at(places, place)))


def _numbers_at(places: torch.Tensor, place: ModelValue) -> list[ModelValue]:
    found = []
    for column in range(places.shape[1]):
        number = places.select(0, place).select(0, column).clone().item()
        torch._check(number >= 0)
        found.append(number)
    return found


def selected(
    iterable: ModelValue,
    test: ModelFunction,
    plain: ModelFunction,
    in_loop: ModelFunction,
    *,
    is_harmless: bool,
    lazy: bool,
) -> ModelValue:
    """What a function gives for each item of which a test holds; a harmless one may be asked of the others too."""
    items = items_of(iterable)
    if not isinstance(items, OpenItems):
        found = (plain(item) for item in items if test(item))
        return found if lazy else OpenList(found)
    if is_harmless:
        return _chosen_rows(collected(iterable, in_loop), _keys(items, test).to(torch.bool))

    def adding(found: list[ModelValue], item: ModelValue) -> tuple[list[ModelValue]]:
        found.append(in_loop(item))
        return (found,)

    def body(item: ModelValue, found: list[ModelValue]) -> tuple[ModelValue]:
        ways = (lambda found: adding(found, item)), (lambda found: (found,))
        (after,) = way_taken(test(item), ways, (False, False), ("found",), ("found",), {"found": found})
        return (after,)

    (found,) = looped(items, body, {"found": OpenList()}, "for ... in a comprehension")
    return found


def _padded(
    sequences: ModelValue, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> torch.Tensor:
    """``pad_sequence`` of as many tensors as run time counts: each is padded to the length of the longest."""
    if not _is_open(sequences):
        return torch.nn.utils.rnn.pad_sequence(sequences, batch_first, padding_value, padding_side)
    longest = _keys(sequences, len).amax().item()

    def padded(tensor: ModelValue) -> ModelValue:
        missing: ModelValue = longest - tensor.shape[0]
        torch._check(missing >= 0)
        sides = [0, missing] if padding_side == "right" else [missing, 0]
        return torch.nn.functional.pad(tensor, [*([0, 0] * (tensor.dim() - 1)), *sides], value=padding_value)

    whole = stacked(collected(sequences, padded))
    return whole if batch_first else whole.transpose(0, 1)


SELECTING: dict[object, ModelFunction] = {
    any: _truths(any),
    all: _truths(all),
    sorted: _in_order,
    filter: _where_true,
    map: _applied,
    itertools.chain: one_after_another,
    itertools.islice: _part_of_items,
    itertools.combinations: _without_order,
    torch.nn.utils.rnn.pad_sequence: _padded,
}
"""What chooses among items, by the function whose place it takes."""
