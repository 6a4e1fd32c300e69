"""Symbolic functions: registered for operators, and as methods of autograd functions."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import pytest
import torch
from registering import registered

import onnxport
from cases import Wrapped
from onnxport.errors import OnnxExporterError, OnnxExporterWarning

X = torch.tensor([[-1.0, 0.5, 2.0], [3.0, -0.25, 1.0]])


def export(function: Callable[..., Any], *args: Any, **options: Any) -> onnxport.ONNXProgram:
    program = onnxport.export(Wrapped(function), args, **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def operators(program: onnxport.ONNXProgram) -> list[str]:
    return [f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in program.model.graph]


def squeezed(g: Any, x: Any) -> Any:
    """Relu by way of Unsqueeze and Squeeze, as written for opset 11 and earlier."""
    return g.op("Squeeze", g.op("Unsqueeze", g.op("Relu", x), axes_i=[0, 3]), axes_i=[0, 3])


def squeezed_by_input(g: Any, x: Any) -> Any:
    axes = g.op("Constant", value_t=torch.tensor([0]))
    return g.op("Squeeze", g.op("Unsqueeze", g.op("Relu", x), axes), axes)


def clipped(g: Any, x: Any) -> Any:
    return g.op("Clip", x, min_f=0.0)


def mixed_dtypes(g: Any, x: Any) -> Any:
    return g.op("Max", x, g.op("Constant", value_t=torch.tensor(0)))


def with_numbers(g: Any, x: Any) -> Any:
    return g.op("Mul", g.op("Max", x, 0.0), 1)


def asked_of_values(g: Any, x: Any) -> Any:
    shape = g.op("Shape", x)
    assert x.type().scalarType() == "Float" and x.type().dim() == 2 and x.isCompleteTensor()
    assert x.type().sizes() == [2, 3] and not x.requiresGrad() and x.debugName()
    assert shape.type().scalarType() == "Long" and shape.type().sizes() == [2]
    assert shape.node().kind() == "onnx::Shape" and list(shape.node().inputs()) == [x]
    constant = g.op("Constant", value_t=torch.zeros(()))
    assert constant.node().t("value").item() == 0.0
    assert g.original_node.kind() == "aten::relu" and g.opset == 17
    return g.op("Max", g.op("Reshape", x, shape), constant)


def with_two_outputs(g: Any, x: Any) -> Any:
    left, right = g.op("Split", g.op("Relu", x), axis_i=0, num_outputs_i=2, outputs=2)
    return g.op("Concat", left, right, axis_i=0)


def by_sequence(g: Any, x: Any) -> Any:
    parts = g.op("SplitToSequence", g.op("Relu", x), axis_i=0)
    first = g.op("SequenceAt", parts, g.op("Constant", value_t=torch.tensor(0)))
    assert first.type().scalarType() == "Float"
    return g.op("ConcatFromSequence", parts, axis_i=0)


FORMS = [
    pytest.param(squeezed, opset, ["Relu", "Unsqueeze", "Squeeze"], id=f"axes-attributes-at-{opset}")
    for opset in (9, 11, 13, 17, 20)
] + [
    pytest.param(squeezed_by_input, 11, ["Relu", "Unsqueeze", "Squeeze"], id="axes-inputs-at-11"),
    pytest.param(squeezed_by_input, 13, ["Relu", "Unsqueeze", "Squeeze"], id="axes-inputs-at-13"),
    pytest.param(squeezed, 23, ["Relu"], id="what-reads-as-ours-is-optimized"),
    pytest.param(clipped, 9, ["Clip"], id="clip-attributes-at-9"),
    pytest.param(clipped, 12, ["Clip"], id="clip-attributes-at-12"),
    pytest.param(mixed_dtypes, 13, ["Max"], id="a-tensor-of-another-dtype-is-cast"),
    pytest.param(with_numbers, 14, ["Max"], id="numbers-take-the-dtype-beside-them"),
    pytest.param(asked_of_values, 17, None, id="values-answer-as-torch's"),
    pytest.param(by_sequence, 11, ["Relu", "SplitToSequence", "ConcatFromSequence"], id="sequences"),
    pytest.param(with_two_outputs, 18, ["Relu", "Split", "Concat"], id="two-outputs"),
]


@pytest.mark.parametrize(("symbolic", "opset", "expected"), FORMS)
def test_a_registered_symbolic_is_preferred_and_written_for_the_opset(
    symbolic: Callable[..., Any], opset: int, expected: list[str] | None
) -> None:
    with registered("aten::relu", symbolic):
        program = export(torch.relu, X, opset_version=opset)
    assert program.model.opset_imports[""] == opset
    if expected is not None:
        assert operators(program) == expected
    torch.testing.assert_close(program(X)[0], torch.relu(X))


def softmax_of_old(g: Any, x: Any, dim: Any, dtype: Any) -> Any:
    return g.op("Softmax", x, axis_i=1)


@pytest.mark.parametrize(("opset", "axes"), [(11, (1, 2)), (13, (1,))])
def test_an_operator_that_changed_means_what_the_files_opset_says(opset: int, axes: tuple[int, ...]) -> None:
    x = torch.randn(2, 3, 4)
    with registered("aten::softmax", softmax_of_old):
        program = export(lambda x: torch.softmax(x, 1) + 1, x, opset_version=opset)
    expected = torch.softmax(x.reshape(2, 12), 1).reshape(2, 3, 4) if len(axes) == 2 else torch.softmax(x, 1)
    torch.testing.assert_close(program(x)[0], expected + 1)


def test_sizes_that_vary_stay_symbolic_in_what_is_written() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        assert x.type().varyingSizes() == [None, 3]
        y = g.op("Transpose", g.op("Relu", x), perm_i=[1, 0])
        assert y.type().varyingSizes() == [3, None]
        return g.op("Transpose", y, perm_i=[1, 0])

    with registered("aten::relu", symbolic):
        program = export(lambda x: x.relu() + x, X, dynamic_shapes={"inputs": [{0: "batch"}]}, optimize=False)
    intermediate = program.model.graph[0].outputs[0]
    assert intermediate.shape == ("batch", 3)
    torch.testing.assert_close(program(torch.ones(5, 3))[0], torch.ones(5, 3) * 2)


def test_versions_of_a_symbolic_apply_from_their_opset_on() -> None:
    def named(name: str) -> Callable[..., Any]:
        return lambda g, x: g.op(f"my::{name}", x)

    onnxport.register_custom_op_symbolic("aten::relu", named("Old"), 9)
    onnxport.register_custom_op_symbolic("aten::relu", named("New"), 14)
    try:
        found = {opset: operators(export(torch.relu, X, opset_version=opset)) for opset in (8, 9, 13, 14, 20)}
        onnxport.unregister_custom_op_symbolic("aten::relu", 14)
        found[15] = operators(export(torch.relu, X, opset_version=15))
    finally:
        onnxport.unregister_custom_op_symbolic("aten::relu", 1)
    old, new, none = ["my::Old"], ["my::New"], ["Relu"]
    assert found == {8: none, 9: old, 13: old, 14: new, 20: new, 15: none}


def test_the_table_of_this_export_comes_before_what_is_registered() -> None:
    table = {torch.ops.aten.relu: lambda op, self: op.Abs(self)}
    with registered("aten::relu", squeezed):
        assert operators(export(torch.relu, X, custom_translation_table=table)) == ["Abs"]


def test_a_symbolic_that_returns_none_leaves_the_call_to_the_translation() -> None:
    with registered("aten::relu", lambda g, x: None):
        assert operators(export(torch.relu, X)) == ["Relu"]


def test_a_symbolic_can_ask_how_many_values_to_return() -> None:
    @onnxport.symbolic_helper.parse_args("v", "i", "i")
    def split(g: Any, x: Any, size: int, dim: int, _outputs: int | None = None) -> Any:
        assert (size, dim, _outputs) == (1, 0, 2)
        return g.op("Split", x, axis_i=dim, outputs=_outputs)

    with registered("aten::split", split):
        program = export(lambda x: x.split(1, 0), X, opset_version=13)
    assert [value.shape for value in program(X)] == [(1, 3), (1, 3)]


def test_a_call_in_place_is_the_same_operator() -> None:
    with registered("aten::relu", lambda g, x: g.op("my::Relu", x)):
        assert operators(export(lambda x: (x + 1).relu_(), X)) == ["Add", "my::Relu"]


def test_at_writes_an_aten_operator() -> None:
    with registered("aten::relu", lambda g, x: g.at("relu", x, overload_name="default")):
        (node,) = export(torch.relu, X).model.graph
    assert (node.domain, node.op_type) == ("org.pytorch.aten", "ATen")
    assert node.attributes["operator"].value == "relu"


REFUSALS = [
    pytest.param(lambda g, x: g.op("Relu", x, alpha=1.0), "alpha_f", id="an-attribute-without-type"),
    pytest.param(lambda g, x: g.op("Reluu", x), "mydomain::Reluu", id="not-an-operator"),
    pytest.param(lambda g, x: 3, "not a value", id="not-a-value"),
    pytest.param(lambda g, x: [x, x], "2 values where there are 1", id="too-many"),
    pytest.param(lambda g, x: x.nothing, "AttributeError", id="fails"),
    pytest.param(lambda g, x: g.op("Relu", x, wrong_i=1), "no attribute 'wrong'", id="not-valid"),
]


@pytest.mark.parametrize(("symbolic", "message"), REFUSALS)
def test_what_a_symbolic_may_not_do_is_said(symbolic: Callable[..., Any], message: str) -> None:
    with registered("aten::relu", symbolic), pytest.raises(OnnxExporterError, match=message):
        export(torch.relu, X)


@pytest.mark.parametrize("name", ["relu", "aten::relu.default", "::", ""])
def test_names_are_checked(name: str) -> None:
    with pytest.raises(OnnxExporterError, match="not the name of an operator"):
        onnxport.register_custom_op_symbolic(name, squeezed, 9)


def test_operators_of_onnx_itself_are_not_for_symbolic_functions() -> None:
    with pytest.raises(OnnxExporterError, match="operator of ONNX itself"):
        onnxport.register_custom_op_symbolic("onnx::Relu", squeezed, 9)


class Branching(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            y = torch.relu(x)
        else:
            y = torch.relu(-x) * 2
        return y


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_symbolic_writes_into_the_branches_of_a_script() -> None:
    def relu(ctx: onnxport.SymbolicContext, g: Any, x: Any) -> Any:
        assert ctx.onnx_block is g.block
        result, (then, other), _ = onnxport.jit_utils.add_op_with_blocks(
            g, "If", g.op("Greater", g.op("ReduceMax", x, keepdims_i=0), 0.0), n_blocks=2
        )
        onnxport.utils._add_output_to_block(then.block, then.op("Relu", x))
        onnxport.utils._add_output_to_block(other.block, other.op("Mul", x, 0.0))
        return result

    with registered("aten::relu", relu):
        program = onnxport.export(torch.jit.script(Branching()), (X,), dynamo=False, opset_version=13)
    for x in (X, -X, X.abs(), -X.abs()):
        torch.testing.assert_close(program(x)[0], Branching()(x))


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (torch.nn.Conv1d(2, 4, 3, padding=1, stride=2), [[2], [1], [1], False, [0], 1]),
        (torch.nn.ConvTranspose1d(2, 4, 3, groups=2), [[1], [0], [1], True, [0], 2]),
    ],
)
def test_convolutions_go_by_the_name_they_have_in_a_trace(
    model: torch.nn.Module, expected: list[Any], dynamo: bool
) -> None:
    @onnxport.symbolic_helper.parse_args(
        "v", "v", "v", "is", "is", "is", "b", "is", "i", "none", "none", "none", "none"
    )
    def convolution(g: Any, x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
        assert list(rest[:6]) == expected
        return g.op("my::Conv", x, weight, bias)

    with registered("aten::_convolution", convolution):
        program = onnxport.export(model, (torch.ones(1, 2, 8),), dynamo=dynamo, opset_version=17)
    assert operators(program) == ["my::Conv"]


@pytest.mark.parametrize("dynamo", [True, False])
def test_operators_with_several_names_go_by_the_one_in_a_trace(dynamo: bool) -> None:
    class Inverted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.inverse(x)

    with registered("aten::linalg_inv", lambda g, x: g.op("com.microsoft::Inverse", x).setType(x.type())):
        program = onnxport.export(Inverted(), (torch.eye(3),), dynamo=dynamo, opset_version=17)
    assert operators(program) == ["com.microsoft::Inverse"]


# Autograd functions


class MyRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    def symbolic(g: Any, input: Any) -> Any:
        return g.op("Clip", input, g.op("Constant", value_t=torch.tensor(0, dtype=torch.float)))


class Scaled(torch.autograd.Function):
    """With arguments of every kind, and a result that is not a tensor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, by: float, axes: list[int], mode: str, other: Any, flag: bool) -> Any:
        return x * by, mode, x.sum(axes)

    @staticmethod
    def symbolic(g: Any, x: Any, by: float, axes: list[int], mode: str, other: Any, flag: bool) -> Any:
        assert other is None and flag is True and mode == "sum" and axes == [0, 1]
        total = g.op("my::Sum", x, axes_i=axes, mode_s=mode)
        return g.op("my::Scale", x, by_f=by), total


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        return x * by

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.by = inputs[1]

    @staticmethod
    def symbolic(g: Any, x: Any, by: float) -> Any:
        return g.op("my::Scale", x, by_f=by)


