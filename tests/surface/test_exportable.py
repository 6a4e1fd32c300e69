"""Modules that know how they are exported, the deprecated ways to export, and the public names."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest
import torch

import onnxport
from comparison import assert_agrees
from onnxport import errors

X = torch.ones(2, 3)


class Scaled(onnxport.ExportableModule):
    def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return x * factor

    def example_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
        return (X,), {"factor": torch.ones(())}

    def dynamic_shapes(self) -> Any:
        return {"x": {0: "batch"}, "factor": None}

    def input_names(self) -> list[str]:
        return ["image", "by"]

    def output_names(self) -> list[str]:
        return ["scaled"]


class ForTorch(torch.onnx.ExportableModule):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()

    def example_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
        return (X,), None


def signature(program: onnxport.ONNXProgram) -> list[str]:
    graph = program.model.graph
    return [f"{value.name}{value.shape}" for value in (*graph.inputs, *graph.outputs)]


@pytest.mark.parametrize("export", [lambda: Scaled().to_onnx(), lambda: onnxport.export(Scaled())])
def test_the_module_says_how(export: Any) -> None:
    program = export()
    assert signature(program) == ["image[batch,3]", "by[]", "scaled[batch,3]"]
    assert_agrees(program, Scaled(), (torch.rand(5, 3), torch.tensor(3.0)))


ROWS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "names": ({"input_names": ["a"]}, ["a[batch,3]", "factor[]", "scaled[batch,3]"]),
    "outputs": ({"output_names": ["b"]}, ["image[batch,3]", "by[]", "b[batch,3]"]),
    "shapes": ({"dynamic_shapes": {"x": {1: "n"}, "factor": None}}, ["image[2,n]", "by[]", "scaled[2,n]"]),
    "inputs": ({"args": (X, X)}, ["x[2,3]", "factor[2,3]", "output[2,3]"]),
    "keywords": ({"kwargs": {"x": X, "factor": X}}, ["x[2,3]", "factor[2,3]", "output[2,3]"]),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_is_given_comes_first(row: str) -> None:
    options, expected = ROWS[row]
    assert signature(Scaled().to_onnx(**options)) == expected


def test_options_go_to_export() -> None:
    program = Scaled().to_onnx(opset_version=17)
    assert program.model.opset_imports[""] == 17
    assert_agrees(program, Scaled(), (X, torch.tensor(3.0)))


def test_modules_written_for_torch_onnx() -> None:
    program = onnxport.export(ForTorch())
    assert signature(program) == ["x[2,3]", "output[2,3]"]
    assert_agrees(program, ForTorch(), (torch.randn(2, 3),))


def test_defaults_and_what_must_be_written() -> None:
    class Plain(onnxport.ExportableModule):
        def example_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
            return (), None

    plain = Plain()
    assert (plain.dynamic_shapes(), plain.input_names(), plain.output_names()) == (None, None, None)
    with pytest.raises(TypeError, match="abstract"):
        onnxport.ExportableModule()  # type: ignore[abstract]


def test_methods_are_those_of_torch_onnx() -> None:
    for name, method in inspect.getmembers(torch.onnx.ExportableModule, inspect.isfunction):
        if name in vars(torch.onnx.ExportableModule):
            ours = inspect.signature(getattr(onnxport.ExportableModule, name))
            assert list(ours.parameters)[:1] == list(inspect.signature(method).parameters)[:1]
            assert len(ours.parameters) == len(inspect.signature(method).parameters)


@pytest.mark.filterwarnings("ignore:The exported model follows the example")
@pytest.mark.parametrize("dynamic", [None, False, True])
def test_dynamo_export(dynamic: bool | None) -> None:
    with pytest.warns(DeprecationWarning, match=r"`ExportOptions` is deprecated.*onnxport\.export"):
        options = onnxport.ExportOptions(dynamic_shapes=dynamic)
    linear = torch.nn.Linear(3, 2)
    with pytest.warns(DeprecationWarning, match=r"`dynamo_export` is deprecated; use onnxport\.export"):
        program = onnxport.dynamo_export(linear, X, export_options=options)
    assert_agrees(program, linear, (X,), *([(torch.rand(5, 3),)] if dynamic else []))
    shape = program.model.graph.inputs[0].shape
    assert shape is not None and isinstance(shape[0], int) is not bool(dynamic) and shape[1] == 3


def test_dynamo_export_of_functions_keywords_and_programs() -> None:
    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y

    program = torch.export.export(torch.nn.Linear(3, 2), (X,))
    with warnings.catch_warnings(action="ignore"):
        assert onnxport.dynamo_export(product, X, y=X.T)(X, y=X.T)[0].tolist() == (X @ X.T).tolist()
        assert_agrees(onnxport.dynamo_export(program, X), program.module(), (X,))


def test_public_names_are_those_of_torch_onnx() -> None:
    assert set(torch.onnx.__all__) <= set(onnxport.__all__)
    assert all(hasattr(onnxport.errors, name) for name in torch.onnx.errors.__all__)


@pytest.mark.parametrize(
    "name", [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]
)
def test_all_errors_are_of_one_family(name: str) -> None:
    assert issubclass(getattr(errors, name), errors.OnnxExporterError | UserWarning)


def test_errors_that_symbolic_functions_raise() -> None:
    assert "opset_version=16" in str(errors.UnsupportedOperatorError("aten::grid_sampler", 15, 16))
    assert "custom_translation_table" in str(errors.UnsupportedOperatorError("mine::op", 15, None))
    assert "custom_translation_table" not in str(errors.UnsupportedOperatorError("aten::op", 15, None))
    assert str(errors.SymbolicValueError("Unknown rank.", "x")) == "Unknown rank.\n    because of the value x"
