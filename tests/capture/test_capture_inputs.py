"""What may be passed as a model and its inputs, and what is said when it does not fit."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils import _pytree

from comparison import assert_close
from onnxport.capture import capture
from onnxport.errors import InputError
from onnxport.events import EventLog


class Apply(nn.Module):
    """A module whose forward is a given function of one input."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class Many(nn.Module):
    def forward(self, a, b=None, *rest, c=None, **more):  # type: ignore[no-untyped-def]
        total = a * 2
        for value in (b, *rest, c, *more.values()):
            total = total if value is None else total + value
        return total


class Two(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * 2 + y


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@dataclass
class Record:
    x: torch.Tensor
    y: torch.Tensor
    scale: int = 3


class Bag:
    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y = x, y


_pytree.register_pytree_node(
    Bag,
    lambda bag: ([bag.x, bag.y], None),
    lambda children, _: Bag(*children),
    serialized_type_name="tests.capture.Bag",
)


def t(*shape: int) -> torch.Tensor:
    return torch.ones(*(shape or (3, 4)))


def user_inputs(program: torch.export.ExportedProgram) -> list[str]:
    return list(program.graph_signature.user_inputs)


NESTED = [
    ("dict", {"x": t(), "y": t()}, lambda v: v["x"] + v["y"], {"x": {0: "n"}, "y": {0: "n"}}),
    ("list", [t(), t()], lambda v: v[0] + v[1], [{0: "n"}, {0: "n"}]),
    ("list by tuple", [t(), t()], lambda v: v[0] + v[1], ({0: "n"}, {0: "n"})),
    ("nested", {"x": [t(), (t(),)]}, lambda v: v["x"][0] + v["x"][1][0], {"x": [{0: "n"}, ({0: "n"},)]}),
    ("ordered", collections.OrderedDict(x=t(), y=t()), lambda v: v["x"] + v["y"], {"x": {0: "n"}, "y": {0: "n"}}),
    ("namedtuple", Pair(t(), t()), lambda v: v.x + v.y, Pair({0: "n"}, {0: "n"})),  # type: ignore[arg-type]
    ("namedtuple by tuple", Pair(t(), t()), lambda v: v.x + v.y, ({0: "n"}, {0: "n"})),
    ("namedtuple by field", Pair(t(), t()), lambda v: v.x + v.y, {"x": {0: "n"}, "y": {0: "n"}}),
    ("dataclass by field", Record(t(), t()), lambda v: v.x + v.y, {"x": {0: "n"}, "y": {0: "n"}, "scale": None}),
    ("dataclass by list", Record(t(), t()), lambda v: v.x + v.y, [{0: "n"}, {0: "n"}, None]),
    ("registered", Bag(t(), t()), lambda v: v.x + v.y, [{0: "n"}, {0: "n"}]),
]


@pytest.mark.parametrize(("value", "function", "spec"), [row[1:] for row in NESTED], ids=[row[0] for row in NESTED])
def test_nested_inputs_and_their_dynamic_shapes(value: Any, function: Any, spec: Any) -> None:
    captured = capture(Apply(function), (value,), dynamic_shapes=(spec,), events=EventLog())
    values = [n.meta.get("val") for n in captured.program.graph.nodes if n.op == "placeholder"]
    sizes = [value.shape[0] for value in values if isinstance(value, torch.Tensor)]
    assert [isinstance(size, torch.SymInt) for size in sizes] == [True, True]
    assert list(captured.dim_names.values()) == ["n"]
    longer = _pytree.tree_map(lambda leaf: torch.rand(5, 4) if isinstance(leaf, torch.Tensor) else leaf, value)
    assert_close(captured.program.module()(longer), function(longer))


SINGLE = [
    ("tensor", t(), lambda v: v + 1),
    ("dict", {"x": t()}, lambda v: v["x"] + 1),
    ("list", [t()], lambda v: v[0] + 1),
    ("namedtuple", Pair(t(), t()), lambda v: v.x + v.y),
]


@pytest.mark.parametrize(("value", "function"), [row[1:] for row in SINGLE], ids=[row[0] for row in SINGLE])
def test_a_single_input_needs_no_tuple(value: Any, function: Any) -> None:
    captured = capture(Apply(function), value, events=EventLog())
    assert type(captured.args) is tuple
    assert len(captured.args) == 1
    assert_close(captured.program.module()(value), function(value))


def test_keywords_follow_the_signature() -> None:
    captured = capture(Many(), (t(),), {"z": t(), "c": t(), "b": t()}, events=EventLog())
    assert user_inputs(captured.program) == ["a", "b", "c", "z"]
    assert list(captured.kwargs) == ["b", "c", "z"]
    given = {name: torch.rand(3, 4) for name in ("z", "c", "b")}
    assert_close(captured.program.module()(t(), **given), Many()(t(), **given))


def test_one_tensor_for_two_inputs_gives_two_inputs() -> None:
    x = t()
    captured = capture(Two(), (x, x), dynamic_shapes=({0: "n"}, {0: "n"}), events=EventLog())
    uses = [len(node.users) for node in captured.program.graph.nodes if node.op == "placeholder"]
    assert uses == [1, 1]
    other = captured.program.module()(torch.zeros(2, 4), torch.ones(2, 4))
    assert torch.equal(other, torch.ones(2, 4))


def test_a_registered_dataclass_is_noted_once() -> None:
    @dataclass
    class Fresh:
        x: torch.Tensor

    notes = []
    for _ in range(2):
        events = EventLog()
        capture(Apply(lambda v: v.x + 1), (Fresh(t()),), events=events)
        notes.append([event.message for event in events.of("note")])
    assert "Fresh was registered as a container" in notes[0][0]
    assert notes[1] == []


MISFITS = [
    (Two(), (t(),), {}, ["do not fit Two.forward(x, y);", "given: (float32[3, 4])", "'y' is missing"]),
    (Two(), (t(), t(), t()), {}, ["3 positional argument(s) were given, but forward takes 2"]),
    (Two(), (t(), t()), {"z": t()}, ["'z' is not a parameter of forward", "z=float32[3, 4]"]),
    (Two(), (t(),), {"x": t(), "w": 3}, ["'x' was given twice", "'w' is not a parameter", "'y' is missing"]),
    (Two(), [t(), t()], {}, ["an object of type list", "'y' is missing", "Pass args as a tuple"]),
]


@pytest.mark.parametrize(("model", "args", "kwargs", "said"), MISFITS)
def test_inputs_that_do_not_fit_forward(model: Any, args: Any, kwargs: Any, said: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        capture(model, args, kwargs, events=EventLog())
    for words in said:
        assert words in str(caught.value)


NOT_MODELS = [
    ("model.pt", "an object of type str. Load it first"),
    ({"weight": 1}, "an object of type dict. Make the module and give it these weights"),
    (nn.Linear, "the class Linear. Pass an instance: Linear(...)"),
    (3, "an object of type int. Pass an instance of torch.nn.Module"),
    (None, "an object of type NoneType"),
]


@pytest.mark.parametrize(("model", "said"), NOT_MODELS)
def test_not_a_model(model: Any, said: str) -> None:
    with pytest.raises(TypeError, match=r"must be a torch\.nn\.Module or a torch\.export\.ExportedProgram") as caught:
        capture(model, (t(),), events=EventLog())
    assert said in str(caught.value)


NAMES = [
    (["a"], None, None),
    (["a", "b", "weight", "bias"], None, None),
    (["a", "b", "weight", "bias", "too_many"], None, r"5 names, but the model has 2 input\(s\) \(x, y\) and 2 param"),
    (["a", "a"], None, r"input_names repeats 'a'"),
    (None, ["o", "o"], r"output_names repeats 'o'"),
]


@pytest.mark.parametrize(("input_names", "output_names", "said"), NAMES)
def test_names(input_names: Any, output_names: Any, said: str | None) -> None:
    class Weighted(Two):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.register_buffer("bias", torch.ones(4))

    def run() -> Any:
        return capture(Weighted(), (t(), t()), input_names=input_names, output_names=output_names, events=EventLog())

    if said is None:
        run()
    else:
        with pytest.raises(InputError, match=said):
            run()


def test_an_exported_program_takes_only_its_own_inputs() -> None:
    program = torch.export.export(Two(), (t(), t()))
    with pytest.raises(InputError, match=r"takes 2 input\(s\) when flattened, but the example inputs flatten to 1"):
        capture(program, (t(),), events=EventLog())


def test_an_exported_programs_keyword_inputs_can_be_named() -> None:
    shapes = {"x": {0: torch.export.Dim.DYNAMIC}, "y": {0: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(Two(), (t(),), {"y": t()}, dynamic_shapes=shapes)
    captured = capture(program, dynamic_shapes={"x": None, "y": {0: "n"}}, events=EventLog())
    assert list(captured.dim_names.values()) == ["n"]


def test_a_cache_as_input_has_dynamic_axes() -> None:
    from transformers import DynamicCache

    class Reads(nn.Module):
        def forward(self, x: torch.Tensor, cache: Any) -> torch.Tensor:
            return torch.cat([cache.layers[0].keys, x], 2)

    cache = DynamicCache()
    cache.update(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4), 0)
    axes = {0: "batch", 2: "past"}
    shapes = {"x": {0: "batch"}, "cache": {"key_cache": [axes], "value_cache": [axes]}}
    captured = capture(Reads(), (torch.ones(1, 2, 1, 4), cache), dynamic_shapes=shapes, events=EventLog())
    assert sorted(captured.dim_names.values()) == ["batch", "past"]
    longer = DynamicCache()
    longer.update(torch.rand(3, 2, 5, 4), torch.rand(3, 2, 5, 4), 0)
    assert_close(captured.program.module()(torch.ones(3, 2, 1, 4), longer), Reads()(torch.ones(3, 2, 1, 4), longer))


@pytest.mark.parametrize("strict", [False, True])
def test_keywords_beyond_the_signature_can_be_dynamic_in_both_ways_of_tracing(strict: bool) -> None:
    class Open(nn.Module):
        def forward(self, a: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
            if strict and not torch.compiler.is_dynamo_compiling():
                raise RuntimeError("leave it to bytecode tracing")
            return torch.cat([a, *more.values()])

    model = Open()
    shapes = {"a": None, "more": {"z": {0: "n"}}}
    captured = capture(model, (t(),), {"z": t(5, 4)}, dynamic_shapes=shapes, events=EventLog())
    assert f"strict={strict}" in captured.strategy
    assert list(captured.dim_names.values()) == ["n"]
    assert "forward" not in vars(model)
    z = torch.rand(7, 4)
    assert_close(captured.program.module()(t(), z=z), torch.cat([t(), z]))