class Sized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, size: int) -> torch.Tensor:
        return x.reshape(size * 3)

    @staticmethod
    def symbolic(g: Any, x: Any, size: Any) -> Any:
        return g.op("Reshape", x, g.op("Reshape", g.op("Mul", size, 3), [-1]))


class Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by


class Derived(MyRelu):
    """With the forward and the symbolic of another."""


held = MyRelu.apply

FUNCTIONS = [
    pytest.param(lambda x: MyRelu.apply(x), ["Clip"], id="symbolic"),
    pytest.param(lambda x: held(x), ["Clip"], id="apply-held-before"),
    pytest.param(lambda x: Derived.apply(x), ["Clip"], id="inherited"),
    pytest.param(lambda x: WithSetup.apply(x), ["my::Scale"], id="setup_context"),
    pytest.param(
        lambda x: Scaled.apply(x, 0.5, [0, 1], "sum", None, True)[::2], ["my::Sum", "my::Scale"], id="arguments"
    ),
    pytest.param(lambda x: Plain.apply(x, 2.0), ["Mul"], id="none-is-inlined"),
]


@pytest.mark.parametrize(("function", "expected"), FUNCTIONS)
def test_autograd_functions_are_written_by_their_symbolic(function: Callable[..., Any], expected: list[str]) -> None:
    program = export(function, X, opset_version=13)
    assert operators(program) == expected
    if not any("::" in name for name in expected):
        torch.testing.assert_close(program(X)[0], function(X))


