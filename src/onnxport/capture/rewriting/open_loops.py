"""Loops whose length only run time knows, captured as ``scan`` or ``while_loop``.

The body is a block (``open_blocks.py``) of the variables that it changes. Where a variable is another kind of thing
after the first iteration (None and then a tensor), the first iteration runs before the loop. A list that iterations
read, or add to as data says, is a sequence for the length of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import sympy  # type: ignore[import-untyped]
import torch
import torch.fx.traceback
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from onnxport.capture.diagnosis.user_lines import line_of_error
from onnxport.capture.forks.decisions import AskedInLoop, learning, unasked
from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.capture.replay.control.closures import sampling
from onnxport.capture.replay.values.items import item_type_of, without_inner_sizes
from onnxport.capture.rewriting.effects import Place, Surroundings
from onnxport.capture.rewriting.open_blocks import OpenBlock, Operand, Reading, Substituting, symbols_so_far
from onnxport.capture.rewriting.open_lists import OpenItems, Size
from onnxport.capture.rewriting.open_numbers import as_tensor, is_open_truth
from onnxport.capture.rewriting.syntax_parts import OWN
from onnxport.capture.rewriting.variables import Sequential, Variable
from onnxport.capture.rewriting.watching import UnevenList, Unlike, Watch, variable_of
from onnxport.errors import CaptureError, Problem
from onnxport.marks import COUNTED_LOOP, marking
from onnxport.torch_internals.operators import scan_module, scan_op, while_loop_op
from onnxport.torch_internals.symbolic_sizes import constrain_range_for_size

Tensors = Sequence[torch.Tensor]
_MOST_ROUNDS = 6
LEFT = 2
"""The flag of a loop that can be left: less than this as long as it goes on, more if it leaves the function too."""


class LoopRefused(CaptureError):
    """A loop of the model's code can't be captured; its problem says why and what to write."""


class OpenLoop(OpenBlock):
    """A loop of the model's code.

    ``attributes`` is what the body assigns to besides variables, ``text`` the head of the loop, and ``flag`` the name
    of the variable that says whether it was left.
    """

    def __init__(
        self,
        body: Callable[..., tuple[object, ...]],
        names: Sequence[str],
        needed: Sequence[str],
        attributes: Sequence[str],
        text: str,
        flag: str,
        around: Mapping[str, object],
    ) -> None:
        super().__init__(names, needed, around)
        self.body = body
        self.attributes, self.text, self.flag = attributes, text, flag
        #: How many iterations ran before the loop.
        self.done = 0

    def _iterate(self, place: object, values: Sequence[object]) -> tuple[object, ...]:
        raise NotImplementedError

    @property
    def count(self) -> Size | None:
        """The number of iterations, if it is known before the loop."""
        return None

    @property
    def beside(self) -> Mapping[str, object]:
        """What an iteration calls besides the body."""
        return {}

    def learn(self) -> None:
        """See what an iteration does with the variables, and what it reads.

        The first iteration knows its numbers, and decides by them; what is kept of them is what any iteration does.
        """
        self.variables = [Variable() for _ in self.values]
        for _ in range(_MOST_ROUNDS):
            before = [variable.description for variable in self.variables]
            try:
                super().learn()
            except UnevenList as uneven:
                self._take_for_sequence(uneven)
                continue
            settled = before == [variable.description for variable in self.variables]
            if settled or not any(variable.is_open for variable in self.variables):
                break
        else:
            raise Unlike("its variables are other things in each iteration")
        if self.attributes and not self.places:
            raise Unlike(f"it assigns to {', '.join(self.attributes)}")

    def _take_for_sequence(self, uneven: UnevenList) -> None:
        """Let a list be a sequence of such items, as far as these have sizes in common."""
        position = next((n for n, own in enumerate(self._watched.own) if own is uneven.held), None)
        found = without_inner_sizes(item_type_of(uneven.items), self._watched.known)
        if position is None or found is None or isinstance(self.variables[position], Sequential):
            raise uneven
        self.variables[position] = Sequential(found)

    def _iteration(self, place: object, values: Sequence[object]) -> tuple[object, ...]:
        """One iteration: what it leaves of the variables, and in the places besides."""
        return self.in_block(lambda own: self._iterate(place, own), values)

    def watch(self) -> list[Place]:
        """Watch an iteration; return what it changes besides what is known to be changed."""
        self.variables += [Variable() for _ in self.values[len(self.variables) :]]
        with sampling(), Reading() as self._reading:
            known = symbols_so_far()
            self._watched = watch = Watch(self.values, self.variables, known, self.count)
            own = dict(zip(self.names, watch.own, strict=False))
            around = Surroundings(self.body, self.places, {**self.beside, **own})
            self._reading.in_block.clear()
            try:
                with learning():
                    self.after = self._iteration(_any_place() + self.done, watch.own)
                read = list(self._reading.in_block.values())
            finally:
                changed = around.changed()
            if changed:
                return changed
            seen = [leaf for leaf in self._reading.operands.values() if not watch.gave(leaf)]
            held = zip(self.all_names, self.values, watch.own, self.after, strict=True)
            found = [
                variable_of(name, value, own, left, watch, needed=self.is_needed(name))
                for name, value, own, left in held
            ]
            # What an iteration that knows less leaves as it is, another may change.
            self.variables = [
                old if type(new) is Variable else new for old, new in zip(self.variables, found, strict=True)
            ]
            self.check_shared(read)
            pairs = zip(self.variables, self.values, strict=True)
            seen += [leaf for variable, value in pairs for leaf in variable.passed_on(value)]
        self.note_operands(seen, known)
        return []

    def _started(self) -> list[torch.Tensor]:
        return [
            tensor
            for variable, value in zip(self.variables, self.values, strict=True)
            for tensor in variable.start(value)
        ]

    def _step(
        self, place: Any, states: Tensors, operands: Sequence[Operand]
    ) -> tuple[tuple[object, ...], Substituting]:
        """One iteration on states: what it leaves of the variables, and the mode in which it ran."""
        values = iter(states)
        mode = self.substituting(operands)
        with mode:
            given = [variable.given(values, value) for variable, value in zip(self.variables, self.values, strict=True)]
            after = self._iteration(place(), given)
        return after, mode

    def _stays(self, values: Sequence[object]) -> torch.Tensor:
        """Whether the loop has not been left by now."""
        if not self.flag:
            return torch.scalar_tensor(True, dtype=torch.bool)
        return as_tensor(values[self.names.index(self.flag)]) < LEFT

    def refused(self, error: Exception) -> LoopRefused:
        """Say why the loop can't be captured, and what to write."""
        what = f"How often `{self.text}` runs only run time knows, and it is no loop of ONNX's as it stands: "
        return LoopRefused(
            "A loop can't be captured:", [Problem(what + self._reason(error), self.where, self._remedy())]
        )

    def _reason(self, error: Exception) -> str:
        if isinstance(error, Unlike):
            return f"{error}."
        where = line_of_error(error)
        place = f" ({where})" if where and where != self.where else ""
        if isinstance(error, GuardOnDataDependentSymNode):
            return f"its body decides by what only the iteration knows{place}."
        text = str(error).strip()
        reason = text.splitlines()[0] if text else type(error).__name__
        return f"its body can't be captured: {reason}{place}."

    def _remedy(self) -> str:
        names = [name for name in self.names if name in self.needed and not name.startswith(OWN)]
        states = ", ".join(names) if names else "state"
        if self.text.startswith("while"):
            steps, begin, condition = states, states, self.text.removeprefix("while ")
        else:
            steps, begin, condition = f"step, {states}", f"torch.tensor(0), {states}", "step < the number of iterations"
        return (
            f"Write `{steps} = torch.while_loop(condition, body, ({begin},))`, where condition({steps}) is "
            f"`{condition}` as a tensor and body({steps}) returns what they are after an iteration, in the same "
            "shapes. What iterations add to a list is written into a tensor of the full size instead."
        )


