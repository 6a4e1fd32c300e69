"""``dynamo=False``: the call of the TorchScript exporter with each of its arguments, and what its guide shows."""

# No `from __future__ import annotations`: TorchScript reads the annotations of what it compiles. It does not know all
# forms that the linter asks for.
# ruff: noqa: UP045
import io
import os
import warnings
from pathlib import Path
from typing import Any, Optional

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxport
from onnxport import OperatorExportTypes, TrainingMode
from onnxport.errors import InputError, OnnxExporterWarning, SaveError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
X = torch.linspace(-1, 2, 12).reshape(3, 4)


def exported(model: Any, args: Any, **options: Any) -> onnx.ModelProto:
    """The model that the legacy call writes to memory."""
    file = io.BytesIO()
    assert onnxport.export(model, args, file, dynamo=False, **options) is None
    proto = onnx.load_from_string(file.getvalue())
    onnx.checker.check_model(proto)
    return proto


def ran(proto: onnx.ModelProto, *values: Any) -> list[Any]:
    """What onnxruntime computes."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {given.name: np.asarray(value) for given, value in zip(session.get_inputs(), values, strict=True)}
    return session.run(None, feeds)


def names(values: Any) -> list[str]:
    """The names of inputs, outputs or initializers."""
    return [value.name for value in values]


def sizes(value: onnx.ValueInfoProto) -> list[Any]:
    """The sizes of an input or output: numbers and names."""
    return [dim.dim_param if dim.dim_param else dim.dim_value for dim in value.type.tensor_type.shape.dim]


# --- arguments of the model ----------------------------------------------------------------------------------------


class Takes(nn.Module):
    def forward(self, x: Tensor, y: Any = None, *, z: Any = None) -> Tensor:
        x = x if y is None else x + y
        return x if z is None else x * z


CALLS = [
    (X, None, ["x"]),
    ((X,), None, ["x"]),
    ((), {"x": X, "z": X}, ["x", "z"]),
    ((), {"z": X, "x": X}, ["x", "z"]),
    (({"x": X},), None, ["x"]),
    ((X, None, {"z": None}), None, ["x"]),
    ([X, X], None, ["x", "y"]),
    ((X, None), None, ["x"]),
    ((X, {"y": X}), None, ["x", "y"]),
    ((X, {"y": X, "z": X}), None, ["x", "y", "z"]),
    ((X, {}), None, ["x"]),
    ((X,), {"z": X}, ["x", "z"]),
    ((X, X, {"z": X}), None, ["x", "y", "z"]),
]


@pytest.mark.parametrize(("args", "kwargs", "expected"), CALLS)
def test_ways_to_give_arguments(args: Any, kwargs: Any, expected: list[str]) -> None:
    assert names(exported(Takes(), args, kwargs=kwargs).graph.input) == expected


class TakesDict(nn.Module):
    def forward(self, table: Any) -> Tensor:
        return table["a"] + table["b"]


@pytest.mark.parametrize("args", [({"a": X, "b": X},), ({"a": X, "b": X}, {})])
def test_a_dict_that_is_an_argument(args: Any) -> None:
    proto = exported(TakesDict(), args)
    assert names(proto.graph.input) == ["table_a", "table_b"]


class TakesNumbers(nn.Module):
    def forward(self, x: Tensor, n: int, f: float) -> Tensor:
        return x * n + f


def test_keys_that_are_tensors_are_inputs() -> None:
    def sums(given: dict[Tensor, Tensor]) -> dict[str, Tensor]:
        return {str(place): key + value for place, (key, value) in enumerate(given.items())}

    example = {torch.tensor(1.0): X, torch.tensor(2.0): X[:2]}
    program = onnxport.export(sums, (example, {}), dynamo=False)
    assert names(program.model.graph.inputs) == ["given_0", "given_1", "given_2", "given_3"]
    others = {torch.tensor(5.0): X * 2, torch.tensor(7.0): X[1:]}
    for found, expected in zip(program(others), sums(others).values(), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("make", [lambda model: model, torch.jit.script], ids=["module", "scripted"])
def test_numbers_are_inputs(make: Any) -> None:
    proto = exported(make(TakesNumbers()), (X, 2, 0.5))
    kinds = [value.type.tensor_type.elem_type for value in proto.graph.input]
    assert kinds == [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.DOUBLE]
    found = ran(proto, X.numpy(), np.int64(5), np.float64(0.25))[0]
    np.testing.assert_allclose(found, X.numpy() * 5 + 0.25, rtol=1e-5)


class Returns(nn.Module):
    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result

    def forward(self, x: Tensor) -> Any:
        return self.result(x)


def test_dicts_are_flattened_and_text_left_out() -> None:
    model = Returns(lambda x: {"foo": x + 1, "name": "a text", "bar": [x + 2, (x + 3,)]})
    with pytest.warns(OnnxExporterWarning, match="returns text \\('a text'\\)"):
        proto = exported(model, (X,))
    for ours, number in zip(ran(proto, X.numpy()), (1, 2, 3), strict=True):
        np.testing.assert_allclose(ours, X.numpy() + number)


# --- names, axes, opsets, files --------------------------------------------------------------------------------------


def test_input_names_run_on_into_parameters() -> None:
    proto = exported(nn.Linear(4, 2), (X,), input_names=["x", "w", "b"], output_names=["y"])
    assert names(proto.graph.input) == ["x"]
    assert names(proto.graph.output) == ["y"]
    assert sorted(names(proto.graph.initializer)) == ["b", "w"]


AXES = [
    ({"x": {0: "batch"}}, ["batch", 4]),
    ({"x": [0]}, ["x_dynamic_axes_1", 4]),
    ({"x": {0: "batch"}, "y": {0: "rows"}}, ["batch", 4]),
    ({"x": [0, 1]}, ["x_dynamic_axes_1", "x_dynamic_axes_2"]),
]


@pytest.mark.parametrize(("axes", "expected"), AXES)
def test_dynamic_axes(axes: Any, expected: list[Any]) -> None:
    proto = exported(nn.ReLU(), (X,), input_names=["x"], output_names=["y"], dynamic_axes=axes)
    assert sizes(proto.graph.input[0]) == expected
    assert ran(proto, np.ones((7, 4), np.float32))[0].shape == (7, 4)
    if "y" in axes:
        assert sizes(proto.graph.output[0])[0] == "rows"


def test_axes_of_outputs_vary_with_those_of_inputs() -> None:
    with pytest.warns(OnnxExporterWarning, match="axes of outputs only"):
        proto = exported(nn.ReLU(), (X,), output_names=["y"], dynamic_axes={"y": {0: "rows"}})
    assert sizes(proto.graph.output[0]) == [3, 4]


def test_an_axis_counted_from_the_end() -> None:
    proto = exported(nn.ReLU(), (X,), input_names=["x"], dynamic_axes={"x": {-1: "width"}})
    assert sizes(proto.graph.input[0]) == [3, "width"]


@pytest.mark.parametrize(("names_", "expected"), [(["o"], ["o", "output_1"]), (["o", "p"], ["o", "p"])])
def test_names_of_some_outputs(names_: list[str], expected: list[str]) -> None:
    model = Returns(lambda x: (x + 1, x + 2))
    assert names(exported(model, (X,), output_names=names_).graph.output) == expected


def test_more_names_than_outputs_or_inputs_and_weights() -> None:
    with pytest.raises(InputError, match="3 names"):
        exported(Returns(lambda x: (x + 1, x + 2)), (X,), output_names=["o", "p", "q"])
    with pytest.raises(InputError, match="4 names"):
        exported(nn.Linear(4, 2), (X,), input_names=["x", "w", "b", "c"])


def test_axes_of_unknown_names_are_left_out() -> None:
    with pytest.warns(OnnxExporterWarning, match="dynamic_axes names 'z', which is no input or output"):
        exported(nn.ReLU(), (X,), input_names=["x"], dynamic_axes={"z": {0: "batch"}, "x": {0: "batch"}})


@pytest.mark.parametrize("opset", range(7, 21))
def test_every_opset(opset: int) -> None:
    proto = exported(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), (X,), opset_version=opset)
    assert {entry.domain: entry.version for entry in proto.opset_import}[""] == opset


def test_the_default_opset_is_that_of_torch() -> None:
    assert exported(nn.ReLU(), (X,)).opset_import[0].version == 20


def test_a_newer_opset_is_written_with_a_warning() -> None:
    with pytest.warns(OnnxExporterWarning, match="Opset 21 is newer"):
        assert exported(nn.ReLU(), (X,), opset_version=21).opset_import[0].version == 21


@pytest.mark.parametrize("kind", [str, Path])
def test_one_file(tmp_path: Path, kind: Any) -> None:
    target = tmp_path / "model.onnx"
    assert onnxport.export(nn.Linear(4, 512), (X,), kind(target), dynamo=False) is None
    assert os.listdir(tmp_path) == ["model.onnx"]
    onnx.checker.check_model(str(target))


def test_a_folder_that_is_not_there_is_refused_first() -> None:
    with pytest.raises(SaveError):
        onnxport.export(nn.Linear(4, 2), (X,), "/no/such/folder/model.onnx", dynamo=False)


def test_data_parallel_is_refused() -> None:
    with pytest.raises(InputError, match=r"model\.module"):
        onnxport.export(nn.DataParallel(nn.Linear(4, 2)), (X,), io.BytesIO(), dynamo=False)


# --- weights, folding, modes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("opset", "keep", "version"), [(8, None, 3), (8, True, 3), (13, True, 7)])
def test_initializers_as_inputs(opset: int, keep: bool | None, version: int) -> None:
    """Before version 4 of the format every initializer is an input."""
    proto = exported(nn.Linear(4, 2), (X,), keep_initializers_as_inputs=keep, opset_version=opset)
    assert names(proto.graph.input) == ["input", "weight", "bias"]
    assert sorted(names(proto.graph.initializer)) == ["bias", "weight"]
    assert proto.ir_version == version


ELEMENTS = [(torch.float16, "FLOAT16"), (torch.bfloat16, "BFLOAT16"), (torch.float64, "DOUBLE")]


@pytest.mark.parametrize(("dtype", "expected"), ELEMENTS, ids=lambda value: str(value))
def test_models_of_other_types(dtype: torch.dtype, expected: str) -> None:
    proto = exported(nn.Linear(4, 2).to(dtype), (X.to(dtype),))
    kinds = {value.type.tensor_type.elem_type for value in (*proto.graph.input, *proto.graph.output)}
    assert kinds == {onnx.TensorProto.DataType.Value(expected)}


OLD = ["strip_doc_string", "use_external_data_format", "enable_onnx_checker", "_retain_param_name"]


@pytest.mark.parametrize("name", OLD)
def test_keywords_of_long_ago_are_refused_by_name(name: str) -> None:
    with pytest.raises(TypeError, match=f"has no argument '{name}'"):
        exported(nn.ReLU(), (X,), **{name: True})


def test_a_custom_opset_that_nothing_uses_is_left_out() -> None:
    with pytest.warns(OnnxExporterWarning, match="custom_opsets names 'custom', of which the model has no operator"):
        proto = exported(nn.ReLU(), (X,), custom_opsets={"custom": 2})
    assert [entry.domain for entry in proto.opset_import] == [""]


class HasDefaults(nn.Module):
    def forward(self, x: Tensor, by: float = 2.0, plus: int = 3) -> Tensor:
        return x * by + plus


@pytest.mark.parametrize(
    ("args", "expected"), [((X,), ["x"]), ((X, 4.0), ["x", "by"]), ((X, 4.0, 1), ["x", "by", "plus"])]
)
def test_defaults_are_constants_unless_they_are_given(args: Any, expected: list[str]) -> None:
    assert names(exported(HasDefaults(), args).graph.input) == expected


class ReadsOne(nn.Module):
    def forward(self, x: Tensor, y: Tensor, z: Optional[Tensor]) -> Tensor:
        return x * y.shape[0]


@pytest.mark.parametrize(("axes", "expected"), [(None, ["x"]), ({"y": [0]}, ["x", "y"])])
def test_inputs_whose_values_do_not_count_are_left_out(axes: Any, expected: list[str]) -> None:
    options: Any = {"input_names": ["x", "y", "z"], "dynamic_axes": axes}
    with pytest.warns(OnnxExporterWarning, match="No result is computed from the values of .*'z'"):
        assert names(exported(ReadsOne(), (X, X, X), **options).graph.input) == expected
    # What a script takes as optional, torch.onnx's file asks for when it runs.
    script = torch.jit.script(ReadsOne())
    with (
        warnings.catch_warnings()
        if axes
        else pytest.warns(OnnxExporterWarning, match="No result is computed from the values of 'y'")
    ):
        assert names(exported(script, (X, X, X), **options).graph.input) == [*expected, "z"]


SIZES_ONLY = {
    "ones_like": torch.ones_like,
    "new_zeros": lambda x: x.new_zeros(x.shape[:1]),
    "fill_": lambda x: x.fill_(3),
    "of a sum": lambda x: torch.zeros_like(x + 2) + 1,
    "a number": lambda x: (x + 2).shape[0],
}


@pytest.mark.parametrize("row", SIZES_ONLY)
@pytest.mark.parametrize("axes", [None, {"x": [0]}])
def test_an_input_of_which_only_fixed_sizes_count_is_left_out(row: str, axes: Any) -> None:
    # torch.onnx's files have no such input either: code that feeds them gives none.
    with warnings.catch_warnings() if axes else pytest.warns(OnnxExporterWarning, match="values of 'x'"):
        proto = exported(SIZES_ONLY[row], (X.clone(),), input_names=["x"], dynamic_axes=axes)
    assert names(proto.graph.input) == (["x"] if axes else [])


def test_an_input_whose_values_count_for_nothing_stays() -> None:
    assert names(exported(lambda x: x[:0].sum(), (X,), input_names=["x"]).graph.input) == ["x"]


def test_without_a_file_the_program_is_returned() -> None:
    assert isinstance(onnxport.export(nn.ReLU(), (X,), None, dynamo=False), onnxport.ONNXProgram)


def test_without_parameters_the_weights_are_inputs() -> None:
    model = nn.Linear(4, 2)
    proto = exported(model, (X,), export_params=False)
    assert names(proto.graph.initializer) == []
    values = {"input": X, **dict(model.named_parameters())}
    found = ran(proto, *(values[name].detach().numpy() for name in names(proto.graph.input)))[0]
    np.testing.assert_allclose(found, model(X).detach().numpy(), rtol=1e-4, atol=1e-6)


def test_constants_are_folded_unless_that_is_off() -> None:
    model = Returns(lambda x: x + torch.ones(4) * 2 + 1)
    assert len(exported(model, (X,)).graph.node) < len(exported(model, (X,), do_constant_folding=False).graph.node)


class Trained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.norm(x), self.drop(x)


MODES = [
    (TrainingMode.EVAL, True, False),
    (TrainingMode.PRESERVE, True, True),
    (TrainingMode.PRESERVE, False, False),
    (TrainingMode.TRAINING, False, True),
]


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize(("mode", "was_training", "trains"), MODES)
def test_modes(mode: TrainingMode, was_training: bool, trains: bool, scripted: bool) -> None:
    model: Any = Trained().train(was_training)
    model = torch.jit.script(model) if scripted else model
    proto = exported(model, (X,), training=mode)
    normed, dropped = ran(proto, X.numpy())
    assert (dropped == 0).any() == trains or (X.numpy() == 0).any()
    batch = (X - X.mean(0)) / torch.sqrt(X.var(0, unbiased=False) + 1e-5)
    np.testing.assert_allclose(normed, (batch if trains else X / (1 + 1e-5) ** 0.5).numpy(), rtol=1e-3, atol=1e-4)
    assert all(module.training == was_training for module in model.modules())


def test_verbose_prints_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    exported(nn.Linear(4, 2), (X,), verbose=True, input_names=["actual_input"])
    printed = capsys.readouterr().out
    assert "actual_input" in printed
    assert "Gemm" in printed
    exported(nn.Linear(4, 2), (X,))
    assert capsys.readouterr().out == ""


# --- operators without an ONNX form ----------------------------------------------------------------------------------

torch.library.define("onnxport_legacy::strange", "(Tensor x, float by, int[] axes) -> Tensor")
torch.library.impl("onnxport_legacy::strange", "cpu", lambda x, by, axes: x * by)
torch.library.register_fake("onnxport_legacy::strange", lambda x, by, axes: torch.empty_like(x))


class Strange(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.onnxport_legacy.strange(x, 0.5, [0, 1]) + 1


@pytest.mark.parametrize("kind", [OperatorExportTypes.ONNX_FALLTHROUGH, OperatorExportTypes.ONNX_ATEN_FALLBACK])
def test_operators_fall_through(kind: OperatorExportTypes) -> None:
    proto = exported(Strange(), (X,), custom_opsets={"onnxport_legacy": 3}, operator_export_type=kind)
    node = proto.graph.node[0]
    assert (node.domain, node.op_type) == ("onnxport_legacy", "strange")
    given = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    assert given == {"by": 0.5, "axes": [0, 1]}
    assert {entry.domain: entry.version for entry in proto.opset_import}["onnxport_legacy"] == 3


def test_operators_that_may_not_fall_through_are_refused() -> None:
    with pytest.raises(onnxport.errors.OnnxExporterError, match=r"onnxport_legacy\.strange"):
        exported(Strange(), (X,), operator_export_type=OperatorExportTypes.ONNX)


class Untranslated(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.aten._adaptive_avg_pool3d_backward(x.mean((2, 3, 4), keepdim=True), x) + 1


FALLBACKS = [(OperatorExportTypes.ONNX_ATEN_FALLBACK, "ATen"), (OperatorExportTypes.ONNX_FALLTHROUGH, None)]


@pytest.mark.parametrize(("kind", "op_type"), FALLBACKS)
def test_aten_operators_that_are_kept(kind: OperatorExportTypes, op_type: str | None) -> None:
    proto = exported(Untranslated(), (torch.randn(1, 2, 3, 4, 5),), operator_export_type=kind)
    kept = next(node for node in proto.graph.node if node.domain == "org.pytorch.aten")
    given = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in kept.attribute}
    if op_type is None:
        assert kept.op_type == "_adaptive_avg_pool3d_backward"
    else:
        assert (kept.op_type, given["operator"]) == (op_type, b"_adaptive_avg_pool3d_backward")


class Clipped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(x, min=-0.5, max=0.5) + 1


def _refusing_clamp(g: Any, *_: Any) -> Any:
    return onnxport.symbolic_helper._onnx_unsupported("clamp")


@pytest.mark.parametrize(("kind", "op_type"), FALLBACKS)
def test_a_call_that_a_symbolic_refuses_is_kept(kind: OperatorExportTypes, op_type: str | None) -> None:
    onnxport.register_custom_op_symbolic("aten::clamp", _refusing_clamp, 17)
    try:
        with pytest.warns(onnxport.errors.OnnxExporterWarning, match="clamp.default stays as it is"):
            proto = exported(Clipped(), (X,), operator_export_type=kind, opset_version=17)
    finally:
        onnxport.unregister_custom_op_symbolic("aten::clamp", 17)
    kinds = [(node.domain, node.op_type) for node in proto.graph.node]
    assert kinds == [("org.pytorch.aten", "clamp" if op_type is None else op_type), ("", "Add")]


def test_all_of_aten_is_kept_when_asked_for() -> None:
    proto = exported(Clipped(), (X,), operator_export_type=OperatorExportTypes.ONNX_ATEN)
    assert [(node.domain, node.op_type) for node in proto.graph.node] == [("org.pytorch.aten", "ATen")] * 2


# --- what the guide shows --------------------------------------------------------------------------------------------


class AlexNet(nn.Module):
    """The layers of torchvision's, with fewer channels."""

    def __init__(self) -> None:
        super().__init__()
        relu_pool: Any = lambda: [nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)]  # noqa: E731
        self.features = nn.Sequential(
            *(nn.Conv2d(3, 8, 11, stride=4, padding=2), *relu_pool()),
            *(nn.Conv2d(8, 12, 5, padding=2), *relu_pool()),
            *(nn.Conv2d(12, 16, 3, padding=1), nn.ReLU(inplace=True)),
            *(nn.Conv2d(16, 12, 3, padding=1), nn.ReLU(inplace=True)),
            *(nn.Conv2d(12, 12, 3, padding=1), *relu_pool()),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            *(nn.Dropout(), nn.Linear(12 * 6 * 6, 32), nn.ReLU(inplace=True)),
            *(nn.Dropout(), nn.Linear(32, 32), nn.ReLU(inplace=True), nn.Linear(32, 10)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def test_alexnet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dummy_input = torch.randn(10, 3, 224, 224)
    model = AlexNet()
    input_names = ["actual_input_1"] + [f"learned_{i}" for i in range(16)]
    output_names = ["output1"]
    path = str(tmp_path / "alexnet.onnx")
    onnxport.export(
        model, dummy_input, path, verbose=True, input_names=input_names, output_names=output_names, dynamo=False
    )
    assert "actual_input_1" in capsys.readouterr().out
    proto = onnx.load(path)
    onnx.checker.check_model(proto)
    assert "learned_0" in onnx.helper.printable_graph(proto.graph)
    assert set(names(proto.graph.initializer)) >= set(input_names[1:])
    images = np.random.default_rng(0).standard_normal((10, 3, 224, 224)).astype(np.float32)
    outputs = onnxruntime.InferenceSession(path).run(None, {"actual_input_1": images})
    expected = model.eval()(torch.from_numpy(images)).detach().numpy()
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-3, atol=1e-4)


class ReshapesByValue(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.reshape(y.item(), -1)  # type: ignore[arg-type]


class ReshapesByTensor(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.reshape(y, -1)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("model", [ReshapesByValue(), ReshapesByTensor()], ids=["item", "tensor"])
def test_sizes_that_tensors_hold_stay_variables(model: nn.Module) -> None:
    """The guide calls the first bad, because tracing makes a constant of it; it need not be one."""
    proto = exported(model, (X, torch.tensor(2)))
    assert ran(proto, X.numpy(), np.int64(4))[0].shape == (4, 3)


class SharesSizes(nn.Module):
    def forward(self, states: Tensor) -> Any:
        _, seq_length = states.shape[:2]
        real_seq_length = seq_length
        real_seq_length += 2
        return real_seq_length + seq_length + states.sum() * 0


def test_sizes_do_not_share_memory() -> None:
    axes = {"states": {1: "length"}}
    proto = exported(SharesSizes(), (X,), input_names=["states"], dynamic_axes=axes)
    assert ran(proto, np.ones((3, 7), np.float32))[0] == 7 + 7 + 2


def test_joins_instead_of_numpy() -> None:
    model = Returns(lambda x: torch.cat((x, torch.ones(3, 1)), dim=1))
    assert ran(exported(model, (X,)), X.numpy())[0].shape == (3, 5)


class Lists(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[list[Tensor], Optional[Tensor], list[Tensor]]:
        none: list[Tensor] = []
        return [x, y], None, none


def test_scripts_return_lists_as_sequences_and_none_as_an_optional_value() -> None:
    script = torch.jit.script(Lists())
    options: Any = {"input_names": ["x", "y"], "output_names": ["pair", "none", "empty"], "dynamic_axes": {"y": [1]}}
    proto = exported(script, (X, X[:, :2]), opset_version=15, **options)
    pair, none, empty = (value.type for value in proto.graph.output)
    dims = pair.sequence_type.elem_type.tensor_type.shape.dim
    assert [dim.WhichOneof("value") for dim in dims] == ["dim_value", None]
    assert none.WhichOneof("value") == "optional_type" and empty.WhichOneof("value") == "sequence_type"
    for width in (2, 3):
        given = X[:, :width].numpy()
        found = ran(proto, X.numpy(), given)
        np.testing.assert_array_equal(found[0][1], given)
        assert found[1:] == [None, []]
    with pytest.warns(OnnxExporterWarning, match="None"):
        assert len(exported(script, (X, X), opset_version=10).graph.output) == 2


def test_a_list_of_tensors_of_a_loop() -> None:
    class Rows(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            rows: list[Tensor] = []
            for i in range(x.size(0)):
                rows.append(x[i] * 2)
            return torch.stack(rows)

    axes = {"x": {0: "rows"}}
    proto = exported(torch.jit.script(Rows()), (X,), input_names=["x"], dynamic_axes=axes, opset_version=11)
    np.testing.assert_allclose(ran(proto, np.ones((5, 4), np.float32))[0], np.full((5, 4), 2.0))


def test_an_lstm_of_any_length() -> None:
    model = nn.LSTM(4, 5)
    axes = {"x": {0: "length", 1: "batch"}}
    proto = exported(model, (torch.randn(6, 2, 4),), input_names=["x"], dynamic_axes=axes)
    given = torch.randn(9, 3, 4)
    np.testing.assert_allclose(ran(proto, given.numpy())[0], model(given)[0].detach().numpy(), rtol=1e-3, atol=1e-5)


def test_implicit_casts_of_numbers() -> None:
    class ImplicitCastType(torch.jit.ScriptModule):
        @torch.jit.script_method
        def forward(self, x):  # type: ignore[no-untyped-def]
            y = x + 2
            return y + 3.5

    proto = exported(ImplicitCastType(), (torch.ones(3, dtype=torch.float32),))
    np.testing.assert_allclose(ran(proto, np.ones(3, np.float32))[0], np.full(3, 6.5))
