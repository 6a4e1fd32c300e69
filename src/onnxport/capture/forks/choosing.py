"""Numbers that a condition on sizes chooses: ``pad = 0 if n % 4 == 0 else 4 - n % 4`` is one number, and no branch.

Layers that pad as TensorFlow does ask such a thing each, twice, so ways through the model would multiply. Where both
sides are numbers, what is chosen is an expression of the sizes with the condition in it, or without it where it comes
to the same. An operator may then ask for a truth about the number, which it would have been plain for; what was chosen
there is a branch again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.capture.diagnosis.guards import shape_env_of
from onnxport.capture.diagnosis.user_lines import frame_of_caller, raised_by_model
from onnxport.capture.forks.residues import DIVIDING, to_multiples
from onnxport.capture.forks.searching import never
from onnxport.errors import OnnxExporterError
from onnxport.torch_internals.symbolic_sizes import free_unbacked_symbols, recorded_size
from onnxport.torch_internals.sympy_functions import Max, Min
from onnxport.undoing import pushed

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_CHOOSING = (sympy.Piecewise, sympy.Max, sympy.Min, Max, Min)
_MOST_PARTS = 60
_SIZES_TRIED = 64

_Line = tuple[str, int]


class Unchosen(Exception):
    """What a condition chooses between is no number, or not known to be one at all sizes."""


_without_truths: list[None] = []


@contextlib.contextmanager
def truths_refused() -> Iterator[None]:
    """While the block runs, asking for a truth that sizes or data tell ends it."""
    with pushed(_without_truths, None):
        yield


def refuse_truth() -> None:
    """End what is computed without asking for truths, if something is."""
    if _without_truths:
        raise Unchosen


@dataclass
class Choosing:
    """The numbers of one export that conditions choose, by the lines of the model's code."""

    # Parts with a condition, and whole numbers that are said without one.
    _made: dict[_Line, set[sympy.Basic]] = field(default_factory=dict)
    _said: dict[_Line, set[sympy.Basic]] = field(default_factory=dict)
    #: The lines at which what was chosen is a branch again.
    denied: set[_Line] = field(default_factory=set)

    @property
    def withdrawn(self) -> int:
        """At how many lines what was chosen so is a branch again."""
        return len(self.denied)

    def may(self) -> bool:
        """Whether what the line that is running chooses is still to be one number."""
        line = line_of_frame()
        return line is not None and line not in self.denied

    def between(self, condition: object, one: Any, other: Any) -> object:
        """One of two values by a condition; of tuples and lists, each of their items."""
        if not isinstance(condition, _SYMBOLIC):
            return one if condition else other
        if not isinstance(condition, torch.SymBool):
            condition = condition != 0
        if type(one) is type(other) and isinstance(one, tuple | list) and len(one) == len(other):
            return type(one)(self.between(condition, *pair) for pair in zip(one, other, strict=True))
        if one is other or (_is_plain(one) and type(one) is type(other) and one == other):
            return one
        if _kind(one) is bool and _kind(other) is bool:
            return (condition & one) | (torch.sym_not(condition) & other)
        if _kind(one) is None or _kind(one) is not _kind(other):
            raise Unchosen
        if type(one) is type(other):
            return self._noted(torch.sym_ite(condition, one, other))
        if _kind(one) is float:
            raise Unchosen
        # torch.sym_ite does not take a plain number with one that is none.
        return self._noted(other + torch.sym_ite(condition, 1, 0) * (one - other))

    def extreme(self, values: Sequence[Any], *, greatest: bool) -> object:
        """The least or greatest of numbers; raises :class:`Unchosen` where they must be compared one by one."""
        found, *others = values
        symbolic: Callable[..., object] = torch.sym_max if greatest else torch.sym_min
        for other in others:
            if _kind(found) is not int or _kind(other) is not int:
                raise Unchosen
            with truths_refused():
                # What only a size of 0 turns is to be asked.
                compared = (other > found) if greatest else (other < found)
            found = symbolic(found, other) if isinstance(compared, torch.SymBool) else other if compared else found
        return self._noted(found)

    def _noted(self, number: object) -> object:
        """A number that was chosen, in a simpler form where there is one."""
        if not isinstance(number, _SYMBOLIC) or number.node.expr.is_number:
            return number
        expression = number.node.expr
        if free_unbacked_symbols(expression) or not is_defined(expression):
            raise Unchosen
        simple = without_condition(number) if isinstance(number, torch.SymInt) else None
        line = line_of_frame()
        assert line is not None
        if simple is not None:
            if isinstance(simple, torch.SymInt):
                self._said.setdefault(line, set()).add(simple.node.expr)
            return simple
        if sum(1 for _ in sympy.preorder_traversal(expression)) > _MOST_PARTS:
            raise Unchosen
        self._made.setdefault(line, set()).update(expression.atoms(*_CHOOSING))
        return number

    def stands(self, program: torch.export.ExportedProgram) -> bool:
        """Whether no operator took what was chosen for the example's; where one did, that line is a branch again."""
        environment = shape_env_of(program) if self._made or self._said else None
        if environment is None:
            return True
        chosen, said = dict(self._made), dict(self._said)
        stands = True
        for guard in environment.guards:
            parts = guard.expr.atoms(*_CHOOSING)
            lines = [line for line, made in chosen.items() if not made.isdisjoint(parts)]
            lines = lines if lines and not never([(guard.expr, False)]) else []
            lines += [line for line, numbers in said.items() if any(_fixes(guard.expr, number) for number in numbers)]
            if lines:
                self._deny(lines)
                stands = False
        return stands

    def withdraw(self) -> bool:
        """Make everything that was chosen a branch again; False where nothing was chosen."""
        lines = [*self._made, *self._said]
        self._deny(lines)
        return bool(lines)

    def withdraw_after(self, error: Exception) -> bool:
        """The same where a run may have failed because numbers were chosen that are plain in the model's code."""
        return not isinstance(error, OnnxExporterError) and not raised_by_model(error) and self.withdraw()

    def _deny(self, lines: Sequence[_Line]) -> None:
        self.denied.update(lines)
        for line in lines:
            self._made.pop(line, None)
            self._said.pop(line, None)


