"""Conditions on sizes in words: the sizes at which one holds where they can be told, else the condition itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import sympy  # type: ignore[import-untyped]
from sympy.printing.precedence import PRECEDENCE  # type: ignore[import-untyped]
from sympy.printing.str import StrPrinter  # type: ignore[import-untyped]

from onnxport.torch_internals.sympy_functions import ToFloat

_RELATIONS = {
    sympy.Eq: "equals",
    sympy.Ne: "differs from",
    sympy.StrictGreaterThan: "is greater than",
    sympy.StrictLessThan: "is less than",
    sympy.GreaterThan: "is at least",
    sympy.LessThan: "is at most",
}
_SMALL = range(1, 65)
_LARGE = (96, 100, 127, 128, 129, 255, 256, 1000, 1023, 1024, 1025, 4097, 65537)
"""Sizes at which a condition is tried. What is said of the small ones must be true of the large ones as well."""

_LONGEST_PERIOD = 32
_LONGEST_WORDS = 100


def condition_in_words(condition: sympy.Basic, *, solve: bool = True) -> str:
    """A condition on sizes, as a reader would say it; solving takes milliseconds, which one that nobody reads can save.

    >>> import sympy
    >>> from onnxport.capture.diagnosis.size_words import condition_in_words
    >>> n, m = sympy.symbols("n m", integer=True, positive=True)
    >>> condition_in_words(sympy.Eq(n % 4, 2)), condition_in_words(sympy.Eq((n + 3) // 4, 1))
    ('n is 2 more than a multiple of 4', 'n is at most 4')
    >>> condition_in_words(n > m + 1)
    'n is greater than m + 1'
    """
    relation = _RELATIONS.get(type(condition))
    left, right = condition.args if relation is not None else (condition, condition)
    if solve and (relation is None or not (left.is_Symbol or right.is_Symbol)):
        solved = _solved(condition)
        if solved is not None:
            return solved
    if relation is None:
        return _unless_long(f"{_shown(condition)} holds", condition)
    for whole, fraction in ((left, right), (right, left)):
        if isinstance(whole, ToFloat) and whole.args[0] == sympy.floor(fraction):
            return f"{_shown(fraction)} {'is' if relation == 'equals' else 'is not'} a whole number"
    return _unless_long(f"{_shown(left)} {relation} {_shown(right)}", condition)


def _unless_long(words: str, condition: sympy.Basic) -> str:
    """Words that can be read at a glance; of a longer condition the line that asks says more than its formula."""
    sizes = " and ".join(sorted(map(str, condition.free_symbols)))
    return words if len(words) <= _LONGEST_WORDS else f"the condition on {sizes} comes out as for the example"


class _PythonPrinter(StrPrinter):  # type: ignore[misc]
    """Writes expressions as Python code would; torch has functions of its own for int, ceil and division."""

    def _print_TruncToInt(self, expression: sympy.Basic) -> str:
        return f"int({self._print(expression.args[0])})"

    def _print_CeilToInt(self, expression: sympy.Basic) -> str:
        return f"ceil({self._print(expression.args[0])})"

    def _print_FloorToInt(self, expression: sympy.Basic) -> str:
        return f"floor({self._print(expression.args[0])})"

    def _print_ToFloat(self, expression: sympy.Basic) -> str:
        return str(self._print(expression.args[0]))

    def _print_FloatTrueDiv(self, expression: sympy.Basic) -> str:
        return " / ".join(map(self._factor, expression.args))

    _print_IntTrueDiv = _print_FloatTrueDiv

    def _print_Mod(self, expression: sympy.Basic) -> str:
        return " % ".join(map(self._factor, expression.args))

    _print_PythonMod = _print_Mod

    def _factor(self, part: sympy.Basic) -> str:
        return str(self.parenthesize(part.args[0] if isinstance(part, ToFloat) else part, PRECEDENCE["Mul"]))

    def _print_Max(self, expression: sympy.Basic) -> str:
        return f"max({', '.join(map(self._print, expression.args))})"

    def _print_Min(self, expression: sympy.Basic) -> str:
        return f"min({', '.join(map(self._print, expression.args))})"


def _shown(expression: sympy.Basic) -> str:
    return str(_PythonPrinter().doprint(expression))


def _solved(condition: sympy.Basic) -> str | None:
    """The sizes at which a condition on one size holds, where they have a pattern."""
    if len(condition.free_symbols) != 1:
        return None
    (size,) = condition.free_symbols
    try:
        holds = {value: condition.xreplace({size: sympy.Integer(value)}) for value in (*_SMALL, *_LARGE)}
    except ZeroDivisionError:
        # The condition itself has no meaning at some size, so that it is said as it is.
        return None
    if not all(truth in (sympy.true, sympy.false) for truth in holds.values()):
        return None
    known = {value: truth == sympy.true for value, truth in holds.items()}
    patterns = (
        words for words, matches in _patterns(known) if all(matches(value) == truth for value, truth in known.items())
    )
    words = next(patterns, None)
    return None if words is None else f"{size} {words}"


def _patterns(known: Mapping[int, bool]) -> Iterator[tuple[str, Callable[[int], bool]]]:
    """What may be said of the sizes at which a condition holds, simplest first."""
    inside = [value for value in _SMALL if known[value]]
    outside = [value for value in _SMALL if not known[value]]
    if not inside or not outside:
        return
    first, last, missing = inside[0], inside[-1], outside[0]
    yield f"equals {first}", lambda value: value == first
    yield f"differs from {missing}", lambda value: value != missing
    yield f"is at most {last}", lambda value: value <= last
    yield f"is at least {first}", lambda value: value >= first
    yield f"is from {first} to {last}", lambda value: first <= value <= last
    yield "is even", lambda value: value % 2 == 0
    yield "is odd", lambda value: value % 2 == 1
    for period in range(3, _LONGEST_PERIOD):
        for rest in range(period):
            of = f"a multiple of {period}" if rest == 0 else f"{rest} more than a multiple of {period}"
            yield f"is {of}", lambda value, period=period, rest=rest: value % period == rest  # type: ignore[misc]
    for period in range(3, _LONGEST_PERIOD):
        yield f"is no multiple of {period}", lambda value, period=period: value % period != 0  # type: ignore[misc]
