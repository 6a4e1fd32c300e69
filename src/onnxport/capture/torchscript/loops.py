"""Loops: unrolled where the graph knows how often they run, captured as such where only run time does.

A list that grows by one tensor in each iteration becomes what the iterations contribute to a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from onnxport.capture.torchscript.control import Closure, Form, form_of, free_values, known, results_of, sampling
from onnxport.capture.torchscript.interpreter import Env, Interpreter, handles
from onnxport.capture.torchscript.objects import read
from onnxport.capture.torchscript.values import (
    SHAPES_CHANGE,
    UNINITIALIZED,
    Growing,
    Number,
    Stacked,
    Truth,
    Uninitialized,
    plain,
)
from onnxport.errors import CaptureError


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
    """A loop whose length is not known, from the iteration on where that was found."""

    run: Interpreter
    block: Any
    env: Env
    carried: list[Any]
    done: int

    def run_loop(self, trips: Any, condition: Any) -> list[Any]:
        self.run.trace()
        self.closure = Closure(self.run, self.env, free_values([self.block]))
        # Lists that the body changes: those around it by their name, those it carries by their position.
        self.outer = [name for name in self.closure.names if isinstance(self.env[name], list)]
        self.inner = [position for position, value in enumerate(self.carried) if isinstance(value, list)]
        self.growing: list[int] = []
        count = len(self.carried)
        with sampling():
            following, sample, grown = self._body(None, self.done, self.carried)
            if self.closure.attributes:
                self.carried += [read(self.run, owner, name) for owner, name in self.closure.attributes]
                following, sample, grown = self._body(None, self.done, self.carried)
            pairs = zip(self.carried, sample, strict=True)
            self.growing = [position for position, pair in enumerate(pairs) if _differ(*pair)]
            if self.growing:
                following, sample, grown = self._body(None, self.done, self.carried)
        self.axes = [sample[position].axis for position in self.growing]
        fixed = [*self.inner, *self.growing]
        self.forms = [
            Form(UNINITIALIZED, varies=False) if position in fixed else _carried(*pair)
            for position, pair in enumerate(zip(self.carried, sample, strict=True))
        ]
        start = [form.leave(value) for form, value in zip(self.forms, self.carried, strict=True) if form.varies]
        self.states = len(start)
        start += [operand.clone() for operand in self.closure.written(self.closure.operands)]
        if any(grown):
            results = self._scan(trips, condition, following, start, [bool(items) for items in grown])
        else:
            results = self._while(trips, condition, start)
        self.closure.assign(results[count:])
        return results[:count]

    def _body(
        self, operands: Sequence[Any] | None, iteration: Any, carried: Sequence[Any]
    ) -> tuple[Any, list[Any], list[list[Any]]]:
        """Run the body with its lists empty; what it leaves in them is what an iteration contributes.

        Without operands it is run to see what it does.
        """
        fresh: Env = {name: [] for name in self.outer if self._only_grows(name)}
        given = [[] if position in self.inner else value for position, value in enumerate(carried)]
        for position in self.growing:
            given[position] = Growing()
        inputs = [iteration, *given]
        if operands is None:
            following, *results = self.closure.sampled(self.block, inputs, fresh)
        else:
            following, *results = self.closure.block(self.block, operands, inputs, fresh)
        grown = [fresh.get(name, []) for name in self.outer] + [results[position] for position in self.inner]
        grown += [[_piece(results[position])] for position in self.growing]
        for items in grown:
            if len(items) > 1:
                raise CaptureError(
                    "A list grows by several items in each iteration of a loop whose length only run time knows; "
                    "append one tensor in each, or declare the axis that the loop runs over as static."
                )
        return following, list(results), grown

    def _only_grows(self, name: int) -> bool:
        """Whether the body changes a list, rather than reading it."""
        return any(
            node.kind() in ("aten::append", "aten::add_") and next(node.inputs()).unique() == name
            for node in nested(self.block)
        )

    def _iteration(self, states: Sequence[Any], operands: Sequence[Any], iteration: torch.Tensor) -> tuple[Any, ...]:
        """Run the body on the states of an iteration: whether to go on, the states of the next, and new items."""
        own = list(operands)
        for position, state in zip(self.closure.writes, states[self.states :], strict=True):
            own[position] = state.clone()
        following, results, grown = self._body(own, self._index(iteration), self._given(states))
        return following, [*self._leaving(results), *self.closure.written(own)], grown

    def _given(self, states: Sequence[Any]) -> list[Any]:
        values = iter(states[: self.states])
        return [form.enter(next(values)) if form.varies else form.fixed for form in self.forms]

    def _leaving(self, results: Sequence[Any]) -> list[torch.Tensor]:
        return [form.leave(value) for form, value in zip(self.forms, results, strict=True) if form.varies]

    def _index(self, iteration: torch.Tensor) -> Any:
        """The number of the iteration, read only if the body does."""
        return iteration.item() if next(self.block.inputs()).uses() else 0

    def _while(self, trips: Any, condition: Any, start: list[torch.Tensor]) -> list[Any]:
        unlimited = isinstance(trips, int) and trips >= 2**31
        counter = torch.scalar_tensor(self.done, dtype=torch.int64)
        limit = counter if unlimited else Number.of(trips).tensor()
        count = len(start)

        def test(iteration: Any, going: Any, *rest: Any) -> Any:
            return going if unlimited else torch.logical_and(going, iteration < rest[count])

        def body(iteration: Any, going: Any, *rest: Any) -> Any:
            following, states, _ = self._iteration(rest[:count], rest[count + 1 :], iteration)
            return (iteration + 1, _truth(following).clone(), *states)

        self.run.trace()
        states: Any = (counter, _truth(condition), *start)
        operands: Any = (limit, *self.closure.operands)
        outcome: Any = _same_shapes(lambda: while_loop_op(test, body, states, operands))
        self.closure.write_back(outcome[2 + self.states :])
        return self._given(outcome[2:])

    def _scan(
        self, trips: Any, condition: Any, following: Any, start: list[torch.Tensor], grows: list[bool]
    ) -> list[Any]:
        if known(condition) is not True or known(following) is not True or self.done:
            raise CaptureError(
                "A list grows in a loop that ends when a condition on the data holds. "
                "Write the items into a tensor of the greatest length instead."
            )
        count = len(start)

        def combine(*given: Any) -> Any:
            _, states, grown = self._iteration(given[:count], given[count + 1 :], given[count])
            items = [items[0].clone() for items, wanted in zip(grown, grows, strict=True) if wanted]
            return [*states, *items]

        self.run.trace()
        if has_free_unbacked_symbols(trips):
            # A symbol of its own is what can be reasoned about; and of nothing, no items can be stacked.
            trips = Number.of(trips).tensor().item()
            torch._check(trips > 0)
        steps = torch.arange(trips)
        outcome: Any = scan_op(combine, list(start), [steps], tuple(self.closure.operands))
        stacks = iter(outcome[count:])
        lists = [*(self.env[name] for name in self.outer), *(self.carried[position] for position in self.inner)]
        grows = grows[: len(lists)]
        after = [_longer(items, next(stacks)) if wanted else items for items, wanted in zip(lists, grows, strict=True)]
        for before, now in zip(lists, after, strict=True):
            for name in [name for name, value in self.env.items() if value is before]:
                self.env[name] = now
        self.closure.write_back(outcome[self.states : count])
        results = self._given(outcome)
        for position, now in zip(self.inner, after[len(self.outer) :], strict=True):
            results[position] = now
        for position, axis in zip(self.growing, self.axes, strict=True):
            results[position] = torch.cat([self.carried[position], Stacked(next(stacks)).joined(axis)], axis)
        return results


def _same_shapes(loop: Callable[[], Any]) -> Any:
    from torch._dynamo.exc import UncapturedHigherOrderOpError

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


def _piece(value: Any) -> torch.Tensor:
    if not isinstance(value, Growing) or value.piece is None:
        raise CaptureError(SHAPES_CHANGE)
    return value.piece


def _longer(items: list[torch.Tensor], more: torch.Tensor) -> Stacked:
    return Stacked(torch.cat([torch.stack(items), more]) if items else more)


def _truth(value: Any) -> torch.Tensor:
    if isinstance(value, Truth):
        return value.tensor
    if isinstance(value, torch.SymBool):
        return Number.of(value).tensor()
    return torch.scalar_tensor(plain(value), dtype=torch.bool)


def _carried(before: Any, after: Any) -> Form:
    if isinstance(before, Uninitialized):
        return Form(UNINITIALIZED, varies=False)
    if isinstance(before, bool | Truth | torch.SymBool):
        return Form(kind="bool")
    if isinstance(before, int | float | torch.SymInt | torch.SymFloat):
        return Form(kind="number")
    return form_of(before, after)


def nested(block: Any) -> Any:
    """The nodes of a block and of the blocks in it."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nested(inner)
