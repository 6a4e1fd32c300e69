"""Loops: unrolled where the graph knows how often they run, captured as such where only run time does.

A list that grows by one tensor of the same shape in each iteration becomes what the iterations contribute to a scan;
any other list that changes is a sequence, which the loop carries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from onnxport.capture.replay.control.branches import Closure, free_values, known, results_of, sampling
from onnxport.capture.replay.interpreter import Env, Interpreter, handles
from onnxport.capture.replay.values.forms import Form, form_of
from onnxport.capture.replay.values.items import kind_of, widened
from onnxport.capture.replay.values.kinds import (
    SHAPES_CHANGE,
    UNINITIALIZED,
    Growing,
    Number,
    Sequenced,
    Stacked,
    Truth,
    copied,
    materialized,
    plain,
)
from onnxport.errors import CaptureError
from onnxport.torch_internals.operators import scan_op, while_loop_op


@handles("prim::Loop")
def _loop(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    block = next(node.blocks())
    trips, condition, *carried = values
    trips = plain(trips)
    again = known(condition)
    done = 0
    while isinstance(again, bool) and isinstance(trips, int):
        if not again or done >= trips:
            return results_of(node, carried)
        inputs = [done, *carried]
        for value, given in zip(block.inputs(), inputs, strict=True):
            env[value.unique()] = given
        condition, *carried = run.block(block, env, run.function)
        again = known(condition)
        done += 1
    return results_of(node, _Dynamic(run, block, env, carried, done).run_loop(trips, condition))


@dataclass
class _Dynamic:
    """A loop whose length is not known, from the iteration on where that was found.

    Its variables are what it carries, the attributes that it writes to and the containers that it changes.
    """

    run: Interpreter
    block: Any
    env: Env
    variables: list[Any]
    done: int
    forms: list[Form] = field(default_factory=list)
    # The positions of tensors that each iteration lengthens, and of lists that each adds one item to: an iteration gets
    # neither, and what it leaves of them is what it contributes.
    growing: list[int] = field(default_factory=list)
    collected: list[int] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    # The positions of states that an iteration writes to in place.
    overwritten: set[int] = field(default_factory=set)

    def run_loop(self, trips: Any, condition: Any) -> list[Any]:
        self.run.trace()
        self.closure = Closure(self.run, self.env, free_values([self.block]))
        carried = self.variables
        with sampling():
            # Which attributes and containers change is seen when they do, perhaps not before some values vary.
            tracked = -1
            while tracked != self._tracked():
                tracked = self._tracked()
                self.variables = [*carried, *self.closure.around()]
                pairs = self._compared()
                following, after = self._probe() if tracked == self._tracked() else (False, [])
            counted = known(condition) is True and known(following) is True and not self.done
            scans = counted and self._is_scan(pairs)
        if self.growing and not scans:
            raise CaptureError(SHAPES_CHANGE)
        results = self._scan(trips) if scans else self._while(trips, condition, after)
        self.closure.assign(results[len(carried) :])
        return results[: len(carried)]

    def _tracked(self) -> int:
        return len(self.closure.attributes) + len(self.closure.containers)

    def _compared(self) -> list[tuple[Any, Any]]:
        """The variables before and after an iteration, and from these their forms."""
        self.growing = []
        _, after = self._body(None, self._any_index(), self.variables)
        pairs = list(zip(self.variables, after, strict=False))
        self.growing = [position for position, pair in enumerate(pairs) if _differ(*pair)]
        if self.growing:
            _, lengthened = self._body(None, self._any_index(), self.variables)
            self.axes = [_grown(lengthened[position]).axis for position in self.growing]
        symbols = self.closure.symbols
        self.forms = [
            Form(UNINITIALIZED) if position in self.growing else form_of(*pair, symbols, in_loop=True)
            for position, pair in enumerate(pairs)
        ]
        return pairs

    def _is_scan(self, pairs: Sequence[tuple[Any, Any]]) -> bool:
        """Whether every iteration contributes tensors of one shape to what the loop collects, and it collects any."""
        lists = [position for position, form in enumerate(self.forms) if form.has_list()]
        if not lists and not self.growing:
            return False
        if not all(_adds_one(*pairs[position]) and self._only_appended(position) for position in lists):
            return False
        if any(isinstance(item, Sequenced) for position in lists for item in self.variables[position]):
            # Stacked items would have to go into the sequence one by one.
            return False
        forms, self.forms = self.forms, list(self.forms)
        self.collected = lists
        for position in lists:
            self.forms[position] = Form(UNINITIALIZED)
        following, after = self._probe()
        if known(following) is True and all(self._is_alike(after[position]) for position in lists):
            return True
        self.forms, self.collected = forms, []
        return False

    def _is_alike(self, items: Any) -> bool:
        if len(items) != 1 or not isinstance(items[0], torch.Tensor):
            return False
        kind = widened(kind_of(items), self.closure.symbols)
        return kind is not None and kind.sizes is not None and None not in kind.sizes

    def _only_appended(self, position: int) -> bool:
        """Whether the body does nothing with a list but add to its end."""
        own = list(self.block.inputs())[1:]
        if position < len(own):
            return only_appended(self.block, [own[position].unique()])
        position -= len(own) + len(self.closure.attributes)
        return position >= 0 and only_appended(self.block, self.closure.aliases(self.closure.containers[position]))

    def _body(self, operands: Sequence[Any] | None, iteration: Any, variables: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Run the body: whether to go on, and what it leaves of the variables.

        Without operands it is run to see what it does.
        """
        given = copied(list(variables))
        for position in self.growing:
            given[position] = Growing()
        for position in self.collected:
            given[position] = []
        inputs = [iteration, *given]
        if operands is None:
            following, *results = self.closure.sampled(self.block, inputs)
        else:
            following, *results = self.closure.block(self.block, operands, inputs)
        return following, results

    def _probe(self) -> tuple[Any, list[Any]]:
        """Run the body on states of which no more is known than of those of any iteration."""
        states = [torch.empty_like(tensor) for tensor in self._start()]
        operands = self._own(states, self.closure.operands)
        versions = [state._version for state in states]
        outcome = self._body(operands, self._any_index(), self._given(states))
        self.overwritten = {i for i, state in enumerate(states) if state._version != versions[i]}
        return outcome

    def _start(self) -> list[torch.Tensor]:
        """The states before the first iteration: those of the variables, then operands that are written to."""
        start = self._leaving(self.variables)
        self.states = len(start)
        return start + [operand.clone() for operand in self.closure.written(self.closure.operands)]

    def _iteration(self, states: Sequence[Any], operands: Sequence[Any], iteration: torch.Tensor) -> tuple[Any, ...]:
        """Run the body on the states of an iteration: whether to go on, the states of the next, what it contributes."""
        own = self._own(states, operands)
        given = [state.clone() if i in self.overwritten else state for i, state in enumerate(states)]
        following, after = self._body(own, self._index(iteration), self._given(given))
        pieces = [materialized(after[position][0]) for position in self.collected]
        pieces += [_grown(after[position]).piece for position in self.growing]
        return following, [*self._leaving(after), *self.closure.written(own)], pieces

    def _own(self, states: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """Operands with the states of those that are written to."""
        own = list(operands)
        for position, state in zip(self.closure.writes, states[self.states :], strict=True):
            own[position] = state.clone()
        return own

    def _given(self, states: Sequence[Any]) -> list[Any]:
        values = iter(states)
        return [form.enter(values) for form in self.forms]

    def _leaving(self, values: Sequence[Any]) -> list[torch.Tensor]:
        return [tensor for form, value in zip(self.forms, values, strict=True) for tensor in form.leave(value)]

    def _index(self, iteration: torch.Tensor) -> Any:
        """The number of the iteration, read only if the body does."""
        return iteration.item() if next(self.block.inputs()).uses() else 0

    def _any_index(self) -> Any:
        return self._index(torch.empty([], dtype=torch.int64))

    def _settle(self, after: Sequence[Any]) -> None:
        """Let the forms admit what iterations leave: one may put other sizes into a list than the one before."""
        symbols = self.closure.symbols
        while True in [form.settle(value, symbols) for form, value in zip(self.forms, after, strict=True)]:
            _, after = self._probe()

    def _while(self, trips: Any, condition: Any, after: Sequence[Any]) -> list[Any]:
        if any(form.has_list() for form in self.forms):
            with sampling():
                self._settle(after)
        self.run.trace()
        start = self._start()
        unlimited = isinstance(trips, int) and trips >= 2**31
        counter = torch.scalar_tensor(self.done, dtype=torch.int64)
        limit = counter if unlimited else Number.of(trips).tensor()
        count = len(start)

        def test(iteration: Any, going: Any, *rest: Any) -> Any:
            return going if unlimited else torch.logical_and(going, iteration < rest[count])

        def body(iteration: Any, going: Any, *rest: Any) -> Any:
            following, states, _ = self._iteration(rest[:count], rest[count + 1 :], iteration)
            return (iteration + 1, _truth(following).clone(), *states)

        states: Any = (counter, _truth(condition), *start)
        operands: Any = (limit, *self.closure.operands)
        outcome: Any = _same_shapes(lambda: while_loop_op(test, body, states, operands))
        self.closure.write_back(outcome[2 + self.states :])
        return self._given(outcome[2:])

    def _scan(self, trips: Any) -> list[Any]:
        self.run.trace()
        start = self._start()
        count = len(start)

        def combine(*given: Any) -> Any:
            _, states, pieces = self._iteration(given[:count], given[count + 1 :], given[count])
            return [*states, *(piece.clone() for piece in pieces)]

        if has_free_unbacked_symbols(trips):
            # A symbol of its own is what can be reasoned about; and of nothing, no items can be stacked.
            trips = Number.of(trips).tensor().item()
            torch._check(trips > 0)
        steps = torch.arange(trips)
        outcome: Any = scan_op(combine, list(start), [steps], tuple(self.closure.operands))
        self.closure.write_back(outcome[self.states : count])
        results = self._given(outcome)
        stacks = iter(outcome[count:])
        for position in self.collected:
            results[position] = [*self.variables[position], Stacked(next(stacks))]
        for position, axis in zip(self.growing, self.axes, strict=True):
            results[position] = torch.cat([self.variables[position], Stacked(next(stacks)).joined(axis)], axis)
        return results


def _same_shapes(loop: Callable[[], Any]) -> Any:
    from onnxport.torch_internals.exporting import UncapturedHigherOrderOpError

    try:
        return loop()
    except UncapturedHigherOrderOpError as error:
        raise CaptureError(SHAPES_CHANGE) from error


def _differ(before: Any, after: Any) -> bool:
    """Whether a tensor has another shape after an iteration, as far as the example tells."""
    if not (isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor)):
        return False
    if before.dim() != after.dim():
        return True
    pairs = [(_example(a), _example(b)) for a, b in zip(before.shape, after.shape, strict=True)]
    return any(a is not None and b is not None and a != b for a, b in pairs)