class CountedLoop(OpenLoop):
    """A ``for`` over items of which only run time knows how many."""

    def __init__(self, items: OpenItems, *described: Any) -> None:
        super().__init__(*described)
        self.items = items
        self.length: Size = items.length
        #: Why the loop can't be captured from its first iteration on.
        self.unlike: Exception | None = None
        try:
            self.learn()
        except AskedInLoop:
            raise
        except Exception as error:  # noqa: BLE001 - after the first iteration variables may be other things; then it is told
            self.unlike = error

    @property
    def needs_first(self) -> bool:
        """Whether the first iteration has to run before the loop."""
        return self.unlike is not None

    @property
    def surely_runs(self) -> bool:
        """Whether there is an iteration wherever no axis is empty."""
        if isinstance(self.length, int):
            return self.length > 0
        expression = self.length.node.expr
        return bool(expression.xreplace(dict.fromkeys(expression.free_symbols, sympy.S.One)) >= 1)

    @property
    def count(self) -> Size | None:
        """The number of iterations, if none leaves the loop."""
        return None if self.flag else self.length - self.done

    @property
    def beside(self) -> Mapping[str, object]:
        """What makes an item."""
        return {"items": self.items.at}

    def _iterate(self, place: Any, values: Sequence[object]) -> tuple[object, ...]:
        return self.body(self.items.at(place), *values)

    def take_first(self) -> None:
        """Run the first iteration before the loop."""
        try:
            self.values = list(self._iteration(0, self.values))
        except (Unlike, GuardOnDataDependentSymNode) as error:
            raise self.refused(error) from error
        self.leave(self.values)
        self.done, self.unlike = 1, None
        try:
            self.learn()
        except AskedInLoop:
            raise
        except Exception as error:
            raise self.refused(error) from error

    def run(self) -> list[Any]:
        """Capture the loop; return what the variables hold after it."""
        if self.needs_first:
            # There is none: that was asked.
            return self.leave(self.values)
        try:
            return self._scanned() if any(variable.contributes for variable in self.variables) else self._repeated()
        except LoopRefused:
            raise
        except Exception as error:
            raise self.refused(error) from error

    def _place(self, step: torch.Tensor) -> Callable[[], Any]:
        return lambda: _counted(step) + self.done

    def _scanned(self) -> list[Any]:
        start = self._started()
        count = len(start)

        def combine(*given: torch.Tensor) -> list[torch.Tensor]:
            with marking(COUNTED_LOOP, on=False):
                after, _ = self._step(self._place(given[count]), given[:count], given[count + 1 :])
                pairs = zip(self.variables, after, strict=True)
                pieces = [piece.clone() for variable, value in pairs for piece in variable.contribution(value)]
                return [*self.states(after), *pieces]

        steps = torch.arange(self.length - self.done)  # type: ignore[arg-type]
        first = attributes_replaced([(scan_module, "first_slice_copy", _first)])
        with torch.fx.traceback.preserve_node_meta(), marking(COUNTED_LOOP), first:
            outcome = cast(Tensors, scan_op(combine, start, [steps], tuple(self.operands)))
        return self.results(outcome[:count], outcome[count:])

    def _repeated(self) -> list[Any]:
        start = self._started()
        count = len(start)
        limit = as_tensor(self.length - self.done)

        def test(step: torch.Tensor, stays: torch.Tensor, *rest: Any) -> torch.Tensor:
            return torch.logical_and(stays, torch.lt(step, rest[count])) if self.flag else torch.lt(step, rest[count])

        def body(step: torch.Tensor, stays: torch.Tensor, *rest: Any) -> Tensors:
            after, mode = self._step(self._place(step), rest[:count], rest[count + 1 :])
            with mode:
                return (step + 1, self._stays(after).clone(), *self.states(after))

        states = (torch.scalar_tensor(0, dtype=torch.int64), self._stays(self.values), *start)
        outcome = cast(Tensors, while_loop_op(test, body, states, (limit, *self.operands)))  # type: ignore[arg-type]
        return self.results(outcome[2:])


