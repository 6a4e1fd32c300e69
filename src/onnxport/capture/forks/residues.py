"""Residues: expressions of one size, looked at for each remainder that the size may leave.

With ``n = 4 * q + r`` the numbers that padding is computed of, as ``n % 4`` and ``n // 4``, are sums of ``q`` for each
of the four ``r``. So whether two of them are one number at all sizes can be proven, and one that a condition chooses
can be said without it: ``0 if n % 4 == 0 else 4 - n % 4`` is what is between ``n`` and the next multiple of 4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import sympy  # type: ignore[import-untyped]

from onnxport.torch_internals.sympy_functions import (
    CeilDiv,
    CeilToInt,
    CleanDiv,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    PythonMod,
)

_MOST_REMAINDERS = 512
_MOST_PERIOD = 4096
_MOST_TOLD = 20_000
_REMAINDERS = (sympy.Mod, Mod, PythonMod)
_QUOTIENTS = (FloorDiv, CleanDiv, CeilDiv)
DIVIDING = (*_REMAINDERS, *_QUOTIENTS, IntTrueDiv)
"""What has a number that is divided, and one that divides."""
_EXTREMES = (sympy.Max, Max, sympy.Min, Min)
_ROUNDED: dict[type, Callable[..., sympy.Basic]] = {FloorToInt: FloorDiv, CeilToInt: CeilDiv}


Wanted: TypeAlias = Sequence[tuple[sympy.Basic, bool]]


@dataclass(frozen=True)
class _Line:
    """``slope * q + start``, for every ``q`` from 0 on."""

    slope: int
    start: int

    def __sub__(self, other: _Line) -> _Line:
        return _Line(self.slope - other.slope, self.start - other.start)

    @property
    def sign(self) -> int:
        """The sign that it has everywhere."""
        if self.slope == 0:
            return (self.start > 0) - (self.start < 0)
        if self.start == 0 or (self.slope > 0) is not (self.start > 0):
            raise _Uneven
        return 1 if self.slope > 0 else -1

    @property
    def is_nonnegative(self) -> bool:
        """Whether it is negative nowhere; where it is somewhere, it must be nowhere positive."""
        if self.slope * self.start < 0:
            raise _Uneven
        return self.slope + self.start >= 0


class _Uneven(Exception):
    """An expression is no line where the size leaves a certain remainder."""


_Told: TypeAlias = "_Line | bool"


@dataclass(frozen=True)
class ToMultiples:
    """``of_multiple * number * (size // number) + of_size * size + rest``, rounded up where ``is_next``."""

    size: sympy.Basic
    number: int
    of_multiple: int
    of_size: int
    rest: int
    is_next: bool

    @property
    def expression(self) -> sympy.Basic:
        """It as an expression."""
        whole = FloorDiv(self.size + (self.number - 1 if self.is_next else 0), self.number)
        return self.of_multiple * self.number * whole + self.of_size * self.size + self.rest


@functools.lru_cache(maxsize=256)
def to_multiples(expression: sympy.Basic) -> ToMultiples | None:
    """An expression of one size without conditions in it; None where there is none that is the same at all sizes.

    >>> import sympy
    >>> from onnxport.capture.forks.residues import FloorDiv, Mod, to_multiples
    >>> n = sympy.Symbol("n", integer=True, positive=True)
    >>> to_multiples(sympy.Piecewise((1, sympy.Eq(Mod(n, 2), 0)), (3 - Mod(n, 2), True))).expression
    -n + 2*(((n + 1)//2)) + 1
    >>> to_multiples(sympy.Piecewise((0, n < 4), (1, True))) is None
    True
    """
    for size, of_symbol in _of_one_size(expression):
        number = math.lcm(*_divisors(of_symbol))
        if number <= _MOST_REMAINDERS:
            symbol = next(iter(of_symbol.free_symbols))
            for is_next in (True, False):
                found = _candidate(of_symbol, symbol, number, is_next=is_next)
                if found is not None and _are_same(of_symbol, found.expression, symbol, number):
                    return ToMultiples(size, number, found.of_multiple, found.of_size, found.rest, is_next)
    return None


def met_nowhere(wanted: Wanted, size: sympy.Symbol, holds_at: Callable[[int], bool]) -> bool:
    """Whether there is surely no size, 0 among them, at which conditions on it come out as they should.

    For each remainder the conditions are lines, whose order is one from some size on; up to there ``holds_at`` tells.

    >>> import sympy
    >>> from onnxport.capture.forks.residues import FloorDiv, Mod, met_nowhere
    >>> n = sympy.Symbol("n", integer=True, nonnegative=True)
    >>> padded = FloorDiv(n, 4) + Mod(7 - Mod(FloorDiv(n, 4), 7), 7)
    >>> wanted = [(padded <= 7, True), (n > 31, True)]
    >>> met_nowhere(wanted, n, lambda n: n > 31 and n // 4 + (7 - n // 4 % 7) % 7 <= 7)
    True
    """
    number = 1
    asked: list[tuple[sympy.Basic, bool]] = []
    # What asks for too much is left out: the others may settle it.
    for condition, outcome in sorted(wanted, key=lambda one: _period(one[0])):
        together = math.lcm(number, _period(condition))
        if together <= _MOST_PERIOD:
            number = together
            asked.append((condition, outcome))
    left = _MOST_TOLD
    for remainder in range(number):
        start = remainder
        while (met := _met(asked, size, _Line(number, start))) is not False:
            left -= 1
            if met or left <= 0 or holds_at(start):
                return False
            start += number
    return True


def _met(wanted: Wanted, size: sympy.Symbol, line: _Line) -> bool | None:
    """Whether conditions come out as they should all along a line; None where that is not one answer."""
    found: bool | None = True
    for condition, outcome in wanted:
        try:
            if _told(condition, size, line) is not outcome:
                return False
        except _Uneven:
            found = None
    return found


def _period(expression: sympy.Basic) -> int:
    """After how many sizes an expression goes on as it did, by as much more."""
    inner = math.lcm(*map(_period, expression.args))
    if isinstance(expression, DIVIDING) and expression.args[1].is_Integer and expression.args[1] != 0:
        inner *= abs(int(expression.args[1]))
    return min(inner, _MOST_PERIOD + 1)


def _of_one_size(expression: sympy.Basic) -> Iterator[tuple[sympy.Basic, sympy.Basic]]:
    """Sizes, perhaps computed of others, that are all an expression depends on; with a symbol in their place."""
    divided = {part.args[0] for part in sympy.preorder_traversal(expression) if isinstance(part, DIVIDING)}
    sizes = {size - size.as_coeff_Add()[0] for size in divided} | divided | expression.free_symbols
    symbol = sympy.Symbol("size", integer=True, nonnegative=True)
    for size in sorted(sizes, key=lambda size: (-sympy.count_ops(size), str(size))):
        put = _replaced_in_sums(expression, size, symbol) if size.is_nonnegative else expression
        if put.free_symbols == {symbol}:
            yield size, put


def _replaced_in_sums(expression: sympy.Basic, size: sympy.Basic, symbol: sympy.Symbol) -> sympy.Basic:
    """An expression with a symbol for a size, also where that is part of a sum with a number, or divided again."""
    parts = list(sympy.preorder_traversal(expression))
    put = {part: part - size + symbol for part in parts if part.is_Add and (part - size).is_Integer}
    if isinstance(size, FloorDiv) and size.args[1].is_Integer:
        # (n // 2) // 4 is written as n // 8.
        whole, number = size.args
        again = [part for part in parts if isinstance(part, FloorDiv) and part.args[0] == whole and part != size]
        put |= {part: FloorDiv(symbol, part.args[1] // number) for part in again if part.args[1] % number == 0}
    return expression.xreplace(put | {size: symbol})


def _divisors(expression: sympy.Basic) -> Sequence[int]:
    parts = (part for part in sympy.preorder_traversal(expression) if isinstance(part, DIVIDING))
    found = [abs(int(part.args[1])) for part in parts if part.args[1].is_Integer and part.args[1] != 0]
    # What is divided again leaves as many remainders as the numbers have together.
    return found if len(set(found)) <= 1 else [math.prod(set(found))]


def _candidate(expression: sympy.Basic, symbol: sympy.Symbol, number: int, *, is_next: bool) -> ToMultiples | None:
    """The expression of this form that is right at three sizes, two of which have the same multiple."""
    first = 1 if is_next else 0
    try:
        at = [_told(expression, symbol, _Line(0, size)) for size in (first, first + 1, first + number)]
    except _Uneven:
        return None
    numbers = [told.start for told in at if isinstance(told, _Line)]
    if len(numbers) < len(at):
        return None
    of_size = numbers[1] - numbers[0] if number > 1 else 0
    of_multiple, left = divmod(numbers[2] - numbers[0] - of_size * number, number)
    multiple = number if is_next else 0
    rest = numbers[0] - of_size * first - of_multiple * multiple
    return None if left else ToMultiples(symbol, number, of_multiple, of_size, rest, is_next)


def _are_same(one: sympy.Basic, other: sympy.Basic, symbol: sympy.Symbol, number: int) -> bool:
    try:
        return all(
            _told(one, symbol, _Line(number, rest)) == _told(other, symbol, _Line(number, rest))
            for rest in range(number)
        )
    except _Uneven:
        return False


def _told(expression: sympy.Basic, symbol: sympy.Symbol, value: _Line) -> _Told:
    """What an expression is where a size is this line."""
    if expression == symbol:
        return value
    if expression.is_Integer:
        return _Line(0, int(expression))
    if expression in (sympy.true, sympy.false):
        return bool(expression)
    if isinstance(expression, sympy.Piecewise):
        for chosen, condition in expression.args:
            if _told(condition, symbol, value):
                return _told(chosen, symbol, value)
        raise _Uneven
    kind = type(expression)
    if kind in _ROUNDED and isinstance(expression.args[0], IntTrueDiv):
        return _told(_ROUNDED[kind](*expression.args[0].args), symbol, value)
    parts = [_told(part, symbol, value) for part in expression.args]
    if isinstance(expression, sympy.And | sympy.Or | sympy.Not):
        truths = [part for part in parts if isinstance(part, bool)]
        joined = any if isinstance(expression, sympy.Or) else all
        return joined(truths) is not isinstance(expression, sympy.Not)
    lines = [part for part in parts if isinstance(part, _Line)]
    if len(lines) < len(parts) or not lines:
        raise _Uneven
    return _computed(expression, lines)


def _computed(expression: sympy.Basic, parts: Sequence[_Line]) -> _Told:
    kind = type(expression)
    if isinstance(expression, sympy.Rel):
        sign = (parts[0] - parts[1]).sign
        return bool(expression.func(sympy.Integer(sign), 0))
    if kind is sympy.Add:
        return _Line(sum(part.slope for part in parts), sum(part.start for part in parts))
    if kind is sympy.Mul:
        return _product(parts)
    if kind in _EXTREMES:
        return _extreme(parts, greatest=kind in (sympy.Max, Max))
    if kind in (*_REMAINDERS, *_QUOTIENTS) and len(parts) == 2:
        return _divided(kind, *parts)
    raise _Uneven


def _product(parts: Sequence[_Line]) -> _Line:
    factor = math.prod(part.start for part in parts if part.slope == 0)
    lines = [part for part in parts if part.slope != 0]
    if len(lines) > 1:
        raise _Uneven
    return _Line(lines[0].slope * factor, lines[0].start * factor) if lines else _Line(0, factor)


def _extreme(parts: Sequence[_Line], *, greatest: bool) -> _Line:
    found, *others = parts
    for other in others:
        if (other - found).is_nonnegative is greatest:
            found = other
    return found


def _divided(kind: type, line: _Line, by: _Line) -> _Line:
    if by.slope != 0 or by.start <= 0 or line.slope % by.start:
        raise _Uneven
    if kind in _REMAINDERS:
        return _Line(0, line.start % by.start)
    if kind is CleanDiv and line.start % by.start:
        raise _Uneven
    start = -(-line.start // by.start) if kind is CeilDiv else line.start // by.start
    return _Line(line.slope // by.start, start)
