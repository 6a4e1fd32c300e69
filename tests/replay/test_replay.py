"""Replay of TorchScript graphs: names, lines, assumptions, files, and what cannot be replayed."""

# No `from __future__ import annotations`: TorchScript reads the annotations of what it compiles.
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import onnxport
from onnxport.capture import strategies
from onnxport.errors import CaptureError, DynamicShapeError, OnnxExporterWarning
from onnxport.events import EventLog

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
X = torch.linspace(-1, 2, 12).reshape(3, 4)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("offset", torch.ones(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.fc(x)) + self.offset


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Inner(), Inner()
        self.second.fc.weight = self.first.fc.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


def _loaded(script: Any) -> Any:
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file)


MAKERS = {
    "scripted": torch.jit.script,
    "traced": lambda model: torch.jit.trace(model, X),
    "loaded script": lambda model: _loaded(torch.jit.script(model)),
    "loaded trace": lambda model: _loaded(torch.jit.trace(model, X)),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_names_and_paths_are_those_of_the_module(make: Any) -> None:
    model = Outer().eval()
    program = onnxport.export(make(model), (X,), dynamic_shapes=({0: "batch"},))
    torch.testing.assert_close(program(X[:2])[0], model(X[:2]))
    weights = {"first.fc.weight", "first.fc.bias", "first.offset", "second.fc.bias", "second.offset"}
    assert weights <= set(program.model.graph.initializers)
    assert "second.fc.weight" not in program.model.graph.initializers
    gemm = next(node for node in program.model.graph if node.op_type == "Gemm")
    assert gemm.metadata_props["pkg.torch.onnx.name_scopes"] == "['', 'first', 'first.fc', 'linear']"
    assert "Outer/first: test_replay.Inner" in gemm.metadata_props["namespace"]


@pytest.mark.parametrize("make", list(MAKERS.values())[:2], ids=list(MAKERS)[:2])
def test_nodes_carry_the_users_line(make: Any) -> None:
    program = onnxport.export(make(Outer().eval()), (X,))
    relu = next(node for node in program.model.graph if node.op_type == "Relu")
    trace = relu.metadata_props["pkg.torch.onnx.stack_trace"]
    assert "return torch.relu(self.fc(x)) + self.offset" in trace
    assert "return self.second(self.first(x))" in trace
    assert "_call_impl" not in trace


def test_a_script_function() -> None:
    @torch.jit.script
    def add(x: Tensor, y: Tensor, by: float = 2.0) -> Tensor:
        return x + y * by

    program = onnxport.export(add, (X, X))
    torch.testing.assert_close(program(X, X + 1)[0], X + (X + 1) * 2)


class WritesState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.seen + x.sum(0)
        return self.norm(x) + self.seen


@pytest.mark.filterwarnings("ignore:Each run of the file starts")
@pytest.mark.parametrize("make", [torch.jit.script, lambda model: model], ids=["scripted", "module"])
def test_the_model_stays_as_it_was(make: Any) -> None:
    model = make(WritesState())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    onnxport.export(model, (X,), io.BytesIO(), dynamo=False, training=onnxport.TrainingMode.TRAINING)
    assert model.training
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name])


# --- tracing as the last resort ------------------------------------------------------------------------------------


class DecidesOnValue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = x * 2
        factor = float(x.max())
        return x * factor


class UsesNumpy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.from_numpy(np.cumsum(x.detach().numpy(), axis=0))


ASSUMING = [
    (DecidesOnValue(), ["A tensor becomes a Python boolean", "A tensor becomes a Python float"]),
    (UsesNumpy(), ["A tensor becomes a NumPy array", "torch.from_numpy makes a constant"]),
]


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize(("model", "facts"), ASSUMING, ids=["branch", "numpy"])
def test_tracing_follows_the_example_and_says_where(
    model: nn.Module, facts: list[str], dynamo: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Those that come first may get through, or assume things in their own words; here tracing is to speak.
    monkeypatch.setattr(strategies, "STRATEGIES", [strategies.Tracing()])
    with pytest.warns(OnnxExporterWarning) as caught:
        program = onnxport.export(model, (X,), dynamo=dynamo)
    torch.testing.assert_close(program(X)[0], model(X))
    told = [str(warning.message) for warning in caught]
    events = [event for event in program.events.of("warning") if event.stage == "capture"]
    for fact in facts:
        assert any(fact in text and __file__ in text for text in told)
        assert any(fact in event.message and __file__ in event.where for event in events)


def test_assumptions_are_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "STRATEGIES", [strategies.Tracing()])
    with pytest.warns(OnnxExporterWarning):
        onnxport.export(DecidesOnValue(), (X,), io.BytesIO(), dynamo=False, report=True, artifacts_dir=tmp_path)
    report = next(tmp_path.glob("*.html")).read_text()
    assert "A tensor becomes a Python boolean" in report


