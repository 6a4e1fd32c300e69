"""The smallest program with the same fault."""

from __future__ import annotations

from fuzz.outcomes import Outcome, outcome
from fuzz.programs import SIZES, Program, inputs


def shrunk(program: Program, fault: Outcome) -> Program:
    """Leave out statements, the last first, for as long as the fault stays of its kind."""
    if fault.result is not None and _same(program.returning([fault.result]), fault):
        program = program.returning([fault.result])
    smaller = True
    while smaller:
        smaller = False
        for index in reversed(range(len(program.statements))):
            candidate = program.without(index)
            if candidate.returned and _runs(candidate) and _same(candidate, fault):
                program, smaller = candidate, True
    for name in program.returned if len(program.returned) > 1 else ():
        rest = [other for other in program.returned if other != name]
        if rest and _same(program.returning(rest), fault):
            program = program.returning(rest)
    return program


def _runs(program: Program) -> bool:
    try:
        for size in SIZES:
            program.module()(*inputs(size))
    except (RuntimeError, IndexError, ValueError, TypeError, NameError):
        return False
    return True


def _same(program: Program, fault: Outcome) -> bool:
    found = outcome(program)
    return found.kind == fault.kind and _class(found) == _class(fault)


def _class(fault: Outcome) -> str:
    return fault.detail.split(":")[1].strip() if fault.kind == "crash" and ":" in fault.detail else ""
