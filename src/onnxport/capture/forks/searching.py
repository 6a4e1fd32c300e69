"""Searching: every size in turn, where conditions are on one size and quick to tell."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import sympy  # type: ignore[import-untyped]

from onnxport.torch_internals.sympy_functions import FloorDiv, Max, Min, Mod, PythonMod

Wanted = Sequence[tuple[sympy.Basic, bool]]
_MOST = 1 << 14
_JOINED = {sympy.Add: " + ", sympy.Mul: " * ", sympy.Mod: " % ", Mod: " % ", PythonMod: " % ", FloorDiv: " // "}
_JOINED |= {sympy.And: " and ", sympy.Or: " or "}
_CALLED = {sympy.Min: "min", Min: "min", sympy.Max: "max", Max: "max", sympy.Not: "not"}
_FUNCTIONS = {"__builtins__": {"min": min, "max": max}}


def never(wanted: Wanted) -> bool:
    """Whether there is surely no size at which conditions come out as they should.

    >>> import sympy
    >>> from onnxport.capture.forks.searching import never
    >>> n = sympy.Symbol("n", integer=True)
    >>> never([(sympy.Eq(n % 2, 0), False), (sympy.Eq(n % 2, 1), False)]), never([(n > 3, True)])
    (True, False)
    """
    # Sums, products, quotients and remainders by numbers repeat themselves from some size on: after the product of all
    # numbers in a condition, and as often.
    products = [_product(condition) for condition, _ in wanted]
    most = math.lcm(*products) + 2 * max(products)
    if most > _MOST or _text_of_all(wanted) is None:
        return False
    return next(itertools.takewhile(lambda size: size <= most, at_which(wanted)), None) is None


def _product(condition: sympy.Basic) -> int:
    parts = sympy.preorder_traversal(condition)
    return math.prod(abs(int(part)) for part in parts if part.is_Integer and part != 0)


def at_which(wanted: Wanted) -> Iterator[int]:
    """The sizes at which conditions come out as they should; none where there is more than one size in them."""
    text = _text_of_all(wanted)
    if text is None:
        return
    code = compile(text, "<conditions>", "eval")
    for size in range(_MOST):
        try:
            if eval(code, _FUNCTIONS, {"size": size}):
                yield size
        except ZeroDivisionError:
            # At this size nothing is compared.
            continue


def _text_of_all(wanted: Wanted) -> str | None:
    if len({symbol.name for condition, _ in wanted for symbol in condition.free_symbols}) != 1:
        return None
    texts = [(_text(condition), outcome) for condition, outcome in wanted]
    if any(text is None for text, _ in texts):
        return None
    return " and ".join(f"({text})" if outcome else f"not ({text})" for text, outcome in texts)


def _text(expression: sympy.Basic) -> str | None:
    """An expression of one size as Python has it; None where it has parts that are none of these."""
    if expression.is_Symbol:
        return "size"
    if expression.is_Integer:
        return str(expression)
    parts = [_text(part) for part in expression.args]
    known = [part for part in parts if part is not None]
    if not parts or len(known) < len(parts):
        return None
    if isinstance(expression, sympy.Rel):
        return f"({known[0]} {expression.rel_op} {known[1]})"
    kind = type(expression)
    if kind in _JOINED:
        return f"({_JOINED[kind].join(known)})"
    return f"{_CALLED[kind]}({', '.join(known)})" if kind in _CALLED else None
