"""``torch.compiler.nested_compile_region``: one body for all calls is one ONNX function."""

from __future__ import annotations

import pytest
import torch

import onnxport


@torch.compiler.nested_compile_region
def shared(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w) + x.shape[0]


class Inner(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # torch.export inlines the region by itself where gradients may flow.
        self.register_buffer("weight", torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return shared(x, self.weight).relu()


class Twice(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Inner(), Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


X, OTHER = torch.randn(3, 4), torch.randn(5, 4)
MODEL = Twice().eval()


@pytest.fixture(scope="module")
def captured() -> torch.export.ExportedProgram:
    dynamic = ({0: torch.export.Dim("n")},)
    program = torch.export.export(MODEL, (X,), dynamic_shapes=dynamic, strict=True)
    assert any("invoke_subgraph" in str(node.target) for node in program.graph.nodes)
    return program


@pytest.mark.filterwarnings("ignore:`export_modules_as_functions` is deprecated")
@pytest.mark.parametrize(
    ("opset", "modules", "functions"),
    [
        (20, False, 1),  # the region
        (15, False, 1),
        (14, False, 0),  # no functions in such files: inlined
        (20, {Inner}, 2),  # the region in the module's function
    ],
)
def test_region_is_one_function(
    captured: torch.export.ExportedProgram, opset: int, modules: bool | set[type[torch.nn.Module]], functions: int
) -> None:
    program = onnxport.export(captured, opset_version=opset, export_modules_as_functions=modules)
    assert len(program.model.functions) == functions
    if functions == 1:
        (function,) = program.model.functions.values()
        assert function.domain == "onnxport"
        assert [node.op_type for node in program.model.graph].count(function.name) == 2
        assert "Tanh" not in [node.op_type for node in program.model.graph]
    torch.testing.assert_close(program(OTHER)[0], MODEL(OTHER).detach())