class RepeatedLoop(OpenLoop):
    """A ``while`` on data, or one that data leaves."""

    def __init__(self, test: Callable[..., object], *described: Any) -> None:
        super().__init__(*described)
        self.test = test
        self._asked: object = None
        try:
            self.learn()
        except AskedInLoop:
            raise
        except Exception as error:
            raise self.refused(error) from error

    @property
    def is_ended_by_data(self) -> bool:
        """Whether only data tells, after an iteration, if there is another."""
        flag = self.after[self.names.index(self.flag)] if self.flag else None
        return is_open_truth(self._asked) or is_open_truth(flag)

    def _iterate(self, place: object, values: Sequence[object]) -> tuple[object, ...]:
        after = self.body(*values)
        self._asked = self.test(*after)
        as_tensor(self._asked)
        return after

    def _goes_on(self, values: Sequence[object]) -> torch.Tensor:
        """Whether there is another iteration with these values; the condition asks the flag too."""
        with self.put(values[len(self.names) :]), unasked():
            return as_tensor(self.test(*values[: len(self.names)])).to(torch.bool).reshape([])

    def run(self) -> list[Any]:
        """Capture the loop; return what the variables hold after it."""
        start = self._started()
        count = len(start)

        def test(going: torch.Tensor, *rest: object) -> torch.Tensor:
            return going

        def body(going: torch.Tensor, *rest: Any) -> Tensors:
            after, mode = self._step(lambda: None, rest[:count], rest[count:])
            with mode:
                return (self._goes_on(after).clone(), *self.states(after))

        going = self._goes_on(self.values)
        try:
            outcome = cast(Tensors, while_loop_op(test, body, (going, *start), tuple(self.operands)))  # type: ignore[arg-type]
        except Exception as error:
            raise self.refused(error) from error
        return self.results(outcome[1:])


def _first(items: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """What is like the first of some items, of which there may be none."""
    return items.new_empty([size for axis, size in enumerate(items.shape) if axis != dim])


def _any_place() -> Any:
    """The number of an iteration of which no more is known than that it is one."""
    return _counted(torch.empty([], dtype=torch.int64))


def _counted(step: torch.Tensor) -> Any:
    place: Any = step.item()
    constrain_range_for_size(place)
    return place
