"""Joint search: sizes that meet several conditions, each of which asks for some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import sympy  # type: ignore[import-untyped]

from onnxport.capture.forks.residues import Wanted
from onnxport.capture.forks.searching import is_quick, plain_parts, predicate

Sizes = dict[sympy.Symbol, int]
_MOST_TRIES = 60_000
_MOST_SLOW_TRIES = 2_000
_MOST_SIZES = 48


@dataclass(frozen=True)
class _Condition:
    """A condition, and the names of the sizes that it asks for."""

    names: frozenset[str]
    holds: Callable[[Mapping[sympy.Symbol, int]], bool]
    is_quick: bool


def met_together(
    values: Sizes,
    wanted: Wanted,
    names: Mapping[str, str],
    candidates: Callable[[int], Iterator[int]],
    is_allowed: Callable[[Sizes], bool],
) -> Sizes | None:
    """Sizes at which all conditions come out as they should, the last of which doesn't at these; None if not found.

    One size after another is chosen, and what asks only for those that are chosen by then is checked at once.
    ``candidates`` are the sizes to try in the place of one.
    """
    conditions = [_condition(part, names) for part in plain_parts(wanted)]
    target = frozenset().union(*(_condition(part, names).names for part in plain_parts(wanted[-1:])))
    order = _connected(target, conditions)
    groups = {name: [s for s in values if names.get(s.name, s.name) == name] for name in order}
    order = [name for name in order if groups[name]]
    asked = [one for one in conditions if not one.names.isdisjoint(order)]
    left = _MOST_TRIES if all(one.is_quick for one in asked) else _MOST_SLOW_TRIES
    stages = [
        [one for one in asked if one.names <= set(order[: n + 1]) and order[n] in one.names] for n in range(len(order))
    ]

    def choose(place: int, sizes: Sizes) -> Sizes | None:
        nonlocal left
        if place == len(order):
            return sizes if is_allowed(sizes) else None
        group = groups[order[place]]
        own = values[group[0]]
        for size in (own, *_first(candidates(own))):
            left -= 1
            if left < 0:
                return None
            chosen = {**sizes, **dict.fromkeys(group, size)}
            if all(one.holds(chosen) for one in stages[place]):
                found = choose(place + 1, chosen)
                if found is not None:
                    return found
        return None

    return choose(0, dict(values)) if order else None


def _condition(part: tuple[sympy.Basic, bool], names: Mapping[str, str]) -> _Condition:
    asked = frozenset(names.get(symbol.name, symbol.name) for symbol in part[0].free_symbols)
    return _Condition(asked, predicate([part]), is_quick([part]))


def _connected(target: frozenset[str], conditions: Sequence[_Condition]) -> list[str]:
    """The names of a condition, and of those that conditions join to them, the nearest first."""
    found = sorted(target)
    while True:
        further = sorted(
            {name for one in conditions if not one.names.isdisjoint(found) for name in one.names} - set(found)
        )
        if not further:
            return found
        found += further


def _first(sizes: Iterator[int]) -> list[int]:
    return [size for _, size in zip(range(_MOST_SIZES), sizes, strict=False)]
