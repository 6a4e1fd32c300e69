"""Witnesses: sizes at which the model's code goes the other way at a decision, and the same way before it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

import sympy  # type: ignore[import-untyped]

from onnxport.capture.forks.decisions import Decision
from onnxport.capture.forks.joint_search import met_together
from onnxport.capture.forks.residues import Wanted, to_multiples
from onnxport.capture.forks.searching import (
    at_which,
    is_tangled,
    never,
    plain_parts,
    predicate,
    with_equal_sizes,
)
from onnxport.capture.request.resizing import ResizableInputs
from onnxport.torch_internals.sympy_functions import FloorDiv, Max, Min, ValueRangeError, ValueRanges, bound_sympy

Sizes = dict[sympy.Symbol, int]
Limits = Mapping[sympy.Symbol, ValueRanges[sympy.Expr]]
_LIMITS = (Min, Max, sympy.Min, sympy.Max)
_LARGEST = 1 << 16
_MOST_PAIRS = 20000
#: A way that begins at some size is tried just beyond: further on there may be others, or the model may raise.
_NEAR = 64


def witness(
    example: ResizableInputs, decisions: Sequence[Decision], names: Mapping[str, str], limits: Limits
) -> Sizes | None:
    """Return sizes at which the last of the decisions comes out otherwise and those before it as they did, or None.

    ``names`` holds the user's names of symbols; those with one name have one size, and ``limits`` the ranges that were
    declared for symbols. What operators checked before the decision holds as well, unless nothing else is found.
    """
    *before, last = decisions
    wanted = [(decision.expression, decision.outcome) for decision in before]
    wanted.append((last.expression, not last.outcome))
    guards = getattr(example.environment, "guards", ())[: last.checks]
    return meeting(example.values, wanted, [(guard.expr, True) for guard in guards], names, limits)


def meeting(values: Sizes, wanted: Wanted, checks: Wanted, names: Mapping[str, str], limits: Limits) -> Sizes | None:
    """Return sizes at which all that is wanted comes out, the last of which doesn't at these; or None.

    What is checked comes out as well, unless nothing else is found.
    """
    conditions = [expression for expression, _ in (*wanted, *checks)]
    turned, leads, checked = predicate(wanted[-1:]), predicate(wanted), predicate(checks)
    fallback: Sizes | None = None
    for sizes in _candidates(values, wanted[-1][0], _constants(conditions), names):
        # Most sizes don't turn the last decision.
        if not _in_range(limits, sizes) or not turned(sizes) or not leads(sizes):
            continue
        if checked(sizes):
            return sizes
        if fallback is None:
            fallback = sizes
    if fallback is not None:
        return fallback
    found = _searched(values, wanted, limits)
    if found is not None:
        return found
    # Few at a time: sizes multiply.
    near = sorted(_constants([expression for expression, _ in wanted]))
    together = partial(met_together, values, names=names, candidates=partial(_few_sizes, near=near))
    found = together([*checks, *wanted], is_allowed=partial(_in_range, limits))
    return together(wanted, is_allowed=partial(_in_range, limits)) if found is None else found


def _few_sizes(value: int, near: Sequence[int]) -> Iterator[int]:
    """Sizes about one, the numbers that conditions name and small ones."""
    about = [value + 1, value - 1, value + 2, 2 * value, 2 * value + 1]
    named = [number + step for number in near for step in (0, 1, -1)]
    for size in dict.fromkeys([*about, *range(1, 17), *named, *(2 * number for number in near)]):
        if 0 < size <= _LARGEST and size != value:
            yield size


def _searched(values: Sizes, wanted: Wanted, limits: Limits) -> Sizes | None:
    """Sizes that turn the last decision, where all of them are conditions on one size: the first that does."""
    names = {symbol.name for condition, _ in wanted for symbol in condition.free_symbols}
    for size in at_which(wanted):
        sizes = {symbol: size if symbol.name in names else value for symbol, value in values.items()}
        if _in_range(limits, sizes):
            return sizes
    return None


def beside(values: Sizes, decisions: Sequence[Decision], names: Mapping[str, str], limits: Limits) -> Iterator[Sizes]:
    """Sizes just before and just behind those at which decisions turn, one name changed at a time; 1 is the least."""
    for decision in decisions:
        told = predicate([(decision.expression, True)])
        asked = {names.get(symbol.name, symbol.name) for symbol in decision.expression.free_symbols}
        for name in sorted(asked):
            alike = [symbol for symbol in values if names.get(symbol.name, symbol.name) == name]
            if alike:
                yield from _turns(values, alike, told, limits)


def _turns(
    values: Sizes, alike: Sequence[sympy.Symbol], told: Callable[[Sizes], bool], limits: Limits
) -> Iterator[Sizes]:
    """The sizes on both sides of the first place above the example's, and below it, where a condition turns."""
    for step in (1, -1):
        size, near = values[alike[0]], told(values)
        for _ in range(_NEAR):
            beyond = {**values, **dict.fromkeys(alike, size + step)}
            if size + step < 1 or not _in_range(limits, beyond):
                break
            if told(beyond) != near:
                yield {**values, **dict.fromkeys(alike, size)}
                yield beyond
                break
            size += step


