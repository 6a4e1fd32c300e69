"""Functions and classes of the TorchScript exporter."""

from __future__ import annotations

import io
import pathlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

import onnx
import pytest
import torch
from registering import registered

import onnxport
from onnxport import JitScalarType, OperatorExportTypes, TrainingMode, jit_utils, utils
from onnxport.errors import OnnxExporterError, OnnxExporterWarning
from onnxport.verification import find_mismatch

X = torch.tensor([[-1.0, 0.5, 2.0], [3.0, -0.25, 1.0]])


def test_the_names_are_those_of_torch() -> None:
    import torch.onnx

    modules = {"symbolic_helper", "symbolic_opset9", "symbolic_opset10", "utils", "errors", "ops"}
    public = {*torch.onnx.__all__, *modules, "JitScalarType", "TensorProtoDataType"}
    assert {name for name in public if not hasattr(onnxport, name)} == set()


def test_the_enumerations_are_torchs() -> None:
    import torch.onnx as theirs

    for own, other in ((TrainingMode, theirs.TrainingMode), (OperatorExportTypes, theirs.OperatorExportTypes)):
        assert {name: int(kind) for name, kind in own.__members__.items()} == {
            name: int(kind.value) for name, kind in other.__members__.items()
        }


# JitScalarType


@pytest.mark.parametrize("name", [kind.name for kind in JitScalarType if kind.name != "UNDEFINED"])
def test_scalar_types_are_torchs(name: str) -> None:
    own, theirs = JitScalarType[name], torch.onnx.JitScalarType[name]
    assert int(own) == int(theirs)
    assert (own.scalar_name(), own.torch_name()) == (theirs.scalar_name(), theirs.torch_name())
    assert own.onnx_compatible() == theirs.onnx_compatible()
    if own.onnx_compatible():
        assert int(own.onnx_type()) == int(theirs.onnx_type())
    assert own.dtype() == theirs.dtype() and JitScalarType.from_dtype(own.dtype()) is own
    assert JitScalarType.from_name(own.scalar_name()) is own and JitScalarType.from_name(own.torch_name()) is own


def test_scalar_types_of_values() -> None:
    graph = torch._C.Graph()
    value = graph.addInput()
    assert JitScalarType.from_value(value, JitScalarType.BOOL) is JitScalarType.BOOL
    value.setType(torch._C.TensorType.get().with_dtype(torch.int32))
    assert JitScalarType.from_value(value) is JitScalarType.INT
    assert JitScalarType.from_value(torch.ones(2, dtype=torch.float16)) is JitScalarType.HALF
    assert JitScalarType.from_onnx_type(7) is JitScalarType.INT64
    for refused in (
        lambda: JitScalarType.from_name("Nothing"),
        lambda: JitScalarType.from_dtype(None),
        lambda: JitScalarType.from_value(graph.addInput()),
        lambda: JitScalarType.UNDEFINED.dtype(),
        lambda: JitScalarType.UNDEFINED.onnx_type(),
    ):
        with pytest.raises(OnnxExporterError):
            refused()


# Modes


@pytest.mark.parametrize(
    ("mode", "inside"),
    [
        (TrainingMode.EVAL, [False, False]),
        (TrainingMode.TRAINING, [True, True]),
        (TrainingMode.PRESERVE, [True, False]),
    ],
)
def test_a_model_is_put_into_a_mode_and_back(mode: TrainingMode, inside: list[bool]) -> None:
    model = torch.nn.Sequential(torch.nn.Dropout())
    model[0].eval()
    with onnxport.select_model_mode_for_export(model, mode):
        assert [module.training for module in model.modules()] == inside
    assert [module.training for module in model.modules()] == [True, False]


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize(
    ("training", "warned"),
    [(TrainingMode.EVAL, ["TRAINING"]), (TrainingMode.TRAINING, ["EVAL"]), (TrainingMode.PRESERVE, [])],
)
def test_a_symbolic_function_is_told_the_mode_of_its_export(
    training: TrainingMode, warned: list[str], dynamo: bool
) -> None:
    def relu(g: jit_utils.GraphContext, x: torch._C.Value) -> torch._C.Value:
        for mode in (0, 1):
            onnxport.symbolic_helper.check_training_mode(mode, "relu")
        settings = onnxport.symbolic_helper.GLOBALS
        assert (settings.export_onnx_opset_version, settings.training_mode) == (g.opset, training) == (13, training)
        assert settings.in_onnx_export and settings.export_training == (training is TrainingMode.TRAINING)
        return g.op("Relu", x)

    with registered("aten::relu", relu), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        onnxport.export(torch.nn.ReLU(), (torch.ones(2),), training=training, dynamo=dynamo, opset_version=13)
        # What one export was asked for is nothing to what comes after it.
        onnxport.symbolic_helper.check_training_mode(0, "relu")
    said = [str(one.message) for one in found if "relu is in mode" in str(one.message)]
    assert [text.partition("relu is in mode ")[2].partition(";")[0] for text in said] == warned


