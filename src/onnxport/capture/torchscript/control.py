"""Branches and loops: followed where the graph knows the way, captured as such where only run time does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols, statically_known_true
from torch.utils import _pytree as pytree

from onnxport.capture.torchscript.interpreter import Env, Interpreter, handles
from onnxport.capture.torchscript.values import UNINITIALIZED, Number, Truth, Uninitialized, materialized, plain
from onnxport.errors import CaptureError


@handles("prim::If")
def _if(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    blocks = list(node.blocks())
    condition = _known(values[0])
    if isinstance(condition, bool):
        return _results(node, run.block(blocks[0 if condition else 1], env, run.function))
    for taken, other in ((0, 1), (1, 0)):
        # A check: the model as exported is for inputs that pass it.
        if _raises(blocks[other]):
            return _results(node, run.block(blocks[taken], env, run.function))
    if isinstance(condition, torch.SymBool) and not has_free_unbacked_symbols(condition) and not _computes(blocks):
        # Nothing but numbers is chosen here; following the example ties them to it, and that is reported.
        return _results(node, run.block(blocks[0 if condition else 1], env, run.function))
    return _results(node, _branch(run, node, condition, blocks, env))


def _results(node: Any, results: list[Any]) -> Any:
    return results[0] if node.outputsSize() == 1 else results


def _known(value: Any) -> Any:
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


def _free(blocks: Sequence[Any]) -> list[int]:
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

    def block(self, block: Any, operands: Sequence[Any], inputs: Sequence[Any] = ()) -> list[Any]:
        """Run a block on operands."""
        env = self.environment(operands)
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
    return value.tensor if isinstance(value, Truth) else value


def _closed(original: Any, value: Any) -> Any:
    if isinstance(original, Number):
        return Number(value, original.dtype)
    return Truth(value) if isinstance(original, Truth) else value


def _branch(run: Interpreter, node: Any, condition: Any, blocks: Sequence[Any], env: Env) -> list[Any]:
    run.trace()
    closure = Closure(run, env, _free(blocks))
    samples = []
    with disable_proxy_modes_tracing():
        for block in blocks:
            samples.append(closure.block(block, closure.operands))
    forms = [_form(*pair) for pair in zip(*samples, strict=True)]

    def branch(which: int) -> Callable[..., Any]:
        def run_branch(*operands: Any) -> Any:
            results = closure.block(blocks[which], operands)
            return tuple(form.leave(result) for form, result in zip(forms, results, strict=True) if form.varies)

        return run_branch

    predicate = condition.tensor if isinstance(condition, Truth) else condition
    run.trace()
    varying = cond_op(predicate, branch(0), branch(1), tuple(closure.operands)) if any(f.varies for f in forms) else ()
    values = iter(varying)
    return [form.enter(next(values)) if form.varies else form.fixed for form in forms]


@dataclass
class _Form:
    """How a result of two branches leaves them: as it is if both agree, else as a tensor."""

    fixed: Any = None
    varies: bool = True
    kind: str = "tensor"
    example: Any = None

    def leave(self, value: Any) -> torch.Tensor:
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
        if self.kind == "tensor":
            return tensor
        if self.kind == "bool":
            return Truth(tensor)
        return tensor.item()


def _form(a: Any, b: Any) -> _Form:
    if isinstance(a, Uninitialized) or isinstance(b, Uninitialized):
        known = b if isinstance(a, Uninitialized) else a
        if isinstance(known, Uninitialized):
            return _Form(UNINITIALIZED, varies=False)
        if isinstance(known, torch.Tensor):
            return _Form(example=known)
        return _Form(known, varies=False)
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return _Form(example=a)
    bools = (bool, torch.SymBool, Truth)
    if isinstance(a, bools) and isinstance(b, bools):
        return _Form(a, varies=False) if a is b else _Form(kind="bool")
    numbers = (int, float, torch.SymInt, torch.SymFloat)
    if isinstance(a, numbers) and isinstance(b, numbers):
        if type(a) is type(b) and not isinstance(a, torch.SymInt | torch.SymFloat) and a == b:
            return _Form(a, varies=False)
        return _Form(kind="number")
    if a is b or (not isinstance(a, torch.Tensor) and type(a) is type(b) and a == b):
        return _Form(a, varies=False)
    raise CaptureError(
        f"One branch gives {_describe(a)} and the other {_describe(b)}, and which is taken depends on the data; "
        "ONNX can choose between tensors only. Give both branches tensors."
    )


def _describe(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


@handles("prim::Loop")
def _loop(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    block = next(node.blocks())
    trips, condition, *carried = values
    trips = plain(trips)
    again = _known(condition)
    done = 0
    while isinstance(again, bool) and isinstance(trips, int):
        if not again or done >= trips:
            return _results(node, carried)
        inputs = [done, *carried]
        for value, given in zip(block.inputs(), inputs, strict=True):
            env[value.unique()] = given
        condition, *carried = run.block(block, env, run.function)
        again = _known(condition)
        done += 1
    return _results(node, _while(run, node, block, (done, trips, condition), carried, env))


def _while(run: Interpreter, node: Any, block: Any, state: tuple[int, Any, Any], carried: list[Any], env: Env) -> Any:
    done, trips, condition = state
    run.trace()
    closure = Closure(run, env, _free([block]))
    unlimited = isinstance(trips, int) and trips >= 2**31
    with disable_proxy_modes_tracing():
        sample = closure.block(block, closure.operands, [done, *carried])
    forms = [_carried(*pair) for pair in zip(carried, sample[1:], strict=True)]
    start = [form.leave(value) for form, value in zip(forms, carried, strict=True) if form.varies]
    counter = torch.scalar_tensor(done, dtype=torch.int64)
    limit = Number.of(trips).tensor() if not unlimited else counter
    first = _truth(condition)
    count = len(start)

    def test(iteration: Any, going: Any, *rest: Any) -> Any:
        return going if unlimited else torch.logical_and(going, iteration < rest[count])

    def body(iteration: Any, going: Any, *rest: Any) -> Any:
        values = iter(rest[:count])
        given = [form.enter(next(values)) if form.varies else form.fixed for form in forms]
        following, *results = closure.block(block, rest[count + 1 :], [_index(block, iteration), *given])
        leaving = [form.leave(value) for form, value in zip(forms, results, strict=True) if form.varies]
        return (iteration + 1, _truth(following).clone(), *leaving)

    run.trace()
    outcome: Any = while_loop_op(test, body, (counter, first, *start), (limit, *closure.operands))  # type: ignore[arg-type]
    values = iter(outcome[2:])
    return [form.enter(next(values)) if form.varies else form.fixed for form in forms]


def _index(block: Any, iteration: torch.Tensor) -> Any:
    """The number of the iteration, read only if the body does."""
    return iteration.item() if next(block.inputs()).uses() else 0


def _truth(value: Any) -> torch.Tensor:
    if isinstance(value, Truth):
        return value.tensor
    if isinstance(value, torch.SymBool):
        return Number.of(value).tensor()
    return torch.scalar_tensor(plain(value), dtype=torch.bool)


def _carried(before: Any, after: Any) -> _Form:
    if isinstance(before, list) or isinstance(after, list):
        raise CaptureError(
            "A list grows in a loop whose number of iterations only run time knows. "
            "Declare the axis that the loop runs over as static, or write the loop with tensors."
        )
    if isinstance(before, Uninitialized):
        return _Form(UNINITIALIZED, varies=False)
    if isinstance(before, bool | Truth | torch.SymBool):
        return _Form(kind="bool")
    if isinstance(before, int | float | torch.SymInt | torch.SymFloat):
        return _Form(kind="number")
    return _form(before, after)


def nested(block: Any) -> Iterator[Any]:
    """The nodes of a block and of the blocks in it."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nested(inner)