def _example(size: int | torch.SymInt) -> int | None:
    return size if isinstance(size, int) else size.node.hint if size.node.has_hint() else None


def _grown(value: Any) -> Growing:
    if not isinstance(value, Growing) or value.piece is None:
        raise CaptureError(SHAPES_CHANGE)
    return value


def _adds_one(before: Any, after: Any) -> bool:
    """Whether an iteration added one tensor to the end of a list."""
    if not isinstance(before, list) or not isinstance(after, list) or len(after) != len(before) + 1:
        return False
    kept = all(one is other for one, other in zip(before, after, strict=False))
    return kept and isinstance(after[-1], torch.Tensor)


def only_appended(block: Any, names: Sequence[int]) -> bool:
    """Whether a block does nothing with a list, known by some names, but add to its end and pass it on."""
    known_by = set(names)

    def walk(block: Any) -> bool:
        for node in block.nodes():
            for position, value in enumerate(node.inputs()):
                if value.unique() in known_by:
                    if node.kind() not in _ADDING or position > 0:
                        return False
                    known_by.update(output.unique() for output in node.outputs())
            for inner in node.blocks():
                if not walk(inner):
                    return False
                if any(output.unique() in known_by for output in inner.outputs()):
                    known_by.update(output.unique() for output in node.outputs())
        return True

    return walk(block)


_ADDING = ("aten::append", "aten::add", "aten::add_")


def _truth(value: Any) -> torch.Tensor:
    if isinstance(value, Truth):
        return value.tensor
    if isinstance(value, torch.SymBool):
        return Number.of(value).tensor()
    return torch.scalar_tensor(plain(value), dtype=torch.bool)
