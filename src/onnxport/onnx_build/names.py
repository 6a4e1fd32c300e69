"""Names of values and nodes, each given once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import onnx_ir as ir


def names_in(graphs: Iterable[ir.Graph]) -> Iterator[str]:
    """The names that values and nodes of these graphs carry."""
    for graph in graphs:
        yield from graph.initializers
        yield from [value.name for value in graph.inputs if value.name]
        for node in graph:
            if node.name:
                yield node.name
            yield from [value.name for value in node.outputs if value.name]


def joined_name(names: Sequence[str]) -> str:
    """A name for what several weights are together: of all but the first what is not the same module.

    >>> joined_name(["layers.0.q.weight", "layers.0.k.weight"])
    'layers.0.q.weight+k.weight'
    """
    first, *others = names
    return "+".join([first, *(_shortened(other, first) for other in others)])


def _shortened(name: str, beside: str) -> str:
    parts, others = name.split("."), beside.split(".")
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(parts, others, strict=False)))
    return ".".join(parts[same:])


class UniqueNames:
    """Hands out names that were not given before and that ``taken`` does not tell of.

    ``taken`` is asked when the first name is wanted; ``first`` is the number behind a name wanted a second time.

    >>> names = UniqueNames(taken=lambda: ["x"])
    >>> [names.unique(name) for name in ("x", "x", "y", "x_1")]
    ['x_1', 'x_2', 'y', 'x_1_1']
    """

    def __init__(self, first: int = 1, taken: Callable[[], Iterable[str]] | None = None) -> None:
        self._first = first
        self._ask = taken
        #: Of each name given, the number to try next behind it.
        self._next: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """``name`` itself, or with the first free number behind it."""
        if self._ask is not None:
            self._next = dict.fromkeys(self._ask(), self._first)
            self._ask = None
        number = self._next.get(name)
        if number is None:
            self._next[name] = self._first
            return name
        while (candidate := f"{name}_{number}") in self._next:
            number += 1
        self._next[name] = number + 1
        self._next[candidate] = self._first
        return candidate

    def release(self, name: str) -> None:
        """Let a name be given again."""
        self._next.pop(name, None)