def _fixes(guard: sympy.Basic, number: sympy.Basic) -> bool:
    """Whether a guard leaves a number of one size a single value, which an operator then took from the example."""
    if not isinstance(guard, sympy.Eq) or guard.free_symbols != number.free_symbols or len(guard.free_symbols) > 1:
        return False
    if guard.atoms(*DIVIDING).isdisjoint(number.atoms(*DIVIDING)):
        return False
    (symbol,) = guard.free_symbols
    at = [{symbol: sympy.Integer(size)} for size in range(1, _SIZES_TRIED)]
    values = [number.xreplace(size) for size in at]
    left = {value for size, value in zip(at, values, strict=True) if guard.xreplace(size) == sympy.true}
    return len(left) == 1 < len(set(values))


def without_condition(number: torch.SymInt) -> int | torch.SymInt | None:
    """A number of sizes as a multiple of a number and what is between; None where it is not known to be that."""
    simple = to_multiples(number.node.expr)
    if simple is None:
        return None
    if simple.expression.is_Integer:
        return int(simple.expression)
    size = next((one for one in _sizes_at_hand() if one.node.expr == simple.size), recorded_size(simple.size))
    if size is None:
        return None
    whole = (size + (simple.number - 1 if simple.is_next else 0)) // simple.number
    made: torch.SymInt = simple.of_multiple * simple.number * whole + simple.of_size * size + simple.rest
    return made


def _sizes_at_hand() -> Iterator[torch.SymInt]:
    """The sizes that the code which is running has, and those of its tensors."""
    frame = frame_of_caller()
    for value in () if frame is None else list(frame.f_locals.values()):
        held = value.shape if isinstance(value, torch.Tensor) else value
        for one in held if isinstance(held, tuple | list) else [held]:
            if isinstance(one, torch.SymInt):
                yield one


def line_of_frame() -> _Line | None:
    """The file and line of the model's code that is running."""
    frame = frame_of_caller()
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _kind(value: object) -> type | None:
    if isinstance(value, bool | torch.SymBool):
        return bool
    if isinstance(value, int | torch.SymInt):
        return int
    return float if isinstance(value, float | torch.SymFloat) else None


def is_defined(expression: sympy.Basic) -> bool:
    """Whether nothing in it divides by what may be 0: in the file all parts of it are computed."""
    return all(
        part.args[1].is_Integer and part.args[1] != 0
        for part in sympy.preorder_traversal(expression)
        if isinstance(part, DIVIDING)
    )
