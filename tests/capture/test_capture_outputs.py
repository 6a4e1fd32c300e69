"""What a model may return."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import ModelOutput

import onnxport
from comparison import assert_close
from onnxport.capture import capture
from onnxport.errors import InputError, OnnxExporterWarning
from onnxport.events import EventLog


class Return(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x + 1)


@dataclass
class Result:
    values: torch.Tensor
    extra: Any = None


def model_output(x: torch.Tensor) -> Any:
    return BaseModelOutput(last_hidden_state=x)


def dynamic_cache(x: torch.Tensor) -> Any:
    cache = DynamicCache()
    cache.update(x[None, None], x[None, None] * 2, 0)
    return x, cache


def encoder_decoder_cache(x: torch.Tensor) -> Any:
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    cache.self_attention_cache.update(x[None, None], x[None, None] * 2, 0)
    return cache


GOOD = [
    ("tensor", lambda x: x, 1),
    ("nested", lambda x: {"a": x, "b": [x * 2, (x * 3,)]}, 3),
    ("numbers", lambda x: (x, 3, 2.5, True), 4),
    ("dataclass", lambda x: Result(x, x * 2), 2),
    ("dataclass with None", lambda x: Result(x), 1),
    ("model output", model_output, 1),
    ("cache", dynamic_cache, 3),
    ("two caches", encoder_decoder_cache, 2),
]


def _tensors(result: Any) -> list[Any]:
    """The leaves of a result; capturing has registered the classes that it is made of."""
    return [leaf for leaf in _pytree.tree_leaves(result) if leaf is not None]


@pytest.mark.parametrize(("function", "count"), [row[1:] for row in GOOD], ids=[row[0] for row in GOOD])
def test_outputs(function: Any, count: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnnxExporterWarning)
        captured = capture(Return(function), torch.ones(3, 4), events=EventLog())
    assert len(captured.program.graph_signature.output_specs) == count
    x = torch.rand(3, 4)
    assert_close(_tensors(captured.program.module()(x)), _tensors(function(x + 1)))


def test_a_cache_comes_back_as_a_cache() -> None:
    captured = capture(Return(dynamic_cache), torch.ones(3, 4), events=EventLog())
    _, cache = captured.program.module()(torch.ones(3, 4))
    assert torch.equal(cache.layers[0].values, torch.full((1, 1, 3, 4), 4.0))


def test_an_output_class_defined_while_tracing() -> None:
    made: list[type] = []

    def late(x: torch.Tensor) -> Any:
        @dataclass
        class Late(ModelOutput):
            logits: torch.Tensor | None = None

        made.append(Late)
        return Late(logits=x)

    captured = capture(Return(late), torch.ones(3, 4), events=EventLog())
    assert type(captured.program.module()(torch.ones(3, 4))) is made[-1]
    assert made[-1](logits=torch.ones(1)).logits is not None


NONE = [
    (lambda x: (x, None), "output[1]"),
    (lambda x: {"a": None, "b": [x, None]}, "output['a'], output['b'][1]"),
]


@pytest.mark.parametrize(("function", "where"), NONE)
def test_none_is_left_out_with_a_warning(function: Any, where: str) -> None:
    events = EventLog()
    with pytest.warns(OnnxExporterWarning) as caught:
        capture(Return(function), torch.ones(3, 4), events=events)
    message = f"The model returns None at {where}; ONNX has no None, so the ONNX model leaves it out."
    assert [str(w.message) for w in caught if w.category is OnnxExporterWarning] == [message]
    assert [event.message for event in events.of("warning")] == [message]


@pytest.mark.parametrize("value", [(3, 2.5, True), 4], ids=str)
def test_numbers_alone_are_outputs(value: Any) -> None:
    program = onnxport.export(Return(lambda x: value), (torch.ones(3, 4),))
    expected = value if isinstance(value, tuple) else (value,)
    assert [output.item() for output in program(torch.ones(3, 4))] == list(expected)


class Opaque:
    def __repr__(self) -> str:
        return "Opaque()"


BAD = [
    (lambda x: (x, "label"), ["output[1] is of type str: 'label'", "Return tensors"]),
    (lambda x: "label", ["output is of type str: 'label'"]),
    (lambda x: {"a": x, "b": {"c": Opaque()}}, ["output['b']['c'] is of type Opaque: Opaque()"]),
    (lambda x: (x, torch.float32, range(2)), ["output[1] is of type dtype", "output[2] is of type range: range(0, 2)"]),
    (lambda x: None, ["The model returns no tensor (it returns None)", "Return at least one tensor"]),
    (lambda x: (None, None), ["The model returns no tensor (it returns None, None)"]),
    (lambda x: (), ["The model returns no tensor (its result is empty)"]),
]


@pytest.mark.parametrize(("function", "said"), BAD)
def test_outputs_onnx_cannot_have(function: Any, said: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        capture(Return(function), torch.ones(3, 4), events=EventLog())
    for words in said:
        assert words in str(caught.value)
