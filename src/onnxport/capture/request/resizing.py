"""Example inputs at other sizes: the same values, repeated or cut, so that indices stay in range, masks masks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from onnxport.torch_internals import pytree

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
AxisSizes: TypeAlias = Mapping[tuple[int, int | None], sympy.Expr]

# An example of more elements takes memory that may not be there, only to see a way that code has for such sizes.
_MOST_ELEMENTS = 1 << 27


class ResizableInputs:
    """The example inputs of a captured program, and its symbols' values in them.

    ``usable`` is false where the program's inputs are not the leaves of the arguments, one for one. ``sizes`` are
    those of axes, by leaf and axis, that are to count in the place of what the program has there.
    """

    def __init__(
        self,
        program: ExportedProgram,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        sizes: AxisSizes | None = None,
    ) -> None:
        self._given: AxisSizes = {} if sizes is None else sizes
        self._leaves, self._structure = pytree.tree_flatten((args, dict(kwargs)))
        self._inputs = list(_captured_inputs(program))
        self.usable = len(self._inputs) == len(self._leaves)
        self.values: dict[sympy.Symbol, int] = {}
        self.environment: object = None
        for index, (captured, leaf) in enumerate(zip(self._inputs, self._leaves, strict=False)):
            self._read(index, captured, leaf)

    def _read(self, index: int, captured: object, leaf: object) -> None:
        for axis, size, number in _sizes(captured, leaf):
            self.environment = size.node.shape_env
            expression = self._given.get((index, axis), size.node.expr)
            if len(expression.free_symbols) != 1:
                continue
            (symbol,) = expression.free_symbols
            if symbol not in self.values:
                # An axis declared as twice another is an expression; the example's size says what its symbol is.
                self.values[symbol] = number if expression == symbol else _root(expression - number, symbol)

    def has_room(self, values: Mapping[sympy.Symbol, int]) -> bool:
        """Whether no input is too large to be made at these values of the symbols."""
        pairs = enumerate(zip(self._inputs, self._leaves, strict=True))
        return all(
            math.prod(self._lengths(index, captured, leaf, values)) <= _MOST_ELEMENTS
            for index, (captured, leaf) in pairs
            if isinstance(leaf, torch.Tensor)
        )

    def _lengths(
        self, index: int, captured: object, leaf: torch.Tensor, values: Mapping[sympy.Symbol, int]
    ) -> list[int]:
        lengths = list(leaf.shape)
        for axis, symbolic, old in _sizes(captured, leaf):
            assert axis is not None
            lengths[axis] = self._size(index, axis, symbolic, old, values)
        return lengths

    def _size(
        self, index: int, axis: int | None, symbolic: torch.SymInt, old: int, values: Mapping[sympy.Symbol, int]
    ) -> int:
        expression = self._given.get((index, axis), symbolic.node.expr).xreplace(integers(values))
        return int(expression) if expression.is_Integer else old

    def at(self, values: Mapping[sympy.Symbol, int]) -> Arguments:
        """Return the arguments with these values of the symbols."""
        pairs = zip(self._inputs, self._leaves, strict=True)
        new = [self._resized(index, captured, leaf, values) for index, (captured, leaf) in enumerate(pairs)]
        args, kwargs = pytree.tree_unflatten(new, self._structure)
        return args, kwargs

    def _resized(self, index: int, captured: object, leaf: object, values: Mapping[sympy.Symbol, int]) -> object:
        result = leaf
        for axis, symbolic, old in _sizes(captured, leaf):
            size = self._size(index, axis, symbolic, old, values)
            if axis is None:
                result = size
            elif isinstance(result, torch.Tensor) and size != old:
                result = _with_length(result, axis, size)
        return result


def _root(expression: sympy.Expr, symbol: sympy.Symbol) -> int:
    """The whole number for which an expression is 0: any, since torch takes symbols for positive that may be 0."""
    number = sympy.Dummy(integer=True)
    return int(sympy.solve(expression.xreplace({symbol: number}), number)[0])


def _with_length(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    old = tensor.shape[axis]
    if old == 0:
        return tensor.new_zeros([*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]])
    return tensor.index_select(axis, torch.arange(size, device=tensor.device) % old)


def _captured_inputs(program: ExportedProgram) -> Iterator[object]:
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            yield values.get(spec.arg.name)


def _sizes(captured: object, leaf: object) -> Iterator[tuple[int | None, torch.SymInt, int]]:
    """The sizes that vary, with their axes (None for an integer) and the example's numbers."""
    if isinstance(captured, torch.SymInt) and isinstance(leaf, int):
        yield None, captured, leaf
    if isinstance(captured, torch.Tensor) and isinstance(leaf, torch.Tensor):
        for axis, (size, number) in enumerate(zip(captured.shape, leaf.shape, strict=True)):
            if isinstance(size, torch.SymInt):
                yield axis, size, int(number)


def integers(values: Mapping[sympy.Symbol, int]) -> dict[sympy.Symbol, sympy.Integer]:
    """The values as sympy's numbers, to be put in the place of symbols."""
    return {symbol: sympy.Integer(value) for symbol, value in values.items()}


def at_sizes(conditions: Sequence[sympy.Basic], values: Mapping[sympy.Symbol, int]) -> list[bool | None]:
    """The truth of conditions at certain sizes; None where it takes more than these to tell."""
    # By name: conditions may be of symbols that sympy takes for positive or of such that may be 0.
    numbers = {symbol.name: sympy.Integer(value) for symbol, value in values.items()}
    found = [
        _or_unknown(condition, {symbol: numbers.get(symbol.name, symbol) for symbol in condition.free_symbols})
        for condition in conditions
    ]
    return [bool(truth) if truth in (sympy.true, sympy.false) else None for truth in found]


def _or_unknown(condition: sympy.Basic, numbers: Mapping[sympy.Symbol, sympy.Basic]) -> sympy.Basic | None:
    """A condition with numbers in it; None where it divides by a size that is 0."""
    try:
        return condition.xreplace(numbers)
    except ZeroDivisionError:
        return None
