"""Branches: followed where the graph knows the way, captured as such where only run time does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._higher_order_ops.cond import cond_op
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols, statically_known_true
from torch.utils import _pytree as pytree

from onnxport.capture.torchscript.interpreter import Env, Interpreter, handles
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
    _positions: list[int] = field(default_factory=list)
    _leaves: list[Any] = field(default_factory=list)
    _weights: list[int] = field(default_factory=list)
    # The positions of operands that are written to: a block gets copies of these, and gives back what became of them.
    writes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        read = [self.env[name] for name in self.names]
        modules = [value for value in read if isinstance(value, torch.nn.Module)]
        self._leaves, self._spec = pytree.tree_flatten(
            [None if isinstance(value, torch.nn.Module) else _open(value) for value in read]
        )
        for position, leaf in enumerate(self._leaves):
            if isinstance(leaf, torch.Tensor | torch.SymInt):
                self._positions.append(position)
                self.operands.append(leaf)
        seen: set[int] = set()
        for module in modules:
            for weight in (*module.parameters(), *module.buffers()):
                if id(weight) not in seen:
                    seen.add(id(weight))
                    self._weights.append(id(weight))
                    self.operands.append(self.run.substitutes.get(id(weight), weight))

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
        for position, operand in zip(self._positions, operands, strict=False):
            leaves[position] = operand
        values = pytree.tree_unflatten(leaves, self._spec)
        env = dict(self.env)
        for name, value in zip(self.names, values, strict=True):
            if not isinstance(self.env[name], torch.nn.Module):
                env[name] = _closed(self.env[name], value)
        return env

    def weights(self, operands: Sequence[Any]) -> dict[int, torch.Tensor]:
        """The module's tensors, as operands of the block."""
        return dict(zip(self._weights, operands[len(self._positions) :], strict=True))

    def block(
        self, block: Any, operands: Sequence[Any], inputs: Sequence[Any] = (), changed: Env | None = None
    ) -> list[Any]:
        """Run a block on operands; ``changed`` are values to use in place of those around it."""
        env = self.environment(operands)
        env.update({} if changed is None else changed)
        for value, given in zip(block.inputs(), inputs, strict=True):
            env[value.unique()] = given
        outer = self.run.substitutes
        self.run.substitutes = {**outer, **self.weights(operands)}
        try:
            return self.run.block(block, env, self.run.function)
        finally:
            self.run.substitutes = outer


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
    samples = []
    with disable_proxy_modes_tracing():
        for block in blocks:
            samples.append(closure.sampled(block))
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
    return results


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
