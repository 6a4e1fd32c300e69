"""Handlers of nodes, one a kind, and the mark that a counted loop of a script carries to its translation."""

# No `from __future__ import annotations`: TorchScript reads the annotations of what it compiles.
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan
from torch.export import Dim, ExportedProgram

import onnxport
from onnxport.capture.replay.interpreter import HANDLERS, handles
from onnxport.marks import COUNTED_LOOP, is_marked, marking

X = torch.randn(3, 4)


def test_a_kind_has_one_handler() -> None:
    before = dict(HANDLERS)
    with pytest.raises(ValueError, match="prim::Loop has a handler already: _loop"):
        handles("prim::Loop")(lambda call: None)
    assert before == HANDLERS


def collects(x: Tensor):
    out: list[Tensor] = []
    for i in range(x.size(0)):
        row: list[Tensor] = []
        for j in range(x.size(1)):
            row.append(x[i, j] * j)
        out.append(torch.stack(row))
    return torch.stack(out)


class ScansNumbers(torch.nn.Module):
    def forward(self, x: Tensor) -> Any:
        return scan(lambda carry, n: (carry + n, carry * n), x[0], torch.arange(x.shape[0]))


def _captured() -> ExportedProgram:
    program = onnxport.export(torch.jit.script(collects), (X,), dynamic_shapes=({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},))
    assert program.exported_program is not None
    return program.exported_program


def _reloaded(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def _operators(graph: Any) -> set[str]:
    found = set()
    for node in graph:
        found.add(node.op_type)
        for attribute in node.attributes.values():
            if attribute.name == "body":
                found |= _operators(attribute.as_graph())
    return found


AFTER: list[Callable[[ExportedProgram], ExportedProgram]] = [
    lambda program: program,
    lambda program: program.run_decompositions({}),
    lambda program: program.run_decompositions(),
    _reloaded,
]


@pytest.mark.parametrize("change", AFTER, ids=["captured", "functionalized", "decomposed", "saved and loaded"])
def test_a_counted_loop_stays_marked(change: Callable[[ExportedProgram], ExportedProgram]) -> None:
    captured = change(_captured())
    marked = [
        is_marked(node, COUNTED_LOOP)
        for module in captured.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.scan)
    ]
    assert marked == [True, True]
    torch.testing.assert_close(captured.module()(X), torch.jit.script(collects)(X))
    program = onnxport.export(captured)
    assert {"Loop", "Scan"} & _operators(program.model.graph) == {"Loop"}
    torch.testing.assert_close(program(X + 1)[0], torch.jit.script(collects)(X + 1))


def test_a_scan_of_the_users_stays_one() -> None:
    program = onnxport.export(ScansNumbers(), (X,), dynamic_shapes=({0: "n"},))
    assert {"Loop", "Scan"} & _operators(program.model.graph) == {"Scan"}


def test_marks_are_of_the_block_only() -> None:
    def traced(x: Tensor) -> Tensor:
        with torch.fx.traceback.preserve_node_meta():
            x = x.sin()
            with marking("a"):
                x = x.cos()
                with marking("a", on=False):
                    x = x.tan()
            return x.neg()

    graph = torch.fx.experimental.proxy_tensor.make_fx(traced)(X).graph
    assert [node.name for node in graph.nodes if is_marked(node, "a")] == ["cos"]