def test_the_class_is_afterwards_as_it_was() -> None:
    before = [dict(vars(function)) for function in (MyRelu, Derived)]
    export(lambda x: Derived.apply(x), X)
    assert [dict(vars(function)) for function in (MyRelu, Derived)] == before


def test_a_size_that_varies_is_a_value_for_the_symbolic() -> None:
    program = export(lambda x: Sized.apply(x, x.shape[0]), X, dynamic_shapes={"inputs": [{0: "batch"}]})
    torch.testing.assert_close(program(torch.ones(7, 3))[0], torch.ones(21))


def test_without_inlining_a_function_is_a_node() -> None:
    with pytest.warns(DeprecationWarning, match="autograd_inlining"):
        (node,) = export(lambda x: Plain.apply(x, 2.0), X, autograd_inlining=False).model.graph
    assert (node.domain, node.op_type, node.attributes["arg_1"].value) == ("prim", "PythonOp", 2.0)
    assert node.attributes["name"].value.endswith("Plain")


def test_the_same_function_gives_the_same_bytes() -> None:
    def once() -> bytes:
        return export(lambda x: MyRelu.apply(x), X).model_proto.SerializeToString(deterministic=True)

    assert once() == once()


class MyClip(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, min: float) -> torch.Tensor:
        ctx.save_for_backward(input)
        return input.clamp(min=min)


