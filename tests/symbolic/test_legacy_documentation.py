"""The guide of the TorchScript exporter, paragraph by paragraph: names exist, statements hold or are surpassed."""

# No `from __future__ import annotations`: TorchScript reads the annotations of what it compiles.
import importlib
import inspect
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from registering import registered
from torch import Tensor, nn

import onnxport
from onnxport import symbolic_helper, utils, verification
from onnxport.errors import OnnxExporterError, OnnxExporterWarning

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
X = torch.linspace(-1, 2, 20).reshape(4, 5)


class Does(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def legacy(model: nn.Module, args: Any, **options: Any) -> onnxport.ONNXProgram:
    program = onnxport.export(model, args, dynamo=False, **options)
    assert program is not None
    onnx.checker.check_model(program.model_proto)
    return program


# "Functions" and "Classes", and what the text calls

NAMES = """
export export_to_pretty_string register_custom_op_symbolic unregister_custom_op_symbolic select_model_mode_for_export
is_in_onnx_export is_onnx_log_enabled enable_log disable_log set_log_stream log SymbolicContext TrainingMode
OperatorExportTypes JitScalarType utils.unconvertible_ops utils.export symbolic_helper._scalar
symbolic_helper._if_scalar_type_as symbolic_helper.parse_args symbolic_helper._is_value symbolic_helper._unimplemented
verification.find_mismatch
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_every_name_is_there_and_described(name: str) -> None:
    found: Any = onnxport
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)
    assert inspect.getdoc(found)


@pytest.mark.parametrize("name", ["utils", "symbolic_helper", *(f"symbolic_opset{opset}" for opset in range(7, 21))])
def test_every_module_can_be_imported(name: str) -> None:
    module = importlib.import_module(f"onnxport.{name}")
    assert module is getattr(onnxport, name) and inspect.getdoc(module)


# What symbolic functions have no use for: they are called by the exporter itself, or on pairs of quantized values.
_INTERNAL = (
    "prim_",
    "quantized_",
    "wrap_logical",
    "aten__",
    "onnx_placeholder",
    "noop_complex",
    "unsupported_complex",
    "_var_mean",
    "convert_element_type",
    "get_pool_ceil_padding",
    "_affine_grid_generator",
    "_grid_sampler",
)


@pytest.mark.parametrize("opset", range(7, 21))
def test_symbolic_modules_have_the_functions_of_torchs(opset: int) -> None:
    own, theirs = (importlib.import_module(f"{name}.symbolic_opset{opset}") for name in ("onnxport", "torch.onnx"))
    functions = [name for name, value in vars(theirs).items() if inspect.isfunction(value)]
    wanted = [name for name in functions if not name.startswith(_INTERNAL)]
    assert [name for name in wanted if not hasattr(own, name)] == []


OPSET9 = onnxport.symbolic_opset9  # type: ignore[attr-defined]
WRITTEN = [
    (
        "reflection_pad",
        lambda g, x: OPSET9.reflection_pad(g, x, [1, 2]),
        lambda x: nn.ReflectionPad1d((1, 2))(x),
    ),
    ("replication_pad", lambda g, x: OPSET9.replication_pad(g, x, [2, 0]), lambda x: nn.ReplicationPad1d((2, 0))(x)),
    ("tanhshrink", lambda g, x: OPSET9.tanhshrink(g, x), lambda x: x - x.tanh()),
    (
        "_prepare_onnx_paddings",
        lambda g, x: g.op("Pad", x, g.op("Constant", value_t=torch.tensor(OPSET9._prepare_onnx_paddings(2, [1, 2])))),
        lambda x: nn.functional.pad(x, (1, 2)),
    ),
    (
        "prim_constant_chunk",
        lambda g, x: g.op("Concat", *reversed(OPSET9.prim_constant_chunk(g, x, 2, 1)), axis_i=1),
        lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    ),
    (
        "prim_constant_split",
        lambda g, x: g.op("Concat", *reversed(OPSET9.prim_constant_split(g, x, 2, 1)), axis_i=1),
        lambda x: torch.cat(x.split(2, 1)[::-1], 1),
    ),
    ("unused", lambda g, x: g.op("Clip", x, OPSET9.unused(g), torch.tensor(0.5)), lambda x: x.clamp(max=0.5)),
    ("select", lambda g, x: OPSET9.select(g, x, 0, torch.tensor(-1)), lambda x: x[-1]),
]


@pytest.mark.parametrize(("name", "symbolic", "eager"), WRITTEN, ids=[row[0] for row in WRITTEN])
def test_symbolic_functions_that_are_no_operators(name: str, symbolic: Any, eager: Any) -> None:
    function = type("Written", (torch.autograd.Function,), {"forward": lambda ctx, x: eager(x), "symbolic": symbolic})
    program = onnxport.export(Does(lambda x: function.apply(x) * 1), (X,), opset_version=13)
    torch.testing.assert_close(program(X)[0], eager(X))


# "Tracing vs Scripting"


class Loops(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for i in range(x.size(0)):
            x = x + i if x.sum() < 30 else x * 2
        return x


AXES = {"input_names": ["x"], "dynamic_axes": {"x": {0: "rows"}}}


def test_tracing_unrolls_loops_and_ifs() -> None:
    with pytest.warns(OnnxExporterWarning, match="for every input what it did for the example"):
        program = legacy(Loops(), (X,), branches="follow")
    assert not {node.op_type for node in program.model.graph} & {"If", "Loop"}
    torch.testing.assert_close(program(X)[0], Loops()(X))


def test_scripting_preserves_control_flow_and_is_valid_for_other_sizes() -> None:
    program = legacy(torch.jit.script(Loops()), (X,), example_outputs=Loops()(X), **AXES)
    for other in (X, torch.ones(6, 5), torch.ones(1, 5)):
        torch.testing.assert_close(program(other)[0], Loops()(other))


# "Avoid NumPy and built-in Python types"


def test_numpy_is_computed() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.from_numpy(np.concatenate((x.numpy(), np.ones((4, 1), np.float32)), axis=1)) + x[:, :1]

    program = legacy(Does(model), (X,))
    for x in (X, X * 2 + 1):
        torch.testing.assert_close(program(x)[0], model(x))


def test_torch_operators_are_captured() -> None:
    program = legacy(Does(lambda x: torch.cat((x, x * 2), dim=1)), (X,), **AXES)
    torch.testing.assert_close(program(torch.ones(2, 5))[0], torch.cat((torch.ones(2, 5), torch.full((2, 5), 2.0)), 1))


# "Avoid Tensor.data"


def test_data_and_detach_are_the_same() -> None:
    def model(of: Callable[[Tensor], Tensor]) -> onnxport.ONNXProgram:
        return legacy(Does(lambda x: of(x * 2) + 1), (X,))

    for of in (lambda x: x.data, lambda x: x.detach()):
        torch.testing.assert_close(model(of)(X)[0], X * 2 + 1)


# "Types"


class Configured(nn.Module):
    def forward(self, x: Tensor, mode: str, options: Any) -> Any:
        return x * 2 if mode == "double" and options["by"] == "rows" else x


def test_text_decides_as_it_did_in_the_example() -> None:
    program = legacy(Configured(), (X, "double", {"by": "rows"}, {}))
    assert [value.name for value in program.model.graph.inputs] == ["x"]
    torch.testing.assert_close(program(X, "double", {"by": "rows"})[0], X * 2)


def test_nested_sequences_are_flattened() -> None:
    program = legacy(Does(lambda x: (x, [x + 1, (x + 2, {"foo": x + 3, "bar": x + 4})])), (X,))
    for number, found in enumerate(program(X)):
        torch.testing.assert_close(found, X + number)


class AppendsTuples(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pairs: list[tuple[Tensor, Tensor]] = []
        for i in range(3):
            pairs.append((x[i], x[i] * 2))
        total = x[0]
        for first, second in pairs:
            total = total + first * second
        return total


def test_a_tuple_can_be_appended_to_a_list() -> None:
    program = legacy(torch.jit.script(AppendsTuples()), (X,))
    torch.testing.assert_close(program(X)[0], AppendsTuples()(X))


# "Differences in Operator Implementations"


def test_differences_are_small_and_measured() -> None:
    program = legacy(nn.Sequential(nn.Linear(5, 5), nn.GELU(), nn.Softmax(-1)), (X,))
    for found in verification.verify_onnx_program(program):
        assert found.max_abs_diff < 1e-5


# "Unsupported Tensor Indexing Patterns"


def written(index: Any, value: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    def write(data: Tensor) -> Tensor:
        result = data.clone()
        result[index] = value(data)
        return result

    return write


T = torch.tensor
PATTERNS = [
    pytest.param(lambda data: data[T([[1, 2], [2, -3]]), T([-2, 3])], id="read-negative"),
    pytest.param(written((T([[1, 2], [2, 3]]), T([2, 3])), lambda data: data[:2, :2] * 9), id="write-rank-2"),
    pytest.param(written((T([1, -2]), T([-2, 3])), lambda data: data[0, :2] * 9), id="write-negative"),
    pytest.param(written((T([[0, 2], [1, 1]]), slice(1, 3)), lambda data: data[0, :2] * 9), id="write-broadcasting"),
    pytest.param(written((T([2, 3]), None, T([1, 2])), lambda data: data[:2, :1] * 9), id="write-not-consecutive"),
    pytest.param(written(slice(1, None, 2), lambda data: 7.0), id="write-slice"),
    pytest.param(lambda data: written(data > 0.5, lambda data: -1.0)(data), id="write-mask"),
]


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_indexing_pattern_is_supported(pattern: Callable[[Tensor], Tensor], dynamo: bool) -> None:
    program = onnxport.export(Does(pattern), (X,), dynamo=dynamo, input_names=["x"], dynamic_axes={"x": {0: "rows"}})
    for data in (X, torch.randn(6, 5)):
        torch.testing.assert_close(program(data)[0], pattern(data))


# "Adding support for operators"


class NoOnnxForm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.aten._adaptive_avg_pool3d_backward(x.mean((2, 3, 4), keepdim=True), x)


VOLUME = torch.ones(1, 2, 2, 2, 2)


def test_an_unsupported_operator_is_named_with_its_line() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)_adaptive_avg_pool3d_backward.*test_legacy_documentation"):
        legacy(NoOnnxForm(), (VOLUME,))


def test_a_symbolic_function_that_returns_none_has_not_converted() -> None:
    with (
        registered("aten::_adaptive_avg_pool3d_backward", lambda g, grad, x: None),
        pytest.raises(OnnxExporterError, match="returned None"),
    ):
        legacy(NoOnnxForm(), (VOLUME,))


def test_scalars_go_to_tensors_and_back() -> None:
    def elu(g: Any, input: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
        number = symbolic_helper._scalar(alpha)
        assert number == 0.5 and symbolic_helper._scalar(torch.tensor(2)) == 2
        tensor = symbolic_helper._if_scalar_type_as(number, input)
        assert isinstance(tensor, Tensor) and tensor.dtype == torch.float32 and tensor.item() == 0.5
        return g.op("Elu", input, alpha_f=number)

    with registered("aten::elu", elu):
        program = legacy(nn.ELU(0.5), (X,), opset_version=9)
    torch.testing.assert_close(program(X)[0], nn.functional.elu(X, 0.5))


def test_the_graph_shows_which_operator_is_meant() -> None:
    graph, _ = utils.unconvertible_ops(nn.ELU(), (X,), opset_version=9)
    assert "aten::elu(" in str(graph)


# "PythonOp Symbolic": types that symbolic functions set help what comes after


def test_a_type_that_is_set_is_known_downstream() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        unknown = g.op("my::Unknown", x)
        assert unknown.type().dim() is None
        unknown.setType(x.type().with_sizes([5, 4]))
        after = g.op("Transpose", unknown, perm_i=[1, 0])
        assert after.type().sizes() == [4, 5] and after.type().scalarType() == "Float"
        return after

    with registered("aten::relu", symbolic):
        program = legacy(nn.ReLU(), (X,), custom_opsets={"my": 2})
    assert list(program.model.graph[0].outputs[0].shape) == [5, 4]
    assert program.model.opset_imports["my"] == 2


# "Discovering all unconvertible ATen ops at once"


def test_all_unconvertible_operators_are_in_one_set() -> None:
    model = Does(lambda x: NoOnnxForm()(x) + NoOnnxForm()(x * 2).relu())
    torch_script_graph, unconvertible_ops = utils.unconvertible_ops(model, VOLUME, opset_version=17)
    assert set(unconvertible_ops) == {"aten::_adaptive_avg_pool3d_backward"} and len(unconvertible_ops) == 2
    assert str(torch_script_graph).count("aten::_adaptive_avg_pool3d_backward(") == 2


# "Frequently Asked Questions"


class ListLoop(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        rows: list[Tensor] = []
        for i in range(x.size(0)):
            rows.append(x[i] * 2)
        return rows


def test_lists_of_tensors_are_exportable() -> None:
    program = legacy(torch.jit.script(ListLoop()), (X,), opset_version=11)
    found = program(X)
    rows = found[0] if isinstance(found[0], list) else found
    torch.testing.assert_close(torch.stack(list(rows)), X * 2)


# "Functions"


def test_a_model_knows_that_it_is_being_exported() -> None:
    seen: list[bool] = []
    legacy(Does(lambda x: (seen.append(onnxport.is_in_onnx_export()), x * 2)[1]), (X,))
    assert seen and all(seen) and not onnxport.is_in_onnx_export()


def test_a_file_in_memory_is_written_and_nothing_returned() -> None:
    file = io.BytesIO()
    assert utils.export(nn.ReLU(), (X,), file) is None
    assert onnx.load_from_string(file.getvalue()).graph.node[0].op_type == "Relu"


class O2StateDictHook:
    def __call__(self, *args: Any) -> None:
        raise AssertionError("not while exporting")


def test_what_is_set_up_around_an_export_is_taken_down() -> None:
    model = nn.Sequential(nn.Dropout())
    hook = O2StateDictHook()
    model[0]._register_state_dict_hook(hook)
    with utils.exporter_context(model, onnxport.TrainingMode.EVAL, verbose=True):
        assert not model.training and onnxport.is_onnx_log_enabled() and not model[0]._state_dict_hooks
    assert model.training and not onnxport.is_onnx_log_enabled()
    assert list(model[0]._state_dict_hooks.values()) == [hook]


def test_inputs_that_a_forward_changes_are_pointed_out() -> None:
    with pytest.warns(OnnxExporterWarning) as said:
        utils.warn_on_static_input_change((({"a": 1}, "x", 3), ({"b": 1}, "y", 4)))
    assert ["keys ['a']" in str(said[0].message), "text 'x'" in str(said[1].message), len(said)] == [True, True, 2]
    with warnings.catch_warnings(action="error"):
        utils.warn_on_static_input_change((({"a": 1}, "x"), ({"a": 2}, "x")))


@pytest.mark.parametrize(("accepted", "dtypes"), [(True, ["float64", "int64"]), (False, ["float32", "int8"])])
def test_a_quantized_tensor_is_its_parts(accepted: bool, dtypes: list[str]) -> None:
    stored, scale, zero = utils.unpack_quantized_tensor(torch.quantize_per_tensor(X, 0.5, 1, torch.qint8), accepted)
    assert [str(one.dtype).removeprefix("torch.") for one in (stored, scale, zero)] == ["int8", *dtypes]
    torch.testing.assert_close((stored - zero) * scale.float(), (X * 2).round() / 2)
    assert utils.unpack_quantized_tensor(X) == (X,)


# What `export` is declared to take and to return


def test_the_declared_options_are_those_of_export() -> None:
    from onnxport.options import Keywords

    parameters = inspect.signature(onnxport.export).parameters
    keywords = {name: one.annotation for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
    del keywords["dynamo"]
    assert keywords == {name: one.__forward_arg__ for name, one in Keywords.__annotations__.items()}


@pytest.mark.parametrize(
    ("options", "returns"),
    [({}, True), ({"dynamo": True}, True), ({"dynamo": False}, True), ({"dynamo": False, "f": ...}, False)],
)
def test_the_program_is_returned_unless_the_old_call_wrote_it(options: dict[str, Any], returns: bool) -> None:
    given = {name: io.BytesIO() if value is ... else value for name, value in options.items()}
    assert (onnxport.export(nn.ReLU(), (X,), **given) is not None) == returns


def test_an_open_file_holds_the_weights_too() -> None:
    file = io.BytesIO()
    assert onnxport.export(nn.Linear(5, 2), (X,), file) is not None
    model = onnx.load_from_string(file.getvalue())
    assert {one.name: len(one.raw_data) for one in model.graph.initializer} == {"weight": 40, "bias": 8}
