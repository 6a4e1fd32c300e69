"""Closures: what the block of a branch or loop body reads from around it, and what it changes there.

``cond``, ``while_loop`` and ``scan`` want what a body reads, tensors and sizes, as operands, and no effects of it.
A block of TorchScript sees the values of the blocks around it, and may write to tensors, to attributes of modules and
into lists. A ``Closure`` makes the one of the other: what is read becomes operands, what is written becomes results.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from onnxport.capture.patches.branch_equalities import in_branch
from onnxport.capture.replay.interpreter import Env, Frame, Interpreter
from onnxport.capture.replay.ops.objects import Instance, held_by, read_attribute, substituted, write_attribute
from onnxport.capture.replay.values.stand_ins import (
    FreeRank,
    ItemType,
    Number,
    Optionally,
    ReplayValue,
    Sequenced,
    Stacked,
    Truth,
    parts_of,
    rebuilt,
    with_own_containers,
)
from onnxport.torch_graph import Block, Graph, Node, arguments_of, inputs_of, nodes_of, outputs_of, results_of
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import detect_fake_mode

Operand = torch.Tensor | torch.SymInt
Body = Callable[[Env], list[ReplayValue]]
"""What runs on the values around it: a block, or more than one."""
Held = dict[tuple[int, str], tuple[object, ReplayValue, ReplayValue]]
"""Attributes, by owner and name: the owner, the value, and a copy of the value's containers."""


def free_values(blocks: Sequence[Block], rest: Sequence[Frame] = ()) -> list[int]:
    """The values that blocks read and do not make, in order, and so what follows the running nodes of frames."""
    made: set[int] = set()
    read: dict[int, None] = {}

    def walk(nodes: Iterable[Node]) -> None:
        for node in nodes:
            read.update((value.unique(), None) for value in inputs_of(node) if value.unique() not in made)
            for inner in node.blocks():
                enter(inner)
            made.update(value.unique() for value in outputs_of(node))

    def enter(block: Block) -> None:
        made.update(value.unique() for value in arguments_of(block))
        walk(nodes_of(block))
        leave(block)

    def leave(block: Block | Graph) -> None:
        read.update((value.unique(), None) for value in results_of(block) if value.unique() not in made)

    for block in blocks:
        enter(block)
    for frame in reversed(rest):
        made.update(value.unique() for value in outputs_of(frame.nodes[frame.position]))
        walk(frame.nodes[frame.position + 1 :])
        leave(frame.block)
    return [value for value in read if value not in made]