class Rectified(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(input)
        return input.clamp(min=0)


@pytest.mark.parametrize("dynamo", [True, False])
def test_all_autograd_functions_by_one_symbolic(dynamo: bool, capsys: pytest.CaptureFixture[str]) -> None:
    def symbolic_python_op(ctx: onnxport.SymbolicContext, g: Any, *args: Any, **kwargs: Any) -> Any:
        import onnxport.symbolic_helper as sym_helper

        n = ctx.cur_node
        print("original node: ", n)
        for i, out in enumerate(n.outputs()):
            print(f"original output {i}: {out}, requires grad: {out.requiresGrad()}")
        for i, arg in enumerate(args):
            requires_grad = arg.requiresGrad() if sym_helper._is_value(arg) else False
            print(f"arg {i}: {arg}, requires grad: {requires_grad}")
        name = kwargs["name"]
        if name == "MyClip":
            ret = g.op("Clip", args[0], args[1])
        elif name == "Rectified":
            ret = g.op("Relu", args[0])
        else:
            # Logs a warning and returns None
            return sym_helper._unimplemented("prim::PythonOp", "unknown node kind: " + name)
        # Copy type and shape from original node.
        ret.setType(n.type())
        return ret

    def model(x: torch.Tensor) -> torch.Tensor:
        return Plain.apply(Rectified.apply(MyClip.apply(x, -0.5)), 2.0)

    unknown = pytest.warns(OnnxExporterWarning, match="unknown node kind: Plain")
    with registered("prim::PythonOp", symbolic_python_op, 1), unknown:
        program = export(model, X, opset_version=17, dynamo=dynamo)
    assert operators(program) == ["Clip", "Relu", "Mul"]
    torch.testing.assert_close(program(X)[0], model(X))
    printed = capsys.readouterr().out
    assert 'prim::PythonOp[name="MyClip"]' in printed and "arg 1: -0.5, requires grad: False" in printed


class Option:
    def __init__(self, by: float) -> None:
        self.by = by


class WithOption(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, option: Option) -> torch.Tensor:
        return x * option.by

    @staticmethod
    def symbolic(g: Any, x: Any, option: Option) -> Any:
        return g.op("Mul", x, option.by)


def test_arguments_of_any_class_are_told_apart() -> None:
    two, three = Option(2.0), Option(3.0)

    def model(x: torch.Tensor) -> torch.Tensor:
        return WithOption.apply(WithOption.apply(WithOption.apply(x, two), three), two)

    for _ in range(2):
        torch.testing.assert_close(export(model, X)(X)[0], X * 12)


def test_the_context_has_the_weights_of_a_call() -> None:
    def linear(ctx: onnxport.SymbolicContext, g: Any, input: Any, weight: Any, bias: Any) -> Any:
        found = ctx.params_dict[weight.debugName()]
        assert list(ctx.params_dict) == ["weight", "bias"] and found is model.weight
        return g.op("Gemm", input, weight, bias, transB_i=1)

    model = torch.nn.Linear(3, 2)
    with registered("aten::linear", linear):
        program = onnxport.export(model, (X,))
    torch.testing.assert_close(program(X)[0], model(X))


def test_the_autograd_functions_of_transformers_are_written() -> None:
    sew_d = pytest.importorskip("transformers.models.sew_d.modeling_sew_d")
    mask = torch.tensor([True, True, False]).expand(2, 3)

    def model(x: torch.Tensor, mask: torch.Tensor) -> Any:
        return sew_d.XSoftmax.apply(x, mask, -1)

    program = export(model, X, mask, opset_version=11)
    assert operators(program)[:3] == ["Cast", "Sub", "Cast"]
    torch.testing.assert_close(program(X, mask)[0], model(X, mask))


# Code that needs values


class OnArrays(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, times: int) -> Any:
        array = x.detach().numpy()
        return torch.from_numpy(array * times), torch.from_numpy(array).repeat(2, 1).sum(1).long()

    @staticmethod
    def symbolic(g: Any, x: Any, times: int) -> Any:
        return g.op("my::OnArrays", x, times_i=times, outputs=2)


@pytest.mark.parametrize("dynamo", [True, False])
def test_a_forward_that_needs_values_is_run_on_made_up_ones(dynamo: bool) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return OnArrays.apply(x + 1, 3)

    with pytest.warns(OnnxExporterWarning, match="made-up values"):
        program = onnxport.export(
            Model(), (X,), input_names=["x"], dynamic_axes={"x": {0: "n"}}, dynamo=dynamo, opset_version=17
        )
    assert operators(program) == ["Add", "my::OnArrays"]
    found = [(value.dtype.name, str(value.shape)) for value in program.model.graph.outputs]
    assert found == [("FLOAT", "[n,3]"), ("INT64", "[2*n]")]


class Normalized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, [3])

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("my::Normalized", x)


