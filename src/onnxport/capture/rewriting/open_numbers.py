"""Functions of Python that keep sizes open: ``int(n / 2)`` stays a size, ``range(n)`` items that run time counts."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TypeGuard

import torch

from onnxport.capture.forks.decisions import is_of_data
from onnxport.capture.forks.kinds import PLAIN_KINDS
from onnxport.capture.patches.tensor_numbers import ListedTensor, listed
from onnxport.capture.replay.values.stand_ins import Number
from onnxport.capture.rewriting.open_keys import asks_for_key, distinct, entry, has_key, put_entry
from onnxport.capture.rewriting.open_lists import (
    ModelFunction,
    ModelValue,
    OpenItems,
    OpenList,
    OpenRange,
    OpenRun,
    concatenated,
    items_of,
    stacked,
)
from onnxport.torch_internals.arrays import Array
from onnxport.torch_internals.symbolic_sizes import note_least, truth_in_range

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def _int(value: ModelValue = 0, *base: object) -> object:
    if isinstance(value, torch.Tensor | Array):
        value = value.item()
    if isinstance(value, torch.SymBool):
        return torch.sym_ite(value, 1, 0)
    return torch.sym_int(value) if isinstance(value, _SYMBOLIC) else int(value, *base)


def _float(value: ModelValue = 0.0) -> object:
    if isinstance(value, torch.Tensor | Array):
        value = value.item()
    return torch.sym_float(value) if isinstance(value, torch.SymInt | torch.SymFloat) else float(value)


def _len(value: ModelValue) -> object:
    if isinstance(value, OpenList | OpenItems):
        return value.length
    if isinstance(value, ListedTensor):
        return value.tensor.shape[0]
    if isinstance(value, torch.Tensor) and value.dim():
        return value.shape[0]
    method = getattr(type(value), "__len__", None)
    # What a class of the model's says of itself may be a size, which len() makes plain.
    return method(value) if isinstance(method, FunctionType) else len(value)


def _divmod(a: ModelValue, b: object) -> object:
    return (a // b, a % b) if isinstance(a, _SYMBOLIC) or isinstance(b, _SYMBOLIC) else divmod(a, b)


def _abs(value: ModelValue) -> object:
    if isinstance(value, torch.SymInt):
        return torch.sym_max(value, value * -1)
    return abs(value)


def _range(*bounds: ModelValue) -> object:
    bounds = tuple(_int(bound) if isinstance(bound, torch.Tensor) else bound for bound in bounds)
    if not any(isinstance(bound, torch.SymInt) for bound in bounds):
        return range(*bounds)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if not isinstance(step, int):
        return range(*bounds)
    length = (stop - start + step - (1 if step > 0 else -1)) // step
    # A range that ends before it begins is empty.
    positive = length if isinstance(start, int) and start <= 0 < step == 1 else torch.sym_max(length, 0)
    return OpenRange(positive, lambda place: start + place * step, start, step)


def _is_of_data(*values: object) -> bool:
    return len(values) == 2 and any(isinstance(one, torch.SymInt) and is_of_data(one.node.expr) for one in values)


def _least(*values: ModelValue, **options: ModelValue) -> object:
    return torch.sym_min(*values) if _is_of_data(*values) else min(*values, **options)


def _greatest(*values: ModelValue, **options: ModelValue) -> ModelValue:
    return torch.sym_max(*values) if _is_of_data(*values) else max(*values, **options)


def _enumerate(iterable: object, start: ModelValue = 0) -> object:
    items = items_of(iterable)
    if not isinstance(items, OpenItems):
        return enumerate(items, start)
    return OpenItems(items.length, lambda place: (start + place, items.at(place)))


def _zip(*iterables: object, **options: ModelValue) -> object:
    items = [items_of(one) for one in iterables]
    if not items or not all(isinstance(one, OpenItems) for one in items):
        return zip(*items, **options)  # noqa: B905 - as the code has it
    length = items[0].length
    for one in items[1:]:
        length = torch.sym_min(length, one.length)
    return OpenItems(length, lambda place: tuple(one.at(place) for one in items))


def _reversed(sequence: object) -> object:
    items = items_of(sequence)
    if not isinstance(items, OpenItems):
        return reversed(items)
    return OpenItems(items.length, lambda place: items.at(items.length - 1 - place))


def _sum(iterable: ModelValue, start: ModelValue = 0) -> object:
    if isinstance(iterable, OpenRange):
        return iterable.numbers.sum().item() + start
    if isinstance(iterable, ListedTensor):
        return iterable.tensor.sum().item() + start
    if isinstance(iterable, OpenList) and iterable.has_open_length:
        return stacked(iterable).sum(0) + start
    return sum(iterable, start)


def _list(*iterable: ModelValue) -> ModelValue:
    given = iterable[0] if iterable else None
    if isinstance(given, OpenRange):
        return listed(given.numbers)
    if _has_open_rows(given):
        return _unbind(given)
    return OpenList(given.parts) if isinstance(given, OpenList) else OpenList(list(*iterable))


def _tuple(*iterable: ModelValue) -> ModelValue:
    given = iterable[0] if iterable else None
    if isinstance(given, OpenRange) or _has_open_rows(given):
        return _list(given)
    return given if isinstance(given, OpenList) and given.has_open_length else tuple(*iterable)


def _has_open_rows(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.dim() > 0 and isinstance(value.shape[0], torch.SymInt)


def _sqrt(value: ModelValue) -> ModelValue:
    return torch.sym_sqrt(value) if isinstance(value, torch.SymInt | torch.SymFloat) else math.sqrt(value)


def _rounded(value: ModelValue, *digits: ModelValue) -> ModelValue:
    if not isinstance(value, torch.SymFloat) or not digits or not isinstance(digits[0], int):
        return round(value, *digits)
    return torch.round(as_tensor(value).to(torch.float64), decimals=digits[0]).item()


def _isqrt(value: ModelValue) -> ModelValue:
    if not isinstance(value, torch.SymInt):
        return math.isqrt(value)
    root = torch.sym_int(torch.sym_sqrt(value))
    return root


def _gcd(*values: ModelValue) -> ModelValue:
    if len(values) != 2 or not any(isinstance(value, torch.SymInt) for value in values):
        return math.gcd(*values)
    return torch.gcd(*map(as_tensor, values)).item()


def _fmod(one: ModelValue, other: ModelValue) -> object:
    if not any(isinstance(value, _SYMBOLIC) for value in (one, other)):
        return math.fmod(one, other)
    return torch.fmod(*(as_tensor(value).to(torch.float64) for value in (one, other))).item()


def _is(plain: Callable[[object], bool], function: Callable[[torch.Tensor], torch.Tensor]) -> ModelFunction:
    """Whether a number is NaN or infinite, which no size is."""

    def ask(value: object) -> object:
        if isinstance(value, torch.Tensor | torch.SymFloat):
            return function(as_tensor(value)).item()
        return plain(0 if isinstance(value, torch.SymInt) else value)

    return ask


def _by_tensor(plain: Callable[..., float], function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., object]:
    """A function of numbers that is computed as a tensor where only run time knows the number."""

    def compute(value: object, *others: object) -> object:
        if others or not isinstance(value, torch.SymInt | torch.SymFloat):
            return plain(value, *others)
        return function(as_tensor(value).to(torch.float64)).item()

    return compute


def _logarithm(plain: Callable[..., float], function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., object]:
    """A logarithm. That of a whole number is not negative, as there is none of 0."""
    of_number = _by_tensor(plain, function)

    def compute(value: ModelValue, *base: float) -> object:
        is_plain = not isinstance(value, torch.SymInt | torch.SymFloat)
        if is_plain or not all(isinstance(one, int | float) for one in base):
            return plain(value, *base)
        found: ModelValue = of_number(value)
        if isinstance(value, torch.SymInt):
            note_least(found, 0.0)
        return found / math.log(*base) if base else found

    return compute


def _log2(number: torch.Tensor) -> torch.Tensor:
    """The logarithm to base 2, exact for powers of 2, as it is in eager mode: it is mostly rounded up or down."""
    found = torch.log2(number)
    whole = torch.round(found)
    return torch.where(torch.exp2(whole) == number, whole, found)


def least_or_greatest(values: Sequence[ModelValue], *, greatest: bool) -> ModelValue | None:
    """``min`` or ``max`` of numbers of which only run time knows some, the first of equal ones; None for others."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    kinds = {(value.dtype, value.dim()) for value in tensors}
    others = [value for value in values if not isinstance(value, torch.Tensor)]
    if not all(isinstance(value, int | float | torch.SymInt | torch.SymFloat) for value in others) or len(kinds) > 1:
        return None
    is_float = any(isinstance(value, float | torch.SymFloat) for value in others)
    if not tensors or tensors[0].dim() or (is_float and not tensors[0].is_floating_point()):
        return None
    first, *rest = (as_tensor(value).to(tensors[0].dtype) for value in values)
    for value in rest:
        first = torch.where(value > first if greatest else value < first, value, first)
    return first


