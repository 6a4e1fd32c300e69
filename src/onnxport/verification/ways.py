"""Inputs for every way through a model whose code decides: at sizes beside its decisions, and with other data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import torch

from onnxport.capture import Captured
from onnxport.capture.forks.decisions import OtherWay
from onnxport.capture.forks.paths import Fork, Path
from onnxport.capture.forks.witnesses import beside
from onnxport.capture.request.resizing import Arguments, ResizableInputs
from onnxport.torch_internals import pytree
from onnxport.verification.running import model_outputs
from onnxport.verification.variations import Variation

_MOST_TRIES = 48
_MOST_AT_EDGES = 12

_Change = Callable[[torch.Tensor], torch.Tensor]


class Ways:
    """The ways through a model, numbered as its tree of decisions has them, and which of them were taken."""

    def __init__(self, captured: Captured, forks: Fork) -> None:
        self._captured = captured
        self._paths: Sequence[Path] = list(forks.paths)
        self._taken: set[int] = set()

    @cached_property
    def _programs(self) -> Sequence[torch.nn.Module]:
        return [path.program.module(check_guards=False) for path in self._paths]

    def noted(self, at: Variation) -> Variation:
        """Inputs, with the way that they lead."""
        way = self._way(at)
        if way is None:
            return at
        self._taken.add(way)
        return replace(at, way=f"way {way + 1} of {len(self._paths)}")

    def variations(self) -> Iterator[Variation]:
        """Inputs at the sizes of each way, at those beside decisions, and with data that leads where none has led."""
        yield from map(self.noted, itertools.islice(self._at_other_sizes(), len(self._paths) + _MOST_AT_EDGES))
        tried = 0
        for way, path in enumerate(self._paths):
            decides_by_data = any(decision.of_data for decision in path.decisions)
            for drawn, change in _DRAWN.items() if decides_by_data else ():
                if way in self._taken or tried == _MOST_TRIES:
                    break
                tried += 1
                yield from self._drawn(path, drawn, change)

    def never_taken(self) -> Iterator[tuple[str, str]]:
        """The ways that no inputs led, and the line of the last decision before each."""
        for way, path in enumerate(self._paths):
            if way not in self._taken:
                yield f"way {way + 1} of {len(self._paths)}", path.decisions[-1].where

    def _drawn(self, path: Path, drawn: str, change: _Change) -> Iterator[Variation]:
        made = pytree.tree_map_only(torch.Tensor, change, path.arguments)
        at = replace(self._at(made), drawn=drawn)
        way = self._way(at)
        if way is not None and way not in self._taken:
            yield self.noted(at)

    def _at_other_sizes(self) -> Iterator[Variation]:
        """What each way was captured with, and the sizes just before and behind where decisions on sizes turn."""
        seen = [self._example.values]
        beyond = (one for path in self._paths for one in self._beside(path))
        for arguments in itertools.chain((path.arguments for path in self._paths), beyond):
            values = ResizableInputs(self._captured.program, *arguments).values
            if values not in seen:
                seen.append(values)
                yield self._at(arguments)

    def _beside(self, path: Path) -> Iterator[Arguments]:
        example = ResizableInputs(path.program, *path.arguments)
        if example.usable:
            decisions = [decision for decision in path.decisions if not decision.of_data]
            yield from map(example.at, beside(example.values, decisions, self._names, path.program.range_constraints))

    @cached_property
    def _names(self) -> dict[str, str]:
        names, same = self._captured.dim_names, self._captured.same_dims
        return {**names, **{symbol: names.get(other, other) for symbol, other in same.items()}}

    @cached_property
    def _example(self) -> ResizableInputs:
        return ResizableInputs(self._captured.program, self._captured.args, self._captured.kwargs)

    def _at(self, arguments: Arguments) -> Variation:
        args, kwargs = arguments
        values = ResizableInputs(self._captured.program, args, kwargs).values
        changed = {symbol: size for symbol, size in values.items() if self._example.values.get(symbol) != size}
        names = self._names
        return Variation({names.get(str(symbol), str(symbol)): size for symbol, size in changed.items()}, args, kwargs)

    def _way(self, at: Variation) -> int | None:
        for way, program in enumerate(self._programs):
            try:
                model_outputs(program, at.args, at.kwargs)
            except OtherWay:
                continue
            except Exception:  # noqa: BLE001 - at sizes of another way an operator of this one may refuse in any way
                continue
            return way
        return None


def _of_floats(change: _Change) -> _Change:
    return lambda tensor: change(tensor) if tensor.is_floating_point() else tensor


def _truths(value: bool) -> _Change:
    return lambda tensor: torch.full_like(tensor, value) if tensor.dtype == torch.bool else tensor


def _normal(tensor: torch.Tensor) -> torch.Tensor:
    # A generator of its own, so that the caller's numbers stay the same and each export tries the same.
    return torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0)).to(tensor)


_DRAWN: dict[str, _Change] = {
    "negated": _of_floats(torch.neg),
    "zeros": torch.zeros_like,
    "drawn": _of_floats(_normal),
    "positive": _of_floats(lambda tensor: _normal(tensor).abs()),
    "negative": _of_floats(lambda tensor: -_normal(tensor).abs()),
    "large": _of_floats(lambda tensor: _normal(tensor).abs() * 1000),
    "large and negative": _of_floats(lambda tensor: _normal(tensor).abs() * -1000),
    "small": _of_floats(lambda tensor: _normal(tensor) / 1000),
    "ones": torch.ones_like,
    "all true": _truths(True),
    "all false": _truths(False),
    "NaN": _of_floats(lambda tensor: torch.full_like(tensor, float("nan"))),
}
