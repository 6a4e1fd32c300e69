"""Names and provenance, as the guide describes them."""

from __future__ import annotations

import ast
from typing import Any

import onnx_ir as ir
import pytest
import torch

import onnxport
from onnxport.errors import InputError


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = torch.nn.Linear(3, 4)
        self.register_buffer("offset", torch.ones(4))
        self.register_buffer("scale", torch.full((4,), 2.0), persistent=False)
        self.head = torch.nn.Linear(3, 4, bias=False)
        self.head.weight = self.fc1.weight

    def forward(self, x: torch.Tensor, unused: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.fc1(x) + self.offset
        return torch.relu(y) * self.scale, self.head(x)


@pytest.fixture(scope="module")
def program() -> onnxport.ONNXProgram:
    return onnxport.export(
        Model(), (torch.randn(2, 3), torch.randn(1)), input_names=["features"], output_names=["scores"]
    )


def _node(program: onnxport.ONNXProgram, op_type: str) -> ir.Node:
    return next(node for node in program.model.graph if node.op_type == op_type)


def test_node_metadata(program: onnxport.ONNXProgram) -> None:
    metadata = _node(program, "Gemm").metadata_props
    own = f"{__name__}.Model"
    linear = "torch.nn.modules.linear.Linear"
    assert metadata["namespace"] == f"{own}/fc1: {linear}/linear: aten.linear.default"
    assert ast.literal_eval(metadata["pkg.torch.onnx.class_hierarchy"]) == [own, linear, "aten.linear.default"]
    assert ast.literal_eval(metadata["pkg.torch.onnx.name_scopes"]) == ["", "fc1", "linear"]
    assert metadata["pkg.torch.onnx.fx_node"].startswith(
        "%linear : [num_users=1] = call_function[target=torch.ops.aten."
    )
    assert "test_metadata.py" in metadata["pkg.torch.onnx.stack_trace"]
    assert "self.fc1(x) + self.offset" in metadata["pkg.torch.onnx.stack_trace"]


def test_calls_are_shown_as_torch_shows_them(program: onnxport.ONNXProgram) -> None:
    assert program.exported_program is not None
    shown = {node.metadata_props["pkg.torch.onnx.fx_node"] for node in program.model.graph}
    assert shown <= {str(node.format_node()) for node in program.exported_program.graph.nodes}


def test_graph_metadata(program: onnxport.ONNXProgram) -> None:
    metadata = program.model.graph.metadata_props
    assert "PARAMETER target='fc1.weight'" in metadata["pkg.torch.export.ExportedProgram.graph_signature"]
    assert metadata["pkg.torch.export.ExportedProgram.range_constraints"] == "{}"


VALUES: dict[str, dict[str, str]] = {
    "features": {"InputSpec.kind": "USER_INPUT", "InputSpec.persistent": "None", "original": "x"},
    "unused": {"InputSpec.kind": "USER_INPUT"},
    "fc1.weight": {"InputSpec.kind": "PARAMETER", "original": "p_fc1_weight"},
    "offset": {"InputSpec.kind": "BUFFER", "InputSpec.persistent": "True", "original": "b_offset"},
    "scale": {"InputSpec.kind": "BUFFER", "InputSpec.persistent": "False"},
    "scores": {"OutputSpec.kind": "USER_OUTPUT", "original": "mul"},
}


@pytest.mark.parametrize("name", VALUES)
def test_value_metadata(program: onnxport.ONNXProgram, name: str) -> None:
    graph = program.model.graph
    values = {value.name: value for value in (*graph.inputs, *graph.outputs, *graph.initializers.values())}
    for key, expected in VALUES[name].items():
        full = "pkg.torch.onnx.original_node_name" if key == "original" else f"pkg.torch.export.graph_signature.{key}"
        assert values[name].metadata_props[full] == expected


def test_inputs_stay_and_tied_weights_are_one(program: onnxport.ONNXProgram) -> None:
    graph = program.model.graph
    assert [value.name for value in graph.inputs] == ["features", "unused"]
    weights = [name for name, value in graph.initializers.items() if value.shape == (4, 3)]
    assert weights == ["fc1.weight"]
    assert graph.initializers["fc1.weight"].metadata_props["onnxport.aliases"] == "head.weight"
    assert [value.name for value in graph.outputs] == ["scores", "linear_1"]


def test_node_names_follow_the_values(program: onnxport.ONNXProgram) -> None:
    for node in program.model.graph:
        assert node.name == f"node_{node.outputs[0].name}"


def test_names_run_on_into_the_parameters() -> None:
    program = onnxport.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),), input_names=["x", "w", "b"])
    assert set(program.model.graph.initializers) == {"w", "b"}
    program.apply_weights({"weight": torch.zeros(2, 3), "bias": torch.ones(2)})
    assert program(torch.ones(1, 3))[0].tolist() == [[1.0, 1.0]]


class Same(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = x + 1
        return x, y, y


def test_outputs_are_values_of_their_own() -> None:
    program = onnxport.export(Same(), (torch.ones(2),), output_names=["a", "b", "c"])
    assert [value.name for value in program.model.graph.outputs] == ["a", "b", "c"]
    assert [float(value[0]) for value in program(torch.ones(2))] == [1.0, 2.0, 2.0]


BAD_NAMES = {
    "too many": (["a", "b", "c", "d"], "has 4 names .* 3 output"),
    "twice": (["a", "a"], "repeats 'a'"),
    "an input's": (["x"], "x in `output_names` is the name of an input or weight"),
}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_output_names(name: str) -> None:
    names, message = BAD_NAMES[name]
    with pytest.raises(InputError, match=message):
        onnxport.export(Same(), (torch.ones(2),), output_names=names)
