"""What the file calls outputs and axes that the user gives no names."""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.export import Dim

import onnxport
from onnxport.capture.naming import returned_names

X, Y = torch.linspace(-1, 1, 12).reshape(3, 4), torch.ones(3, 4)
DYNAMIC = Dim.DYNAMIC


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any, y: Any) -> Any:
        return self.function(self.second(self.first(x)), y + 1)


@dataclass
class Detection:
    boxes: torch.Tensor
    masks: torch.Tensor | None
    scores: torch.Tensor


class Moments(NamedTuple):
    mean: torch.Tensor
    spread: torch.Tensor


def counted(x: Any, y: Any) -> Any:
    found: Any = collections.defaultdict(list)
    found["u"], found["v"] = x, y
    return found


OUTPUTS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a tensor": (lambda x, y: x + y, ["output"]),
    "a tuple": (lambda x, y: (x, y), ["output_0", "output_1"]),
    "a tuple of one": (lambda x, y: (x,), ["output"]),
    "a list in a tuple": (lambda x, y: (x, [y, x + y]), ["output_0", "output_1.0", "output_1.1"]),
    "a dict": (lambda x, y: {"logits": x, "states": (y, x + y)}, ["logits", "states.0", "states.1"]),
    "a dict by number": (lambda x, y: {3: x, 5: y}, ["output_3", "output_5"]),
    "keys with blanks": (lambda x, y: {"top score": x, "": y}, ["top_score", "empty"]),
    "a name of an input": (lambda x, y: {"x": x, "y": y}, ["x_out", "y_out"]),
    "a defaultdict": (counted, ["u", "v"]),
    "a dataclass": (lambda x, y: Detection(x, None, y), ["boxes", "scores"]),
    "a named tuple": (lambda x, y: Moments(x, y), ["mean", "spread"]),
    "a named tuple in a tuple": (lambda x, y: (x, Moments(x + 1, y)), ["output_0", "output_1.mean", "output_1.spread"]),
    "the same tensor twice": (lambda x, y: {"a": x, "b": x}, ["a", "b"]),
    "an old cache": (
        lambda x, y: {"logits": x, "past_key_values": ((x + 1, y), (x + 2, y + 1))},
        ["logits", "present.0.key", "present.0.value", "present.1.key", "present.1.value"],
    ),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs(name: str) -> None:
    function, expected = OUTPUTS[name]
    program = onnxport.export(Model(function), (X, Y))
    assert [value.name for value in program.model.graph.outputs] == expected


def test_none_keeps_its_place() -> None:
    with pytest.warns(onnxport.errors.OnnxExporterWarning, match="returns None"):
        program = onnxport.export(Model(lambda x, y: (x, None, y)), (X, Y))
    assert [value.name for value in program.model.graph.outputs] == ["output_0", "output_2"]


def test_names_of_the_user_come_first() -> None:
    program = onnxport.export(Model(lambda x, y: {"a": x, "b": y}), (X, Y), output_names=["b"])
    assert [value.name for value in program.model.graph.outputs] == ["b", "b_1"]


def test_a_script_is_asked_what_it_returns() -> None:
    program = onnxport.export(torch.jit.script(nn.ReLU()), (X,))
    assert [value.name for value in program.model.graph.outputs] == ["output"]


def shapes(function: Callable[..., Any], axes: Any, **options: Any) -> list[str]:
    program = onnxport.export(Model(function), (X, Y), dynamic_shapes=axes, **options)
    graph = program.model.graph
    return [str(value.shape) for value in (*graph.inputs, *graph.outputs)]


FIRST = {"x": {0: DYNAMIC}, "y": {0: DYNAMIC}}
AXES: dict[str, tuple[Callable[..., Any], Any, list[str]]] = {
    "equal first axes": (lambda x, y: x + y, FIRST, ["[batch,4]", "[batch,4]", "[batch,4]"]),
    "a sum": (
        lambda x, y: torch.cat([x, y]),
        FIRST,
        ["[x_dim0,4]", "[y_dim0,4]", "[x_dim0 + y_dim0,4]"],
    ),
    "one of the user's": (
        lambda x, y: torch.cat([x, y]),
        {"x": {0: "rows"}, "y": {0: DYNAMIC}},
        ["[rows,4]", "[y_dim0,4]", "[rows + y_dim0,4]"],
    ),
    "the user's batch": (
        lambda x, y: (x, y[:, :1]),
        {"x": {0: "y_dim0"}, "y": {0: DYNAMIC}},
        ["[y_dim0,4]", "[y_dim0_1,4]", "[y_dim0,4]", "[y_dim0_1,1]"],
    ),
    "a multiple of another": (
        lambda x, y: (x, y),
        {"x": None, "y": {1: 2 * Dim("half", max=9)}},
        ["[3,4]", "[3,2*half]", "[3,4]", "[3,2*half]"],
    ),
    "known at run time": (lambda x, y: (x + y).nonzero(), FIRST, ["[batch,4]", "[batch,4]", "[nonzero_dim0,2]"]),
}


@pytest.mark.parametrize("name", AXES)
def test_axes(name: str) -> None:
    function, axes, expected = AXES[name]
    assert shapes(function, axes) == expected


def test_names_of_inputs_name_their_axes() -> None:
    found = shapes(
        lambda x, y: (x, y.sum(1)), {"x": {0: DYNAMIC, 1: None}, "y": {1: DYNAMIC}}, input_names=["image", "text"]
    )
    assert found == ["[image_dim0,4]", "[3,text_dim1]", "[image_dim0,4]", "[3]"]


def test_language_models() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, vocab_size=50
    )
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.tensor([[1, 2, 3], [3, 2, 1]])
    cache = model(ids, use_cache=True).past_key_values
    layer = {0: "batch", 2: "past"}
    program = onnxport.export(
        model,
        kwargs={"input_ids": ids, "past_key_values": cache},
        dynamic_shapes={"input_ids": {0: "batch", 1: Dim.AUTO}, "past_key_values": [[layer] * 2] * 2},
    )
    found = {value.name: str(value.shape) for value in program.model.graph.outputs}
    assert found["logits"] == "[batch,sequence,50]"
    states = {f"present.{layer}.{state}" for layer in (0, 1) for state in ("key", "value")}
    assert {name: shape for name, shape in found.items() if name in states} == dict.fromkeys(
        states, "[batch,2,past + sequence,8]"
    )


def test_a_program_without_a_structure_counts_its_outputs() -> None:
    program = torch.export.export(Model(lambda x, y: (x, y)), (X, Y))
    program.module_call_graph[0].signature.out_spec = torch.utils._pytree.tree_structure((0, {"a": 0}))
    assert returned_names(program) == ["output_0", "output_1.a"]
