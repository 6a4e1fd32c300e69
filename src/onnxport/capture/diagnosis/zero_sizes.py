"""Sizes that vary, as code compares them: torch takes such a size for positive, and it may be 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from onnxport.torch_internals.symbolic_sizes import example_sizes


def is_otherwise_at_zero(compare: Callable[..., object], a: object, b: object, found: object) -> bool:
    """Whether a comparison that torch takes for decided has another outcome where a size that may be 0 is 0."""
    decided = _decided(found)
    if decided is None:
        return False
    sides = [_expression(side) for side in (a, b)]
    for sizes in _witnesses(a, b):
        try:
            left, right = (side.xreplace(sizes) if isinstance(side, sympy.Basic) else side for side in sides)
        except ZeroDivisionError:
            # At this size nothing is compared.
            continue
        if not (sympy.sympify(left).is_finite and sympy.sympify(right).is_finite):
            # A division by 0: at this size nothing is compared.
            continue
        if compare(left, right) != decided:
            return True
    return False


def _decided(found: object) -> bool | None:
    if not isinstance(found, torch.SymBool):
        return bool(found)
    if found.node.expr in (sympy.true, sympy.false):
        return bool(found.node.expr)
    if statically_known_true(found):
        return True
    return False if statically_known_true(torch.sym_not(found)) else None


def _expression(side: object) -> object:
    return side.node.expr if isinstance(side, torch.SymInt | torch.SymFloat) else side


def _witnesses(*sides: object) -> Iterator[Mapping[sympy.Symbol, sympy.Integer]]:
    """Sizes to try: each symbol that may be 0 at 0, and all of them, with the example's sizes for the others."""
    example: dict[sympy.Symbol, sympy.Integer] = {}
    may_be_zero = []
    for side in sides:
        if not isinstance(side, torch.SymInt | torch.SymFloat):
            continue
        environment = side.node.shape_env
        for symbol in side.node.expr.free_symbols:
            size = example_sizes(environment).get(symbol)
            if size is None:
                # Only run time knows it, and nobody took it for positive.
                return
            example[symbol] = size
            if environment.var_to_range[symbol].lower == 0 and symbol not in may_be_zero:
                may_be_zero.append(symbol)
    for symbol in may_be_zero:
        yield {**example, symbol: sympy.S.Zero}
    if len(may_be_zero) > 1:
        yield {**example, **dict.fromkeys(may_be_zero, sympy.S.Zero)}


def example_with_zero_allowed(size: torch.SymInt) -> Iterator[tuple[sympy.Symbol, sympy.Integer]]:
    """The example's sizes, by the symbols of :func:`zero_allowed`."""
    for symbol, value in example_sizes(size.node.shape_env).items():
        yield _zero_allowed(symbol), value


def zero_allowed(size: int | torch.SymInt) -> sympy.Basic:
    """A size as an expression of symbols that sympy does not take for positive; they have the names of torch's."""
    if isinstance(size, int):
        return sympy.Integer(size)
    expression = size.node.expr
    return expression.xreplace({symbol: _zero_allowed(symbol) for symbol in expression.free_symbols})


def _zero_allowed(symbol: sympy.Symbol) -> sympy.Symbol:
    return sympy.Symbol(symbol.name, integer=True, nonnegative=True)
