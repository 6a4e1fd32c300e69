"""What is in containers, and how far iterators have come: by that it shows that code changed one."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterator, Sequence
from types import GeneratorType
from typing import Any

from onnxport.capture.patches.tensor_numbers import ListedTensor

# Containers of which a loop carries nothing: one that an iteration changes is refused, as is an iterator.
ITEMS_ONLY = (set, deque, bytearray, ListedTensor)
_PLAIN = (int, float, str, bytes, tuple, list)


def has_contents(value: object) -> bool:
    """Whether a value is one of these."""
    return isinstance(value, (*ITEMS_ONLY, Iterator))


def contents_of(container: Any) -> list[object]:
    """What is in one of these: it was changed where that is other objects, or in another order."""
    if isinstance(container, Iterator):
        return list(_progress(container, set()))
    return container.contents if isinstance(container, ListedTensor) else list(container)


def same_contents(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether the same objects are in a container at two moments."""
    if len(one) != len(other):
        return False
    pairs = zip(one, other, strict=True)
    return all(a is b or (type(a) is int and type(b) is int and a == b) for a, b in pairs)


def _progress(value: object, seen: set[int]) -> Iterator[object]:
    """What changes as an iterator is gone on with: the variables of a generator, the place in a list."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        yield -1 if frame is None else frame.f_lasti
        held = [] if frame is None else [frame.f_locals[name] for name in sorted(frame.f_locals)]
        for one in (*held, value.gi_yieldfrom):
            yield one
            if isinstance(one, Iterator):
                yield from _progress(one, seen)
    elif isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools"):
        yield operator.length_hint(value, -1)
        yield from _reduced(value, seen)


def _reduced(iterator: Iterator[object], seen: set[int]) -> Iterator[object]:
    """What Python would write of one of its own iterators to make it anew, in which its place is."""
    try:
        described = iterator.__reduce__()
    except TypeError:
        return
    waiting = list(described[1:]) if isinstance(described, tuple) else []
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting += part
        elif isinstance(part, Iterator):
            yield from _progress(part, seen)
        elif isinstance(part, int) or not isinstance(part, _PLAIN):
            yield part
