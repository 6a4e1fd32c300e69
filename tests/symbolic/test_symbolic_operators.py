"""Operators of libraries that say nothing of their results without values, however they were defined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from onnxport.symbolic_helper import _scalar
from registering import registered

import onnxport
from onnxport import OperatorExportTypes, utils
from onnxport.errors import OnnxExporterWarning

X = torch.tensor([[-1.0, 0.5, 2.0], [3.0, -0.25, 1.0]])
KEYS = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def on_arrays(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * by).repeat(2, 1)


def on_tensors(x: torch.Tensor, by: float) -> torch.Tensor:
    return (x * by).repeat(2, 1)


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    made = torch.library.Library("untold", "FRAGMENT")
    for key in KEYS:
        for name, kernel in ((f"arrays_{key}", on_arrays), (f"tensors_{key}", on_tensors)):
            made.define(f"{name}(Tensor x, float by) -> Tensor")
            made.impl(name, kernel, key)
    made.define("rows(Tensor x) -> Tensor")
    made.impl("rows", lambda x: torch.stack([row * 2 for row in x]), "CompositeImplicitAutograd")
    made.define("attributes(Tensor x, int[] sizes, str mode='a', bool flag=True, Tensor? y=None) -> (Tensor, Tensor)")
    made.impl("attributes", lambda x, sizes, mode="a", flag=True, y=None: (x.repeat(2, 1), x.sum(1).long()), "CPU")
    kept = [torch.library.custom_op("untold::defined", _annotated(on_arrays), mutates_args=())]
    yield
    kept.clear()
    made._destroy()


def _annotated(function: Any) -> Any:
    def kernel(x: torch.Tensor, by: float) -> torch.Tensor:
        return function(x, by)

    # torch reads the schema off the annotations.
    kernel.__annotations__ = {"x": torch.Tensor, "by": float, "return": torch.Tensor}
    return kernel


def scale(g: Any, x: Any, by: Any) -> Any:
    return g.op("my::Scale", x, by_f=_scalar(by))


class Rows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.untold.rows(x)


class Model(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(torch.ops.untold, self.name)(x, 2.0) + 1


def export(model: torch.nn.Module, **options: Any) -> onnxport.ONNXProgram:
    axes = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
    return onnxport.export(model, (X,), opset_version=17, **axes, **options)


def written(program: onnxport.ONNXProgram) -> tuple[list[str], str]:
    nodes = [f"{node.domain}::{node.op_type}" for node in program.model.graph]
    return nodes, str(program.model.graph.outputs[0].shape)


NAMES = ["defined", *(f"{kind}_{key}" for kind in ("arrays", "tensors") for key in KEYS)]
KINDS = [OperatorExportTypes.ONNX_FALLTHROUGH, OperatorExportTypes.ONNX_ATEN_FALLBACK]


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:.*made-up values")
def test_with_a_symbolic_an_operator_needs_no_fake_kernel(name: str, dynamo: bool) -> None:
    with registered(f"untold::{name}", scale):
        assert written(export(Model(name), dynamo=dynamo)) == (["my::Scale", "::Add"], "[2*n,3]")


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["defined", "arrays_CPU", "arrays_CompositeImplicitAutograd"])
@pytest.mark.filterwarnings("ignore:.*made-up values")
def test_operators_that_are_kept_need_no_fake_kernel(name: str, kind: OperatorExportTypes, dynamo: bool) -> None:
    program = export(Model(name), dynamo=dynamo, operator_export_type=kind)
    assert written(program) == ([f"untold::{name}", "::Add"], "[2*n,3]")


@pytest.mark.filterwarnings("ignore:.*made-up values")
def test_a_kernel_that_counts_rows_leaves_their_number_open() -> None:
    with registered("untold::rows", lambda g, x: g.op("my::Rows", x)):
        program = export(Rows())
    assert written(program) == (["my::Rows"], "[n,3]")


@pytest.mark.filterwarnings("ignore:.*made-up values")
def test_neither_do_those_of_a_translation_table() -> None:
    table = {torch.ops.untold.arrays_CPU: lambda op, x, by: op.Concat(x * by, x * by, axis=0)}
    program = export(Model("arrays_CPU"), custom_translation_table=table)
    torch.testing.assert_close(program(X)[0], Model("arrays_CPU")(X))


@pytest.mark.parametrize("name", ["defined", "arrays_CPU", "arrays_CompositeImplicitAutograd"])
def test_that_sizes_come_from_an_example_is_said(name: str) -> None:
    with registered(f"untold::{name}", scale), pytest.warns(OnnxExporterWarning, match=f"{name}.* has no fake kernel"):
        export(Model(name))


@pytest.mark.filterwarnings("ignore:.*made-up values")
def test_operators_are_afterwards_as_they_were() -> None:
    def kernels() -> list[Any]:
        from torch._library.custom_ops import OPDEFS
        from torch._library.simple_registry import singleton

        implicit = torch.ops.untold.arrays_CompositeImplicitAutograd.default
        defined = OPDEFS["untold::defined"]._abstract_fn
        return [dict(implicit.py_kernels), defined, singleton.find("untold::arrays_CPU").fake_impl.kernel]

    before = kernels()
    export(Model("arrays_CompositeImplicitAutograd"), operator_export_type=OperatorExportTypes.ONNX_FALLTHROUGH)
    assert kernels() == before


class Attributes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.ops.untold.attributes(x, [3, 4], mode="b")


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.filterwarnings("ignore:.*made-up values")
def test_an_operator_that_is_kept_has_its_arguments_as_attributes(dynamo: bool) -> None:
    program = export(Attributes(), dynamo=dynamo, operator_export_type=KINDS[0], custom_opsets={"untold": 3})
    (node,) = program.model.graph
    assert {name: one.value for name, one in node.attributes.items()} == {"sizes": (3, 4), "mode": "b", "flag": 1}
    outputs = [(value.dtype.name, str(value.shape)) for value in program.model.graph.outputs]
    assert outputs == [("FLOAT", "[2*n,3]"), ("INT64", "[n]")]
    assert program.model.opset_imports["untold"] == 3


@pytest.mark.filterwarnings("ignore:.*made-up values")
def test_they_are_found_to_be_unconvertible() -> None:
    _, names = utils.unconvertible_ops(Model("arrays_CPU"), (X,), opset_version=17)
    assert names == ["untold::arrays_CPU"]
    with registered("untold::arrays_CPU", scale):
        assert utils.unconvertible_ops(Model("arrays_CPU"), (X,), opset_version=17)[1] == []
