"""What a capture took for granted about the sizes that vary.

Python code may branch on a size, or make a plain number of one: torch then records a guard and captures what the
example did. The program is right only where its guards hold, so each is an event, and those that tie the
result to the example in a way that no error at run time would show are a warning.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.capture.diagnosis.forced_sizes import Asked, Recorder, fixed_value
from onnxport.capture.diagnosis.size_words import condition_in_words
from onnxport.capture.diagnosis.user_lines import Asker
from onnxport.errors import Problem, listing, warn
from onnxport.events import EventLog
from onnxport.provenance import source_line
from onnxport.size_limits import SizeLimit
from onnxport.torch_internals.symbolic_sizes import example_sizes
from onnxport.torch_internals.sympy_functions import FloatTrueDiv, IntTrueDiv, Mod, PythonMod, ToFloat


@dataclass(frozen=True)
class Followed:
    """A decision of Python code of which only one way was captured: for which outcome, and why not the other."""

    expression: sympy.Basic
    outcome: bool
    by: Asker
    where: str
    reason: str


@dataclass(frozen=True)
class GuardedProgram:
    """A captured program; ``decides`` tells whether the decisions of the path it is imply a condition on sizes.

    ``implies`` tells it more often, and takes longer.
    """

    program: torch.export.ExportedProgram
    decides: Callable[[sympy.Basic], bool]
    implies: Callable[[sympy.Basic], bool]


def report_assumptions(
    programs: Sequence[GuardedProgram],
    names: Mapping[str, str],
    same: Mapping[str, str],
    recorder: Recorder,
    followed: Sequence[Followed],
    events: EventLog,
) -> None:
    """Record every guard of captured programs, and warn of those that quietly fix what should vary.

    ``recorder`` has who asked and the user's line for guards of which it is known; for others it is what torch says.
    ``followed`` are decisions of the model's code that the example took alone.
    """
    problems = []
    told = {_named(decision.expression, names, same) for decision in followed if decision.outcome}
    for expression, by, where in _guards(programs, names, same, recorder.guarded):
        if expression in told:
            continue
        misleads = _misleads(expression, by)
        shown = condition_in_words(expression, solve=misleads)
        events.add("assumption", "capture", shown, where=where)
        if misleads:
            problems.append(Problem(f"It is right only where {shown}", where))
    for decision in followed:
        # Whether an axis is empty may have been asked, which is no question of a size that sympy takes for positive.
        expression = _named(decision.expression, names, same, positive=None)
        shown = condition_in_words(expression if decision.outcome else sympy.Not(expression))
        events.add("assumption", "capture", f"{shown} ({decision.reason})", where=decision.where)
        if _is_branch(expression, decision.by):
            problems.append(Problem(f"It is right only where {shown}: {decision.reason}", decision.where))
    for expression, where in recorder.counts_as_sizes.items():
        which = "is not 1" if any(side.is_number for side in expression.args) else "neither is 1"
        shown = f"{_count_in_words(expression, programs, names, same)}, and {which}, which would be broadcast"
        events.add("assumption", "capture", shown, where=where)
        problems.append(Problem(f"It is right only where {shown}", where))
    found = ((one, *squeezed) for one in programs for squeezed in squeezed_sizes([one.program]))
    told_of = {(size, where): None for one, size, where in found if not one.implies(sympy.Ne(size, 1))}
    for size, where in told_of:
        shown = f"{_named(size, names, same)} differs from 1, which squeeze would drop"
        events.add("assumption", "capture", shown, where=where)
        problems.append(Problem(f"It is right only where {shown}", where))
    if problems:
        headline = "The exported model follows the example where the code depends on a size:"
        warn(listing(headline, list(dict.fromkeys(problems))))


_SQUEEZES = (torch.ops.aten.squeeze.dim, torch.ops.aten.squeeze.dims, torch.ops.aten.squeeze.default)


def limit_of(
    fact: sympy.Basic, unless: Sequence[sympy.Basic], names: Mapping[str, str], otherwise: str, where: str
) -> SizeLimit:
    """The limit that a fact about sizes must hold, unless one of others does."""
    named = [_named(one, names, {}, positive=None) for one in (fact, *unless)]
    words = condition_in_words(named[0]) + "".join(f", unless {condition_in_words(one)}" for one in named[1:])
    return SizeLimit(sympy.Or(*named), words, otherwise, where)


def squeezed_sizes(programs: Sequence[torch.export.ExportedProgram]) -> Iterator[tuple[sympy.Basic, str]]:
    """The sizes that vary of axes that are squeezed, with the line: a capture keeps such an axis, at size 1 as well."""
    told: set[tuple[sympy.Basic, str]] = set()
    pairs = itertools.product(programs, _SQUEEZES)
    found_in = (program.graph.find_nodes(op="call_function", target=squeeze) for program, squeeze in pairs)
    for node in itertools.chain.from_iterable(found_in):
        value = node.args[0].meta["val"]
        axes = node.args[1] if len(node.args) > 1 else range(value.dim())
        for axis in [axes] if isinstance(axes, int) else axes:
            size = value.shape[axis] if value.dim() else 1
            if isinstance(size, torch.SymInt) and fixed_value(size) is None:
                found = (size.node.expr, source_line(node))
                if found not in told:
                    told.add(found)
                    yield found


def _count_in_words(
    equality: sympy.Basic, programs: Sequence[GuardedProgram], names: Mapping[str, str], same: Mapping[str, str]
) -> str:
    """What is said of a count of data that is taken for a size."""
    counts: set[sympy.Symbol] = set(equality.free_symbols)
    for env in filter(None, (shape_env_of(one.program) for one in programs)):
        sizes = example_sizes(env)
        counts -= set(sizes)
        equality = equality.xreplace({symbol: size for symbol, size in _replaced(env).items() if symbol in sizes})
    named = _named(equality, {**{str(count): "a count of data" for count in counts}, **names}, same)
    return condition_in_words(named)


def _named(
    expression: sympy.Basic, names: Mapping[str, str], same: Mapping[str, str], positive: bool | None = True
) -> sympy.Basic:
    symbols = {symbol: same.get(str(symbol), str(symbol)) for symbol in expression.free_symbols}
    return expression.xreplace(
        {
            symbol: sympy.Symbol(names.get(name, name), integer=True, positive=positive)
            for symbol, name in symbols.items()
        }
    )


def _guards(
    programs: Sequence[GuardedProgram],
    names: Mapping[str, str],
    same: Mapping[str, str],
    asked: Mapping[object, Asked],
) -> Iterator[tuple[sympy.Basic, Asker, str]]:
    seen: set[sympy.Basic] = set()
    environments = [(one, shape_env_of(one.program)) for one in programs]
    known_of = [(one, env, _replaced(env)) for one, env in environments if env is not None]
    found_in = ((one, known, guard) for one, env, known in known_of for guard in env.guards)
    for guarded, known, guard in found_in:
        found = asked.get(guard.expr)
        by: Asker = "torch" if found is None else found.by
        # Two sizes are one after code has asked whether they are equal, and that is what there is to say.
        found_to_be = guard.expr if by == "user" else guard.expr.xreplace(known)
        expression = _named(found_to_be, names, same)
        # What is no size of an input is a stride, or a size of the memory that an example is a view of.
        if not any(same.get(str(symbol), str(symbol)) in names for symbol in found_to_be.free_symbols):
            continue
        # Axes that the user named alike make some guards true by themselves.
        if expression in (sympy.true, sympy.false) or expression in seen or guarded.decides(guard.expr):
            continue
        if _misleads(expression, by) and guarded.implies(guard.expr):
            continue
        seen.add(expression)
        yield expression, by, "" if found is None else found.where


def _replaced(env: Any) -> dict[sympy.Basic, sympy.Basic]:
    """The sizes that turned out to be others after guards had been made of them, or numbers.

    An axis whose size became a number is told of by itself.
    """
    known: dict[sympy.Basic, sympy.Basic] = {}
    latest = dict(env.replacements)
    while latest != known:
        known, latest = latest, {symbol: value.xreplace(latest) for symbol, value in latest.items()}
    return known


def shape_env_of(program: torch.export.ExportedProgram) -> Any:
    """The environment that the symbols of a program belong to; None where no size varies."""
    return environment_of(program.graph)


def environment_of(graph: torch.fx.Graph) -> Any:
    """The environment that the symbols of a graph belong to; None where no size varies."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            if isinstance(size, torch.SymInt):
                return size.node.shape_env
    return None