@dataclass
class Closure:
    """What branches and bodies read from around them: tensors and sizes that vary become operands."""

    run: Interpreter
    env: Env
    names: list[int]
    operands: list[Operand] = field(default_factory=list)
    _leaves: list[ReplayValue] = field(default_factory=list)
    # The operand that takes the place of a leaf, by its position, and of what attributes hold, by its identity.
    _positions: dict[int, int] = field(default_factory=dict)
    _held: dict[int, int] = field(default_factory=dict)
    # The positions of operands that are written to: a block gets copies of these, and gives back what became of them.
    writes: list[int] = field(default_factory=list)
    # The attributes that blocks write to, whose values are results of theirs too.
    attributes: list[tuple[object, str]] = field(default_factory=list)
    _assigned: set[tuple[int, str]] = field(default_factory=set)
    # The lists and dicts that blocks change, by a name: what is in them then is a result too.
    containers: list[int] = field(default_factory=list)
    _same: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        read = [self.env[name] for name in self.names]
        modules = [value for value in read if isinstance(value, torch.nn.Module)]
        self._leaves, self._spec = pytree.tree_flatten(
            [None if isinstance(value, torch.nn.Module) else _open(value) for value in read]
        )
        named: dict[int, list[int]] = {}
        for name in self.names:
            if isinstance(self.env[name], list | dict):
                named.setdefault(id(self.env[name]), []).append(name)
        self._same = {names[0]: names for names in named.values()}
        operands: dict[int, int] = {}
        for position, leaf in enumerate(self._leaves):
            if isinstance(leaf, torch.SymFloat):
                self._positions[position] = len(self.operands)
                self.operands.append(torch.scalar_tensor(leaf, dtype=torch.float64))  # type: ignore[arg-type]
            elif isinstance(leaf, torch.Tensor | torch.SymInt):
                self._positions[position] = self._operand(operands, leaf)
        objects = [leaf for leaf in self._leaves if isinstance(leaf, Instance)]
        for held in held_by(self.run, [*modules, *objects]):
            operand = cast(Operand, self.run.substitutes.get(id(held), held))
            self._held[id(held)] = self._operand(operands, operand)

    def _operand(self, operands: dict[int, int], value: Operand) -> int:
        if id(value) not in operands:
            operands[id(value)] = len(self.operands)
            self.operands.append(value)
        return operands[id(value)]

    @property
    def symbols(self) -> set[object]:
        """The symbols of sizes that are known at run time only, and known here."""
        return {symbol for operand in self.operands for symbol in free_unbacked_symbols(operand)}

    def aliases(self, name: int) -> list[int]:
        """The names of one list or dict."""
        return self._same[name]

    def sampled(self, block: Block | Body, inputs: Sequence[ReplayValue] = ()) -> list[ReplayValue]:
        """Run a block to see what it gives and which operands it writes to."""
        operands = [_copied(operand) for operand in self.operands]
        before = [getattr(operand, "_version", 0) for operand in operands]
        with in_branch():
            results = self.block(block, operands, inputs)
        for position, (operand, version) in enumerate(zip(operands, before, strict=True)):
            if getattr(operand, "_version", 0) != version and position not in self.writes:
                self.writes.append(position)
        return results

    def own(self, operands: Sequence[Operand]) -> list[Operand]:
        """Operands with copies of those that are written to."""
        return [_copied(x) if position in self.writes else x for position, x in enumerate(operands)]

    def written(self, operands: Sequence[Operand]) -> list[torch.Tensor]:
        """What became of the operands that are written to."""
        return [cast(torch.Tensor, operands[position]) for position in self.writes]

    def write_back(self, values: Sequence[torch.Tensor]) -> None:
        """Write what blocks wrote to their copies."""
        for position, value in zip(self.writes, values, strict=True):
            cast(torch.Tensor, self.operands[position]).copy_(value)

    def environment(self, operands: Sequence[Operand]) -> Env:
        """The values around a block, with the given operands in them."""
        leaves = list(self._leaves)
        for position, operand in self._positions.items():
            # Operands are tensors and whole numbers: other numbers that vary are read from a tensor again.
            varies = isinstance(leaves[position], torch.SymFloat)
            leaves[position] = cast(torch.Tensor, operands[operand]).item() if varies else operands[operand]
        values = pytree.tree_unflatten(leaves, self._spec)
        env = dict(self.env)
        for name, value in zip(self.names, values, strict=True):
            if not isinstance(self.env[name], torch.nn.Module):
                env[name] = _closed(self.env[name], value)
        for names in self._same.values():
            env.update(dict.fromkeys(names, env[names[0]]))
        return env

    def block(
        self, block: Block | Body, operands: Sequence[Operand], inputs: Sequence[ReplayValue] = ()
    ) -> list[ReplayValue]:
        """Run a block on operands.

        Inputs beyond those of the block are for the attributes that are written to and the containers that are changed;
        so are such results.
        """
        env = self.environment(operands)
        own = [] if callable(block) else arguments_of(block)
        for key, given in zip(self.containers, inputs[len(own) + len(self.attributes) :], strict=False):
            env.update(dict.fromkeys(self._same[key], given))
        before = {name: (env[name], with_own_containers(env[name])) for name in self._same}
        for value, given in zip(own, inputs, strict=False):
            env[value.unique()] = given
        run, outer, state = self.run, self.run.substitutes, self.run.state
        held = {key: operands[operand] for key, operand in self._held.items() if id(operands[operand]) != key}
        run.substitutes = {**outer, **held}
        # A block changes containers of its own.
        containers = {
            key: (owner, substituted(with_own_containers(value), run.substitutes))
            for key, (owner, value) in {**run.originals, **state}.items()
            if isinstance(value, list | dict)
        }
        run.state = {**state, **containers}
        try:
            for (owner, name), given in zip(self.attributes, inputs[len(own) :], strict=False):
                write_attribute(run, owner, name, substituted(given, run.substitutes))
            given_state = {key: (owner, value, with_own_containers(value)) for key, (owner, value) in run.state.items()}
            results = block(env) if callable(block) else run.block(block, env)
            self._note_attributes(given_state, run.state)
            held_now = [read_attribute(run, owner, name) for owner, name in self.attributes]
            for key, (container, was) in before.items():
                if key not in self.containers and not _is_same(container, was):
                    self.containers.append(key)
            return [*results, *held_now, *(before[key][0] for key in self.containers)]
        finally:
            run.substitutes, run.state = outer, state

    def _note_attributes(self, before: Held, after: dict[tuple[int, str], tuple[object, ReplayValue]]) -> None:
        """Note attributes that were written to, of what was there before the block, or whose containers changed."""
        for (key, name), (owner, value) in after.items():
            was = before.get((key, name))
            there = was is not None or isinstance(owner, torch.nn.Module)
            if was is not None and was[1] is value and _is_same(value, was[2]):
                continue
            if was is None or was[1] is not value:
                self._assigned.add((key, name))
            if there and (owner, name) not in self.attributes:
                self.attributes.append((owner, name))

    def around(self) -> list[ReplayValue]:
        """What attributes that are written to hold before the block, and copies of containers that are changed."""
        held = [read_attribute(self.run, owner, name) for owner, name in self.attributes]
        return held + [with_own_containers(self.env[name]) for name in self.containers]

    def assign(self, values: Sequence[ReplayValue]) -> None:
        """Let attributes hold what blocks wrote to them, and containers what they put there."""
        count = len(self.attributes)
        for (owner, name), value in zip(self.attributes, values[:count], strict=True):
            if (id(owner), name) in self._assigned:
                write_attribute(self.run, owner, name, value)
            else:
                _refill(read_attribute(self.run, owner, name), value)
        for key, value in zip(self.containers, values[count:], strict=True):
            _refill(self.env[key], value)


