"""Example inputs at other sizes: the same values, repeated or cut, so that indices stay in range, masks masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from onnxport.torch_internals import pytree

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class ResizableInputs:
    """The example inputs of a captured program, and its symbols' values in them.

    ``usable`` is false where the program's inputs are not the leaves of the arguments, one for one.
    """

    def __init__(self, program: ExportedProgram, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        self._leaves, self._structure = pytree.tree_flatten((args, dict(kwargs)))
        self._inputs = list(_captured_inputs(program))
        self.usable = len(self._inputs) == len(self._leaves)
        self.values: dict[sympy.Symbol, int] = {}
        self.environment: object = None
        for captured, leaf in zip(self._inputs, self._leaves, strict=False):
            self._read(captured, leaf)

    def _read(self, captured: object, leaf: object) -> None:
        for size, number in _sizes(captured, leaf):
            self.environment = size.node.shape_env
            expression = size.node.expr
            if len(expression.free_symbols) != 1:
                continue
            (symbol,) = expression.free_symbols
            if symbol not in self.values:
                # An axis declared as twice another is an expression; the example's size says what its symbol is.
                roots = [number] if expression == symbol else sympy.solve(expression - number, symbol)
                self.values[symbol] = int(roots[0])

    def at(self, values: Mapping[sympy.Symbol, int]) -> Arguments:
        """Return the arguments with these values of the symbols."""
        pairs = zip(self._inputs, self._leaves, strict=True)
        new = [_resized(captured, leaf, values) for captured, leaf in pairs]
        args, kwargs = pytree.tree_unflatten(new, self._structure)
        return args, kwargs


def _captured_inputs(program: ExportedProgram) -> Iterator[object]:
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            yield values.get(spec.arg.name)


def _sizes(captured: object, leaf: object) -> Iterator[tuple[torch.SymInt, int]]:
    if isinstance(captured, torch.SymInt) and isinstance(leaf, int):
        yield captured, leaf
    if isinstance(captured, torch.Tensor) and isinstance(leaf, torch.Tensor):
        for size, number in zip(captured.shape, leaf.shape, strict=True):
            if isinstance(size, torch.SymInt):
                yield size, int(number)


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
    expression = size.node.expr.xreplace(integers(values))
    return int(expression) if expression.is_Integer else old


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