def settled(decisions: Sequence[Decision], names: Mapping[str, str], declared: Limits) -> bool:
    """Whether the last of the decisions follows from those before it, as ``n <= 64`` follows from ``n < 8``."""
    *before, last = decisions
    one_size = {symbol: sympy.Symbol(names.get(symbol.name, symbol.name)) for symbol in last.expression.free_symbols}
    if last.expression.xreplace(one_size) in (sympy.true, sympy.false):
        return True
    bound = bound_sympy(last.expression, _ranges(last.expression, before, names, declared, least=0))
    if bound.lower == bound.upper:
        return True
    wanted = [*((one.expression, one.outcome) for one in before), (last.expression, not last.outcome)]
    asked = {symbol.name for symbol in last.expression.free_symbols}
    if never([(one, outcome) for one, outcome in wanted if {symbol.name for symbol in one.free_symbols} <= asked]):
        return True
    told = with_equal_sizes(plain_parts(wanted), names)
    return told is None or never(_joined_to(told[-1], told))


def _joined_to(target: tuple[sympy.Basic, bool], wanted: Wanted) -> Wanted:
    """The conditions that ask for sizes of one, or for such as others join to them."""
    found = set(target[0].free_symbols)
    while True:
        further = {symbol for one, _ in wanted if one.free_symbols & found for symbol in one.free_symbols} - found
        if not further:
            return [(one, outcome) for one, outcome in wanted if one.free_symbols & found]
        found |= further


def follows(expression: sympy.Basic, decisions: Sequence[Decision], names: Mapping[str, str]) -> bool:
    """Whether a condition follows from decisions, as ``n == 1`` follows from ``n <= 1``, where no axis is empty.

    >>> import sympy
    >>> from onnxport.capture.forks.residues import FloorDiv, Min
    >>> from onnxport.capture.forks.witnesses import follows
    >>> n = sympy.Symbol("n", integer=True, positive=True)
    >>> follows(sympy.Eq(FloorDiv(16 * Min(n, 64 * FloorDiv(n + 63, 64)), n), 16), [], {})
    True
    """
    of_sizes = [one for one in decisions if not one.of_data]
    if isinstance(expression, sympy.Eq):
        facts = [fact for one in of_sizes if one.outcome for fact in sympy.And.make_args(one.expression)]
        said = [fact for fact in facts if isinstance(fact, sympy.Eq)]
        one_name = _with_equal_sizes(said, names)
        if _difference(expression, one_name) in [_difference(one, one_name) for one in said]:
            return True
    expression = _divided(_without_limits(_with_numbers(expression, of_sizes, names), names), names)
    if expression in (sympy.true, sympy.false):
        return bool(expression)
    try:
        ranges = _ranges(expression, of_sizes, names, {}, least=1)
    except ValueRangeError:
        # A way that only an empty axis leads.
        return False
    return bool(bound_sympy(expression, ranges).lower == sympy.true)


def _with_numbers(expression: sympy.Basic, decisions: Sequence[Decision], names: Mapping[str, str]) -> sympy.Basic:
    """A condition with numbers for what decisions say they are: ``h * w == 16`` is true where ``h`` and ``w`` are 4."""
    known: dict[sympy.Basic, sympy.Basic] = {}
    for fact, outcome in plain_parts([(one.expression, one.outcome) for one in decisions]):
        if outcome and isinstance(fact, sympy.Eq):
            one, other = (side.xreplace(_by_name(side, names)) for side in fact.args)
            known |= {one: other} if other.is_Integer else {other: one} if one.is_Integer else {}
    return expression.xreplace(_by_name(expression, names)).xreplace(known) if known else expression


def _with_equal_sizes(equalities: Sequence[sympy.Eq], names: Mapping[str, str]) -> dict[str, str]:
    """Names of symbols, of which those have one that equalities say are equal."""
    found = dict(names)
    for equality in equalities:
        if all(side.is_Symbol for side in equality.args):
            one, other = (found.get(side.name, side.name) for side in equality.args)
            found |= {name: other for name, known in found.items() if known == one} | {one: other}
    return found


def _difference(equality: sympy.Eq, names: Mapping[str, str]) -> sympy.Basic:
    """What an equality says is 0, whichever way it is written."""
    left, right = (side.xreplace(_by_name(equality, names)) for side in equality.args)
    found = sympy.expand(left - right)
    return -found if found.could_extract_minus_sign() else found