@contextlib.contextmanager
def sampling() -> Iterator[None]:
    """While the block runs, nothing is recorded, nor are the sizes that are read from tensors waited for."""
    fake = detect_fake_mode()
    shapes = None if fake is None else fake.shape_env
    with (
        disable_proxy_modes_tracing(),
        contextlib.nullcontext() if shapes is None else shapes.ignore_fresh_unbacked_symbols(),
    ):
        yield


def _is_same(value: ReplayValue, other: ReplayValue) -> bool:
    """Whether two values are the same thing, or containers of the same things."""
    if not isinstance(value, list | tuple | dict) or type(value) is not type(other):
        return value is other
    if len(value) != len(parts_of(other)):
        return False
    if isinstance(value, dict) and list(value) != list(cast(dict[ReplayValue, ReplayValue], other)):
        return False
    return all(_is_same(*pair) for pair in zip(parts_of(value), parts_of(other), strict=True))


def _refill(container: ReplayValue, value: ReplayValue) -> None:
    """Put into a list or dict what is in another; containers in it stay the ones that they are."""
    assert isinstance(container, list | dict) and isinstance(value, list | dict)
    keys = list(container) if isinstance(container, dict) else range(len(container))
    held = dict(zip(keys, parts_of(container), strict=True))
    container.clear()
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        own = held.get(key)
        if isinstance(own, list | dict) and type(own) is type(part):
            _refill(own, part)
            part = own
        if isinstance(container, dict):
            container[key] = part
        else:
            container.append(part)


def _open(value: ReplayValue) -> ReplayValue:
    """A value with the tensors and sizes in it bare."""
    if isinstance(value, Number):
        return value.value
    if isinstance(value, Optionally):
        return [value.is_there, value.tensor]
    if isinstance(value, FreeRank):
        return value.handle
    if isinstance(value, Sequenced):
        sizes = None if value.item_type is None or value.item_type.sizes is None else list(value.item_type.sizes)
        return [value.handle, sizes]
    if isinstance(value, list | tuple | dict):
        return rebuilt(value, [_open(part) for part in parts_of(value)])
    return value.tensor if isinstance(value, Truth | Stacked) else value


def _closed(original: ReplayValue, value: ReplayValue) -> ReplayValue:
    """What ``_open`` made of a value, like the value again."""
    if isinstance(original, Number):
        return Number(value, original.dtype)  # type: ignore[arg-type]
    if isinstance(original, Optionally):
        return Optionally(*cast(list[torch.Tensor], value))
    if isinstance(original, Sequenced):
        handle, sizes = parts_of(value)
        found = original.item_type
        if found is not None and isinstance(sizes, list):
            found = ItemType(found.dtype, tuple(sizes), found.is_number)
        return Sequenced(cast(torch.Tensor, handle), found)
    if isinstance(original, list | tuple | dict):
        pairs = zip(parts_of(original), parts_of(value), strict=True)
        return rebuilt(original, [_closed(*pair) for pair in pairs])
    if isinstance(original, Stacked):
        return Stacked(cast(torch.Tensor, value), original.is_number)
    return type(original)(cast(torch.Tensor, value)) if isinstance(original, Truth | FreeRank) else value


def _copied(operand: Operand) -> Operand:
    return operand.clone() if isinstance(operand, torch.Tensor) else operand
