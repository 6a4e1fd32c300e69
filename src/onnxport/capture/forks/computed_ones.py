"""Computed ones: sizes that follow from those that vary, and are 1 in the example, as the number of chunks may be.

Operators of torch treat a size of 1 apart, in how memory lies and in what is broadcast, and ask for it: a program that
was captured there holds nowhere else. No axis of an example that varies has size 1, but nobody knows what is computed
of its sizes. So such a run is made again, on the same way through the model, at sizes where it is more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.capture.diagnosis.forced_sizes import declared_ranges
from onnxport.capture.diagnosis.guards import fixes_a_value, shape_env_of
from onnxport.capture.forks.decisions import Schedule
from onnxport.capture.forks.paths import Run
from onnxport.capture.forks.searching import is_tangled, predicate
from onnxport.capture.forks.witnesses import follows, meeting
from onnxport.capture.naming import name_axes
from onnxport.capture.request.dynamic_shapes import Axis
from onnxport.capture.request.resizing import Arguments, ResizableInputs
from onnxport.errors import InputError
from onnxport.events import EventLog

_MOST_RUNS = 3
"""At other sizes other numbers may be 1."""


@dataclass(frozen=True)
class AwayFromOnes:
    """A run that is made again where torch found a computed size to be 1 in the example.

    ``sizes`` gives the sizes of declared axes in a program, and ``keep`` notes what was rewritten of the model and
    returns what puts that back.
    """

    run: Run
    sizes: Callable[[torch.export.ExportedProgram], Sequence[tuple[Axis, object]]]
    keep: Callable[[], Callable[[], None]]
    events: EventLog

    def __call__(self, schedule: Schedule, arguments: Arguments) -> torch.export.ExportedProgram:
        """Capture one way through the model: at these arguments, or where computed sizes are more than 1."""
        first = self.run(schedule, arguments)
        if not any(_ones(first)):
            return first
        put_back = self.keep()
        found = self._run_beyond(first, schedule, arguments)
        if found is not None:
            return found
        put_back()
        return first

    def _run_beyond(
        self, program: torch.export.ExportedProgram, schedule: Schedule, arguments: Arguments
    ) -> torch.export.ExportedProgram | None:
        taken, example = schedule, arguments
        for _ in range(_MOST_RUNS):
            larger = self._arguments_beyond(program, taken, arguments)
            if larger is None:
                return None
            taken, arguments = Schedule([one.outcome for one in schedule.decisions]), larger
            try:
                program = self.run(taken, arguments)
            except InputError:
                raise
            except Exception as error:  # noqa: BLE001 - what was captured stays, and what it took for granted is told
                what = f"A run at sizes of which none is computed to be 1 failed: {type(error).__name__}: {error}"
                self.events.add("note", "capture", what)
                return None
            if [one.where for one in taken.decisions] != [one.where for one in schedule.decisions]:
                return None
            if not _holds_at(program, example):
                # As where each size has as many results of its own: `x.split(4)`.
                return None
            if not any(_ones(program)):
                schedule.take_over(taken)
                return program
        return None

    def _arguments_beyond(
        self, program: torch.export.ExportedProgram, schedule: Schedule, arguments: Arguments
    ) -> Arguments | None:
        """Arguments at sizes where no computed one is 1, and what was decided comes out as it did; None without any."""
        example = ResizableInputs(program, *arguments)
        if not example.usable:
            return None
        environment = shape_env_of(program)
        ones = list(_ones(program))
        wanted = [(environment.replace(one.expression), one.outcome) for one in schedule.decisions if not one.of_data]
        wanted.append((sympy.And(*(size > 1 for size in ones)), True))
        checks = [(guard.expr, True) for guard in environment.guards if _one(guard.expr) is None]
        declared = self.sizes(program)
        names = name_axes(program, declared, ()).by_symbol
        sizes = meeting(example.values, wanted, checks, names, declared_ranges(program, declared))
        return None if sizes is None or not example.has_room(sizes) else example.at(sizes)


def _holds_at(program: torch.export.ExportedProgram, arguments: Arguments) -> bool:
    """Whether the numbers for which a program takes computed sizes are theirs at other arguments as well."""
    guards = [guard.expr for guard in getattr(shape_env_of(program), "guards", ())]
    sizes = ResizableInputs(program, *arguments).values
    return predicate([(guard, True) for guard in guards if fixes_a_value(guard)])(sizes)


def _ones(program: torch.export.ExportedProgram) -> Iterator[sympy.Basic]:
    """The computed sizes that guards of a program say are 1, but for those that are 1 at all sizes."""
    environment = shape_env_of(program)
    for guard in () if environment is None else environment.guards:
        condition = environment.replace(guard.expr)
        size = _one(condition)
        if size is not None and not is_tangled(size) and not follows(condition, [], {}):
            yield size


def _one(condition: sympy.Basic) -> sympy.Basic | None:
    """The computed size that a condition says is 1, as ``4 * chunks == 4`` does; None for other conditions."""
    if not isinstance(condition, sympy.Eq) or not fixes_a_value(condition):
        return None
    left, right = condition.args
    times, size = (right if left.is_Integer else left).as_coeff_Mul()
    number = left if left.is_Integer else right
    return size if number == times and not size.is_Symbol else None