def test_a_forward_for_one_size_forces_it() -> None:
    options: Any = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n", 1: "width"}}, "opset_version": 17}
    with pytest.warns(OnnxExporterWarning, match="declared dynamic as 'width', but the model forces it to be 3"):
        program = onnxport.export(Normalized.apply, (X,), dynamo=False, **options)
    assert [str(value.shape) for value in program.model.graph.outputs] == ["[n,3]"]


class RowByRow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return torch.stack([row * len(x) for row in x]), x.new_zeros(int(x.shape[1]) * 2)

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("my::RowByRow", x, outputs=2)


@pytest.mark.parametrize("dynamo", [True, False])
def test_a_forward_that_counts_rows_leaves_their_number_open(dynamo: bool) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return RowByRow.apply(x + 1)

    axes = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n", 1: "m"}}}
    with pytest.warns(OnnxExporterWarning, match="a size that varies would have to"):
        program = onnxport.export(Model(), (X,), dynamo=dynamo, opset_version=17, **axes)
    assert [str(value.shape) for value in program.model.graph.outputs] == ["[n,m]", "[2*m]"]


@pytest.fixture(scope="module")
def custom_ops() -> Iterator[torch.library.Library]:
    library = torch.library.Library("custom_ops", "FRAGMENT")
    library.define("foo_forward(Tensor a, Tensor b, float attr1, int attr2) -> Tensor")
    library.impl("foo_forward", lambda a, b, attr1, attr2: a + b * attr1 + attr2, "CPU")
    yield library
    library._destroy()


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_custom_operator_without_a_fake_kernel(
    dynamo: bool, custom_ops: torch.library.Library, tmp_path: pathlib.Path
) -> None:
    from onnxport.symbolic_helper import parse_args

    # Define custom symbolic function
    @parse_args("v", "v", "f", "i")
    def symbolic_foo_forward(g: Any, input1: Any, input2: Any, attr1: float, attr2: int) -> Any:
        return g.op("custom_domain::Foo", input1, input2, attr1_f=attr1, attr2_i=attr2)

    class FooModel(torch.nn.Module):
        def __init__(self, attr1: float, attr2: int) -> None:
            super().__init__()
            self.attr1 = attr1
            self.attr2 = attr2

        def forward(self, input1: torch.Tensor, input2: torch.Tensor) -> torch.Tensor:
            # Calling custom op
            return torch.ops.custom_ops.foo_forward(input1, input2, self.attr1, self.attr2)

    # Register custom symbolic function
    with (
        registered("custom_ops::foo_forward", symbolic_foo_forward, 9),
        pytest.warns(OnnxExporterWarning, match="no fake kernel"),
    ):
        onnxport.export(
            FooModel(0.5, 3),
            (X, X),
            tmp_path / "model.onnx",
            # only needed if you want to specify an opset version > 1.
            custom_opsets={"custom_domain": 2},
            dynamo=dynamo,
        )
    model = onnx.load(tmp_path / "model.onnx")
    assert {entry.domain: entry.version for entry in model.opset_import}["custom_domain"] == 2
    (node,) = model.graph.node
    attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    assert (node.domain, node.op_type, attributes) == ("custom_domain", "Foo", {"attr1": 0.5, "attr2": 3})
    assert [size.dim_value for size in model.graph.output[0].type.tensor_type.shape.dim] == [2, 3]