def fixes_a_value(expression: sympy.Basic) -> bool:
    """Whether a guard says that something computed from sizes is one certain number, or a whole one.

    Divisibility is left out: where it fails, a reshape fails as well, and loudly. A fraction that is compared, or a
    remainder that must not be nothing, is none of an operator's checks: Python asked, and went the example's way.
    """
    if isinstance(expression, sympy.Ne):
        # A size that has remainders in it, as one padded to whole windows has, is asked for by operators too.
        return any(isinstance(side, Mod | PythonMod) for side in expression.args)
    if not isinstance(expression, sympy.Eq):
        return False
    left, right = expression.args
    if left.is_Integer:
        left, right = right, left
    if isinstance(left, Mod | PythonMod) and right == 0:
        return False
    return expression.has(ToFloat, IntTrueDiv, FloatTrueDiv) or (bool(right.is_Integer) and bool(left.free_symbols))


def _misleads(expression: sympy.Basic, by: Asker) -> bool:
    return fixes_a_value(expression) or _is_branch(expression, by)


def _is_branch(expression: sympy.Basic, by: Asker) -> bool:
    """Whether Python code outside of torch went the example's way here, and may go another at another size.

    Libraries treat a size of 1, and what is empty, apart in many places, mostly to save work; there it stays an
    assumption of the report.
    """
    if by == "torch":
        return False
    one_or_none = 0 in expression.args or (1 in expression.args and len(expression.free_symbols) == 1)
    return by == "user" or not one_or_none
