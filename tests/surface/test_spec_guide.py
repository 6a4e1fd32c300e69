"""The code of torch.onnx's guide and reference, with the import changed, gives what they print."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import onnxport
from comparison import assert_close


class MLPModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc0 = nn.Linear(8, 8, bias=True)
        self.fc1 = nn.Linear(8, 4, bias=True)
        self.fc2 = nn.Linear(4, 2, bias=True)
        self.fc3 = nn.Linear(2, 2, bias=True)
        self.fc_combined = nn.Linear(8 + 8 + 8, 8, bias=True)  # Combine all inputs

    def forward(self, tensor_x: torch.Tensor, input_dict: dict, input_list: list) -> torch.Tensor:  # type: ignore[type-arg]
        dict_tensor = input_dict["tensor_x"]
        list_tensor = input_list[0]
        combined_tensor = torch.cat([tensor_x, dict_tensor, list_tensor], dim=1)
        combined_tensor = self.fc_combined(combined_tensor)
        combined_tensor = torch.sigmoid(combined_tensor)
        combined_tensor = self.fc0(combined_tensor)
        combined_tensor = torch.sigmoid(combined_tensor)
        combined_tensor = self.fc1(combined_tensor)
        combined_tensor = torch.sigmoid(combined_tensor)
        combined_tensor = self.fc2(combined_tensor)
        combined_tensor = torch.sigmoid(combined_tensor)
        output: torch.Tensor = self.fc3(combined_tensor)
        return output


INPUT_NAMES = ["tensor_input", "tensor_x", "list_input_index_0"]


def mlp_inputs(batch: int) -> tuple[Any, ...]:
    return torch.rand((batch, 8)), {"tensor_x": torch.rand((batch, 8))}, [torch.rand((batch, 8))]


@pytest.fixture(scope="module")
def model() -> MLPModel:
    return MLPModel()


@pytest.fixture(scope="module")
def mlp(model: MLPModel) -> onnxport.ONNXProgram:
    return onnxport.export(
        model,
        mlp_inputs(97),
        dynamic_shapes=({0: "batch_size"}, {"tensor_x": {0: "batch_size"}}, [{0: "batch_size"}]),
        input_names=INPUT_NAMES,
        output_names=["output"],
        dynamo=True,
    )


def run(path: Path, tensor: torch.Tensor, by_key: dict[str, torch.Tensor], in_list: list[torch.Tensor]) -> torch.Tensor:
    """What onnxruntime makes of the file."""
    feeds = [tensor, by_key["tensor_x"], in_list[0]]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = session.run(None, {name: value.numpy() for name, value in zip(INPUT_NAMES, feeds, strict=True)})
    return torch.from_numpy(found[0])


def test_a_simple_example(model: MLPModel, mlp: onnxport.ONNXProgram) -> None:
    graph = mlp.model.graph
    assert graph.inputs[0].shape == ("batch_size", 8)
    assert graph.inputs[1].shape == ("batch_size", 8)
    assert graph.inputs[2].shape == ("batch_size", 8)
    assert [value.name for value in graph.inputs] == INPUT_NAMES
    assert [value.name for value in graph.outputs] == ["output"]
    inputs = mlp_inputs(5)
    assert_close(mlp(*inputs)[0], model(*inputs))


def test_the_program_is_saved(mlp: onnxport.ONNXProgram, tmp_path: Path) -> None:
    assert isinstance(mlp.model_proto, onnx.ModelProto)
    mlp.save(tmp_path / "mlp.onnx")
    onnx.checker.check_model(tmp_path / "mlp.onnx", full_check=True)
    inputs = mlp_inputs(5)
    assert_close(run(tmp_path / "mlp.onnx", *inputs), mlp(*inputs))


def test_the_same_model_with_dynamic_axes(model: MLPModel, tmp_path: Path) -> None:
    path = tmp_path / "mlp.onnx"
    onnxport.export(
        model,
        mlp_inputs(97),
        path,
        dynamic_axes={
            "tensor_input": {0: "batch_size"},
            "tensor_x": {0: "batch_size"},
            "list_input_index_0": {0: "batch_size"},
        },
        input_names=INPUT_NAMES,
        output_names=["output"],
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [value.shape for value in session.get_inputs()] == [["batch_size", 8]] * 3
    inputs = mlp_inputs(5)
    assert_close(run(path, *inputs), model(*inputs))


class SumModule(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x, dim=1)


SUMS: dict[str, tuple[dict[str, Any], list[str | int], list[str | int]]] = {
    "fixed": ({}, [2, 2], [2]),
    "dynamic": (
        {"dynamic_axes": {"x": {0: "my_custom_axis_name"}, "sum": [0]}},
        ["my_custom_axis_name", 2],
        ["sum_dynamic_axes_1"],
    ),
}


@pytest.mark.parametrize("row", SUMS)
def test_axes_in_the_file(row: str, tmp_path: Path) -> None:
    options, taken, given = SUMS[row]
    path = tmp_path / "onnx.pb"
    onnxport.export(SumModule(), (torch.ones(2, 2),), path, input_names=["x"], output_names=["sum"], **options)
    graph = onnx.load_model(path, format="protobuf").graph

    def shape(value: onnx.ValueInfoProto) -> list[str | int]:
        return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]

    assert (graph.input[0].name, shape(graph.input[0])) == ("x", taken)
    assert (graph.output[0].name, shape(graph.output[0])) == ("sum", given)


class SimpleAddModel(torch.nn.Module):
    __module__ = "__main__"

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.add(x, y)


NODE = "pkg.torch.onnx."
METADATA: dict[str, Any] = {
    "namespace": "__main__.SimpleAddModel/add: aten.add.Tensor",
    f"{NODE}class_hierarchy": ["__main__.SimpleAddModel", "aten.add.Tensor"],
    f"{NODE}name_scopes": ["", "add"],
    f"{NODE}fx_node": "%add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor]"
    "(args = (%x, %y), kwargs = {})",
}


@pytest.mark.parametrize("key", METADATA)
def test_metadata_of_nodes(key: str) -> None:
    program = onnxport.export(SimpleAddModel(), (torch.ones(2), torch.ones(2)))
    (node,) = program.model.graph
    found: Any = node.metadata_props[key]
    assert (ast.literal_eval(found) if isinstance(METADATA[key], list) else found) == METADATA[key]
    trace = node.metadata_props[f"{NODE}stack_trace"]
    assert f'File "{__file__}", line' in trace and "in forward\n    return torch.add(x, y)" in trace


def test_metadata_of_a_node_with_nested_inputs(mlp: onnxport.ONNXProgram) -> None:
    cat = next(node for node in mlp.model.graph if node.op_type == "Concat")
    assert cat.metadata_props[f"{NODE}fx_node"] == (
        "%cat : [num_users=1] = call_function[target=torch.ops.aten.cat.default]"
        "(args = ([%tensor_x, %input_dict_tensor_x, %input_list_0], 1), kwargs = {})"
    )


def test_metadata_of_graph_and_values(mlp: onnxport.ONNXProgram) -> None:
    graph = mlp.model.graph
    signature = graph.metadata_props["pkg.torch.export.ExportedProgram.graph_signature"]
    for line in ("p_fc0_weight: PARAMETER target='fc0.weight'", "tensor_x: USER_INPUT", ": USER_OUTPUT"):
        assert line in signature
    constraints = graph.metadata_props["pkg.torch.export.ExportedProgram.range_constraints"]
    assert "VR[" in constraints and "int_oo]" in constraints
    spec = "pkg.torch.export.graph_signature."
    assert graph.inputs[0].metadata_props[f"{spec}InputSpec.kind"] == "USER_INPUT"
    weight = graph.initializers["fc1.weight"].metadata_props
    assert weight[f"{spec}InputSpec.kind"] == "PARAMETER"
    assert weight[f"{spec}InputSpec.persistent"] in ("True", "False", "None")
    assert graph.outputs[0].metadata_props[f"{spec}OutputSpec.kind"] == "USER_OUTPUT"
    assert weight[f"{NODE}original_node_name"] == "p_fc1_weight"


class MyModel(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(42.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight + x


@pytest.mark.parametrize("optimize", [False, True])
def test_fake_mode(optimize: bool, tmp_path: Path) -> None:
    with onnxport.enable_fake_mode():
        my_nn_module = MyModel()
        arg1 = torch.randn(2, 2, 2)
    onnx_program = onnxport.export(my_nn_module, (arg1,), dynamo=True, optimize=optimize)
    without, complete = tmp_path / "my_model_without_initializers.onnx", tmp_path / "my_model_with_initializers.onnx"
    onnx_program.save(without, include_initializers=False, keep_initializers_as_inputs=True)
    onnx_program.apply_weights({"weight": torch.tensor(42.0)})
    onnx_program.save(complete)
    x = torch.randn(2, 2, 2)
    bare = onnx.load(without).graph
    assert [value.name for value in bare.input] == ["x", "weight"] and not bare.initializer
    found = [
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        for path, feeds in [
            (without, {"x": x.numpy(), "weight": torch.tensor(42.0).numpy()}),
            (complete, {"x": x.numpy()}),
        ]
    ]
    for result in found:
        assert_close(torch.from_numpy(result), x + 42.0)


def test_report_when_the_conversion_fails(tmp_path: Path) -> None:
    class Fails(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ torch.ones(7, 2)

    with pytest.raises(onnxport.OnnxExporterError, match=r"onnx_export_.*\.md"):
        onnxport.export(Fails(), (torch.ones(2, 2),), report=True, artifacts_dir=tmp_path)
    (report,) = tmp_path.glob("onnx_export_*.md")
    assert report.read_text().startswith("# PyTorch ONNX Conversion Error Report")
