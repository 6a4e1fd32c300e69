"""Dicts whose keys are sizes: ``if n not in self.masks: self.masks[n] = made(n)``.

A key is hashed, which wants a plain number. While the model is captured, a size is put into a dict as a key of its
own, which is found again by its expression; whether it equals another key is a question of the sizes like any other.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Set
from typing import Any

import torch

from onnxport.undoing import undone_after

_OPEN = (torch.SymInt, torch.SymFloat)
_TUPLES = (tuple, torch.Size)
_holders: list[tuple[dict[Any, Any], _OpenKey]] = []


class _OpenKey:
    """A key with sizes in it, equal to another that has the same expressions."""

    def __init__(self, key: object) -> None:
        self.key = key
        self._told = _told(key)

    def __hash__(self) -> int:
        return hash(self._told)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OpenKey) and bool(self._told == other._told)


def _told(key: Any) -> Any:
    """A key with expressions in the place of sizes; a tuple is no other key as a shape."""
    if isinstance(key, _OPEN):
        return key.node.expr
    return tuple(map(_told, key)) if type(key) in _TUPLES else key


class OpenSet(set[Any]):
    """A set of keys, some of which only run time knows: whether two are equal is asked as one is put into it."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__()
        self._held: dict[Any, None] = {}
        self.update(items)

    def add(self, item: Any) -> None:
        put_entry(self._held, item, None)

    def update(self, *others: Iterable[Any]) -> None:
        for item in itertools.chain(*others):
            self.add(item)

    def clear(self) -> None:
        self._held.clear()

    def discard(self, item: Any) -> None:
        if has_key(self._held, item):
            del self._held[_found(self._held, item)]

    def remove(self, item: Any) -> None:
        if not has_key(self._held, item):
            raise KeyError(item)
        self.discard(item)

    def pop(self) -> Any:
        item = next(iter(self))
        self.discard(item)
        return item

    def copy(self) -> OpenSet:
        return OpenSet(self)

    __copy__ = copy

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Any]:
        return iter([one.key if isinstance(one, _OpenKey) else one for one in self._held])

    def __contains__(self, item: object) -> bool:
        return has_key(self._held, item.key if isinstance(item, _OpenKey) else item)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Set) and len(self) == len(other) and all(item in self for item in other)

    __hash__ = None

    def __or__(self, other: Any) -> OpenSet:
        return OpenSet([*self, *other])

    def __and__(self, other: Any) -> OpenSet:
        return OpenSet(item for item in other if item in self)

    def __sub__(self, other: Any) -> OpenSet:
        others = OpenSet(other)
        return OpenSet(item for item in self if item not in others)


def distinct(items: Iterable[Any] = ()) -> set[Any]:
    """``set(items)``, where only run time may know some of them."""
    held = list(items)
    return set(held) if held and not any(map(is_open_key, held)) else OpenSet(held)


def is_open_key(key: Any) -> bool:
    """Whether only run time knows a key, or a part of it."""
    return isinstance(key, _OPEN) or (type(key) in _TUPLES and any(map(is_open_key, key)))


def asks_for_key(owner: object, key: object) -> bool:
    """Whether only run time knows if a key is in a dict or set, or in which place."""
    if not isinstance(owner, dict | set | frozenset):
        return False
    return is_open_key(key) or (bool(_holders) and any(isinstance(one, _OpenKey) for one in owner))


def entry(owner: dict[Any, Any], key: Any) -> Any:
    """``owner[key]``."""
    found = _found(owner, key)
    if found is None:
        raise KeyError(key)
    return owner[found]


def has_key(owner: Any, key: Any) -> bool:
    """``key in owner``."""
    return _found(owner, key) is not None


def put_entry(owner: dict[Any, Any], key: Any, value: object) -> None:
    """``owner[key] = value``."""
    found = _found(owner, key)
    if found is None:
        found = key
        if is_open_key(key):
            found = _OpenKey(key)
            _holders.append((owner, found))
    owner[found] = value


def _found(owner: Any, key: Any) -> Any:
    """The key of a dict that equals another, which may have to be asked of sizes; None where there is none."""
    is_open = is_open_key(key)
    own = _OpenKey(key) if is_open else key
    if own in owner:
        return own
    for one in list(owner):
        other = one.key if isinstance(one, _OpenKey) else one
        if (is_open or other is not one) and _is_same(key, other):
            return one
    return None


@contextlib.contextmanager
def open_keys_taken_out() -> Iterator[None]:
    """Take keys that only this run knows out of the dicts that they were put into, on the way out."""

    def take_out() -> None:
        while _holders:
            owner, key = _holders.pop()
            owner.pop(key, None)

    with undone_after(take_out):
        yield


def _is_same(key: Any, one: Any) -> bool:
    """Whether two keys are equal; parts that sizes decide are asked last, and only where all others are."""
    if type(key) not in _TUPLES:
        return isinstance(one, int | float | torch.SymInt | torch.SymFloat) and bool(key == one)
    if type(one) not in _TUPLES or len(one) != len(key):
        return False
    pairs = list(zip(key, one, strict=True))
    if any(a != b for a, b in pairs if not is_open_key(a) and not is_open_key(b)):
        return False
    return all(
        _is_same(*(pair if is_open_key(pair[0]) else pair[::-1])) for pair in pairs if any(map(is_open_key, pair))
    )
