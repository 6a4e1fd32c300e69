"""symbolic_helper and the symbolic_opset modules: what symbolic functions are written with."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from registering import registered

import onnxport
from onnxport import symbolic_helper as helper
from onnxport import symbolic_opset9 as opset9
from onnxport.errors import OnnxExporterError, OnnxExporterWarning, SymbolicValueError

X = torch.tensor([[-1.0, 0.5, 2.0], [3.0, -0.25, 1.0]])


class Relu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def export(model: torch.nn.Module, *args: Any, **options: Any) -> onnxport.ONNXProgram:
    program = onnxport.export(model, args, **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def constant(g: Any, value: Any, dtype: torch.dtype | None = None) -> Any:
    return g.op("Constant", value_t=torch.tensor(value, dtype=dtype))


def filled(g: Any, x: Any) -> Any:
    shape, index = helper._index_fill_reshape_helper(g, x, 1, constant(g, [0, 2]))
    values = g.op("Expand", constant(g, 5.0), shape)
    return helper._scatter_helper(g, x, 1, index, values)


def filled_eager(x: torch.Tensor) -> torch.Tensor:
    return x.index_fill(1, torch.tensor([0, 2]), 5.0)


def whole_relu(g: Any, x: Any) -> Any:
    whole = g.op("Cast", x, to_i=helper.cast_pytorch_to_onnx["Long"])
    result = helper._op_with_optional_float_cast(g, "Relu", whole, opset_before=14)
    assert result.type().scalarType() == "Long"
    return g.op("Cast", result, to_i=helper.cast_pytorch_to_onnx["Float"])


# Each stands for relu: what it writes, and what that computes of (n, 3) with the shape kept.
WRITTEN = [
    (
        "_unsqueeze_helper",
        lambda g, x: helper._squeeze_helper(g, helper._unsqueeze_helper(g, x, [0]), [0]),
        lambda x: x,
    ),
    (
        "_reshape_helper",
        lambda g, x: helper._reshape_helper(g, helper._reshape_helper(g, x, [3, -1]), [-1, 3]),
        lambda x: x,
    ),
    (
        "_slice_helper",
        lambda g, x: g.op("Sub", x, helper._slice_helper(g, x, axes=[1], starts=[1], ends=[2])),
        lambda x: x - x[:, 1:2],
    ),
    (
        "_select_helper",
        lambda g, x: g.op("Sub", x, helper._unsqueeze_helper(g, helper._select_helper(g, x, 1, constant(g, 2)), [1])),
        lambda x: x - x[:, 2:3],
    ),
    (
        "_reducesum_helper",
        lambda g, x: g.op("Div", x, helper._reducesum_helper(g, x, [1])),
        lambda x: x / x.sum(1, True),
    ),
    (
        "_topk_helper",
        lambda g, x: helper._topk_helper(g, x, 3, 1, largest=True, sorted=True)[0],
        lambda x: x.topk(3, 1)[0],
    ),
    ("_sort_helper", lambda g, x: helper._sort_helper(g, x, 1, descending=False)[0], lambda x: x.sort(1)[0]),
    (
        "_max_helper",
        lambda g, x: g.op("Sub", x, helper._max_helper(g, x, 1, 1)[0]),
        lambda x: x - x.max(1, keepdim=True).values,
    ),
    ("_min_helper", lambda g, x: helper._min_helper(g, x, constant(g, 0.0)), lambda x: x.clamp(max=0)),
    (
        "_lt_helper",
        lambda g, x: g.op("Where", helper._lt_helper(g, x, 1.0), x, 0.0),
        lambda x: torch.where(x < 1, x, 0.0),
    ),
    (
        "_flatten_helper",
        lambda g, x: helper._reshape_helper(
            g, helper._flatten_helper(g, helper._unsqueeze_helper(g, x, [0]), 0, 1, 3), [-1, 3]
        ),
        lambda x: x,
    ),
    (
        "_size_helper",
        lambda g, x: g.op(
            "Add", x, g.op("Cast", helper._size_helper(g, x, 0), to_i=helper.cast_pytorch_to_onnx["Float"])
        ),
        lambda x: x + x.shape[0],
    ),
    (
        "_numel_helper",
        lambda g, x: g.op(
            "Add", x, helper._maybe_cast_to_type(g, helper._numel_helper(g, x), onnxport.JitScalarType.FLOAT)
        ),
        lambda x: x + x.numel(),
    ),
    (
        "_unbind_helper",
        lambda g, x: g.op("Add", x, helper._unsqueeze_helper(g, helper._unbind_helper(g, x, 1, None)[2], [1])),
        lambda x: x + x[:, 2:3],
    ),
    (
        "_argmin_argmax_helper",
        lambda g, x: g.op("Add", x, g.op("Cast", helper._argmin_argmax_helper(g, x, None, False, "ArgMax"), to_i=1)),
        lambda x: x + x.argmax(),
    ),
    ("_index_fill_reshape_helper", filled, filled_eager),
    ("_op_with_optional_float_cast", whole_relu, lambda x: x.long().relu().float()),
    (
        "_arange_helper",
        lambda g, x: g.op("Add", x, g.op("Cast", helper._arange_helper(g, 3), to_i=1)),
        lambda x: x + torch.arange(3),
    ),
    (
        "_var_mean_helper",
        lambda g, x: g.op("Mul", x, helper._var_mean_helper(g, x, [1], 0, True)[0]),
        lambda x: x * x.var(1, correction=0, keepdim=True),
    ),
    (
        "_linalg_vector_norm_helper",
        lambda g, x: g.op("Div", x, helper._linalg_vector_norm_helper(g, x, 2.0, [1], True, None)),
        lambda x: x / x.norm(dim=1, keepdim=True),
    ),
    (
        "_reduce_op_symbolic_helper",
        lambda g, x: g.op("Sub", x, helper._reduce_op_symbolic_helper("ReduceMax")(g, x, [1], 1)),
        lambda x: x - x.amax(1, True),
    ),
    (
        "_reduce_with_dtype_helper",
        lambda g, x: g.op("Sub", x, helper._reduce_with_dtype_helper("ReduceSum", "sum")(g, x, [1], 1, None)),
        lambda x: x - x.sum(1, True),
    ),
    (
        "_batchnorm_helper",
        lambda g, x: g.op(
            "BatchNormalization", x, *helper._batchnorm_helper(g, x, None, None, None, None), epsilon_f=0.0
        ),
        lambda x: x,
    ),
    ("_if_scalar_type_as", lambda g, x: g.op("Mul", x, helper._if_scalar_type_as(2, x)), lambda x: x * 2),
]


def check_in_place_of_relu(symbolic: Callable[..., Any], eager: Callable[..., Any], opset: int) -> None:
    with registered("aten::relu", symbolic):
        program = export(Relu(), X, opset_version=opset, dynamic_shapes=({0: "n"},))
    for x in (X, torch.randn(5, 3)):
        torch.testing.assert_close(program(x)[0], eager(x))


@pytest.mark.parametrize("opset", [9, 11, 13, 18])
@pytest.mark.parametrize(("name", "symbolic", "eager"), WRITTEN, ids=[row[0] for row in WRITTEN])
def test_what_helpers_write_is_right_at_every_opset(
    name: str, symbolic: Callable[..., Any], eager: Callable[..., Any], opset: int
) -> None:
    check_in_place_of_relu(symbolic, eager, opset)


IMAGES = torch.arange(24.0).reshape(1, 2, 3, 4)


def resized(g: Any, x: Any, *_: Any) -> Any:
    return g.op("Relu", helper._interpolate_helper("upsample_bilinear2d", 4, "linear")(g, x, [6, 8], False, None))


def resized_by_scales(g: Any, x: Any, *_: Any) -> Any:
    scales = helper._interpolate_size_to_scales(g, x, constant(g, [6, 8]), 4)
    return g.op(
        "Resize",
        x,
        constant(g, [], torch.float32),
        scales,
        coordinate_transformation_mode_s="half_pixel",
        mode_s="linear",
    )


@pytest.mark.parametrize("symbolic", [resized, resized_by_scales])
def test_helpers_resize(symbolic: Callable[..., Any]) -> None:
    class Upsample(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.interpolate(x, (6, 8), mode="bilinear")

    with registered("aten::upsample_bilinear2d", symbolic):
        program = export(Upsample(), IMAGES, opset_version=13)
    torch.testing.assert_close(program(IMAGES)[0], Upsample()(IMAGES))


# The same with the operators of symbolic_opset9, which are our translations.
DELEGATED = [
    ("relu", lambda g, x: opset9.relu(g, x), torch.relu),
    ("add", lambda g, x: opset9.add(g, x, x, 2), lambda x: x + 2 * x),
    ("add-number", lambda g, x: opset9.add(g, x, 1.5), lambda x: x + 1.5),
    ("mul-constant", lambda g, x: opset9.mul(g, x, constant(g, 3)), lambda x: x * 3),
    ("softmax", lambda g, x: opset9.softmax(g, x, -1), lambda x: x.softmax(-1)),
    ("linear", lambda g, x: opset9.linear(g, x, constant(g, torch.eye(3).tolist()), None), lambda x: x),
    ("view", lambda g, x: opset9.view(g, opset9.view(g, x, (1, -1, 3)), [-1, 3]), lambda x: x),
    ("reshape-computed", lambda g, x: opset9.reshape(g, opset9.flatten(g, x, 0, 1), g.op("Shape", x)), lambda x: x),
    ("cat", lambda g, x: opset9.slice(g, opset9.cat(g, [x, x], 1), 1, 3, 6, 1), lambda x: x),
    ("squeeze", lambda g, x: opset9.squeeze(g, opset9.unsqueeze(g, x, 1), 1), lambda x: x),
    ("max", lambda g, x: opset9.sub(g, x, opset9.max(g, x, 1, True)[0]), lambda x: x - x.max(1, True).values),
    ("sum", lambda g, x: opset9.div(g, x, opset9.sum(g, x, [1], True, None)), lambda x: x / x.sum(1, True)),
    ("expand", lambda g, x: opset9.mul(g, x, opset9.expand(g, constant(g, [[2.0]]), [-1, 3])), lambda x: x * 2),
    ("decomposed", lambda g, x: opset9.hardswish(g, x), torch.nn.functional.hardswish),
    ("size", lambda g, x: opset9.add(g, x, opset9.size(g, x, constant(g, 0))), lambda x: x + x.shape[0]),
    (
        "of-what-was-written",
        lambda g, x: opset9.neg(g, g.op("Transpose", g.op("Transpose", x, perm_i=[1, 0]))),
        torch.neg,
    ),
    (
        "of-unknown-size",
        lambda g, x: opset9.add(g, x, opset9.sum(g, opset9.cat(g, [g.op("NonZero", x)] * 2, 1))),
        lambda x: x + 2 * torch.stack(x.nonzero(as_tuple=True)).sum(),
    ),
]


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize(("name", "symbolic", "eager"), DELEGATED, ids=[row[0] for row in DELEGATED])
def test_translations_serve_symbolic_functions(
    name: str, symbolic: Callable[..., Any], eager: Callable[..., Any], opset: int
) -> None:
    check_in_place_of_relu(symbolic, eager, opset)


def test_every_opset_module_can_be_imported() -> None:
    for opset in range(7, 21):
        module = importlib.import_module(f"onnxport.symbolic_opset{opset}")
        assert module is getattr(onnxport, f"symbolic_opset{opset}") and callable(module.relu)
    with pytest.raises(AttributeError, match="no_such_operator"):
        _ = opset9.no_such_operator


def test_symbolics_written_with_torchs_helpers_work_too() -> None:
    from torch.onnx import symbolic_helper as theirs
    from torch.onnx import symbolic_opset9 as their_opset9

    @theirs.parse_args("v", "i", "none")
    def softmax(g: Any, x: Any, dim: int, dtype: Any) -> Any:
        assert theirs._get_tensor_rank(x) == 2 and theirs._is_fp(x)
        exponent = g.op("Exp", x)
        return g.op("Div", exponent, theirs._reducesum_helper(g, exponent, axes_i=[dim]))

    with registered("aten::softmax", softmax), registered("aten::relu", lambda g, x: their_opset9.clamp_min(g, x, 0.0)):
        program = export(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Softmax(1)), X, opset_version=17)
    torch.testing.assert_close(program(X)[0], X.relu().softmax(1))


# Arguments


def probe(descriptor: str) -> Callable[..., Any]:
    """A symbolic of clamp that hands out its first number as it was parsed."""

    def symbolic(g: Any, x: Any, low: Any, high: Any) -> Any:
        probe.found = low  # type: ignore[attr-defined]
        return g.op("Identity", x)

    return helper.parse_args("v", descriptor, "none")(symbolic)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("descriptor", "number", "expected"),
    [
        ("i", 2, 2),
        ("f", 2, 2.0),
        ("f", 0.5, 0.5),
        ("b", 1, True),
        ("t", 2, torch.tensor(2)),
        ("i", None, None),
    ],
)
def test_arguments_are_parsed(descriptor: str, number: Any, expected: Any) -> None:
    class Clamp(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.clamp(x, number, 9)

    with registered("aten::clamp", probe(descriptor)):
        export(Clamp(), X)
    assert probe.found == expected and type(probe.found) is type(expected)  # type: ignore[attr-defined]


def test_lists_are_parsed() -> None:
    class Transposed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.permute(1, 0)

    @helper.parse_args("v", "is")
    def permute(g: Any, x: Any, dims: Any) -> Any:
        assert dims == [1, 0]
        return g.op("Transpose", x, perm_i=dims)

    with registered("aten::permute", permute):
        torch.testing.assert_close(export(Transposed(), X)(X)[0], X.T)


def test_an_argument_that_is_not_constant_is_refused() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x * y

    @helper.parse_args("v", "f")
    def mul(g: Any, x: Any, by: float) -> Any:
        return g.op("my::Scale", x, by_f=by)

    with registered("aten::mul", mul), pytest.raises(OnnxExporterError, match="`by` of mul must be a constant"):
        export(Scaled(), X, X)


def test_parse_args_checks_what_it_is_told() -> None:
    with pytest.raises(ValueError, match="not descriptors"):
        helper.parse_args("v", "x")  # type: ignore[arg-type]


def test_questions() -> None:
    graph = torch._C.Graph()
    number, text, none = graph.insertConstant(3), graph.insertConstant("a"), graph.insertConstant(None)
    tensor = graph.addInput()
    tensor.setType(torch._C.TensorType.get().with_dtype(torch.float16).with_sizes([2, None]))
    assert helper._is_value(tensor) and not helper._is_value(3)
    assert helper._is_constant(number) and helper._is_constant(2) and not helper._is_constant(tensor)
    assert helper._is_none(none) and helper._is_none(None) and not helper._is_none(number)
    assert helper._is_tensor(tensor) and helper._is_fp(tensor) and not helper._is_bool(tensor)
    assert helper._get_tensor_rank(tensor) == 2 and helper._get_tensor_sizes(tensor) == [2, None]
    assert helper._get_tensor_dim_size(tensor, 0) == 2 and helper._get_tensor_dim_size(tensor, 1) is None
    assert helper._get_const(number, "f", "number") == 3.0 and helper._maybe_get_const(tensor, "i") is tensor
    assert helper._scalar(torch.tensor(0.5)) == 0.5 and helper._scalar(number) == 3 and helper._scalar(tensor) is None
    assert helper._maybe_get_scalar(number) == torch.tensor(3) and helper._maybe_get_scalar(text) is text
    assert helper._try_get_scalar_type(text, tensor) is onnxport.JitScalarType.HALF
    assert helper.args_have_same_dtype([tensor, tensor]) and not helper.args_have_same_dtype([tensor, number])
    assert helper._type_promote_from_values(tensor, number).dtype() == torch.float16
    with pytest.raises(SymbolicValueError, match="must be a constant"):
        helper._get_const(tensor, "i", "tensor")


def test_refusals() -> None:
    with pytest.warns(OnnxExporterWarning, match="aten::x can't be exported: not now"):
        assert helper._unimplemented("aten::x", "not now") is None
    with pytest.raises(OnnxExporterError, match="aten::x can't be expressed"):
        helper._onnx_unsupported("aten::x")
    with pytest.raises(OnnxExporterError, match=r"opset 9.*opset_version=11"):
        helper._onnx_opset_unsupported("aten::x", 9, 11)
    with pytest.warns(OnnxExporterWarning, match="mode EVAL, but dropout is in mode TRAINING"):
        helper.check_training_mode(1, "dropout")


def test_functions_take_what_torchs_take_by_name() -> None:
    from torch.onnx import symbolic_helper as theirs

    functions = {
        name: function
        for name, function in vars(theirs).items()
        if inspect.isfunction(function) and function.__module__ == theirs._parse_arg.__module__
    }
    assert len(functions) > 80
    refused = []
    for name, function in functions.items():
        own, wanted = inspect.signature(getattr(helper, name)), inspect.signature(function)
        if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in own.parameters.values()):
            continue
        refused += [f"{name}({one})" for one in wanted.parameters if one not in own.parameters]
    assert refused == []


def test_tables_are_torchs() -> None:
    from torch.onnx import symbolic_helper as theirs

    for name, kind in theirs.cast_pytorch_to_onnx.items():
        if name != "Undefined":
            assert int(helper.cast_pytorch_to_onnx[name]) == int(kind)
    count = len(theirs.scalar_type_to_onnx)
    assert [int(kind) for kind in helper.scalar_type_to_onnx[:count]] == [
        int(kind) for kind in theirs.scalar_type_to_onnx
    ]
    assert helper.scalar_type_to_pytorch_type[:count] == theirs.scalar_type_to_pytorch_type
    assert theirs.scalar_name_to_pytorch.items() <= helper.scalar_name_to_pytorch.items()
    assert theirs.pytorch_name_to_type.items() <= helper.pytorch_name_to_type.items()


def test_the_helpers_are_those_of_torch() -> None:
    from torch.onnx import symbolic_helper as theirs

    functions = {name for name, value in vars(theirs).items() if inspect.isfunction(value)}
    missing = {name for name in functions if not hasattr(helper, name)}
    assert missing == set()


def test_quantized_arguments_come_in_as_floats() -> None:
    @helper.quantized_args(True)
    def doubled(g: Any, x: Any) -> Any:
        return g.op("Add", x, x)

    def symbolic(g: Any, x: Any) -> Any:
        scale, zero = constant(g, 0.25), constant(g, 0, torch.uint8)
        quantized = helper.quantize_helper(g, g.op("Relu", x), scale, zero)
        return helper.dequantize_helper(g, doubled(g, quantized))[0]

    with registered("aten::relu", symbolic):
        program = export(Relu(), X, opset_version=13)
    torch.testing.assert_close(program(X)[0], X.relu() * 2)
