"""dynamic_shapes and dynamic_axes in every form, the names they give, and what is said when they do not fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from comparison import assert_close
from onnxport.capture import Captured, capture
from onnxport.errors import DynamicShapeError, InputError, OnnxExporterWarning
from onnxport.events import EventLog


class Concat(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.sum(0), y.sum(0)])


class Add(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class Many(nn.Module):
    def forward(self, a, *rest, c=None, **more):  # type: ignore[no-untyped-def]
        parts = [a, *rest, *([] if c is None else [c]), *more.values()]
        return torch.cat([part.sum(0) for part in parts])


class Nested(nn.Module):
    def forward(self, x: Any) -> torch.Tensor:
        return x["k"] + 1


class Times(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n


def t(*shape: int) -> torch.Tensor:
    return torch.ones(*(shape or (3, 4)))


def dims(captured: Captured) -> list[list[Any]]:
    """The user inputs' dimensions, by the user's names where there are any."""
    values = {node.name: node.meta["val"] for node in captured.program.graph.nodes if node.op == "placeholder"}
    result = []
    for name in captured.program.graph_signature.user_inputs:
        if name not in values or not isinstance(values[name], torch.Tensor):
            continue
        row = []
        for size in values[name].shape:
            symbol = captured.same_dims.get(str(size), str(size))
            row.append(size if isinstance(size, int) else captured.dim_names.get(symbol, "?"))
        result.append(row)
    return result


FORMS: list[tuple[Any, Any]] = [
    (None, [[3, 4], [3, 4]]),
    ({}, [[3, 4], [3, 4]]),
    ((), [[3, 4], [3, 4]]),
    (({0: "n"}, None), [["n", 4], [3, 4]]),
    ([{0: "n"}, {}], [["n", 4], [3, 4]]),
    ({"x": {0: "n"}, "y": {0: "m"}}, [["n", 4], ["m", 4]]),
    ({"y": {0: "n"}, "x": {0: "n"}}, [["n", 4], ["n", 4]]),
    ((("n", "k"), ["n", None]), [["n", "k"], ["n", 4]]),
    (({-1: "k"}, {-2: "n"}), [[3, "k"], ["n", 4]]),
    (({0: Dim.DYNAMIC}, {0: Dim.AUTO}), [["x_dim0", 4], ["y_dim0", 4]]),
    (({0: Dim.STATIC, 1: "k"}, (3, 4)), [[3, "k"], [3, 4]]),
    (({0: Dim("n")}, {0: Dim("m", min=2, max=64)}), [["n", 4], ["m", 4]]),
    (({0: Dim.DYNAMIC(min=1, max=9)}, None), [["x_dim0", 4], [3, 4]]),
]


@pytest.mark.parametrize(("spec", "expected"), FORMS)
def test_forms(spec: Any, expected: Any) -> None:
    assert dims(capture(Concat(), (t(), t()), dynamic_shapes=spec, events=EventLog())) == expected


VARIADIC: list[tuple[Any, Any, Any, Any]] = [
    ((t(), t(), t()), {}, {"a": None, "rest": ({0: "n"}, None)}, [[3, 4], ["n", 4], [3, 4]]),
    ((t(), t(), t()), {}, (None, ({0: "n"}, None)), [[3, 4], ["n", 4], [3, 4]]),
    ((t(), t(), t()), {}, (None, {0: "n"}, None), [[3, 4], ["n", 4], [3, 4]]),
    ((t(), t()), {}, (None, {0: "n"}), [[3, 4], ["n", 4]]),
    ((t(), t()), {}, (None, ({0: "n"},)), [[3, 4], ["n", 4]]),
    ((t(),), {"z": t(), "c": t()}, {"a": None, "c": {0: "n"}, "more": {"z": {0: "m"}}}, [[3, 4], ["n", 4], ["m", 4]]),
    ((t(),), {"z": t(), "c": t()}, {"a": None, "c": {0: "n"}, "z": {0: "m"}}, [[3, 4], ["n", 4], ["m", 4]]),
    ((t(),), {"z": t()}, (), [[3, 4], [3, 4]]),
    ((t(),), {"z": t(), "c": t()}, (None, {0: "n"}, {"z": {0: "m"}}), [[3, 4], ["n", 4], ["m", 4]]),
]


@pytest.mark.parametrize(("args", "kwargs", "spec", "expected"), VARIADIC)
def test_variadic_forward(args: Any, kwargs: Any, spec: Any, expected: Any) -> None:
    assert dims(capture(Many(), args, kwargs, dynamic_shapes=spec, events=EventLog())) == expected


def test_shapes_collection() -> None:
    x, y = t(), t()
    shapes = torch.export.ShapesCollection()
    shapes[x] = {0: Dim("n")}
    assert dims(capture(Concat(), (x, y), dynamic_shapes=shapes, events=EventLog())) == [["n", 4], [3, 4]]


def test_a_derived_dim_keeps_its_root() -> None:
    n = Dim("n")
    captured = capture(Concat(), (t(), t(6, 4)), dynamic_shapes=({0: n}, {0: 2 * n}), events=EventLog())
    assert dims(captured)[0] == ["n", 4]
    (symbol,) = captured.dim_names
    nodes = {node.name: node for node in captured.program.graph.nodes}
    assert str(nodes["y"].meta["val"].shape[0]) == f"2*{symbol}"
    inputs = torch.rand(5, 4), torch.rand(10, 4)
    assert_close(captured.program.module()(*inputs), Concat()(*inputs))


@pytest.mark.parametrize("spec", ["n", Dim.DYNAMIC])
def test_an_integer_input_can_be_dynamic(spec: Any) -> None:
    captured = capture(Times(), (t(), 5), dynamic_shapes=(None, spec), events=EventLog())
    values = [n.meta["val"] for n in captured.program.graph.nodes if n.op == "placeholder"]
    assert isinstance(values[1], torch.SymInt)
    assert list(captured.dim_names.values()) == ["n"]
    assert_close(captured.program.module()(t(), 7), Times()(t(), 7))


def test_a_name_given_twice_makes_two_symbols_one() -> None:
    captured = capture(Concat(), (t(), t()), dynamic_shapes=({0: "n"}, {0: "n"}), events=EventLog())
    assert list(captured.dim_names.values()) == ["n"]
    assert list(captured.same_dims.values()) == list(captured.dim_names)


def test_two_names_the_model_makes_equal() -> None:
    events = EventLog()
    captured = capture(Add(), (t(), t()), dynamic_shapes=({0: "n"}, {0: "m"}), events=events)
    assert list(captured.dim_names.values()) == ["n"]
    assert [event.message for event in events.of("note")] == [
        "The model requires 'm' (axis 0 of input 'y') to equal 'n'; the name 'n' is kept."
    ]


MISFITS: list[tuple[Any, list[str]]] = [
    ({"x": None}, ["dynamic_shapes lacks 'y'", "Write None for an input that is static"]),
    ({"x": None, "z": None, "y": None}, ["dynamic_shapes has 'z', but the inputs are 'x', 'y'"]),
    (({0: "n"},), ["dynamic_shapes has 1 entries, but there are 2 inputs: 'x', 'y'"]),
    ("n", ["At dynamic_shapes: expected a dict by parameter name, or a tuple with 2 entries, got 'n'"]),
    (("n", None), ["At x: expected a dict from axis to dimension, or a tuple with 2 dimensions, got 'n'"]),
    ((("n",), None), ["At x: expected", "a tuple with 2 dimensions, got a tuple with 1 entries"]),
    (({2: "n"}, {-3: "m"}), ["At x: axis 2 is out of range; the input has 2 axes (shape [3, 4])", "At y: axis -3"]),
    (({0: 5}, None), ["axis 0 of input 'x' is declared to be 5, but the example has 3"]),
    (({0: 1.5}, None), ["At x: expected a name, a Dim, Dim.DYNAMIC", "axis 0 of input 'x', got 1.5"]),
    (({0: "n", 1: "n"}, None), ["'n' names two sizes: axis 0 of input 'x' is 3, axis 1 of input 'x' is 4"]),
]


@pytest.mark.parametrize(("spec", "said"), MISFITS)
def test_dynamic_shapes_that_do_not_fit(spec: Any, said: list[str]) -> None:
    with pytest.raises(DynamicShapeError) as caught:
        capture(Concat(), (t(), t()), dynamic_shapes=spec, events=EventLog())
    for words in said:
        assert words in str(caught.value)


NESTED_MISFITS: list[tuple[Any, str]] = [
    (({0: "n"},), "At x: expected a dict with keys 'k', because the input is a dict, got a dict with keys 0"),
    (([{0: "n"}],), "At x: expected a dict with keys 'k', because the input is a dict, got a list with 1 entries"),
    ({"k": {0: "n"}}, "These are keys of the input 'x': write dynamic_shapes={'x': {...}}"),
]


@pytest.mark.parametrize(("spec", "said"), NESTED_MISFITS)
def test_nested_dynamic_shapes_that_do_not_fit(spec: Any, said: str) -> None:
    with pytest.raises(DynamicShapeError) as caught:
        capture(Nested(), ({"k": t()},), dynamic_shapes=spec, events=EventLog())
    assert said in str(caught.value)


def test_a_dim_cannot_stand_for_an_integer_input() -> None:
    with pytest.raises(DynamicShapeError, match="a Dim can only stand for the size of a tensor"):
        capture(Times(), (t(), 5), dynamic_shapes=(None, Dim("n")), events=EventLog())


AXES: list[tuple[Any, Any, Any]] = [
    ({"x": {0: "n"}}, None, [["n", 4], [3, 4]]),
    ({"a": {0: "n"}, "b": [0, 1]}, ["a", "b"], [["n", 4], ["b_dynamic_axes_1", "b_dynamic_axes_2"]]),
    ({"a": {0: "n"}, "y": {0: "n"}}, ["a"], [["n", 4], ["n", 4]]),
    ({"x": None, "y": [1]}, None, [[3, 4], [3, "y_dynamic_axes_1"]]),
]


@pytest.mark.parametrize(("axes", "input_names", "expected"), AXES)
def test_dynamic_axes(axes: Any, input_names: Any, expected: Any) -> None:
    captured = capture(Concat(), (t(), t()), dynamic_axes=axes, input_names=input_names, events=EventLog())
    assert dims(captured) == expected


def test_dynamic_axes_name_nested_inputs_and_outputs() -> None:
    captured = capture(
        Nested(),
        ({"k": t()},),
        dynamic_axes={"inner": {0: "n"}, "out": {0: "n"}, "other": [1]},
        input_names=["inner"],
        output_names=["out", "other"],
        events=EventLog(),
    )
    assert dims(captured) == [["n", 4]]
    assert captured.output_dim_names == {"out": {0: "n"}, "other": {1: "other_dynamic_axes_1"}}


def test_dynamic_shapes_win_over_dynamic_axes() -> None:
    both: Any = {"dynamic_shapes": ({0: "n"}, None), "dynamic_axes": {"y": {0: "m"}}}
    with pytest.warns(OnnxExporterWarning, match="dynamic_axes says nothing of inputs where dynamic_shapes is given"):
        captured = capture(Concat(), (t(), t()), **both, events=EventLog())
    assert dims(captured) == [["n", 4], [3, 4]]


BAD_AXES: list[tuple[Any, type[Exception], str]] = [
    (
        {"z": {0: "n"}},
        InputError,
        r"dynamic_axes names 'z', which is no input or output. Inputs: 'x', 'y'; outputs: 'o'",
    ),
    ({"x": "n"}, DynamicShapeError, r"For 'x': expected a dict from axis to name, or a list of axes, got 'n'"),
    ({"x": ["n"]}, DynamicShapeError, r"For 'x': expected a dict from axis to name, or a list of axes, got a list"),
    ({"x": {7: "n"}}, DynamicShapeError, r"At x: axis 7 is out of range; the input has 2 axes"),
]


@pytest.mark.parametrize(("axes", "error", "said"), BAD_AXES)
def test_dynamic_axes_that_do_not_fit(axes: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        capture(Concat(), (t(), t()), dynamic_axes=axes, output_names=["o"], events=EventLog())