def _type(value: object) -> object:
    return PLAIN_KINDS.get(type(value), type(value))


def _unbind(tensor: torch.Tensor, dim: int = 0) -> object:
    if not isinstance(tensor.shape[dim], torch.SymInt):
        return tensor.unbind(dim)
    return OpenList([OpenRun(tensor.movedim(dim, 0))])


def _split(original: ModelFunction, tensor: torch.Tensor, sizes: ModelValue, dim: int = 0) -> object:
    """``x.split(lengths.tolist())``: as many pieces as run time counts, each as long as it says."""
    sizes = sizes.numbers if isinstance(sizes, OpenList) and sizes.has_open_length else sizes
    if not isinstance(sizes, ListedTensor):
        return original(sizes, dim)
    lengths = sizes.tensor.to(torch.int64)
    starts = lengths.cumsum(0) - lengths

    def piece(place: ModelValue) -> torch.Tensor:
        start: ModelValue = starts.select(0, place).clone().item()
        length: ModelValue = lengths.select(0, place).clone().item()
        for number in (start, length, tensor.shape[dim] - (start + length)):
            torch._check(number >= 0)
        return tensor.narrow(dim, start, length)

    return OpenItems(lengths.shape[0], piece)


def _equal(one: torch.Tensor, other: torch.Tensor) -> ModelValue:
    if one.dim() != other.dim() or any(a != b for a, b in zip(one.shape, other.shape, strict=True)):
        return False
    return torch.eq(one, other).all()


