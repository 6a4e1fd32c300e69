"""``custom_translation_table``: every kind of key, every kind of value, and what is said when they don't fit."""

from __future__ import annotations

import operator
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import onnxscript
import pytest
import torch
from onnxscript import FLOAT, INT64
from onnxscript import opset18 as script18
from onnxscript import opset20 as script20

import onnxport
from onnxport.errors import TranslationError
from onnxport.translate import Tensor


@torch.library.custom_op("onnxport_custom::twist", mutates_args=())
def twist(x: torch.Tensor, other: torch.Tensor | None, by: float = 1.0, axes: list[int] | None = None) -> torch.Tensor:
    return x * by if other is None else x * by + other


@twist.register_fake
def _(x, other, by=1.0, axes=None):
    return torch.empty_like(x)


@torch.library.custom_op("onnxport_custom::halves", mutates_args=())
def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[: x.shape[0] // 2].clone(), x[x.shape[0] // 2 :].clone()


@halves.register_fake
def _(x):
    return x.new_empty(x.shape[0] // 2, *x.shape[1:]), x.new_empty(x.shape[0] - x.shape[0] // 2, *x.shape[1:])


domain = onnxscript.values.Opset("my.functions", 2)


@onnxscript.script(domain, default_opset=script18)
def triple(x: FLOAT[...], factor: float = 3.0) -> FLOAT[...]:
    return x * factor


@onnxscript.script(domain, default_opset=script18)
def scripted_twist(x, other, by: float = 1.0):
    return triple(x * by) + other


def traced_twist(x, other, by):
    # ReduceSum has read its axes from an input since opset 13, and multiplies what it keeps.
    total = script18.ReduceSum(x, [0], keepdims=1)
    return script18.Add(script18.Sub(script18.Add(script18.Mul(x, by), total), total), other)


def mixed_twist(x, other, by):
    return script18.Add(triple(x, factor=by), other)


class Twist(torch.nn.Module):
    def __init__(self, by: float = 2.0, axes: list[int] | None = None) -> None:
        super().__init__()
        self.by, self.axes = by, axes

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return twist(x, other, self.by, self.axes)


ARGS = (torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.5]))

VALUES = {
    "by name": lambda op, x, other, by: x * by + other,
    "by name, in another order": lambda op, by, other, x: x * by + other,
    "by position": lambda op, a, b, c: a * c + b,
    "all by position": lambda op, *args: args[0] * args[2] + args[1],
    "all by name": lambda op, **kwargs: kwargs["x"] * kwargs["by"] + kwargs["other"],
    "plain": lambda x, other, by: x * by + other,
    "traced": traced_twist,
    "traced, calls a scripted one": mixed_twist,
}
KEYS = {
    "overload": torch.ops.onnxport_custom.twist.default,
    "packet": torch.ops.onnxport_custom.twist,
    "custom_op": twist,
}


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_values(value: Callable[..., Any], opset: int) -> None:
    program = onnxport.export(Twist(), ARGS, custom_translation_table={twist: value}, opset_version=opset)
    torch.testing.assert_close(program(*ARGS)[0], Twist()(*ARGS))


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_keys(key: Any) -> None:
    program = onnxport.export(Twist(), ARGS, custom_translation_table={key: VALUES["by name"]})
    torch.testing.assert_close(program(*ARGS)[0], Twist()(*ARGS))


def test_an_overload_goes_before_its_operator() -> None:
    table = {KEYS["overload"]: lambda op, x, other, by: x - other, KEYS["packet"]: VALUES["by name"]}
    assert onnxport.export(Twist(), ARGS, custom_translation_table=table)(*ARGS)[0].tolist() == [0.5, 1.5]


@pytest.mark.parametrize("opset", [11, 18, 23])
def test_scripted_functions_become_functions_of_the_model(opset: int, tmp_path) -> None:
    path = tmp_path / "model.onnx"
    table = {twist: scripted_twist}
    program = onnxport.export(Twist(), ARGS, path, custom_translation_table=table, opset_version=opset)
    torch.testing.assert_close(program(*ARGS)[0], 6 * ARGS[0] + ARGS[1])
    if opset >= 15:
        assert [(node.domain, node.op_type) for node in program.model.graph] == [("my.functions", "scripted_twist")]
        assert {name for _, name, _ in program.model.functions} == {"scripted_twist", "triple"}
        assert program.model.opset_imports["my.functions"] == 2
        assert program.model.graph[0].attributes["by"].value == 2.0


def test_attributes_are_typed_as_the_function_says() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.add(x, x, alpha=3)

    def scaled(self, other, alpha):
        return triple(self, factor=alpha)

    table = {torch.ops.aten.add.Tensor: scaled}
    x = torch.ones(2)
    assert onnxport.export(Model(), (x,), custom_translation_table=table)(x)[0].tolist() == [3.0, 3.0]


@onnxscript.script(domain, default_opset=script18)
def whole(x: INT64[...], other: INT64[...]):
    return x - other


@onnxscript.script(domain, default_opset=script18)
def real(x: FLOAT[...], other: FLOAT[...]):
    return x + other


def plain_whole(x: INT64[...], other: INT64[...]):
    return script18.Sub(x, other)


def plain_real(x: FLOAT[...], other: FLOAT[...]):
    return script18.Add(x, other)


def by_number(op, x: Tensor, other: float) -> Tensor:
    return x * other


