"""Functions, methods and other callables as models: exported with the weights they use, under their own names."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import onnxport
from comparison import assert_agrees
from onnxport.errors import CaptureError

X = torch.linspace(-1, 1, 12).reshape(3, 4)
linear = nn.Linear(4, 2)


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x))

    def features(self, x: Any, *, scale: float = 1.0) -> Any:
        return self.body(x) * scale


class Doubling:
    def __init__(self) -> None:
        self.inner = linear

    def __call__(self, x: Any) -> Any:
        return self.inner(x) * 2


def plain(x: Any) -> Any:
    return x.sin() + 1


model, local = TwoHeads(), nn.Linear(4, 3)
CALLABLES: dict[str, tuple[Any, set[str]]] = {
    "a function": (plain, set()),
    "a lambda": (lambda x: x * 2, set()),
    "one that uses a global": (lambda x: linear(x), {"linear.weight", "linear.bias"}),
    "a partial": (functools.partial(lambda layer, x: layer(x), local), {"argument_0.weight", "argument_0.bias"}),
    "a method": (model.features, {"body.weight", "body.bias"}),
    "the forward": (model.forward, {"body.weight", "body.bias", "head.weight", "head.bias"}),
    "an object": (Doubling(), {"inner.weight", "inner.bias"}),
    "a function of torch": (torch.relu, set()),
}


@pytest.mark.parametrize("name", CALLABLES)
def test_callables(name: str) -> None:
    function, weights = CALLABLES[name]
    program = onnxport.export(function, (X,), dynamic_shapes=None if name == "a function of torch" else ({0: "n"},))
    assert {name for name in program.model.graph.initializers if "scalar" not in name} == weights
    assert_agrees(program, function, (X + 1,))


def test_a_closure_is_searched_for_modules() -> None:
    inner = nn.Linear(4, 4)
    program = onnxport.export(lambda x: inner(x) + 1, (X,), dynamo=False)
    assert set(program.model.graph.initializers) >= {"inner.weight", "inner.bias"}
    assert "forward" not in vars(inner)


def test_a_method_leaves_the_module_as_it_is() -> None:
    program = onnxport.export(model.features, (X,), kwargs={"scale": 2.0})
    torch.testing.assert_close(program(X, scale=2.0)[0], model.features(X, scale=2.0))
    assert "forward" not in vars(model)
    assert [value.name for value in program.model.graph.inputs] == ["x"]


class Beside(nn.Module):
    """One result in the graph, one computed beside it."""

    def forward(self, x: Any, y: Any) -> Any:
        return x + 1, torch.tensor(np.interp(y.tolist(), [0.0, 1.0], [0.0, 2.0]))


class Unused(nn.Module):
    """A model that really does not depend on an input, and one result that is a constant."""

    def forward(self, x: Any, y: Any) -> Any:
        values = [float(value) for value in x.flatten().tolist()]
        return x * len(values), torch.ones(3)


@pytest.mark.filterwarnings("ignore:A value depends on the data")
def test_a_result_that_lost_its_input_is_refused() -> None:
    with pytest.raises(CaptureError, match="does not depend on input 'y', but that of the model does") as caught:
        onnxport.export(Beside(), (X, X))
    assert f"{__file__}:" in str(caught.value)


def test_what_needs_no_input_is_none_that_was_lost(recwarn: pytest.WarningsRecorder) -> None:
    program = onnxport.export(Unused(), (X, X))
    assert len(program.model.graph.outputs) == 2


class WritesARow(nn.Module):
    """The result depends on what is written to a view of it."""

    def forward(self, x: Any, row: Any, data: Any) -> Any:
        x = x * 1
        x[row] = data
        return x


@pytest.mark.filterwarnings("ignore::onnxport.errors.OnnxExporterWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_input_written_through_a_view_is_not_lost() -> None:
    model, row, data = WritesARow(), torch.tensor(2), torch.randn(4)
    program = onnxport.export(model, (torch.randn(3, 4), row, data), dynamo=False)
    assert program is not None
    given = torch.randn(3, 4), torch.tensor(1), torch.randn(4)
    torch.testing.assert_close(program(*given)[0], model(*given))


def _doubled(x: Any) -> Any:
    return x * 2


class CallsWhatWrapsItself(nn.Module):
    """A branch has functions that forward may call searched."""

    def forward(self, x: Any) -> Any:
        return _doubled(x) if x.shape[0] > 4 else x


def test_a_function_that_wraps_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    # As torchvision wraps what torch.compile gives, which is the function itself while a model is captured.
    monkeypatch.setattr(_doubled, "__wrapped__", _doubled, raising=False)
    program = onnxport.export(CallsWhatWrapsItself(), (X,), dynamic_shapes=({0: "n"},))
    for size in (3, 8):
        assert_agrees(program, CallsWhatWrapsItself(), (torch.randn(size, 4),))
