"""The smallest program with the same fault."""

from __future__ import annotations

from fuzz.isolation import Judge
from fuzz.outcomes import Outcome
from fuzz.programs import Program


def shrunk(program: Program, fault: Outcome, judge: Judge) -> Program:
    """Leave out statements, many at once and then fewer, the last first, for as long as the fault stays of its kind."""
    if fault.result is not None and _same(program.returning([fault.result]), fault, judge):
        program = program.returning([fault.result])
    for name in program.returned if fault.result is None else ():
        if _same(program.returning([name]), fault, judge):
            program = program.returning([name])
            break
    many = max(1, len(program.statements) // 2)
    while True:
        smaller = _without_runs(program, many, fault, judge)
        if many == 1 and len(smaller.statements) == len(program.statements):
            return smaller
        program, many = smaller, max(1, many // 2)


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