def _allclose(one: torch.Tensor, other: torch.Tensor, *options: ModelValue, **more: ModelValue) -> object:
    return torch.isclose(one, other, *options, **more).all()


COMPARING: dict[str, Callable[..., object]] = {"equal": _equal, "allclose": _allclose}
"""Functions of torch that compare tensors, by name, with a tensor in the place of a truth."""

_OPEN: dict[object, Callable[..., object]] = {
    int: _int,
    float: _float,
    len: _len,
    set: distinct,
    divmod: _divmod,
    abs: _abs,
    range: _range,
    min: _least,
    max: _greatest,
    enumerate: _enumerate,
    zip: _zip,
    reversed: _reversed,
    sum: _sum,
    list: _list,
    tuple: _tuple,
    type: _type,
    round: _rounded,
    operator.index: _int,
    math.sqrt: _sqrt,
    math.isqrt: _isqrt,
    math.gcd: _gcd,
    math.fmod: _fmod,
    **{getattr(math, name): _is(getattr(math, name), getattr(torch, name)) for name in ("isnan", "isinf", "isfinite")},
    math.log2: _logarithm(math.log2, _log2),
    math.log: _logarithm(math.log, torch.log),
    math.log10: _logarithm(math.log10, torch.log10),
    **{
        getattr(math, name): _by_tensor(getattr(math, name), getattr(torch, name))
        for name in ("exp", "sin", "cos", "tan", "tanh", "atan")
    },
    torch.stack: stacked,
    torch.cat: concatenated,
    torch.concat: concatenated,
    torch.concatenate: concatenated,
}


