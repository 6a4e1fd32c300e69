"""Branches: followed where the graph knows the way, captured as such where only run time does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._higher_order_ops.cond import cond_op
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols, statically_known_true
from torch.utils import _pytree as pytree

from onnxport.capture.torchscript.interpreter import Env, Interpreter, handles
from onnxport.capture.torchscript.objects import Instance, held_by, read, write
from onnxport.capture.torchscript.values import UNINITIALIZED, Number, Stacked, Truth, Uninitialized, materialized
from onnxport.errors import CaptureError


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
    return results_of(node, _branch(run, node, condition, blocks, env))


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
    """Whether blocks call anything on tensors."""
    return any(
        output.type().kind() == "TensorType" for block in blocks for node in block.nodes() for output in node.outputs()
    ) or any(inner.kind() == "prim::CallMethod" for block in blocks for inner in block.nodes())


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

    def __post_init__(self) -> None:
        read = [self.env[name] for name in self.names]
        modules = [value for value in read if isinstance(value, torch.nn.Module)]
        self._leaves, self._spec = pytree.tree_flatten(
            [None if isinstance(value, torch.nn.Module) else _open(value) for value in read]
        )
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

    def sampled(self, block: Any, inputs: Sequence[Any] = (), changed: Env | None = None) -> list[Any]:
        """Run a block to see what it gives and which operands it writes to."""
        operands = [operand.clone() if isinstance(operand, torch.Tensor) else operand for operand in self.operands]
        before = [getattr(operand, "_version", 0) for operand in operands]
        results = self.block(block, operands, inputs, changed)
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
        return env

    def block(
        self, block: Any, operands: Sequence[Any], inputs: Sequence[Any] = (), changed: Env | None = None
    ) -> list[Any]:
        """Run a block on operands; ``changed`` are values to use in place of those around it.

        Inputs beyond those of the block are for the attributes that are written to; so are such results.
        """
        env = self.environment(operands)
        env.update({} if changed is None else changed)
        own = list(block.inputs())
        for value, given in zip(own, inputs, strict=False):
            env[value.unique()] = given
        run, outer, state = self.run, self.run.substitutes, self.run.state
        held = {key: operands[operand] for key, operand in self._held.items()}
        run.substitutes, run.state = {**outer, **held}, dict(state)
        try:
            for (owner, name), given in zip(self.attributes, inputs[len(own) :], strict=False):
                write(run, owner, name, given)
            results = run.block(block, env, run.function)
            self._note_attributes(state, run.state)
            return results + [read(run, owner, name) for owner, name in self.attributes]
        finally:
            run.substitutes, run.state = outer, state

    def _note_attributes(self, before: dict[Any, Any], after: dict[Any, Any]) -> None:
        """Note attributes that were written to, of what was there before the block."""
        for (key, name), (owner, value) in after.items():
            was = before.get((key, name))
            there = was is not None or isinstance(owner, torch.nn.Module)
            if there and (was is None or was[1] is not value) and (owner, name) not in self.attributes:
                self.attributes.append((owner, name))

    def assign(self, values: Sequence[Any]) -> None:
        """Let attributes hold what blocks wrote to them."""
        for (owner, name), value in zip(self.attributes, values, strict=True):
            write(self.run, owner, name, value)


@contextlib.contextmanager
def sampling() -> Iterator[None]:
    """While the block runs, nothing is recorded, nor are the sizes that are read from tensors waited for."""
    fake = torch._guards.detect_fake_mode()
    shapes = None if fake is None else fake.shape_env
    with (
        disable_proxy_modes_tracing(),
        contextlib.nullcontext() if shapes is None else (shapes.ignore_fresh_unbacked_symbols()),
    ):
        yield


def _open(value: Any) -> Any:
    """A value with the tensors and sizes in it bare."""
    if isinstance(value, Number):
        return value.value
    return value.tensor if isinstance(value, Truth | Stacked) else value


def _closed(original: Any, value: Any) -> Any:
    if isinstance(original, Number):
        return Number(value, original.dtype)
    return type(original)(value) if isinstance(original, Truth | Stacked) else value


def _branch(run: Interpreter, node: Any, condition: Any, blocks: Sequence[Any], env: Env) -> list[Any]:
    run.trace()
    closure = Closure(run, env, free_values(blocks))
    with sampling():
        samples = [closure.sampled(block) for block in blocks]
        if closure.attributes:
            samples = [closure.sampled(block) for block in blocks]
    forms = [form_of(*pair) for pair in zip(*samples, strict=True)]

    def branch(which: int) -> Callable[..., Any]:
        def run_branch(*operands: Any) -> Any:
            own = closure.own(operands)
            results = closure.block(blocks[which], own)
            leaving = [form.leave(result) for form, result in zip(forms, results, strict=True) if form.varies]
            return (*leaving, *closure.written(own))

        return run_branch

    predicate = condition.tensor if isinstance(condition, Truth) else condition
    run.trace()
    leaves = any(form.varies for form in forms) or closure.writes
    varying = cond_op(predicate, branch(0), branch(1), tuple(closure.operands)) if leaves else ()
    values = iter(varying)
    results = [form.enter(next(values)) if form.varies else form.fixed for form in forms]
    closure.write_back(list(values))
    count = node.outputsSize()
    closure.assign(results[count:])
    return results[:count]


@dataclass
class Form:
    """How a result of two branches leaves them: as it is if both agree, else as a tensor."""

    fixed: Any = None
    varies: bool = True
    kind: str = "tensor"
    example: Any = None

    def leave(self, value: Any) -> torch.Tensor:
        """A value as a tensor, on the way out."""
        if isinstance(value, Uninitialized):
            return torch.zeros(self.example.shape, dtype=self.example.dtype)
        if self.kind == "tensor":
            tensor: torch.Tensor = materialized(value)
            # A branch may not return one of its operands as it is.
            return tensor.clone() if tensor.dtype == self.example.dtype else tensor.to(self.example.dtype)
        number = value if isinstance(value, Number | Truth) else Number.of(value)
        tensor = materialized(number)
        return tensor.clone() if isinstance(number, Truth) else tensor

    def enter(self, tensor: torch.Tensor) -> Any:
        """A tensor as the value it stands for."""
        if self.kind == "tensor":
            return tensor
        if self.kind == "bool":
            return Truth(tensor)
        return tensor.item()


def form_of(a: Any, b: Any) -> Form:
    """How what two branches make of one variable leaves them."""
    if isinstance(a, Uninitialized) or isinstance(b, Uninitialized):
        known = b if isinstance(a, Uninitialized) else a
        if isinstance(known, Uninitialized):
            return Form(UNINITIALIZED, varies=False)
        if isinstance(known, torch.Tensor):
            return Form(example=known)
        return Form(known, varies=False)
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return Form(example=a)
    bools = (bool, torch.SymBool, Truth)
    if isinstance(a, bools) and isinstance(b, bools):
        return Form(a, varies=False) if a is b else Form(kind="bool")
    numbers = (int, float, torch.SymInt, torch.SymFloat)
    if isinstance(a, numbers) and isinstance(b, numbers):
        if type(a) is type(b) and not isinstance(a, torch.SymInt | torch.SymFloat) and a == b:
            return Form(a, varies=False)
        return Form(kind="number")
    if a is b or (not isinstance(a, torch.Tensor) and type(a) is type(b) and a == b):
        return Form(a, varies=False)
    raise CaptureError(
        f"One branch gives {_describe(a)} and the other {_describe(b)}, and which is taken depends on the data; "
        "ONNX can choose between tensors only. Give both branches tensors."
    )


def _describe(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
