"""Functions of Python that keep sizes open: ``int(n / 2)`` stays a size, ``range(n)`` items that run time counts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.capture.forks.kinds import PLAIN_KINDS
from onnxport.capture.replay.values.stand_ins import Number

Size = int | torch.SymInt
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True)
class OpenItems:
    """What a loop runs over: items of which only run time knows how many. Iterating makes the number plain."""

    length: Size
    at: Callable[[Size], Any]

    def __iter__(self) -> Iterator[Any]:
        return (self.at(place) for place in range(self.length))

    def __len__(self) -> int:
        return int(self.length)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return list(self)[place]
        return self.at(place if not isinstance(place, int) or place >= 0 else self.length + place)


def items_of(iterable: Any) -> Any:
    """What a loop runs over, open if its length is."""
    if isinstance(iterable, torch.Tensor) and iterable.dim() and isinstance(iterable.shape[0], torch.SymInt):
        return OpenItems(iterable.shape[0], lambda place: iterable.select(0, place))
    return iterable.items() if isinstance(iterable, OpenList) else iterable


@dataclass(frozen=True)
class OpenRun:
    """Tensors of one shape, of which only run time knows how many: stacked along axis 0. They stand in an OpenList."""

    tensor: torch.Tensor


def _stack(tensors: Any, dim: int = 0) -> torch.Tensor:
    # What is stacked is a copy; a run alone shows the memory of the tensor that it was taken from.
    return _in_a_row(tensors, dim).clone() if isinstance(tensors, OpenList) else torch.stack(tensors, dim)


def _in_a_row(tensors: OpenList, dim: int = 0) -> torch.Tensor:
    """The items along an axis; those of one run are still views of what they were taken from."""
    parts = [
        part.tensor.movedim(0, dim) if isinstance(part, OpenRun) else part.unsqueeze(dim) for part in tensors.parts
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def _cat(tensors: Any, dim: int = 0) -> torch.Tensor:
    if not isinstance(tensors, OpenList):
        return torch.cat(tensors, dim)
    parts = []
    for part in tensors.parts:
        if isinstance(part, OpenRun):
            axis = dim % (part.tensor.dim() - 1)
            copy = part.tensor.movedim(0, axis).clone(memory_format=torch.contiguous_format)
            part = copy.flatten(axis, axis + 1)
        parts.append(part)
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


class OpenList(list[Any]):
    """A list with runs among its items. What needs their number as a plain one is refused."""

    has_open_length = True

    @property
    def length(self) -> Size:
        """How many items there are."""
        return sum(part.tensor.shape[0] if isinstance(part, OpenRun) else 1 for part in self.parts)

    @property
    def parts(self) -> list[Any]:
        """The items and runs."""
        return [list.__getitem__(self, place) for place in range(list.__len__(self))]

    def items(self) -> OpenItems:
        """What a loop over the list runs over; all items must be tensors of one shape."""
        stacked = _in_a_row(self)
        return OpenItems(stacked.shape[0], lambda place: stacked.select(0, place))

    def __len__(self) -> int:
        return int(self.length)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items())

    def __getitem__(self, place: Any) -> Any:
        stacked = _in_a_row(self)
        if not isinstance(place, slice):
            return stacked[place]
        if place.step is not None and place.step < 0:
            stacked = stacked.flip(0)
            place = slice(place.start, place.stop, -place.step)
            if place.start is not None or place.stop is not None:
                raise TypeError("a list of which only run time knows the length is cut from behind")
        return OpenList([OpenRun(stacked[place])])

    def __reversed__(self) -> Iterator[Any]:
        return iter(self[::-1])


def _int(value: Any = 0, *base: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.item()
    if isinstance(value, torch.SymBool):
        return torch.sym_ite(value, 1, 0)
    return torch.sym_int(value) if isinstance(value, _SYMBOLIC) else int(value, *base)


def _float(value: Any = 0.0) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.item()
    return torch.sym_float(value) if isinstance(value, torch.SymInt | torch.SymFloat) else float(value)


def _len(value: Any) -> Any:
    if isinstance(value, OpenList | OpenItems):
        return value.length
    return value.shape[0] if isinstance(value, torch.Tensor) and value.dim() else len(value)


def _divmod(a: Any, b: Any) -> Any:
    return (a // b, a % b) if isinstance(a, _SYMBOLIC) or isinstance(b, _SYMBOLIC) else divmod(a, b)


def _abs(value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        return torch.sym_max(value, value * -1)
    return abs(value)


def _range(*bounds: Any) -> Any:
    if not any(isinstance(bound, torch.SymInt) for bound in bounds):
        return range(*bounds)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if not isinstance(step, int):
        return range(*bounds)
    length = (stop - start + step - (1 if step > 0 else -1)) // step
    # A range that ends before it begins is empty.
    positive = length if isinstance(start, int) and start <= 0 < step == 1 else torch.sym_max(length, 0)
    return OpenItems(positive, lambda place: start + place * step)


def _enumerate(iterable: Any, start: Any = 0) -> Any:
    items = items_of(iterable)
    if not isinstance(items, OpenItems):
        return enumerate(items, start)
    return OpenItems(items.length, lambda place: (start + place, items.at(place)))


def _zip(*iterables: Any, **options: Any) -> Any:
    items = [items_of(one) for one in iterables]
    if not items or not all(isinstance(one, OpenItems) for one in items):
        return zip(*items, **options)  # noqa: B905 - as the code has it
    length = items[0].length
    for one in items[1:]:
        length = torch.sym_min(length, one.length)
    return OpenItems(length, lambda place: tuple(one.at(place) for one in items))


def _reversed(sequence: Any) -> Any:
    items = items_of(sequence)
    if not isinstance(items, OpenItems):
        return reversed(items)
    return OpenItems(items.length, lambda place: items.at(items.length - 1 - place))


def _sum(iterable: Any, start: Any = 0) -> Any:
    if isinstance(iterable, OpenList):
        return _stack(iterable).sum(0) + start
    return sum(iterable, start)


def _list(*iterable: Any) -> Any:
    return OpenList(iterable[0].parts) if iterable and isinstance(iterable[0], OpenList) else list(*iterable)


def _tuple(*iterable: Any) -> Any:
    return iterable[0] if iterable and isinstance(iterable[0], OpenList) else tuple(*iterable)


def _sqrt(value: Any) -> Any:
    return torch.sym_sqrt(value) if isinstance(value, torch.SymInt | torch.SymFloat) else math.sqrt(value)


def _by_tensor(plain: Callable[..., float], function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """A function of numbers that is computed as a tensor where only run time knows the number."""

    def compute(value: Any, *others: Any) -> Any:
        if others or not isinstance(value, torch.SymInt | torch.SymFloat):
            return plain(value, *others)
        return function(as_tensor(value).to(torch.float64)).item()

    return compute


def _log2(number: torch.Tensor) -> torch.Tensor:
    """The logarithm to base 2, exact for powers of 2, as it is in eager mode: it is mostly rounded up or down."""
    found = torch.log2(number)
    whole = torch.round(found)
    return torch.where(torch.exp2(whole) == number, whole, found)


def _type(value: Any) -> Any:
    return PLAIN_KINDS.get(type(value), type(value))


def _unbind(tensor: torch.Tensor, dim: int = 0) -> Any:
    if not isinstance(tensor.shape[dim], torch.SymInt):
        return tensor.unbind(dim)
    return OpenList([OpenRun(tensor.movedim(dim, 0))])


_OPEN: dict[object, Callable[..., Any]] = {
    int: _int,
    float: _float,
    len: _len,
    divmod: _divmod,
    abs: _abs,
    range: _range,
    enumerate: _enumerate,
    zip: _zip,
    reversed: _reversed,
    sum: _sum,
    list: _list,
    tuple: _tuple,
    type: _type,
    math.sqrt: _sqrt,
    math.log2: _by_tensor(math.log2, _log2),
    **{
        getattr(math, name): _by_tensor(getattr(math, name), getattr(torch, name))
        for name in ("exp", "log", "log10", "sin", "cos", "tan", "tanh", "atan")
    },
    torch.stack: _stack,
    torch.cat: _cat,
    torch.concat: _cat,
    torch.concatenate: _cat,
}


def open_function(function: Any) -> Any:
    """The function that keeps sizes open in the place of one; most have none."""
    owner = getattr(function, "__self__", None)
    if function is torch.unbind:
        return _unbind
    if isinstance(owner, torch.Tensor) and function.__name__ == "unbind":
        return functools.partial(_unbind, owner)
    try:
        return _OPEN.get(function, function)
    except TypeError:
        # What can't be hashed is none of these.
        return function


def as_tensor(number: Any) -> torch.Tensor:
    """A number or truth as the tensor that a loop carries it in."""
    return number if isinstance(number, torch.Tensor) else Number.of(number).tensor()
