"""Other example inputs: the same values at other sizes of the axes that vary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import sympy  # type: ignore[import-untyped]
from torch.export import ExportedProgram

from onnxport.capture.request.resizing import ResizableInputs, integers
from onnxport.torch_internals.sympy_functions import ValueRanges

_LARGEST_END = 1024


@dataclass(frozen=True)
class Variation:
    """Arguments for a model, the sizes by which they differ from the example, and of which kind their data is.

    ``way`` is the way through the model that they lead, where there are several.
    """

    sizes: Mapping[str, int]
    args: tuple[object, ...]
    kwargs: dict[str, object]
    drawn: str = ""
    way: str = ""

    @property
    def label(self) -> str:
        """The sizes and the data as one reads them: ``batch=3, length=9``; nothing for the example itself."""
        sizes = (f"{name}={size}" for name, size in self.sizes.items())
        return ", ".join([*sizes, *([f"data {self.drawn}"] if self.drawn else [])])


@dataclass
class _Axes:
    """The run-time sizes of a program: the example's value of each symbol, and what they must fulfil."""

    values: dict[sympy.Symbol, int]
    names: Mapping[str, str]
    same: Mapping[str, str]
    ranges: Mapping[sympy.Symbol, ValueRanges[sympy.Expr]]
    guards: Sequence[sympy.Basic] = field(default_factory=list)

    def owner(self, symbol: sympy.Symbol) -> str:
        return self.same.get(str(symbol), str(symbol))

    def groups(self) -> dict[str, list[sympy.Symbol]]:
        """Symbols that the user named alike vary together."""
        found: dict[str, list[sympy.Symbol]] = {}
        for symbol in self.values:
            found.setdefault(self.owner(symbol), []).append(symbol)
        return found

    def allowed(self, values: Mapping[sympy.Symbol, int]) -> bool:
        for symbol, value in values.items():
            limits = self.ranges.get(symbol)
            if value < 1 or (limits is not None and not limits.lower <= value <= limits.upper):
                return False
        return all(guard.xreplace(integers(values)) != sympy.false for guard in self.guards)

    def ends(self) -> Iterator[dict[sympy.Symbol, int]]:
        """Each axis at 1 and at the ends of its range, where that is not too far."""
        for symbols in self.groups().values():
            limits = self.ranges.get(symbols[0])
            ends = [] if limits is None else [end for end in (limits.lower, limits.upper) if end <= _LARGEST_END]
            for size in dict.fromkeys([1, *map(int, ends)]):
                values = {**self.values, **dict.fromkeys(symbols, size)}
                if self.allowed(values):
                    yield values

    def vary(
        self, symbols: Sequence[sympy.Symbol], start: Mapping[sympy.Symbol, int], step: int
    ) -> dict[sympy.Symbol, int]:
        """Give symbols another value than the example's: the first allowed one near it, or a multiple."""
        size = self.values[symbols[0]]
        nearby = [size + step, size + 2 * step, 2 * size, 3 * size, 4 * size, size - 1, size // 2, size + 8, 8 * size]
        for candidate in nearby:
            values = {**start, **dict.fromkeys(symbols, candidate)}
            if candidate != size and self.allowed(values):
                return values
        return dict(start)


def variations(
    program: ExportedProgram,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    names: Mapping[str, str],
    same: Mapping[str, str],
    *,
    at_ends: bool = False,
) -> list[Variation]:
    """Make inputs at other sizes: each axis that varies alone, then all at once; if asked for, at 1 and ends of ranges.

    Sizes keep to the ranges of the program and to what the capture took for granted. Values are the example's,
    repeated or cut, so that indices stay in range and masks stay masks.
    """
    example = ResizableInputs(program, args, kwargs)
    if not example.usable:
        return []
    guards = [guard.expr for guard in getattr(example.environment, "guards", ())]
    axes = _Axes(example.values, names, same, program.range_constraints, guards)
    made: list[Variation] = []
    together = dict(axes.values)
    for symbols in axes.groups().values():
        alone = axes.vary(symbols, axes.values, 1)
        together = axes.vary(symbols, together, 3)
        made += _variation(axes, alone, example)
    if len(axes.groups()) > 1:
        made += _variation(axes, together, example)
    ends = (variation for values in (axes.ends() if at_ends else ()) for variation in _variation(axes, values, example))
    tried = [variation.sizes for variation in made]
    return made + [variation for variation in ends if variation.sizes not in tried]


def _variation(axes: _Axes, values: Mapping[sympy.Symbol, int], example: ResizableInputs) -> Iterator[Variation]:
    changed = {symbol: value for symbol, value in values.items() if axes.values[symbol] != value}
    if not changed:
        return
    args, kwargs = example.at(values)
    sizes = {axes.names.get(axes.owner(symbol), axes.owner(symbol)): value for symbol, value in changed.items()}
    yield Variation(sizes, args, kwargs)
