"""Other example inputs: the same values at other sizes of the axes that vary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from onnxport.torch_internals import pytree
from onnxport.torch_internals.sympy_functions import ValueRanges


@dataclass(frozen=True)
class Variation:
    """Arguments for a model, and the sizes by which they differ from the example."""

    sizes: Mapping[str, int]
    args: tuple[object, ...]
    kwargs: dict[str, object]

    @property
    def label(self) -> str:
        """The sizes as one reads them: ``batch=3, length=9``; nothing for the example itself."""
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())


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
        return all(guard.xreplace(_integers(values)) != sympy.false for guard in self.guards)

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
) -> list[Variation]:
    """Make inputs at other sizes: each axis that varies alone, then all at once.

    Sizes keep to the ranges of the program and to what the capture took for granted. Values are the example's,
    repeated or cut, so that indices stay in range and masks stay masks.
    """
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    inputs = list(_inputs(program))
    if len(inputs) != len(leaves):
        return []
    axes = _axes(program, inputs, leaves, names, same)
    made: list[Variation] = []
    together = dict(axes.values)
    for symbols in axes.groups().values():
        alone = axes.vary(symbols, axes.values, 1)
        together = axes.vary(symbols, together, 3)
        made += _variation(axes, alone, inputs, leaves, structure)
    if len(axes.groups()) > 1:
        made += _variation(axes, together, inputs, leaves, structure)
    return made


def _inputs(program: ExportedProgram) -> Iterator[object]:
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            yield values.get(spec.arg.name)


def _axes(
    program: ExportedProgram,
    inputs: Sequence[object],
    leaves: Sequence[object],
    names: Mapping[str, str],
    same: Mapping[str, str],
) -> _Axes:
    values: dict[sympy.Symbol, int] = {}
    environment = None
    for captured, leaf in zip(inputs, leaves, strict=True):
        for size, number in _sizes(captured, leaf):
            environment = size.node.shape_env
            expression = size.node.expr
            if len(expression.free_symbols) != 1:
                continue
            (symbol,) = expression.free_symbols
            if symbol not in values:
                # An axis declared as twice another is an expression; the example's size says what its symbol is.
                roots = [number] if expression == symbol else sympy.solve(expression - number, symbol)
                values[symbol] = int(roots[0])
    guards = [guard.expr for guard in getattr(environment, "guards", ())]
    return _Axes(values, names, same, program.range_constraints, guards)


def _sizes(captured: object, leaf: object) -> Iterator[tuple[torch.SymInt, int]]:
    if isinstance(captured, torch.SymInt) and isinstance(leaf, int):
        yield captured, leaf
    if isinstance(captured, torch.Tensor) and isinstance(leaf, torch.Tensor):
        for size, number in zip(captured.shape, leaf.shape, strict=True):
            if isinstance(size, torch.SymInt):
                yield size, int(number)


def _variation(
    axes: _Axes,
    values: Mapping[sympy.Symbol, int],
    inputs: Sequence[object],
    leaves: Sequence[object],
    structure: pytree.TreeSpec,
) -> Iterator[Variation]:
    changed = {symbol: value for symbol, value in values.items() if axes.values[symbol] != value}
    if not changed:
        return
    new = [_resized(captured, leaf, values) for captured, leaf in zip(inputs, leaves, strict=True)]
    args, kwargs = pytree.tree_unflatten(new, structure)
    sizes = {axes.names.get(axes.owner(symbol), axes.owner(symbol)): value for symbol, value in changed.items()}
    yield Variation(sizes, args, kwargs)


def _resized(captured: object, leaf: object, values: Mapping[sympy.Symbol, int]) -> object:
    if isinstance(captured, torch.SymInt) and isinstance(leaf, int):
        return _size(captured, values, leaf)
    if not isinstance(captured, torch.Tensor) or not isinstance(leaf, torch.Tensor):
        return leaf
    result = leaf
    for axis, symbolic in enumerate(captured.shape):
        old = leaf.shape[axis]
        size = _size(symbolic, values, old)
        if size != old and old == 0:
            result = result.new_zeros([*result.shape[:axis], size, *result.shape[axis + 1 :]])
        elif size != old:
            result = result.index_select(axis, torch.arange(size, device=leaf.device) % old)
    return result


def _size(size: int | torch.SymInt, values: Mapping[sympy.Symbol, int], old: int) -> int:
    if not isinstance(size, torch.SymInt):
        return size
    expression = size.node.expr.xreplace(_integers(values))
    return int(expression) if expression.is_Integer else old


def _integers(values: Mapping[sympy.Symbol, int]) -> dict[sympy.Symbol, sympy.Integer]:
    return {symbol: sympy.Integer(value) for symbol, value in values.items()}
