"""The commonest failures: each says in three lines what happened, where, and what to write instead."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import onnxport
from onnxport.capture import strategies
from onnxport.capture.diagnosis.explanations import explain
from onnxport.errors import CaptureError, OnnxExporterError, OnnxExporterWarning

X = torch.linspace(-1, 1, 12).reshape(3, 4)

torch.library.define("onnxport_explain::no_fake", "(Tensor x) -> Tensor")
torch.library.impl("onnxport_explain::no_fake", "cpu", lambda x: x.clone())


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.conv = nn.Conv1d(3, 3, 1)
        self.embedding = nn.Embedding(5, 4)
        self.table = {0: 1.0, 1: 2.0}


FAILURES: list[Any] = []


def fails(what: str, instead: str, *args: Any) -> Callable[[Any], Any]:
    """A forward that cannot be captured: what the error says of it, and what to write."""

    def register(forward: Any) -> Any:
        def make() -> nn.Module:
            return type("Model", (Base,), {"forward": forward})()

        FAILURES.append(pytest.param(make, args or (X,), what, instead, id=forward.__qualname__.split(".")[0]))
        return forward

    return register


class size_read_from_values:
    @fails("A size or an index is a value known only at run time", "torch._check(n >= 1)")
    def forward(self, x: Any) -> Any:
        return next(iter(x[x > 0].split(2)))  # culprit


class table_by_value:
    @fails("chooses among Python objects", "stack the candidates")
    def forward(self, x: Any) -> Any:
        return x * dict(self.table).pop((x.sum() > 0).long().item())  # culprit


class numpy_call:
    @fails("calls NumPy", "torch.library.custom_op")
    def forward(self, x: Any) -> Any:
        return torch.tensor(np.interp(x.numpy(), [0.0, 1.0], [0.0, 2.0]))  # culprit


class numbers_outside_torch:
    @fails("Python code outside torch", "before or after the exported model")
    def forward(self, x: Any) -> Any:
        import json

        return x + json.loads(json.dumps(x.tolist()))[0][0]  # culprit


class write_to_a_parameter:
    @fails("writes in place to a parameter", "weight = weight + 1")
    def forward(self, x: Any) -> Any:
        self.fc.weight.add_(1)  # culprit
        return self.fc(x)


class two_devices:
    @fails("Tensors on different devices", "device=x.device")
    def forward(self, x: Any) -> Any:
        return x + torch.ones(4, device="meta")  # culprit


class absent_device:
    @fails("a device that this machine", "device=x.device")
    def forward(self, x: Any) -> Any:
        return x.to("xpu") + 1  # culprit


class two_types:
    @fails("Tensors of different element types", "model.to(dtype)")
    def forward(self, x: Any) -> Any:
        return self.conv(x.double())  # culprit


class float_indices:
    @fails("numbers that are not integers", "x.long()")
    def forward(self, x: Any) -> Any:
        return self.embedding(x)  # culprit


class shapes_that_do_not_fit:
    @fails("Shapes do not fit together", "runs with these inputs in eager mode")
    def forward(self, x: Any) -> Any:
        return x @ torch.ones(7, 2)  # culprit


class index_out_of_range:
    @fails("An index lies outside", "shape of the example input")
    def forward(self, x: Any) -> Any:
        return x[10]  # culprit


class unknown_attribute:
    @fails("Tensors have no attribute 'spam'", "Check the name")
    def forward(self, x: Any) -> Any:
        return x.spam()  # culprit


class data_pointer:
    @fails("reads the memory of a tensor", "torch.library.custom_op")
    def forward(self, x: Any) -> Any:
        return x + x.data_ptr()  # culprit


class operator_without_shapes:
    @fails("aten._nested_tensor_from_tensor_list.default cannot be run without values", "torch.library.register_fake")
    def forward(self, x: Any) -> Any:
        return torch.nested.nested_tensor([x, x]).to_padded_tensor(0.0)  # culprit


class missing_file:
    @fails("reads a file while it runs", "Load it in __init__")
    def forward(self, x: Any) -> Any:
        return x + torch.load("/there/is/no/such/file")  # culprit


class missing_package:
    @fails("imports there_is_no_such_package", "Install it")
    def forward(self, x: Any) -> Any:
        import there_is_no_such_package  # culprit

        return there_is_no_such_package.f(x)


class other_thread:
    @fails("where the capture does not see it", "in the thread that calls forward")
    def forward(self, x: Any) -> Any:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:  # culprit
            return sum(pool.map(lambda row: row * 2, [x, x]))  # culprit


class no_gradient:
    @fails("gradients of something that does not depend", "requires_grad_()")
    def forward(self, x: Any) -> Any:
        return torch.autograd.grad(x.sum(), x)[0]  # culprit


class a_string_for_a_tensor:
    @fails("needs a tensor, and what it is given is of type str", "torch.as_tensor", "abc")
    def forward(self, x: Any) -> Any:
        return torch.sin(x)  # culprit


@pytest.mark.parametrize(("make", "args", "what", "instead"), FAILURES)
def test_three_lines(
    make: Callable[[], nn.Module], args: Any, what: str, instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tracing gets through most of these; what it cannot mend either is explained in the same words.
    without = [strategy for strategy in strategies.STRATEGIES if not isinstance(strategy, strategies.Tracing)]
    monkeypatch.setattr(strategies, "STRATEGIES", without)
    with pytest.raises(OnnxExporterError) as caught:
        onnxport.export(make(), args, verbose=False)
    _, first, where, remedy = str(caught.value).splitlines()
    assert first.startswith("  - ")
    assert what in first
    assert re.match(rf"    at {re.escape(__file__)}:\d+ in ", where)
    assert "# culprit" in where
    assert instead in remedy
    assert len(first) < 200
    # What torch said of each attempt is kept.
    assert "Obtain model graph with" not in str(caught.value)
    assert isinstance(caught.value, CaptureError)
    assert len(caught.value.failures) == 3


class Options:
    scale = 2


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, options: Any) -> torch.Tensor:
        return x * options.scale


@pytest.mark.parametrize(("value", "kind"), [(Options(), "Options"), ({1, 2}, "set")])
def test_an_input_of_an_unknown_type(value: Any, kind: str) -> None:
    with pytest.raises(OnnxExporterError) as caught:
        onnxport.export(Scaled(), (X, value))
    assert re.search(rf"An example input is of type \S*{kind}", str(caught.value))
    assert "register_pytree_node" in str(caught.value)


def test_endless_recursion() -> None:
    class Endless(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.forward(x)  # culprit

    limit = sys.getrecursionlimit()
    with pytest.raises(OnnxExporterError, match="calls itself without end") as caught:
        onnxport.export(Endless(), (X,))
    assert "# culprit" in str(caught.value)
    assert sys.getrecursionlimit() == limit


class NoFake(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.onnxport_explain.no_fake(x) + 1


def test_an_operator_without_fake_kernel_is_told_and_its_translation_asked_for() -> None:
    with (
        pytest.warns(OnnxExporterWarning, match=r"(?s)has no fake kernel.*torch\.library\.register_fake"),
        pytest.raises(OnnxExporterError, match=r"(?s)no_fake.default has no translation.*custom_translation_table"),
    ):
        onnxport.export(NoFake(), (X,))


class Returns(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return {"y": x + 1, "name": "abc"}


def test_a_string_among_the_outputs() -> None:
    with pytest.raises(OnnxExporterError, match=r"(?s)output\['name'\] is of type str.*Return tensors"):
        onnxport.export(Returns(), (X,))


class Fixed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(3, 4) + 1  # culprit


def test_an_axis_that_the_model_fixes() -> None:
    with pytest.raises(OnnxExporterError) as caught:
        onnxport.export(Fixed(), (X,), dynamic_shapes=({0: "batch"},))
    _, what, where, remedy = str(caught.value).splitlines()
    assert "declared dynamic as 'batch', but the model forces it to be 3" in what
    assert "# culprit" in where
    assert "Make that line work for any size" in remedy


def test_a_number_that_changes_after_the_export() -> None:
    class Times(nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x * n

    program = onnxport.export(Times(), (X, 2))
    with pytest.raises(OnnxExporterError, match=r"(?s)n: exported as 2, which is part of the graph now; got 3.*again"):
        program(X, 3)


@pytest.mark.parametrize("layer", [nn.Dropout(), nn.BatchNorm1d(4)], ids=["dropout", "batch norm"])
def test_training_mode(layer: nn.Module) -> None:
    with pytest.warns(OnnxExporterWarning, match=r"is in training mode: .* Call model.eval\(\)"):
        onnxport.export(layer.train(), (X,))


class Printing(nn.Module):
    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("x is", x.shape)
        return torch.fft.fft(x)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        pytest.param(nn.DataParallel(nn.Linear(4, 2)), (3, 2), id="DataParallel"),
        pytest.param(Printing(), (3, 4, 2), id="printing, no_grad, complex output"),
    ],
)
def test_what_is_no_failure(model: nn.Module, shape: tuple[int, ...]) -> None:
    program = onnxport.export(model, (X,))
    assert program(X)[0].shape == shape


def test_frames_of_the_package_are_told_from_the_users() -> None:
    from onnxport.capture.diagnosis import user_lines

    assert Path(user_lines.STRATEGIES).is_file()
    assert Path(user_lines.PACKAGE_FOLDER) == Path(onnxport.__file__).parent


def test_training_that_was_asked_for_is_no_surprise(recwarn: pytest.WarningsRecorder) -> None:
    onnxport.export(nn.Dropout().train(), (X,), dynamo=False, training=onnxport.TrainingMode.PRESERVE)
    assert [str(warning.message) for warning in recwarn if "training mode" in str(warning.message)] == []


def test_weights_that_are_distributed_over_processes() -> None:
    """What torch 2.13 raises, without the processes."""
    kind = "torch.distributed.tensor._dtensor_spec.DTensorSpec"
    explained = explain(RuntimeError(f"... but found non-fx-graphable type <class '{kind}'>."), "")
    assert explained is not None
    assert "distributed over processes" in explained[0] and "full_state_dict=True" in explained[1]
