"""Export, prepare and interpret: what the tests of this folder compare with eager."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx.experimental import _config as symbolic_config
from torch.utils import _pytree as pytree

from onnxport.events import EventLog
from onnxport.prepare import FunctionalProgram, prepare
from onnxport.prepare.effects import effects


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def export(module: torch.nn.Module, args: Sequence[Any], dynamic: bool = False) -> ExportedProgram:
    """Capture as the exporter does."""
    shapes = None
    if dynamic:
        shapes = pytree.tree_map(_all_dynamic, tuple(args))
        shapes = (shapes,) if isinstance(module, Function) else shapes
    with symbolic_config.patch(backed_size_oblivious=True), torch.no_grad():
        return torch.export.export(copy.deepcopy(module), tuple(args), dynamic_shapes=shapes, strict=False)


def _all_dynamic(value: Any) -> dict[int, Any] | None:
    return dict.fromkeys(range(value.dim()), Dim.AUTO) if isinstance(value, torch.Tensor) else None


def translated(target: object, of_complex: bool = False) -> bool:
    return True


def run(program: FunctionalProgram, args: Sequence[Any]) -> tuple[list[Any], dict[str, torch.Tensor]]:
    """Interpret a functional program: its outputs, and the final values of what it mutates."""
    nodes = {node.name: node for node in program.graph.nodes}
    inputs = iter(pytree.tree_leaves(tuple(args)))
    values = []
    for spec in program.signature.input_specs:
        value = next(inputs) if spec.kind is InputKind.USER_INPUT else program.state[spec.target]
        values.append(value.clone() if isinstance(value, torch.Tensor) else value)
    interpreter = _Checking(program.owner, graph=program.graph, garbage_collect_values=False)
    outputs = list(interpreter.run(*values))
    assert all(mutation.node is nodes[mutation.node.name] for mutation in program.mutations)
    return outputs, {m.target: interpreter.env[m.node] for m in program.mutations}


class _Checking(torch.fx.Interpreter):
    """Checks on the way that fake values tell the truth and that nothing is written to."""

    def run_node(self, n: torch.fx.Node) -> Any:
        assert not effects(n.target).writes, n.format_node()
        result = super().run_node(n)
        if n.op == "call_function":
            for fake, real in zip(pytree.tree_leaves(n.meta["val"]), pytree.tree_leaves(result), strict=True):
                if isinstance(real, torch.Tensor):
                    assert fake.dtype == real.dtype, n.format_node()
                    assert fake.dim() == real.dim(), n.format_node()
                    for want, have in zip(fake.shape, real.shape, strict=True):
                        assert not isinstance(want, int) or want == have, n.format_node()
        return result


def check(
    module: torch.nn.Module | Callable[..., Any],
    args: Sequence[Any],
    *others: Sequence[Any],
    dynamic: bool = False,
    has_translation: Callable[[object], bool] = translated,
    exact: bool = True,
) -> FunctionalProgram:
    """Compare the prepared program with eager, at the captured sizes and at others."""
    module = module if isinstance(module, torch.nn.Module) else Function(module)
    exported = export(module, args, dynamic)
    before = str(exported.graph), str(exported.graph_signature)
    program = prepare(exported, has_translation, EventLog())
    assert (str(exported.graph), str(exported.graph_signature)) == before
    for given in (args, *others):
        compare(program, module, given, exact=exact)
    return program


def compare(program: FunctionalProgram, module: torch.nn.Module, given: Sequence[Any], exact: bool = True) -> None:
    """Outputs, mutated inputs and mutated buffers against a fresh eager run."""
    options = {"rtol": 0, "atol": 0} if exact else {}
    eager, inputs = copy.deepcopy(module), copy.deepcopy(tuple(given))
    with torch.no_grad():
        expected = pytree.tree_leaves(eager(*inputs))
        outputs, mutated = run(program, given)
    torch.testing.assert_close(outputs, expected, equal_nan=True, **options)
    names = [spec.arg.name for spec in program.signature.input_specs if spec.kind is InputKind.USER_INPUT]
    expected_state = dict(zip(names, pytree.tree_leaves(inputs), strict=True))
    old_state = dict(zip(names, pytree.tree_leaves(tuple(given)), strict=True))
    for new, old in ((eager, expected_state), (module, old_state)):
        old.update({**dict(new.named_parameters()), **dict(new.named_buffers())})
    for name, value in expected_state.items():
        if name in mutated:
            torch.testing.assert_close(mutated[name], value, **options)
        elif isinstance(value, torch.Tensor):
            torch.testing.assert_close(value, old_state[name], **options, msg=f"{name} is mutated unnoticed")


def targets(program: FunctionalProgram) -> list[str]:
    """The calls of a graph."""
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
