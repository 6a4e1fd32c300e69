"""A program statement by statement: what is refused is set aside, and the rest must be right."""

from __future__ import annotations

from dataclasses import dataclass

from fuzz.isolation import Judge
from fuzz.outcomes import Outcome, outcome
from fuzz.programs import Program


@dataclass(frozen=True)
class SetAside:
    """A statement that the comparison went on without, and why."""

    kind: str
    statement: str
    reason: str


@dataclass(frozen=True)
class Examined:
    """What is left of a program, what was set aside on the way there, and the fault that ended it, if one did."""

    program: Program
    aside: tuple[SetAside, ...]
    fault: Outcome | None


def examine(program: Program, judge: Judge = outcome) -> Examined:
    """Set statements aside until the rest is right, or a fault is found."""
    aside: list[SetAside] = []
    while program.returned:
        found = judge(program)
        if found.kind == "right":
            break
        if found.is_fault:
            return Examined(program, tuple(aside), found)
        blamed = found.statements or (_first_of(found.kind, program, judge),)
        aside += [SetAside(found.kind, program.statements[index][1], found.detail) for index in blamed]
        program = program.without(blamed)
        while not program.runs():
            program = program.first(len(program.statements) - 1)
    return Examined(program, tuple(aside), None)


def _first_of(kind: str, program: Program, judge: Judge) -> int:
    """The statement that makes the program one of a kind, for outcomes that name no line."""
    without, with_it = 0, len(program.statements)
    while with_it - without > 1:
        middle = (without + with_it) // 2
        if judge(program.first(middle)).kind == kind:
            with_it = middle
        else:
            without = middle
    return with_it - 1