def test_what_is_asked_in_a_mode_is_answered_by_it() -> None:
    with onnxport.select_model_mode_for_export(torch.nn.ReLU(), TrainingMode.TRAINING), warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxport.symbolic_helper.check_training_mode(1, "relu")
        with pytest.raises(OnnxExporterWarning, match="mode TRAINING, but relu is in mode EVAL"):
            onnxport.symbolic_helper.check_training_mode(0, "relu")


def test_a_mode_is_put_back_after_an_error() -> None:
    model = torch.nn.Dropout()
    with pytest.raises(ZeroDivisionError), onnxport.select_model_mode_for_export(model, TrainingMode.EVAL):
        raise ZeroDivisionError
    assert model.training
    with pytest.raises(TypeError, match="TrainingMode"), onnxport.select_model_mode_for_export(model, "eval"):  # type: ignore[arg-type]
        pass


# The log


@pytest.fixture
def log() -> Iterator[None]:
    onnxport.enable_log()
    yield
    onnxport.disable_log()
    onnxport.set_log_stream("stdout")


def test_the_log_is_off_until_it_is_enabled(capsys: pytest.CaptureFixture[str]) -> None:
    assert not onnxport.is_onnx_log_enabled()
    onnxport.log("nothing")
    assert capsys.readouterr().out == ""


