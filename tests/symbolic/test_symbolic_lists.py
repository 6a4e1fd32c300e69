"""Lists of tensors as one argument of a symbolic function, for operators of torch and of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import onnx
import pytest
import torch
from registering import registered

import onnxport
from cases import Wrapped
from onnxport import symbolic_helper as helper
from onnxport import symbolic_opset9, symbolic_opset11
from onnxport.errors import OnnxExporterError

Function = Callable[..., Any]
X, Y = torch.tensor([[-1.0, 0.5, 2.0], [3.0, -0.25, 1.0]]), torch.tensor([[5.0, 6.0, 7.0]])


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    made = torch.library.Library("lists", "FRAGMENT")
    made.define("join(Tensor[] tensors, int dim=0) -> Tensor")
    made.impl("join", lambda tensors, dim=0: torch.cat(tensors, dim), "CPU")
    made.define("pick(Tensor x, Tensor?[] indices) -> Tensor")
    made.impl("pick", lambda x, indices: x[tuple(slice(None) if one is None else one for one in indices)], "CPU")
    made.define("parts(Tensor x, int[] sizes) -> Tensor[]")
    made.impl("parts", lambda x, sizes: [one.clone() for one in x.split(sizes)], "CPU")
    made.define("scaled(Tensor[] tensors, float[] by) -> Tensor[]")
    made.impl("scaled", lambda tensors, by: [one * factor for one, factor in zip(tensors, by, strict=True)], "CPU")
    yield
    made._destroy()


def joined(g: Any, tensors: Any, dim: Any) -> Any:
    assert helper._is_packed_list(tensors) and helper._is_tensor_list(tensors) and helper._is_list(tensors)
    assert tensors.node().kind() == "prim::ListConstruct" and tensors.type().str() == "Tensor[]"
    values = helper._unpack_list(tensors)
    assert [value.type().scalarType() for value in values] == ["Float"] * len(values)
    return g.op("Concat", *values, axis_i=helper._parse_arg(dim, "i"))


@helper.parse_args("v", "i")
def joined_by_descriptors(g: Any, tensors: Any, dim: int) -> Any:
    return g.op("Concat", *helper._unpack_list(tensors), axis_i=dim)


@helper.parse_args("v", "i")
def joined_as_sequence(g: Any, tensors: Any, dim: int) -> Any:
    return g.op("ConcatFromSequence", tensors, axis_i=dim)


@helper.parse_args("v", "i")
def joined_by_another(g: Any, tensors: Any, dim: int) -> Any:
    return symbolic_opset9.cat(g, tensors, dim)


@helper.parse_args("v", "i")
def joined_unpacked_by_another(g: Any, tensors: Any, dim: int) -> Any:
    return symbolic_opset11.cat(g, helper._unpack_list(tensors), dim)


def picked(g: Any, x: Any, indices: Any) -> Any:
    assert indices.type().str() == "Tensor?[]"
    first, second = helper._unpack_list(indices)
    assert helper._is_none(first) and not helper._is_none(second)
    return g.op("Gather", x, second, axis_i=1)


def picked_by_another(g: Any, x: Any, indices: Any) -> Any:
    return symbolic_opset9.index(g, x, indices)


@helper.parse_args("v", "is")
def parted(g: Any, x: Any, sizes: list[int]) -> Any:
    return g.op("Split", x, split_i=sizes, axis_i=0, outputs=len(sizes))


@helper.parse_args("v", "fs")
def scaled(g: Any, tensors: Any, by: list[float]) -> Any:
    scaled = [g.op("Mul", one, factor) for one, factor in zip(helper._unpack_list(tensors), by, strict=True)]
    return g.op("prim::ListConstruct", *scaled)


def join(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.ops.lists.join([x, y * 2, x], 0) + 1


def cat(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, y * 2, x], 0) + 1


def stack(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, y], 0) + torch.cat([y, x], 0)


ROWS = [
    pytest.param("aten::cat", joined, cat, 11, id="cat"),
    pytest.param("aten::cat", joined_by_descriptors, stack, 13, id="cat-twice"),
    pytest.param("lists::join", joined, join, 13, id="join"),
    pytest.param("lists::join", joined_by_descriptors, join, 9, id="join-by-descriptors"),
    pytest.param("lists::join", joined_as_sequence, join, 11, id="join-as-sequence"),
    pytest.param("lists::join", joined_as_sequence, join, 17, id="join-as-sequence-17"),
    pytest.param("lists::join", joined_by_another, join, 11, id="join-by-another-symbolic"),
    pytest.param("lists::join", joined_unpacked_by_another, join, 20, id="join-of-items-by-another-symbolic"),
    pytest.param(
        "lists::pick",
        picked,
        lambda x, y: torch.ops.lists.pick(x, [None, torch.tensor([2, 0])]) * y[:, :2],
        13,
        id="optional-tensors",
    ),
    pytest.param("aten::index", picked, lambda x, y: x[:, torch.tensor([2, 0])] * y[:, :2], 11, id="index"),
    pytest.param("aten::index", picked_by_another, lambda x, y: x[:, torch.tensor([2, 0])], 13, id="index-by-another"),
    pytest.param(
        "lists::parts", parted, lambda x, y: [one * 2 for one in torch.ops.lists.parts(x, [1, 1])], 13, id="results"
    ),
    pytest.param(
        "lists::scaled", scaled, lambda x, y: torch.ops.lists.scaled([x, y], [2.0, 0.5]), 13, id="list-to-list"
    ),
]


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize(("name", "symbolic", "function", "opset"), ROWS)
@pytest.mark.filterwarnings("ignore:.*made-up values")
def test_a_list_is_one_value_that_can_be_unpacked(
    name: str, symbolic: Function, function: Function, opset: int, dynamo: bool
) -> None:
    vary = name != "lists::parts"
    axes = {"input_names": ["x", "y"], "dynamic_axes": {"x": {0: "n"}}} if vary else {}
    with registered(name, symbolic):
        program = onnxport.export(Wrapped(function), (X, Y), opset_version=opset, dynamo=dynamo, **axes)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for x in (X, torch.randn(4, 3)) if vary else (X,):
        expected = function(x, Y) if not isinstance(function(x, Y), torch.Tensor) else [function(x, Y)]
        for found, one in zip(program(x, Y), expected, strict=True):
            torch.testing.assert_close(found, one)


class Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([x, *others])

    @staticmethod
    def symbolic(g: Any, x: Any, others: list[Any]) -> Any:
        return g.op("Concat", x, *others, axis_i=0)


@pytest.mark.parametrize("dynamo", [True, False])
def test_a_list_of_an_autograd_function_is_a_list(dynamo: bool) -> None:
    program = onnxport.export(Wrapped(lambda x, y: Joined.apply(x, [y, x])), (X, Y), dynamo=dynamo, opset_version=13)
    torch.testing.assert_close(program(X, Y)[0], torch.cat([X, Y, X]))


@pytest.mark.filterwarnings("ignore:The operator lists.join.default has no fake kernel")
def test_a_list_as_one_input_needs_sequences() -> None:
    with registered("lists::join", joined_as_sequence), pytest.raises(OnnxExporterError, match="from opset 11 on"):
        onnxport.export(Wrapped(join), (X, Y), opset_version=10)


def test_arguments_are_of_the_kinds_that_torch_gives_them() -> None:
    """A list that is known altogether is a constant, one that varies in part is put together in the graph."""

    def view(g: Any, x: Any, size: Any) -> Any:
        assert helper._is_packed_list(size) and not helper._is_constant(size)
        assert helper._maybe_get_const(helper._unpack_list(size)[1], "i") == 3
        return symbolic_opset9.view(g, x, size)

    def permute(g: Any, x: Any, dims: Any) -> Any:
        assert dims.node().kind() == "onnx::Constant" and helper._is_constant(dims)
        assert helper._maybe_get_const(dims, "is") == [1, 0] == helper._parse_arg(dims, "is")
        assert helper._parse_arg(dims, "t").tolist() == [1, 0]
        return g.op("Transpose", x, perm_i=helper._parse_arg(dims, "is"))

    with registered("aten::view", view), registered("aten::permute", permute):
        model = Wrapped(lambda x: (x * 2).view(x.shape[0], 3).permute(1, 0))
        program = onnxport.export(model, (X,), input_names=["x"], dynamic_axes={"x": {0: "n"}}, dynamo=False)
    torch.testing.assert_close(program(torch.ones(4, 3))[0], torch.full((3, 4), 2.0))
