"""Dicts whose keys are sizes: ``if n not in self.masks: self.masks[n] = made(n)``.

A key is hashed, which wants a plain number. While the model is captured, a size is put into a dict as a key of its
own, which is found again by its expression; whether it equals another key is a question of the sizes like any other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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
