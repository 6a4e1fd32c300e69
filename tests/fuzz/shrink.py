"""The smallest program with the same fault."""

from __future__ import annotations

from fuzz.isolation import Judge
from fuzz.outcomes import Outcome
from fuzz.programs import Program


def shrunk(program: Program, fault: Outcome, judge: Judge) -> Program:
    """Leave out statements, many at once and then fewer, the last first, for as long as the fault stays of its kind."""
    if fault.result is not None and _same(program.returning([fault.result]), fault, judge):
        program = program.returning([fault.result])
    if fault.result is None:
        program = _up_to_the_fault(program, fault, judge)
    many = max(1, len(program.statements) // 2)
    while True:
        smaller = _without_runs(program, many, fault, judge)
        if many == 1 and len(smaller.statements) == len(program.statements):
            return smaller
        program, many = smaller, max(1, many // 2)


def _up_to_the_fault(program: Program, fault: Outcome, judge: Judge) -> Program:
    """The fewest first statements with the fault, and the last result alone where it has it too."""
    without, with_it = 0, len(program.statements)
    if not _same(program.first(with_it), fault, judge):
        return program
    while with_it - without > 1:
        middle = (without + with_it) // 2
        if _same(program.first(middle), fault, judge):
            with_it = middle
        else:
            without = middle
    shortest = program.first(with_it)
    alone = shortest.returning(shortest.returned[-1:])
    return alone if _same(alone, fault, judge) else shortest


def _without_runs(program: Program, many: int, fault: Outcome, judge: Judge) -> Program:
    """Leave out each run of so many statements that the fault does not need."""
    end = len(program.statements)
    while end > 0:
        candidate = program.without(range(max(0, end - many), end))
        if candidate.returned and candidate.runs() and _same(candidate, fault, judge):
            program = candidate
        end = min(end - many, len(program.statements))
    return program


def _same(program: Program, fault: Outcome, judge: Judge) -> bool:
    found = judge(program)
    return found.kind == fault.kind and _class(found) == _class(fault)


def _class(fault: Outcome) -> str:
    return fault.detail.split(":")[1].strip() if fault.kind == "crash" and ":" in fault.detail else ""