class ForcesTheFirst(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.ones(3, 1) * 2


@pytest.mark.filterwarnings("ignore:The exported model follows the example")
def test_an_axis_that_the_model_forces_is_fixed_with_a_warning() -> None:
    options: Any = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch", 1: "width"}}}
    with pytest.warns(OnnxExporterWarning, match="declared dynamic as 'batch'"):
        program = onnxport.export(ForcesTheFirst(), (X,), dynamo=False, **options)
    shape = program.model.graph.inputs[0].shape
    assert (shape[0], str(shape[1])) == (3, "width")
    with pytest.raises(DynamicShapeError):
        onnxport.export(ForcesTheFirst(), (X,), **options)


def test_a_forced_axis_of_a_script_names_the_line() -> None:
    with pytest.raises(DynamicShapeError, match=r"test_replay\.py:\d+ in forward: return x \+ torch\.ones\(3, 1\)"):
        onnxport.export(torch.jit.script(ForcesTheFirst()), (X,), dynamic_shapes=({0: "batch"},))


class ChoosesATextBySizes(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        mode = "sum"
        if x.size(0) == y.size(0):
            mode = "mean"
        return x.sum() if mode == "sum" else x.mean() + y.mean()


def test_two_sizes_that_a_script_takes_for_equal_are_a_warning() -> None:
    named = {"input_names": ["x", "y"], "dynamic_axes": {"x": {0: "n"}, "y": {0: "m"}}}
    with pytest.warns(OnnxExporterWarning, match=r"n equals m(.|\n)*if x\.size\(0\) == y\.size\(0\)"):
        onnxport.export(torch.jit.script(ChoosesATextBySizes()), (X, X), dynamo=False, **named)


# --- writes to what is around a branch or a loop -------------------------------------------------------------------


class WritesInLoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        for i in range(x.size(0)):
            y[i] = x[i] * i
        return y


class WritesInBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        if x.sum() > 0:
            y[0] = 1.0
        else:
            y[1] = 2.0
        return y


class WritesWhileListGrows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        rows: list[Tensor] = [x[0]]
        for i in range(x.size(0)):
            y[i] += 1.0
            rows.append(y[i] * 2)
        return torch.stack(rows)[1:] + y + len(rows)


class ListOfGivenLength(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        parts: list[Tensor] = []
        for i in range(int(x.abs().sum().item()) + 1):
            parts.append(x * i)
        return torch.cat(parts, 1)


class Accumulates(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        sums, last = torch.zeros(0, 4), torch.zeros(4)
        for i in range(x.size(0)):
            last = last + x[i]
            sums = torch.cat([sums, last.unsqueeze(0)])
        return sums, last


WRITING = [Accumulates(), WritesInLoop(), WritesInBranch(), WritesWhileListGrows(), ListOfGivenLength()]


@pytest.mark.parametrize("model", WRITING, ids=lambda model: type(model).__name__)
def test_writes_in_branches_and_loops(model: nn.Module) -> None:
    program = onnxport.export(torch.jit.script(model), (X,), dynamic_shapes=({0: "batch"},))
    for x in (X, -X, torch.randn(5, 4)):
        expected = model(x)
        torch.testing.assert_close(program(x), expected if isinstance(expected, tuple) else (expected,))


# --- what cannot be replayed ---------------------------------------------------------------------------------------


class Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            raise ValueError("no matrices")
        return x


class UnlikeBranches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        mode = "sum"
        if x.sum() > 0:
            mode = "mean"
        return x.sum() if mode == "sum" else x.mean()


class ChangesShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x
        for _ in range(x.size(0)):
            y = y.unsqueeze(0)
        return y


REFUSED = [
    (ChangesShape(), "A tensor changes its shape or type from one iteration to the next"),
    (Raises(), "The model raises .*no matrices"),
    (UnlikeBranches(), "ONNX can choose between tensors only"),
]


@pytest.mark.parametrize(("model", "said"), REFUSED, ids=[type(model).__name__ for model, _ in REFUSED])
def test_refusals_are_sentences_with_the_line(model: nn.Module, said: str) -> None:
    with pytest.raises(CaptureError, match=said) as caught:
        onnxport.export(torch.jit.script(model), (X,), dynamic_shapes=({0: "batch"},))
    assert f"at {__file__}:" in str(caught.value)


SIZES = [
    lambda x: x.reshape(x.shape[0] * 2, x.shape[1] // 2),
    lambda x: x.reshape(torch.div(x.shape[0] * 2, 1, rounding_mode="floor"), -1),
    lambda x: x.reshape(x.numel() // x.shape[1] * 2, -1),
]


@pytest.mark.parametrize("function", SIZES, ids=["product", "div", "numel"])
def test_sizes_stay_sizes_in_a_trace(function: Any) -> None:
    """What a trace keeps in tensors, sizes and what is computed from them, is still known to be a size."""
    program = onnxport.export(torch.jit.trace(function, X), (X,), dynamic_shapes=({0: "batch"},))
    assert [node.op_type for node in program.model.graph] == ["Reshape"]
    assert program(torch.ones(5, 4))[0].shape == (10, 2)


def test_data_is_the_tensor() -> None:
    class Data(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.data * 2

    program = onnxport.export(Data(), (X,), dynamic_shapes=({0: "batch"},))
    torch.testing.assert_close(program(X[:2])[0], X[:2] * 2)
    assert "data" not in vars(torch.Tensor)


def test_capture_of_a_mirror_is_one_strategy() -> None:
    captured = onnxport.capture.capture(torch.jit.script(Inner()), (X,), events=EventLog())
    assert captured.strategy == "Obtain model graph by replaying its TorchScript graph"
    assert captured.failures == []


class SqueezesFirst(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = SqueezesAxis()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.first(x))


class SqueezesAxis(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.squeeze(1)


def test_squeezing_an_axis_that_varies_before_another_module_is_a_warning() -> None:
    """What follows is in another graph, so the example decides, and that is told with its line."""
    model, x = SqueezesFirst(), torch.randn(3, 2, 4)
    with pytest.warns(OnnxExporterWarning, match=r"differs from 1(.|\n)*return x\.squeeze\(1\)"):
        program = onnxport.export(
            torch.jit.trace(model, (x,)), (x,), dynamo=False, input_names=["x"], dynamic_axes={"x": [1]}
        )
    other = torch.randn(3, 5, 4)
    torch.testing.assert_close(program(other)[0], model(other), rtol=1e-4, atol=1e-5)