def _by_name(expression: sympy.Basic, names: Mapping[str, str]) -> dict[sympy.Symbol, sympy.Symbol]:
    """Symbols of the user's names, of which all are positive, for those of an expression."""
    return {
        symbol: sympy.Symbol(names.get(symbol.name, symbol.name), integer=True, positive=True)
        for symbol in expression.free_symbols
    }


def _without_limits(expression: sympy.Basic, names: Mapping[str, str]) -> sympy.Basic:
    """A condition without ``min`` and ``max`` that come to the same at all sizes: ``min(n, n + -n % 8)`` is ``n``."""
    if not expression.has(*_LIMITS) or is_tangled(expression):
        return expression
    expression = expression.xreplace(_by_name(expression, names))
    found = {limit: to_multiples(limit) for limit in expression.atoms(*_LIMITS)}
    return expression.xreplace({limit: same.expression for limit, same in found.items() if same is not None})


def _divided(expression: sympy.Basic, names: Mapping[str, str]) -> sympy.Basic:
    """A condition with what quotients come to at all sizes but 0: ``(3 * n - 1) // n`` is 2, as halves are two."""
    found: dict[sympy.Basic, sympy.Basic] = {}
    if expression.has(FloorDiv):
        expression = expression.xreplace(_by_name(expression, names))
    for part in expression.atoms(FloorDiv):
        number, by = part.args
        if by.is_Symbol and number.is_polynomial(*number.free_symbols):
            whole, rest = sympy.div(sympy.expand(number), by, by, domain=sympy.ZZ[tuple(number.free_symbols - {by})])
            found |= {part: whole + rest} if rest in (0, -1) else {}
    return expression.xreplace(found)


def implied(
    fact: sympy.Basic,
    decisions: Sequence[Decision],
    names: Mapping[str, str],
    limits: Limits,
    known: Sequence[sympy.Basic] = (),
) -> bool:
    """Whether a fact surely follows from decisions and what was declared of sizes, where no axis is empty.

    ``known`` is what else is so on this way.

    >>> import sympy
    >>> from onnxport.capture.forks.residues import FloorDiv
    >>> from onnxport.capture.forks.witnesses import implied
    >>> sizes = sympy.symbols("h w", integer=True, positive=True)
    >>> eighth, thirtysecond = ([FloorDiv(size - 1, by) + 1 for size in sizes] for by in (8, 32))
    >>> implied(sympy.Eq(21 * sympy.prod(thirtysecond), 336), [], {}, {}, known=[sympy.Eq(one, 16) for one in eighth])
    True
    """
    if follows(fact, decisions, names):
        return True
    told = plain_parts([(one.expression, one.outcome) for one in decisions]) + [(one, True) for one in known]
    wanted = _of_no_others(fact.free_symbols, told, limits)
    if never([*wanted, (fact, False)]):
        return True
    if len(fact.free_symbols) > 1:
        fact = _with_settled_parts(fact, told, limits)
    return bool(fact == sympy.true)


def _of_no_others(symbols: AbstractSet[sympy.Symbol], told: Wanted, limits: Limits) -> list[tuple[sympy.Basic, bool]]:
    """What is told of sizes and of no others, and what was declared of them."""
    asked = {symbol.name for symbol in symbols}
    wanted = [(one, outcome) for one, outcome in told if {symbol.name for symbol in one.free_symbols} <= asked]
    by_name = {symbol.name: limit for symbol, limit in limits.items()}
    for symbol in symbols:
        limit = by_name.get(symbol.name)
        # torch's symbol is positive, of which nothing would be left to tell.
        size = sympy.Symbol(symbol.name, integer=True, nonnegative=True)
        wanted.append((size >= (1 if limit is None else sympy.Max(1, limit.lower)), True))
        if limit is not None and limit.upper.is_Integer:
            wanted.append((size <= limit.upper, True))
    return wanted


def _with_settled_parts(fact: sympy.Basic, told: Wanted, limits: Limits) -> sympy.Basic:
    """A fact with numbers for its parts of one size that what is told of that size leaves no choice."""
    for symbol in sorted(fact.free_symbols, key=str):
        wanted = _of_no_others({symbol}, told, limits)
        size = next(at_which(wanted), None)
        if size is None:
            continue
        for part in _parts_of_one_size(fact, symbol):
            value = part.xreplace({symbol: sympy.Integer(size)})
            if value.is_Integer and never([*wanted, (sympy.Eq(part, value, evaluate=False), False)]):
                fact = fact.xreplace({part: value})
    return fact