def item_of(owner: ModelValue, key: object) -> object:
    """An item that a number chooses: where only run time knows the number, it is compared with every key."""
    if isinstance(key, torch.Tensor) and key.dim() == 0:
        key = _int(key)
    if isinstance(key, torch.SymBool):
        key = _int(key)
    if isinstance(owner, ListedTensor):
        owner = items_of(owner)
    is_open = isinstance(owner, OpenItems) or (isinstance(owner, OpenList) and owner.has_open_length)
    if not isinstance(key, torch.SymInt) or is_open:
        return owner[key]
    if isinstance(owner, dict):
        return entry(owner, key)
    count = len(owner)
    if is_of_data(key.node.expr) and count:
        # A place may be counted from the end; where there is none the model fails, so the last is what is left.
        return owner[next((place for place in range(count - 1) if key % count == place), count - 1)]
    for place in range(count):
        if key == place:
            return owner[place]
    raise IndexError("index out of range")


def plain_bound(bound: ModelValue, length: int) -> ModelValue:
    """Where a list of so many items is cut, which is asked of a bound that only run time knows."""
    if not isinstance(bound, torch.SymInt):
        return bound
    # What lies further out cuts at the end. Halving asks seldom, where there are many items.
    least, most = -length, length
    while least < most:
        middle = (least + most + 1) // 2
        if bound >= middle:
            least = middle
        else:
            most = middle - 1
    return least


# The class of what functools.lru_cache and functools.cache make of a function, which has no public name.
_CACHED = type(functools.cache(str))


def _got(owner: dict[object, object], key: object, otherwise: object = None) -> object:
    try:
        return entry(owner, key) if asks_for_key(owner, key) else owner.get(key, otherwise)
    except KeyError:
        return otherwise


def _set_unless_there(owner: dict[object, object], key: object, value: object = None) -> ModelValue:
    if not asks_for_key(owner, key):
        return owner.setdefault(key, value)
    if not has_key(owner, key):
        put_entry(owner, key, value)
    return entry(owner, key)


_OF_DICTS = {"get": _got, "setdefault": _set_unless_there}


def open_function(function: ModelValue) -> ModelValue:
    """The function that keeps sizes open in the place of one; most have none."""
    if isinstance(function, _CACHED):
        # What it remembers is known by plain numbers.
        return function.__wrapped__
    owner = getattr(function, "__self__", None)
    if type(owner) is dict and function.__name__ in _OF_DICTS:
        return functools.partial(_OF_DICTS[function.__name__], owner)
    if isinstance(owner, torch.Size) and function.__name__ == "numel":
        return functools.partial(math.prod, owner)
    if function is torch.unbind:
        return _unbind
    if isinstance(owner, torch.Tensor) and function.__name__ == "unbind":
        return functools.partial(_unbind, owner)
    if isinstance(owner, torch.Tensor) and function.__name__ == "split":
        return functools.partial(_split, function, owner)
    if function is torch.split:
        return lambda tensor, sizes, dim=0: _split(tensor.split, tensor, sizes, dim)
    try:
        return _OPEN.get(function, function)
    except TypeError:
        # What can't be hashed is none of these.
        return function


def as_tensor(number: ModelValue) -> torch.Tensor:
    """A number or truth as the tensor that a loop carries it in."""
    return number if isinstance(number, torch.Tensor) else Number.of(number).tensor()


def is_open_truth(value: object) -> bool:
    """Whether only data, or the number of an iteration, tells the truth of a value."""
    if isinstance(value, torch.Tensor):
        return True
    return isinstance(value, _SYMBOLIC) and is_of_data(value.node.expr) and truth_in_range(value.node) is None


def truth_of(value: object) -> object:
    """What is asked for its truth: of a list, whether there is something in it."""
    return value.length > 0 if isinstance(value, OpenList) and value.has_open_length else value