@pytest.mark.parametrize("dtype, expected", [(torch.float32, [3.0, 5.0]), (torch.int64, [1, 1])])
def test_element_types_choose_among_several_and_bind_none_that_stands_alone(dtype: torch.dtype, expected: Any) -> None:
    add = torch.ops.aten.add.Tensor
    x, other = torch.tensor([2, 3], dtype=dtype), torch.tensor([1, 2], dtype=dtype)
    program = onnxport.export(torch.add, (x, other), custom_translation_table={add: [plain_whole, plain_real]})
    assert program(x, other)[0].tolist() == expected
    alone = onnxport.export(torch.add, (x, other), custom_translation_table={add: plain_real})
    assert alone(x, other)[0].tolist() == [3, 5]
    with pytest.raises(TranslationError, match=r"plain_whole: `x` may not be of torch.float64"):
        x, other = x.double(), other.double()
        onnxport.export(torch.add, (x, other), custom_translation_table={add: [plain_whole, plain_real]})


@pytest.mark.parametrize(
    "other, expected", [(torch.tensor([1.0]), [3.0, 4.0]), (torch.tensor([1]), [1, 2]), (2.5, [5.0, 7.5])]
)
def test_of_several_the_first_that_fits_is_taken(other: Any, expected: list[float]) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + other if isinstance(other, float) else torch.add(x, other)

    x = torch.tensor([2, 3]) if isinstance(other, torch.Tensor) and not other.is_floating_point() else ARGS[0] + 1
    table = {torch.ops.aten.add.Tensor: [by_number, whole, real]}
    program = onnxport.export(Model(), (x,), custom_translation_table=table)
    assert program(x)[0].tolist() == expected


@pytest.mark.parametrize(
    "value, why",
    [
        (lambda op, x, other: x, "`by`, which is 2.0 here"),
        (lambda op, a, b, c, d, e: a, "it takes 5 arguments, but the operator has 4"),
        (lambda op, x, *, wrong: x, "it takes `wrong`, which the operator has not"),
        ([lambda op, x: x, lambda op, x, other: x], "none of the custom translations fits"),
    ],
)
def test_what_does_not_fit_is_said(value: Any, why: str) -> None:
    with pytest.raises(TranslationError) as caught:
        onnxport.export(Twist(), ARGS, custom_translation_table={twist: value})
    assert why in str(caught.value)
    assert "test_custom_translations.py" in str(caught.value)


@pytest.mark.parametrize("table", [{"add": lambda op, x: x}, {twist: "add"}])
def test_what_is_no_table_is_refused(table: Any) -> None:
    with pytest.raises(TypeError, match="of `custom_translation_table` is"):
        onnxport.export(Twist(), ARGS, custom_translation_table=table)


def test_arguments_at_their_default_may_be_left_out() -> None:
    table = {twist: lambda op, x, other: x + other}
    program = onnxport.export(Twist(by=1.0), ARGS, custom_translation_table=table)
    torch.testing.assert_close(program(*ARGS)[0], Twist(by=1.0)(*ARGS))


def test_several_results() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = halves(x)
            return first - second

    x = torch.rand(4, 2)
    table = {halves: lambda x: script18.Split(x, num_outputs=2, axis=0)}
    program = onnxport.export(Model(), (x,), custom_translation_table=table)
    torch.testing.assert_close(program(x)[0], Model()(x))


class AddedSize(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(x.shape[0] + 1)


class Negated(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.sym_not(x.shape[0] == 3)


@pytest.mark.parametrize(
    "key, value",
    [
        (operator.add, lambda op, a, b: op.Sub(a, op.const(-b, torch.int64))),
        (operator.add, lambda a, b: script18.Sub(a, -b)),
    ],
    ids=["ours", "traced"],
)
def test_python_functions_of_sizes(key: Any, value: Any) -> None:
    x = torch.ones(5)
    program = onnxport.export(AddedSize(), (x,), dynamic_shapes=({0: "n"},), custom_translation_table={key: value})
    assert "Sub" in {node.op_type for node in program.model.graph}
    assert program(torch.ones(7))[0].shape == (8,)


def test_sym_not() -> None:
    program = onnxport.export(
        Negated(),
        (torch.ones(5),),
        dynamic_shapes=({0: "n"},),
        custom_translation_table={torch.sym_not: lambda x: script20.Not(x)},
    )
    for size in (3, 4):
        assert program(torch.ones(size))[0].tolist() == Negated()(torch.ones(size)).tolist()


def test_a_call_as_a_node_of_ones_own_domain() -> None:
    table = {twist: onnxport.ops.custom_op("my.domain::Twist", version=4)}
    program = onnxport.export(Twist(axes=[0, 1]), ARGS, custom_translation_table=table)
    (node,) = program.model.graph
    assert (node.domain, node.op_type, len(node.inputs)) == ("my.domain", "Twist", 2)
    assert {name: attribute.value for name, attribute in node.attributes.items()} == {"by": 2.0, "axes": (0, 1)}
    assert program.model.opset_imports["my.domain"] == 4
    assert node.outputs[0].shape == (2,)


def test_a_domain_is_needed() -> None:
    with pytest.raises(ValueError, match="mydomain::Twist"):
        onnxport.ops.custom_op("Twist")


def test_onnxscript_is_not_imported() -> None:
    code = (
        "import sys, torch, onnxport\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x): return torch.relu(x)\n"
        "table = {torch.ops.aten.relu.default: lambda self: self + 1}\n"
        "program = onnxport.export(M(), (torch.ones(2),), custom_translation_table=table)\n"
        "assert [n.op_type for n in program.model.graph] == ['Add']\n"
        "assert 'onnxscript' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": "src"})
