"""``prim::Loop``: unrolled where the graph knows how often it runs, else captured as ``while_loop`` or ``scan``.

A list that grows by one tensor of the same shape in each iteration becomes what the iterations contribute to a ``scan``
over the numbers of the iterations, marked as a counted loop; any other list that changes is a sequence, which a
``while_loop`` carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import torch
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols, statically_known_true

from onnxport.capture.replay.control.closures import Closure, Operand, free_values, sampling
from onnxport.capture.replay.control.specs import AnySizeSpec, ValueSpec, any_size_spec, spec_of
from onnxport.capture.replay.interpreter import Env, Interpreter, NodeCall, handles, result_of
from onnxport.capture.replay.values.items import (
    NUMBERS,
    Size,
    Symbols,
    holds_numbers,
    is_inner,
    item_tensor,
    item_type_of,
    without_inner_sizes,
)
from onnxport.capture.replay.values.stand_ins import (
    SHAPES_CHANGE,
    UNINITIALIZED,
    Growing,
    Number,
    ReplayValue,
    Sequenced,
    ShapesChange,
    Stacked,
    Truth,
    known_truth,
    materialized,
    parts_of,
    plain_number,
    truth_tensor,
    with_own_containers,
)
from onnxport.errors import CaptureError
from onnxport.marks import COUNTED_LOOP, marking
from onnxport.torch_graph import Block, arguments_of, inputs_of, nodes_of, outputs_of, results_of
from onnxport.torch_internals.operators import scan_op, while_loop_op

Result = TypeVar("Result")
Tensors = Sequence[torch.Tensor]
# What an iteration may add to a list: a tensor or a number.
_ITEMS = (torch.Tensor, Truth, *NUMBERS)


@handles("prim::Loop")
def _loop(call: NodeCall, limit: ReplayValue, condition: ReplayValue, *carried: ReplayValue) -> ReplayValue:
    block = next(call.node.blocks())
    variables = list(carried)
    trips = plain_number(limit)
    again = known_truth(condition)
    done = 0
    while isinstance(again, bool) and isinstance(trips, int):
        if not again or done >= trips:
            return result_of(call.node, variables)
        for value, given in zip(arguments_of(block), [done, *variables], strict=True):
            call.env[value.unique()] = given
        condition, *variables = call.run.block(block, call.env)
        again = known_truth(condition)
        done += 1
    return result_of(call.node, _CapturedLoop(call.run, block, call.env, variables, done).capture(trips, condition))


@dataclass
class _CapturedLoop:
    """A loop whose length is not known, from the iteration on where that was found.

    Its variables are what it carries, the attributes that it writes to and the containers that it changes. ``capture``
    first runs the body without recording it, to learn the spec of each variable, and then captures a ``while_loop`` or
    ``scan`` whose states are the variables, flattened.
    """

    run: Interpreter
    block: Block
    env: Env
    variables: list[ReplayValue]
    done: int
    specs: list[ValueSpec] = field(default_factory=list)
    # The positions of tensors that each iteration lengthens, and of lists that each adds one item to: an iteration gets
    # neither, and what it leaves of them is what it contributes.
    growing: list[int] = field(default_factory=list)
    collected: list[int] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    # Of the lists that are collected: whether they are of numbers.
    numbers: dict[int, bool] = field(default_factory=dict)
    # The positions of states that an iteration writes to in place.
    overwritten: set[int] = field(default_factory=set)

    def capture(self, trips: Size, condition: ReplayValue) -> list[ReplayValue]:
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
            counted = known_truth(condition) is True and known_truth(following) is True and not self.done
            scans = counted and self._is_scan(pairs)
            if self.growing and not scans:
                # Not a list of pieces then, but a tensor that has other sizes in each iteration.
                self._resize(pairs)
                _, after = self._probe()
        results = self._scan(trips) if scans else self._while(trips, condition, after)
        self.closure.assign(results[len(carried) :])
        return results[: len(carried)]

    # --- what an iteration does, seen without recording it -----------------------------------------------------------

    def _tracked(self) -> int:
        return len(self.closure.attributes) + len(self.closure.containers)

    def _compared(self) -> list[tuple[ReplayValue, ReplayValue]]:
        """The variables before and after an iteration, and from these their specs."""
        self.growing = []
        _, after = self._body(None, self._any_index(), self.variables)
        pairs = list(zip(self.variables, after, strict=False))
        self.growing = [position for position, pair in enumerate(pairs) if _differ(*pair, self.closure.symbols)]
        symbols = self.closure.symbols
        self.specs = [
            ValueSpec(UNINITIALIZED) if position in self.growing else spec_of(*pair, symbols, in_loop=True)
            for position, pair in enumerate(pairs)
        ]
        if self.growing and not self._only_grow():
            self._resize(pairs)
        return pairs

    def _only_grow(self) -> bool:
        """Whether an iteration does nothing with tensors that change but lengthen each by a piece."""
        try:
            _, lengthened = self._body(None, self._any_index(), self.variables)
            self.axes = [_grown(lengthened[position])[1] for position in self.growing]
        except ShapesChange:
            return False
        return True

    def _resize(self, pairs: Sequence[tuple[ReplayValue, ReplayValue]]) -> None:
        """Let the tensors that change have any sizes in each iteration."""
        for position in self.growing:
            before, after = (materialized(value) for value in pairs[position])
            if before.dim() != after.dim():
                raise ShapesChange(SHAPES_CHANGE)
            self.specs[position] = any_size_spec(before, after, self.closure.symbols)
        self.growing = []

    def _is_scan(self, pairs: Sequence[tuple[ReplayValue, ReplayValue]]) -> bool:
        """Whether every iteration contributes tensors of one shape to what the loop collects, and it collects any."""
        lists = [position for position, spec in enumerate(self.specs) if spec.has_sequence()]
        if not lists and not self.growing:
            return False
        if not all(_adds_one(*pairs[position]) and self._only_appended(position) for position in lists):
            return False
        if any(isinstance(item, Sequenced) for position in lists for item in parts_of(self.variables[position])):
            # Stacked items would have to go into the sequence one by one.
            return False
        specs, self.specs = self.specs, list(self.specs)
        self.collected = lists
        for position in lists:
            self.specs[position] = ValueSpec(UNINITIALIZED)
        following, after = self._probe()
        if known_truth(following) is True and all(self._is_alike(parts_of(after[position])) for position in lists):
            self.numbers = {position: holds_numbers(parts_of(after[position])) for position in lists}
            return True
        self.specs, self.collected = specs, []
        return False

    def _is_alike(self, items: Sequence[ReplayValue]) -> bool:
        if len(items) != 1 or not isinstance(items[0], _ITEMS):
            return False
        found = without_inner_sizes(item_type_of(items), self.closure.symbols)
        return found is not None and found.sizes is not None and None not in found.sizes

    def _only_appended(self, position: int) -> bool:
        """Whether the body does nothing with a list but add to its end."""
        own = arguments_of(self.block)[1:]
        if position < len(own):
            return _only_appended(self.block, [own[position].unique()])
        position -= len(own) + len(self.closure.attributes)
        return position >= 0 and _only_appended(self.block, self.closure.aliases(self.closure.containers[position]))

    def _probe(self) -> tuple[ReplayValue, list[ReplayValue]]:
        """Run the body on states of which no more is known than of those of any iteration."""
        states = [torch.empty_like(tensor) for tensor in self._start()]
        operands = self._own(states, self.closure.operands)
        versions = [state._version for state in states]
        outcome = self._body(operands, self._any_index(), self._unflattened(states))
        self.overwritten = {i for i, state in enumerate(states) if state._version != versions[i]}
        return outcome

    def _widen(self, after: Sequence[ReplayValue]) -> None:
        """Let the specs admit what iterations leave: one may put other sizes into a list than the one before."""
        symbols = self.closure.symbols
        while True in [spec.widen(value, symbols) for spec, value in zip(self.specs, after, strict=True)]:
            _, after = self._probe()

    # --- one iteration, on states ------------------------------------------------------------------------------------

    def _body(
        self, operands: Sequence[Operand] | None, iteration: ReplayValue, variables: Sequence[ReplayValue]
    ) -> tuple[ReplayValue, list[ReplayValue]]:
        """Run the body: whether to go on, and what it leaves of the variables.

        Without operands it is run to see what it does.
        """
        given: list[ReplayValue] = with_own_containers(list(variables))
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

    def _start(self) -> list[torch.Tensor]:
        """The states before the first iteration: those of the variables, then operands that are written to."""
        start = self._flattened(self.variables)
        self.states = len(start)
        return start + [operand.clone() for operand in self.closure.written(self.closure.operands)]

    def _iteration(
        self, states: Tensors, operands: Sequence[Operand], iteration: torch.Tensor
    ) -> tuple[ReplayValue, list[torch.Tensor], list[torch.Tensor]]:
        """Run the body on the states of an iteration: whether to go on, the states of the next, what it contributes."""
        own = self._own(states, operands)
        given = [state.clone() if i in self.overwritten else state for i, state in enumerate(states)]
        following, after = self._body(own, self._index(iteration), self._unflattened(given))
        pieces = [item_tensor(parts_of(after[position])[0]) for position in self.collected]
        pieces += [_grown(after[position])[0] for position in self.growing]
        return following, [*self._flattened(after), *self.closure.written(own)], pieces

    def _own(self, states: Tensors, operands: Sequence[Operand]) -> list[Operand]:
        """Operands with the states of those that are written to."""
        own = list(operands)
        for position, state in zip(self.closure.writes, states[self.states :], strict=True):
            own[position] = state.clone()
        return own

    def _unflattened(self, states: Tensors) -> list[ReplayValue]:
        values = iter(states)
        return [spec.unflatten(values) for spec in self.specs]

    def _flattened(self, values: Sequence[ReplayValue]) -> list[torch.Tensor]:
        return [tensor for spec, value in zip(self.specs, values, strict=True) for tensor in spec.flatten(value)]

    def _index(self, iteration: torch.Tensor) -> ReplayValue:
        """The number of the iteration, read only if the body does."""
        return iteration.item() if arguments_of(self.block)[0].uses() else 0

    def _any_index(self) -> ReplayValue:
        return self._index(torch.empty([], dtype=torch.int64))

    # --- the two operators -------------------------------------------------------------------------------------------

    def _while(self, trips: Size, condition: ReplayValue, after: Sequence[ReplayValue]) -> list[ReplayValue]:
        if any(spec.has_sequence() or isinstance(spec, AnySizeSpec) for spec in self.specs):
            with sampling():
                self._widen(after)
        self.run.trace()
        start = self._start()
        unlimited = isinstance(trips, int) and trips >= 2**31
        counter = torch.scalar_tensor(self.done, dtype=torch.int64)
        limit = counter if unlimited else Number.of(trips).tensor()
        count = len(start)

        def test(iteration: torch.Tensor, going: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
            return going if unlimited else torch.logical_and(going, iteration < rest[count])

        def body(iteration: torch.Tensor, going: torch.Tensor, *rest: torch.Tensor) -> Tensors:
            following, states, _ = self._iteration(rest[:count], rest[count + 1 :], iteration)
            return (iteration + 1, truth_tensor(following).clone(), *states)

        states = (counter, truth_tensor(condition), *start)
        operands = (limit, *self.closure.operands)
        outcome = _same_shapes(lambda: cast(Tensors, while_loop_op(test, body, states, operands)))  # type: ignore[arg-type]
        self.closure.write_back(outcome[2 + self.states :])
        return self._unflattened(outcome[2:])

    def _scan(self, trips: Size) -> list[ReplayValue]:
        self.run.trace()
        start = self._start()
        count = len(start)

        def combine(*given: torch.Tensor) -> Tensors:
            with marking(COUNTED_LOOP, on=False):
                _, states, pieces = self._iteration(given[:count], given[count + 1 :], given[count])
                return [*states, *(piece.clone() for piece in pieces)]

        if has_free_unbacked_symbols(trips):
            # A symbol of its own is what can be reasoned about; and of nothing, no items can be stacked.
            trips = cast(torch.SymInt, Number.of(trips).tensor().item())
            torch._check(trips > 0)
        steps = torch.arange(trips)  # type: ignore[arg-type]
        with marking(COUNTED_LOOP):
            outcome = cast(Tensors, scan_op(combine, list(start), [steps], tuple(self.closure.operands)))
        self.closure.write_back(outcome[self.states : count])
        results = self._unflattened(outcome)
        self._put_contributions(results, iter(outcome[count:]))
        return results

    def _put_contributions(self, results: list[ReplayValue], stacks: Iterator[torch.Tensor]) -> None:
        """Put what the iterations contributed behind what there was before the loop."""
        for position in self.collected:
            stacked = Stacked(next(stacks), self.numbers[position])
            results[position] = [*parts_of(self.variables[position]), stacked]
        for position, axis in zip(self.growing, self.axes, strict=True):
            before = materialized(self.variables[position])
            results[position] = torch.cat([before, Stacked(next(stacks)).joined(axis)], axis)


def _same_shapes(loop: Callable[[], Result]) -> Result:
    from onnxport.torch_internals.exporting import UncapturedHigherOrderOpError

    try:
        return loop()
    except UncapturedHigherOrderOpError as error:
        raise CaptureError(SHAPES_CHANGE) from error


def _differ(before: ReplayValue, after: ReplayValue, symbols: Symbols) -> bool:
    """Whether a tensor has another shape after an iteration, as far as the example tells, or one that data decides."""
    if not (isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor)):
        return False
    if before.dim() != after.dim():
        return True
    return any(_are_unlike(*pair, symbols) for pair in zip(before.shape, after.shape, strict=True))


def _are_unlike(before: Size, after: Size, symbols: Symbols) -> bool:
    pair = _example(before), _example(after)
    if None not in pair:
        return pair[0] != pair[1]
    return is_inner(after, symbols) and not statically_known_true(before == after)


def _example(size: Size) -> int | None:
    return size if isinstance(size, int) else size.node.hint if size.node.has_hint() else None


def _grown(value: ReplayValue) -> tuple[torch.Tensor, int]:
    """The piece by which an iteration lengthened a tensor, and the axis along which it did."""
    if not isinstance(value, Growing) or value.piece is None:
        raise ShapesChange(SHAPES_CHANGE)
    return value.piece, value.axis


def _adds_one(before: ReplayValue, after: ReplayValue) -> bool:
    """Whether an iteration added one tensor to the end of a list."""
    if not isinstance(before, list) or not isinstance(after, list) or len(after) != len(before) + 1:
        return False
    kept = all(one is other for one, other in zip(before, after, strict=False))
    return kept and isinstance(after[-1], _ITEMS)


def _only_appended(block: Block, names: Sequence[int]) -> bool:
    """Whether a block does nothing with a list, known by some names, but add to its end and pass it on."""
    known_by = set(names)

    def walk(block: Block) -> bool:
        for node in nodes_of(block):
            for position, value in enumerate(inputs_of(node)):
                if value.unique() in known_by:
                    if node.kind() not in _ADDING or position > 0:
                        return False
                    known_by.update(output.unique() for output in outputs_of(node))
            for inner in node.blocks():
                if not walk(inner):
                    return False
                if any(output.unique() in known_by for output in results_of(inner)):
                    known_by.update(output.unique() for output in outputs_of(node))
        return True

    return walk(block)


_ADDING = ("aten::append", "aten::add", "aten::add_")