def test_the_log_goes_where_it_is_sent(log: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert onnxport.is_onnx_log_enabled()
    onnxport.log("one ", 2)
    onnxport.set_log_stream("stderr")
    onnxport.log("three")
    assert capsys.readouterr() == ("one 2\n", "three\n")
    with pytest.raises(ValueError, match="stdout"):
        onnxport.set_log_stream("file")


def test_an_export_is_logged(log: None, capsys: pytest.CaptureFixture[str]) -> None:
    onnxport.export(torch.nn.ReLU(), (X,))
    lines = capsys.readouterr().out.splitlines()
    stages = [line.partition(":")[0] for line in lines if ": stage" in line]
    assert stages[:4] == ["capture", "prepare", "translate", "optimize"]


# Text


def test_a_model_as_text() -> None:
    model = torch.nn.Linear(3, 2)
    options: dict[str, Any] = {"opset_version": 13, "input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
    text = onnxport.export_to_pretty_string(model, (X,), **options)
    assert "x = Gemm" not in text and "Gemm" in text and '"" : 13' in text and "float[n,3] x" in text
    assert "/Gemm" in text
    assert "[node_" not in onnxport.export_to_pretty_string(model, (X,), add_node_names=False, **options)
    assert 'op_type: "Gemm"' in onnxport.export_to_pretty_string(model, (X,), google_printer=True, **options)
    assert "weight =" not in onnxport.export_to_pretty_string(model, (X,), export_params=False, **options)


# The graph itself, for code that looks through its nodes


def test_a_model_as_a_torchscript_graph_of_onnx_nodes() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(5, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            table = torch.tensor([[1.0, 2.0, 3.0]]).transpose(0, 1).reshape(3)
            return (x + table) @ self.weight.transpose(0, 1)

    options: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": [0]}}
    graph, weights, result = utils._model_to_graph(Model(), (X,), opset_version=13, **options)
    # What is computed of weights and literals alone is in the file already, and so it is here.
    assert [node.kind() for node in graph.nodes()] == ["onnx::Constant", "onnx::Add", "onnx::MatMul"]
    first = next(iter(graph.inputs()))
    assert first.debugName() == "x" and len(weights) == 1
    assert first.type().varyingSizes() == [None, 3]
    assert [value.debugName() for value in graph.outputs()] == ["y"]
    torch.testing.assert_close(result, Model()(X))
    constant = next(node for node in graph.nodes() if node.kind() == "onnx::Constant")
    assert constant.t("value").tolist() == [1.0, 2.0, 3.0]


def test_blocks_and_left_out_inputs_of_a_torchscript_graph() -> None:
    @torch.jit.script
    def pieces(x: torch.Tensor, n: int) -> torch.Tensor:
        total = x
        for i in range(n):
            if bool(total.sum() > 0):
                total = total - i
        return total

    graph, weights, result = utils._model_to_graph(pieces, (X, 3), opset_version=17)
    loop = next(node for node in graph.nodes() if node.kind() == "onnx::Loop")
    (body,) = loop.blocks()
    branch = next(node for node in body.nodes() if node.kind() == "onnx::If")
    ways = [[node.kind() for node in block.nodes()] for block in branch.blocks()]
    assert ways == [["onnx::Cast", "onnx::Sub"], ["onnx::Identity"]]
    assert [value.node().kind() for value in loop.inputs()][:2] == ["prim::Constant", "onnx::Less"]
    assert weights == {} and result is None
    graph.lint()


def test_utils_export_is_the_old_call() -> None:
    file = io.BytesIO()
    utils.export(torch.nn.ReLU(), (X,), file, opset_version=11, input_names=["x"], verbose=False)
    model = onnx.load_from_string(file.getvalue())
    assert model.graph.input[0].name == "x" and model.opset_import[0].version == 11


# All operators that can't be exported


@pytest.fixture(scope="module")
def library() -> Iterator[torch.library.Library]:
    made = torch.library.Library("unknown_ops", "FRAGMENT")
    for name in ("foo", "bar"):
        made.define(f"{name}(Tensor a) -> Tensor")
        made.impl(name, lambda a: a.clone(), "CompositeExplicitAutograd")
    yield made
    made._destroy()


class Unconvertible(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.unknown_ops.foo(x) + torch.ops.unknown_ops.bar(x)
        return torch.ops.unknown_ops.foo(y).relu() + x.nonzero().sum()


@pytest.mark.parametrize(
    ("opset", "expected"),
    [
        (7, ["aten::nonzero", "unknown_ops::bar", "unknown_ops::foo", "unknown_ops::foo"]),
        (17, ["unknown_ops::bar", "unknown_ops::foo", "unknown_ops::foo"]),
    ],
)
def test_all_unconvertible_operators_are_found(opset: int, expected: list[str], library: torch.library.Library) -> None:
    torch_script_graph, unconvertible_ops = utils.unconvertible_ops(Unconvertible(), X, opset_version=opset)
    assert sorted(unconvertible_ops) == expected
    assert "unknown_ops::foo" in str(torch_script_graph) and "aten::relu" in str(torch_script_graph)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_registered_symbolic_makes_an_operator_convertible(library: torch.library.Library) -> None:
    traced = torch.jit.trace(Unconvertible(), X)
    onnxport.register_custom_op_symbolic("unknown_ops::foo", lambda g, x: g.op("my::Foo", x), 9)
    try:
        _, names = utils.unconvertible_ops(traced, (X,), opset_version=17)
    finally:
        onnxport.unregister_custom_op_symbolic("unknown_ops::foo", 9)
    assert names == ["unknown_ops::bar"]


# Verification of traced models


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_first_mismatch_of_a_traced_model_is_found() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    program = onnxport.export(torch.jit.trace(model, X), (X,), dynamo=False, opset_version=17)
    assert find_mismatch(program) is None
    program.apply_weights({"2.bias": torch.full((2,), 9.0)})
    found = find_mismatch(program)
    assert found is not None and found.node.op_type == "Gemm" and "linear" in str(found.fx_node.target)


def test_the_page_about_symbolic_functions_runs() -> None:
    page = pathlib.Path(__file__).parents[2] / "docs" / "symbolic_functions.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 5
    with warnings.catch_warnings(action="ignore"):
        exec("\n".join(blocks), {"__name__": "page"})