@pytest.mark.parametrize("dynamo", [True, False])
def test_traced_models_keep_their_autograd_functions(dynamo: bool) -> None:
    traced = torch.jit.trace(Wrapped(lambda x: MyRelu.apply(x) + 1), X)
    program = onnxport.export(traced, (X,), dynamo=dynamo, opset_version=13)
    assert operators(program) == ["Clip", "Add"]


@pytest.mark.parametrize("dynamo", [True, False])
def test_the_elu_of_the_documentation(dynamo: bool) -> None:
    from onnxport.symbolic_helper import _scalar

    def elu(g: Any, input: Any, alpha: Any, inplace: Any = False) -> Any:
        return g.op("Elu", input, alpha_f=_scalar(alpha))

    with registered("aten::elu", elu):
        program = onnxport.export(torch.nn.ELU(alpha=0.5), (X,), dynamo=dynamo, opset_version=9)
    assert operators(program) == ["Elu"]
    torch.testing.assert_close(program(X)[0], torch.nn.functional.elu(X, 0.5))


@pytest.mark.parametrize("dynamo", [True, False])
def test_a_function_of_onnx_script_is_called(dynamo: bool) -> None:
    onnxscript = pytest.importorskip("onnxscript")
    opset15, mine = onnxscript.opset15, onnxscript.values.Opset(domain="onnx-script", version=2)

    @onnxscript.script(mine, default_opset=opset15)
    def Scaled(x, alpha: float = 1.0):  # type: ignore[no-untyped-def]
        return x * opset15.Cast(opset15.Constant(value_float=alpha), to=1) + x

    def selu(g: Any, x: Any) -> Any:
        # Its type is not known to anyone before the function is called, unless it is stated.
        return g.op("Neg", g.onnxscript_op(Scaled, g.onnxscript_op(Scaled, x).setType(x.type()), alpha_f=3.0))

    with registered("aten::selu", selu):
        program = export(lambda x: torch.selu(x) + 1, X, opset_version=15, dynamo=dynamo)
    assert operators(program) == ["onnx-script::Scaled", "onnx-script::Scaled", "Neg", "Add"]
    assert [function.name for function in program.model.functions.values()] == ["Scaled"]
    torch.testing.assert_close(program(X)[0], 1 - X * 2 * 4)


