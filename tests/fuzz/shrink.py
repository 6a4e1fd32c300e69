"""The smallest program with the same fault."""

from __future__ import annotations

from fuzz.isolation import Judge
from fuzz.outcomes import Outcome
from fuzz.programs import Program


def shrunk(program: Program, fault: Outcome, judge: Judge) -> Program:
    """Leave out statements, the last first, for as long as the fault stays of its kind."""
    if fault.result is not None and _same(program.returning([fault.result]), fault, judge):
        program = program.returning([fault.result])
    for name in program.returned if fault.result is None else ():
        if _same(program.returning([name]), fault, judge):
            program = program.returning([name])
            break
    smaller = True
    while smaller:
        smaller = False
        for index in reversed(range(len(program.statements))):
            if index >= len(program.statements):
                continue
            candidate = program.without([index])
            if candidate.returned and candidate.runs() and _same(candidate, fault, judge):
                program, smaller = candidate, True
    return program


def _same(program: Program, fault: Outcome, judge: Judge) -> bool:
    found = judge(program)
    return found.kind == fault.kind and _class(found) == _class(fault)


def _class(fault: Outcome) -> str:
    return fault.detail.split(":")[1].strip() if fault.kind == "crash" and ":" in fault.detail else ""
