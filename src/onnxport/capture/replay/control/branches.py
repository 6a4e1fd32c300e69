"""Branches: followed where the graph knows the way, captured as such where only run time does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import (
    free_unbacked_symbols,
    has_free_unbacked_symbols,
    statically_known_true,
)

from onnxport.capture.replay.interpreter import Env, Interpreter, handles
from onnxport.capture.replay.ops.objects import Instance, held_by, read, substituted, write
from onnxport.capture.replay.values.forms import UnlikeBranches, form_of
from onnxport.capture.replay.values.kinds import Kind, Number, Sequenced, Stacked, Truth, copied, parts_of, rebuilt
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import detect_fake_mode
from onnxport.torch_internals.operators import cond_op


@handles("prim::If")
def _if(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    blocks = list(node.blocks())
    condition = known(values[0])
    if isinstance(condition, bool):
        return results_of(node, run.block(blocks[0 if condition else 1], env, run.function))
    for taken, other in ((0, 1), (1, 0)):
        # A check: the model as exported is for inputs that pass it.
        if _raises(blocks[other]):
            return results_of(node, run.block(blocks[taken], env, run.function))
    if isinstance(condition, torch.SymBool) and not has_free_unbacked_symbols(condition) and not _computes(blocks):
        # Nothing but numbers is chosen here; following the example ties them to it, and that is reported.
        return results_of(node, run.block(blocks[0 if condition else 1], env, run.function))
    try:
        return results_of(node, _branch(run, node, condition, blocks, env))
    except UnlikeBranches:
        if not isinstance(condition, torch.SymBool) or has_free_unbacked_symbols(condition):
            raise
    # Sizes decide, so following the example is a guard, and that is reported.
    return results_of(node, run.block(blocks[0 if condition else 1], env, run.function))


def results_of(node: Any, results: list[Any]) -> Any:
    """The results of a block as those of its node."""
    return results[0] if node.outputsSize() == 1 else results


def known(value: Any) -> Any:
    """A condition as a bool, if it is certain."""
    value = value.value if isinstance(value, Number) else value
    if isinstance(value, torch.SymBool):
        if statically_known_true(value):
            return True
        if statically_known_true(torch.sym_not(value)):
            return False
        return value
    return value if isinstance(value, Truth) else bool(value)


def _raises(block: Any) -> bool:
    return any(node.kind() == "prim::RaiseException" for node in block.nodes())


def _computes(blocks: Sequence[Any]) -> bool:
    """Whether blocks call anything on tensors or lists of them, or give any."""
    nodes = [node for block in blocks for node in block.nodes()]
    values = [value for node in nodes for value in (*node.outputs(), *node.inputs()) if _is_list(value.type())]
    values += [output for one in (*nodes, *blocks) for output in one.outputs()]
    return any(value.type().kind() == "TensorType" or _is_list(value.type()) for value in values) or any(
        node.kind() == "prim::CallMethod" for node in nodes
    )


def _is_list(type_: Any) -> bool:
    """Whether a type is that of lists of tensors."""
    return bool(type_.kind() == "ListType" and type_.getElementType().kind() == "TensorType")


def free_values(blocks: Sequence[Any]) -> list[int]:
    """The values that blocks read and do not make, in order."""
    made: set[int] = set()
    read: dict[int, None] = {}

    def walk(block: Any) -> None:
        made.update(value.unique() for value in block.inputs())
        for node in block.nodes():
            read.update((value.unique(), None) for value in node.inputs() if value.unique() not in made)
            for inner in node.blocks():
                walk(inner)
            made.update(value.unique() for value in node.outputs())
        read.update((value.unique(), None) for value in block.outputs() if value.unique() not in made)

    for block in blocks:
        walk(block)
    return [value for value in read if value not in made]


@dataclass
class Closure:
    """What branches and bodies read from around them: tensors and sizes that vary become operands."""

    run: Interpreter
    env: Env
    names: list[int]
    operands: list[Any] = field(default_factory=list)
    _spec: Any = None
    _leaves: list[Any] = field(default_factory=list)
    # The operand that takes the place of a leaf, by its position, and of what attributes hold, by its identity.
    _positions: dict[int, int] = field(default_factory=dict)
    _held: dict[int, int] = field(default_factory=dict)
    # The positions of operands that are written to: a block gets copies of these, and gives back what became of them.
    writes: list[int] = field(default_factory=list)
    # The attributes that blocks write to, whose values are results of theirs too.
    attributes: list[tuple[Any, str]] = field(default_factory=list)
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
            if isinstance(leaf, torch.Tensor | torch.SymInt):
                self._positions[position] = self._operand(operands, leaf)
        objects = [leaf for leaf in self._leaves if isinstance(leaf, Instance)]
        for held in held_by(self.run, [*modules, *objects]):
            self._held[id(held)] = self._operand(operands, self.run.substitutes.get(id(held), held))

    def _operand(self, operands: dict[int, int], value: Any) -> int:
        if id(value) not in operands:
            operands[id(value)] = len(self.operands)
            self.operands.append(value)
        return operands[id(value)]

    @property
    def symbols(self) -> set[Any]:
        """The symbols of sizes that are known at run time only, and known here."""
        return {symbol for operand in self.operands for symbol in free_unbacked_symbols(operand)}

    def aliases(self, name: int) -> list[int]:
        """The names of one list or dict."""
        return self._same[name]

    def sampled(self, block: Any, inputs: Sequence[Any] = ()) -> list[Any]:
        """Run a block to see what it gives and which operands it writes to."""
        operands = [operand.clone() if isinstance(operand, torch.Tensor) else operand for operand in self.operands]
        before = [getattr(operand, "_version", 0) for operand in operands]
        results = self.block(block, operands, inputs)
        for position, (operand, version) in enumerate(zip(operands, before, strict=True)):
            if getattr(operand, "_version", 0) != version and position not in self.writes:
                self.writes.append(position)
        return results

    def own(self, operands: Sequence[Any]) -> list[Any]:
        """Operands with copies of those that are written to."""
        return [x.clone() if position in self.writes else x for position, x in enumerate(operands)]

    def written(self, operands: Sequence[Any]) -> list[torch.Tensor]:
        """What became of the operands that are written to."""
        return [operands[position] for position in self.writes]

    def write_back(self, values: Sequence[torch.Tensor]) -> None:
        """Write what blocks wrote to their copies."""
        for position, value in zip(self.writes, values, strict=True):
            self.operands[position].copy_(value)

    def environment(self, operands: Sequence[Any]) -> Env:
        """The values around a block, with the given operands in them."""
        leaves = list(self._leaves)
        for position, operand in self._positions.items():
            leaves[position] = operands[operand]
        values = pytree.tree_unflatten(leaves, self._spec)
        env = dict(self.env)
        for name, value in zip(self.names, values, strict=True):
            if not isinstance(self.env[name], torch.nn.Module):
                env[name] = _closed(self.env[name], value)
        for names in self._same.values():
            env.update(dict.fromkeys(names, env[names[0]]))
        return env

    def block(self, block: Any, operands: Sequence[Any], inputs: Sequence[Any] = ()) -> list[Any]:
        """Run a block on operands.

        Inputs beyond those of the block are for the attributes that are written to and the containers that are changed;
        so are such results.
        """
        env = self.environment(operands)
        own = list(block.inputs())
        for key, given in zip(self.containers, inputs[len(own) + len(self.attributes) :], strict=False):
            env.update(dict.fromkeys(self._same[key], given))
        before = {name: (env[name], copied(env[name])) for name in self._same}
        for value, given in zip(own, inputs, strict=False):
            env[value.unique()] = given
        run, outer, state = self.run, self.run.substitutes, self.run.state
        held = {key: operands[operand] for key, operand in self._held.items() if id(operands[operand]) != key}
        run.substitutes = {**outer, **held}
        # A block changes containers of its own.
        containers = {
            key: (owner, substituted(copied(value), run.substitutes))
            for key, (owner, value) in {**run.originals, **state}.items()
            if isinstance(value, list | dict)
        }
        run.state = {**state, **containers}
        try:
            for (owner, name), given in zip(self.attributes, inputs[len(own) :], strict=False):
                write(run, owner, name, substituted(given, run.substitutes))
            given_state = {key: (owner, value, copied(value)) for key, (owner, value) in run.state.items()}
            results = run.block(block, env, run.function)
            self._note_attributes(given_state, run.state)
            held_now = [read(run, owner, name) for owner, name in self.attributes]
            for key, (container, was) in before.items():
                if key not in self.containers and not _is_same(container, was):
                    self.containers.append(key)
            return [*results, *held_now, *(before[key][0] for key in self.containers)]
        finally:
            run.substitutes, run.state = outer, state

    def _note_attributes(self, before: dict[Any, Any], after: dict[Any, Any]) -> None:
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

    def around(self) -> list[Any]:
        """What attributes that are written to hold before the block, and copies of containers that are changed."""
        held = [read(self.run, owner, name) for owner, name in self.attributes]
        return held + [copied(self.env[name]) for name in self.containers]

    def assign(self, values: Sequence[Any]) -> None:
        """Let attributes hold what blocks wrote to them, and containers what they put there."""
        count = len(self.attributes)
        for (owner, name), value in zip(self.attributes, values[:count], strict=True):
            if (id(owner), name) in self._assigned:
                write(self.run, owner, name, value)
            else:
                _refill(read(self.run, owner, name), value)
        for key, value in zip(self.containers, values[count:], strict=True):
            _refill(self.env[key], value)


@contextlib.contextmanager
def sampling() -> Iterator[None]:
    """While the block runs, nothing is recorded, nor are the sizes that are read from tensors waited for."""
    fake = detect_fake_mode()
    shapes = None if fake is None else fake.shape_env
    with (
        disable_proxy_modes_tracing(),
        contextlib.nullcontext() if shapes is None else (shapes.ignore_fresh_unbacked_symbols()),
    ):
        yield


def _is_same(value: Any, other: Any) -> bool:
    """Whether two values are the same thing, or containers of the same things."""
    if not isinstance(value, list | tuple | dict) or type(value) is not type(other) or len(value) != len(other):
        return value is other
    if isinstance(value, dict) and list(value) != list(other):
        return False
    return all(_is_same(*pair) for pair in zip(parts_of(value), parts_of(other), strict=True))


def _refill(container: Any, value: Any) -> None:
    """Put into a list or dict what is in another; containers in it stay the ones that they are."""
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


def _open(value: Any) -> Any:
    """A value with the tensors and sizes in it bare."""
    if isinstance(value, Number):
        return value.value
    if isinstance(value, Sequenced):
        sizes = None if value.kind is None or value.kind.sizes is None else list(value.kind.sizes)
        return [value.handle, sizes]
    if isinstance(value, list | tuple | dict):
        return rebuilt(value, [_open(part) for part in parts_of(value)])
    return value.tensor if isinstance(value, Truth | Stacked) else value


def _closed(original: Any, value: Any) -> Any:
    if isinstance(original, Number):
        return Number(value, original.dtype)
    if isinstance(original, Sequenced):
        kind = original.kind
        return Sequenced(value[0], kind if kind is None or value[1] is None else Kind(kind.dtype, tuple(value[1])))
    if isinstance(original, list | tuple | dict):
        pairs = zip(parts_of(original), parts_of(value), strict=True)
        return rebuilt(original, [_closed(*pair) for pair in pairs])
    return type(original)(value) if isinstance(original, Truth | Stacked) else value


def _branch(run: Interpreter, node: Any, condition: Any, blocks: Sequence[Any], env: Env) -> list[Any]:
    run.trace()
    closure = Closure(run, env, free_values(blocks))
    with sampling():
        samples = [closure.sampled(block) for block in blocks]
        if closure.attributes or closure.containers:
            samples = [closure.sampled(block) for block in blocks]
        forms = [form_of(one, other, closure.symbols) for one, other in zip(*samples, strict=True)]

    def branch(which: int) -> Callable[..., Any]:
        def run_branch(*operands: Any) -> Any:
            own = closure.own(operands)
            results = closure.block(blocks[which], own)
            leaving = [x for form, result in zip(forms, results, strict=True) for x in form.leave(result)]
            return (*leaving, *closure.written(own))

        return run_branch

    predicate = condition.tensor if isinstance(condition, Truth) else condition
    run.trace()
    with sampling():
        leaves = any(form.leave(result) for form, result in zip(forms, samples[0], strict=True)) or closure.writes
    values = iter(cond_op(predicate, branch(0), branch(1), tuple(closure.operands)) if leaves else ())
    results = [form.enter(values) for form in forms]
    closure.write_back(list(values))
    count = node.outputsSize()
    closure.assign(results[count:])
    return results[:count]