class RoIAlign(torch.autograd.Function):
    """As detection libraries have it: the forward is an extension that needs memory, the symbolic builds on others."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, rois: torch.Tensor, size: tuple[int, int], scale: float) -> torch.Tensor:
        result = input.new_zeros((rois.size(0), input.size(1), *size))
        return torch.from_numpy(result.numpy())

    @staticmethod
    def symbolic(g: Any, input: Any, rois: Any, size: tuple[int, int], scale: float) -> Any:
        from onnxport.symbolic_helper import _slice_helper
        from onnxport.symbolic_opset9 import squeeze, sub

        batch = squeeze(g, _slice_helper(g, rois, axes=[1], starts=[0], ends=[1]), 1)
        batch = g.op("Cast", batch, to_i=onnxport.TensorProtoDataType.INT64)
        rois = _slice_helper(g, rois, axes=[1], starts=[1], ends=[5])
        rois = sub(g, rois, g.op("Constant", value_t=torch.tensor([0.5 / scale])))
        return g.op("RoiAlign", input, rois, batch, output_height_i=size[0], output_width_i=size[1], mode_s="avg")


class NonMaximumSuppression(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
        return torch.arange(len(boxes.numpy()))

    @staticmethod
    def symbolic(g: Any, boxes: Any, scores: Any, threshold: float) -> Any:
        from onnxport.symbolic_opset9 import select, view

        most, overlap = torch.tensor([10]), torch.tensor([threshold])
        boxes, scores = view(g, boxes, (1, -1, 4)), view(g, scores, (1, 1, -1))
        found = g.op("NonMaxSuppression", boxes, scores, most, overlap)
        return view(g, select(g, found, 1, 2), (-1,))


BOXES = torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3]])
REGIONS = torch.tensor([[0, 1.0, 1, 5, 5], [0, 0.0, 0, 7, 7]])
LIBRARY = [
    pytest.param(
        lambda x, rois: RoIAlign.apply(x, rois, (3, 3), 1.0), (torch.ones(1, 2, 8, 8), REGIONS), torch.ones(2, 2, 3, 3)
    ),
    pytest.param(
        lambda boxes, scores: NonMaximumSuppression.apply(boxes, scores, 0.5) * 2,
        (BOXES, torch.tensor([0.9, 0.8, 0.7])),
        torch.tensor([0, 4]),
    ),
]


@pytest.mark.parametrize("opset", [10, 11, 16])
@pytest.mark.parametrize(("function", "args", "expected"), LIBRARY, ids=["roi-align", "nms"])
def test_functions_of_detection_libraries(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...], expected: torch.Tensor, opset: int
) -> None:
    with pytest.warns(OnnxExporterWarning, match="made-up values"):
        program = onnxport.export(Wrapped(function), args, opset_version=opset)
    torch.testing.assert_close(program(*args)[0], expected)
    trace = program.model.graph[-1].metadata_props["pkg.torch.onnx.stack_trace"]
    assert "cases.py" in trace and "autograd_functions.py" not in trace