def _parts_of_one_size(expression: sympy.Basic, symbol: sympy.Symbol) -> Iterator[sympy.Basic]:
    """The largest parts of an expression in which there is one size only."""
    if expression.free_symbols == {symbol} and not isinstance(expression, sympy.Rel):
        yield expression
    elif symbol in expression.free_symbols:
        for part in expression.args:
            yield from _parts_of_one_size(part, symbol)


def _ranges(
    expression: sympy.Basic, decisions: Sequence[Decision], names: Mapping[str, str], declared: Limits, least: int
) -> dict[sympy.Symbol, ValueRanges[sympy.Expr]]:
    """The ranges of the symbols of an expression where decisions come out as they did."""
    by_name = {symbol.name: limit for symbol, limit in declared.items()}
    limits = {
        symbol: by_name.get(symbol.name, ValueRanges(least if symbol.is_nonnegative else -_LARGEST, _LARGEST))
        for symbol in expression.free_symbols
    }
    for decision in decisions:
        fact = decision.expression if decision.outcome else sympy.Not(decision.expression)
        for symbol, found in _limits(fact):
            for one in limits:
                if names.get(one.name, one.name) == names.get(symbol.name, symbol.name):
                    limits[one] = limits[one] & found
    return limits


def _limits(fact: sympy.Basic) -> Iterator[tuple[sympy.Symbol, ValueRanges[sympy.Expr]]]:
    """What a comparison of a symbol with a number says of the symbol."""
    if not isinstance(fact, sympy.Rel) or isinstance(fact, sympy.Ne):
        return
    left, right = fact.args
    if left.is_Integer and right.is_Symbol:
        fact = fact.reversed
        left, right = right, left
    if not (left.is_Symbol and right.is_Integer):
        return
    number = int(right)
    least = number + 1 if isinstance(fact, sympy.StrictGreaterThan) else number
    most = number - 1 if isinstance(fact, sympy.StrictLessThan) else number
    if isinstance(fact, sympy.StrictGreaterThan | sympy.GreaterThan):
        yield left, ValueRanges(least, max(least, _LARGEST))
    elif isinstance(fact, sympy.StrictLessThan | sympy.LessThan):
        yield left, ValueRanges(0 if left.is_nonnegative else -_LARGEST, most)
    elif isinstance(fact, sympy.Eq):
        yield left, ValueRanges(number, number)


def _constants(conditions: Sequence[sympy.Basic]) -> set[int]:
    return {int(atom) for condition in conditions for atom in condition.atoms(sympy.Integer)}


def _candidates(
    values: Mapping[sympy.Symbol, int], target: sympy.Basic, constants: set[int], names: Mapping[str, str]
) -> Iterator[Sizes]:
    """Yield sizes to try: one group of symbols changed, then two."""
    groups: dict[str, list[sympy.Symbol]] = {}
    for symbol in values:
        groups.setdefault(names.get(str(symbol), str(symbol)), []).append(symbol)
    named = {symbol.name for symbol in target.free_symbols}
    asked = [group for group in groups.values() if not named.isdisjoint(symbol.name for symbol in group)]
    for group in asked:
        for size in _sizes(values[group[0]], constants):
            yield {**values, **dict.fromkeys(group, size)}
        if not group[0].is_nonnegative:
            for size in _sizes(values[group[0]], constants):
                yield {**values, **dict.fromkeys(group, -size)}
    tried = 0
    for one, other in itertools.combinations(asked, 2):
        for first in _sizes(values[one[0]], constants):
            for second in _sizes(values[other[0]], constants):
                tried += 1
                if tried > _MOST_PAIRS:
                    return
                yield {**values, **dict.fromkeys(one, first), **dict.fromkeys(other, second)}


def _sizes(value: int, constants: set[int]) -> Iterator[int]:
    """Numbers by their distance from the example's, then those that the conditions name, then small ones; 0 late.

    The last are far ones, at which several sizes multiply to a number that a condition names.
    """
    near = [size for step in range(1, _NEAR) for size in (value + step, value - step) if size > 0]
    near += [2 * value, 2 * value + 1, 3 * value]
    around = (c + step for c in sorted(constants) for step in (1, 0, -1, 2, 3))
    multiples = (n for c in sorted(constants) for n in (2 * c, 2 * c + 1, 2 * c - 1, value + c, value * c))
    far = [value << step for step in range(2, _LARGEST.bit_length())]
    for size in dict.fromkeys([*near, *around, *multiples, *range(1, 34), 0, *far]):
        if 0 <= size <= _LARGEST and size != value:
            yield size


def _in_range(limits: Limits, sizes: Sizes) -> bool:
    declared = ((limits[symbol], size) for symbol, size in sizes.items() if symbol in limits)
    return all(limit.lower <= size <= limit.upper for limit, size in declared)
