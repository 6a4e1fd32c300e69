"""Searching: all sizes in turn, where conditions on them are quick to tell."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping

import sympy  # type: ignore[import-untyped]

from onnxport.capture.forks.residues import Wanted, met_nowhere
from onnxport.capture.request.resizing import at_sizes
from onnxport.torch_internals.sympy_functions import CleanDiv, FloorDiv, Max, Min, Mod, PythonMod

_MOST = 1 << 14
_MOST_PARTS = 150
_MOST_CASES = 4
_MOST_TOGETHER = 1 << 17
_JOINED = {sympy.Add: " + ", sympy.Mul: " * ", sympy.Mod: " % ", Mod: " % ", PythonMod: " % ", FloorDiv: " // "}
_JOINED |= {CleanDiv: " // "}
_JOINED |= {sympy.And: " and ", sympy.Or: " or "}
_CALLED = {sympy.Min: "min", Min: "min", sympy.Max: "max", Max: "max", sympy.Not: "not"}
_DIVIDING = (sympy.Mod, Mod, PythonMod, FloorDiv, CleanDiv)
_FUNCTIONS = {"__builtins__": {"min": min, "max": max}}


def never(wanted: Wanted) -> bool:
    """Whether there are surely no sizes at which conditions come out as they should.

    >>> import sympy
    >>> from onnxport.capture.forks.searching import FloorDiv, never
    >>> n, m = sympy.symbols("n m", integer=True, nonnegative=True)
    >>> never([(sympy.Eq(n % 2, 0), False), (sympy.Eq(n % 2, 1), False)]), never([(n > 3, True)])
    (True, False)
    >>> never([(sympy.Min(n, m) <= 4, False), (n <= 3, True)])
    True
    >>> never([(2 * n > 30 * m, True), (m > 60, True)])
    False
    >>> never([(sympy.Eq(FloorDiv(n - 8, 2), -1), True)]), never([(FloorDiv(n, 2) > n, True)])
    (False, True)
    >>> up, whole = 2 * FloorDiv(n - 1, 64) + 2, FloorDiv(n - 1, 32) + 1
    >>> never([(sympy.Ne(up, whole), False), (sympy.Ne(whole, up), True)]), never([(whole < 0, True)])
    (True, False)
    >>> never([(n > m + 1, True), (m > 1, True)]), never([(sympy.Symbol("k", integer=True) < 0, True)])
    (False, False)
    >>> never([(sympy.Or(n < 16, m < 16), True), (m < 16, False), (n >= 16, True)])
    True
    """
    wanted = plain_parts(wanted)
    return _never(wanted) or _never_in_any_case(wanted)


def _never_in_any_case(wanted: Wanted) -> bool:
    """The same of each part of the first condition that says that one of several holds."""
    for place, (condition, outcome) in enumerate(wanted):
        if isinstance(condition, sympy.Or if outcome else sympy.And):
            others = [*wanted[:place], *wanted[place + 1 :]]
            cases = [[*others, (part, outcome)] for part in condition.args]
            return len(cases) <= _MOST_CASES and all(_never(plain_parts(case)) for case in cases)
    return False


def _never(wanted: Wanted) -> bool:
    if any((condition, not outcome) in wanted for condition, outcome in wanted):
        return True
    wanted = _inner_as_sizes(wanted)
    told = _predicate(wanted)
    symbols = {symbol.name: symbol for condition, _ in wanted for symbol in condition.free_symbols}
    if told is None or not symbols or (len(symbols) > 1 and not all(_is_linear(condition) for condition, _ in wanted)):
        return False
    # Sums, products, quotients and remainders by numbers repeat themselves from some size on: after the product of all
    # numbers in a condition, and as often.
    products = [_product(condition) for condition, _ in wanted]
    most = math.lcm(*products) + 2 * max(products)
    if len(symbols) > 1:
        # One size may have to be larger than another by as much as each condition says, times what it is multiplied by.
        scale = math.prod(_scale(condition) for condition, _ in wanted)
        most = len(symbols) * math.lcm(*products) + 2 * sum(products) * scale
    # A number that the model is given, other than a size, may be negative.
    ranges = [range(0 if symbol.is_nonnegative else -most, most + 1) for symbol in symbols.values()]
    # As numbers of Python's: a range may be longer than len() tells.
    if math.prod(one.stop - one.start for one in ranges) > (_MOST if len(symbols) == 1 else _MOST_TOGETHER):
        (name, size), *others = symbols.items()
        return not others and bool(size.is_nonnegative) and met_nowhere(wanted, size, lambda at: told({name: at}))
    return not any(told(dict(zip(symbols, sizes, strict=True))) for sizes in itertools.product(*ranges))


def is_tangled(expression: sympy.Basic) -> bool:
    """Whether an expression has so many parts that it takes seconds to reason about: it doubles with each iteration."""
    return next(itertools.islice(sympy.preorder_traversal(expression), _MOST_PARTS, None), None) is not None


def plain_parts(wanted: Wanted) -> list[tuple[sympy.Basic, bool]]:
    """Conditions without ``and`` where that is true, ``or`` where that is false, ``not``, ``!=`` and needless factors.

    >>> import sympy
    >>> from onnxport.capture.forks.searching import plain_parts
    >>> n, m = sympy.symbols("n m", integer=True, nonnegative=True)
    >>> shifts = [sympy.Piecewise((0, size <= 7), (3, True)) for size in (n, m)]
    >>> plain_parts([(shifts[0] + shifts[1] > 0, False)])
    [(m <= 7, True), (n <= 7, True)]
    >>> plain_parts([(sympy.Ne(9 * n * m, 0), True)])
    [(Eq(m*n, 0), False)]
    """
    found: list[tuple[sympy.Basic, bool]] = []
    for condition, outcome in wanted:
        if isinstance(condition, sympy.Not):
            found += plain_parts([(condition.args[0], not outcome)])
        elif isinstance(condition, sympy.And if outcome else sympy.Or):
            found += plain_parts([(part, outcome) for part in condition.args])
        elif chosen := _choices_of_nothing(condition, outcome):
            found += plain_parts(chosen)
        elif isinstance(condition, sympy.Ne):
            found.append((_without_factor(sympy.Eq(*condition.args, evaluate=False)), not outcome))
        else:
            found.append((_without_factor(condition), outcome))
    return found


def _without_factor(condition: sympy.Basic) -> sympy.Basic:
    """``n * m == 0`` for ``9 * n * m == 0``."""
    if not isinstance(condition, sympy.Eq) or condition.args[1] != 0:
        return condition
    factor, rest = condition.args[0].as_coeff_Mul()
    return condition if factor in (0, 1) else sympy.Eq(rest, 0, evaluate=False)


_OF_NOTHING = ((sympy.StrictGreaterThan, False), (sympy.LessThan, True), (sympy.Eq, True), (sympy.Ne, False))


def _choices_of_nothing(condition: sympy.Basic, outcome: bool) -> list[tuple[sympy.Basic, bool]]:
    """What chooses 0 for each term of a sum that comes to 0, if each is 0 by one condition or a positive number."""
    if not isinstance(condition, sympy.Rel) or condition.args[1] != 0 or (condition.func, outcome) not in _OF_NOTHING:
        return []
    found = []
    for term in sorted(sympy.Add.make_args(condition.args[0]), key=str):
        if not isinstance(term, sympy.Piecewise) or len(term.args) != 2 or term.args[1][1] != sympy.true:
            return []
        values = [value for value, _ in term.args]
        if not all(value.is_Integer and value >= 0 for value in values) or values.count(0) != 1:
            return []
        found.append((term.args[0][1], values[0] == 0))
    return found


def with_equal_sizes(wanted: Wanted, names: Mapping[str, str]) -> list[tuple[sympy.Basic, bool]] | None:
    """Conditions with one size for those that they say are equal, and numbers for those that they say are; None if
    they contradict each other.

    >>> import sympy
    >>> from onnxport.capture.forks.searching import with_equal_sizes
    >>> n, m = sympy.symbols("n m", integer=True, nonnegative=True)
    >>> with_equal_sizes([(sympy.Eq(n, 3), True), (sympy.Eq(n, m), True), (m > 2, False)], {}) is None
    True
    """
    told = [(_by_name(condition, names), outcome) for condition, outcome in wanted]
    while True:
        if any(condition == (sympy.false if outcome else sympy.true) for condition, outcome in told):
            return None
        equal = next(filter(None, (_equality(condition) for condition, outcome in told if outcome)), None)
        if equal is None:
            return told
        told = [(condition.xreplace(equal), outcome) for condition, outcome in told]


def _by_name(condition: sympy.Basic, names: Mapping[str, str]) -> sympy.Basic:
    sizes = {
        symbol: sympy.Symbol(names.get(symbol.name, symbol.name), integer=True, nonnegative=symbol.is_nonnegative)
        for symbol in condition.free_symbols
    }
    return condition.xreplace(sizes)


def _equality(condition: sympy.Basic) -> dict[sympy.Symbol, sympy.Basic] | None:
    """The size that a condition says is another, or a number, with that."""
    if not isinstance(condition, sympy.Eq):
        return None
    for one, other in (condition.args, condition.args[::-1]):
        if one.is_Symbol and (other.is_Symbol or other.is_Integer):
            return {one: other}
    return None


def _inner_as_sizes(wanted: Wanted) -> Wanted:
    """Conditions of a size computed of others, as ``(n // 4 + 1) // 2``, where it is all of them that they ask for."""
    found = {part for condition, _ in wanted for part in condition.atoms(FloorDiv)}
    inner = [part for part in found if all(symbol.is_nonnegative for symbol in part.free_symbols)]
    for part in sorted(inner, key=lambda part: (-sympy.count_ops(part), str(part))):
        name = "inner_" + "_".join(sorted(symbol.name for symbol in part.free_symbols))
        # What is subtracted from may be negative, and sizes are not.
        is_size = all(number > 0 for number in part.atoms(sympy.Integer))
        size = sympy.Symbol(name, integer=True, nonnegative=True if is_size else None)
        again = {other: _divided_again(other, part, size) for other in found}
        put = [(condition.xreplace(again), outcome) for condition, outcome in wanted]
        if all(condition.free_symbols <= {size} for condition, _ in put):
            return put
    return wanted


def _divided_again(other: sympy.Basic, part: sympy.Basic, size: sympy.Symbol) -> sympy.Basic:
    """A quotient with a symbol for another that it is, or that it divides again: ``n // 8`` is ``(n // 2) // 4``."""
    if other == part:
        return size
    (whole, by), (again, number) = part.args, other.args
    if whole == again and by.is_Integer and number.is_Integer and by > 0 and number % by == 0:
        return FloorDiv(size, number // by)
    return other


def _is_linear(condition: sympy.Basic) -> bool:
    """Whether sizes are multiplied and divided by numbers only."""
    for part in sympy.preorder_traversal(condition):
        kind = type(part)
        if kind in _DIVIDING and not part.args[1].is_Integer:
            return False
        if kind is sympy.Mul and sum(not factor.is_number for factor in part.args) > 1:
            return False
    return True


def _product(condition: sympy.Basic) -> int:
    parts = sympy.preorder_traversal(condition)
    return math.prod(abs(int(part)) for part in parts if part.is_Integer and part != 0)


def _scale(condition: sympy.Basic) -> int:
    """What sizes are multiplied or divided by."""
    parts = (part for part in sympy.preorder_traversal(condition) if type(part) in (sympy.Mul, FloorDiv, CleanDiv))
    return math.prod(abs(int(factor)) for part in parts for factor in part.args if factor.is_Integer and factor != 0)


def at_which(wanted: Wanted) -> Iterator[int]:
    """The sizes at which conditions come out as they should; none where there is more than one size in them."""
    told = _predicate(wanted)
    names = _names(wanted)
    if told is None or len(names) != 1:
        return
    (name,) = names
    for size in range(_MOST):
        if told({name: size}):
            yield size


def predicate(wanted: Wanted) -> Callable[[Mapping[sympy.Symbol, int]], bool]:
    """What tells of sizes, by their symbols, whether conditions come out as they should there."""
    told = _predicate(wanted)
    if told is not None and _names(wanted):
        return lambda sizes: told({symbol.name: size for symbol, size in sizes.items()})
    conditions, outcomes = [condition for condition, _ in wanted], [outcome for _, outcome in wanted]
    return lambda sizes: at_sizes(conditions, sizes) == outcomes


def is_quick(wanted: Wanted) -> bool:
    """Whether conditions can be code of Python's."""
    return all(_text(condition) is not None for condition, _ in wanted)


def _names(wanted: Wanted) -> set[str]:
    return {symbol.name for condition, _ in wanted for symbol in condition.free_symbols}


def _predicate(wanted: Wanted) -> Callable[[dict[str, int]], bool] | None:
    """The conditions as code of Python's, which takes a thousandth of the time; None where it can't be."""
    texts = [(_text(condition), outcome) for condition, outcome in wanted]
    if any(text is None for text, _ in texts):
        return None
    text = " and ".join(f"({text})" if outcome else f"not ({text})" for text, outcome in texts)
    code = compile(text, "<conditions>", "eval") if texts else compile("True", "<conditions>", "eval")

    def told(sizes: dict[str, int]) -> bool:
        try:
            return bool(eval(code, _FUNCTIONS, sizes))
        except (ZeroDivisionError, NameError):
            # At these sizes nothing is compared, or there are more that count.
            return False

    return told


def _text(expression: sympy.Basic) -> str | None:
    """An expression of sizes as Python has it; None where it has parts that are none of these."""
    if expression.is_Symbol:
        return str(expression.name) if expression.name.isidentifier() else None
    if expression.is_Integer or expression in (sympy.true, sympy.false):
        return str(expression)
    if isinstance(expression, sympy.Piecewise):
        *pairs, (last, always) = expression.args
        texts = [_text(part) for pair in (*pairs, (last, always)) for part in pair]
        if None in texts or always != sympy.true:
            return None
        return "(" + " else ".join(f"{texts[n]} if {texts[n + 1]}" for n in range(0, len(texts), 2)) + " else 0)"
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
