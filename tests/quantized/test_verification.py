"""Verification of quantized models: what the runtime's kernels do differently is said to be theirs."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines the operators
from torch import Tensor, nn

import onnxport
from onnxport.errors import OnnxExporterWarning
from onnxport.program.runtime import RuntimeSession

D = torch.ops.quantized_decomposed


class Product(nn.Module):
    """Sums of products of large unsigned with large signed 8-bit integers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.full((64, 16), 127, dtype=torch.int8))

    def forward(self, x: Tensor) -> Tensor:
        integers = D.quantize_per_tensor(x, 0.01, 0, 0, 255, torch.uint8)
        real = D.dequantize_per_tensor(integers, 0.01, 0, 0, 255, torch.uint8)
        weight = D.dequantize_per_tensor(self.weight, 0.01, 0, -128, 127, torch.int8)
        y = real @ weight
        result = D.quantize_per_tensor(y, 1.0, 0, 0, 255, torch.uint8)
        return D.dequantize_per_tensor(result, 1.0, 0, 0, 255, torch.uint8)


def test_a_departure_of_optimized_kernels_is_the_runtime_s(monkeypatch: pytest.MonkeyPatch) -> None:
    run = RuntimeSession.run

    def saturated(self: RuntimeSession, names: Any, feeds: Any) -> Any:
        """As on a processor whose kernels saturate; this one may have others."""
        results = run(self, names, feeds)
        optimized = self.session.get_session_options().graph_optimization_level.name != "ORT_DISABLE_ALL"
        return [result / 2 for result in results] if optimized else results

    monkeypatch.setattr(RuntimeSession, "run", saturated)
    with pytest.warns(OnnxExporterWarning, match="onnxruntime's optimized kernels depart .* the file is right"):
        onnxport.export(Product(), (torch.full((3, 64), 2.55),), verify=True)


def test_nothing_is_said_where_both_agree() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxport.export(Product(), (torch.rand(3, 64) / 10,), verify=True)


def test_saturating_kernels_are_told_from_a_wrong_file(monkeypatch: pytest.MonkeyPatch) -> None:
    run = RuntimeSession.run
    monkeypatch.setattr(RuntimeSession, "run", lambda *given: [result / 2 for result in run(*given)])
    layer = nn.Linear(64, 32)
    with pytest.warns(OnnxExporterWarning, match="onnxruntime's optimized kernels depart .* the file is right"):
        onnxport.export(layer, (torch.randn(3, 64),), verify=True, quantize="dynamic-int8")
    with pytest.warns(OnnxExporterWarning, match="does not give what the model gives"):
        onnxport.export(layer, (torch.randn(3, 64),), verify=True, quantize="int8")


class OneStep(nn.Module):
    """Its result is rounded to a grid of 0.1; half way between two steps both are right."""

    def forward(self, x: Tensor) -> Tensor:
        integers = D.quantize_per_tensor(x * x, 0.1, 0, 0, 255, torch.uint8)
        return D.dequantize_per_tensor(integers, 0.1, 0, 0, 255, torch.uint8).reshape(-1).relu()


@pytest.mark.parametrize(("steps", "told"), [(1, False), (2, True)])
def test_results_may_be_one_step_apart(monkeypatch: pytest.MonkeyPatch, steps: int, told: bool) -> None:
    run = RuntimeSession.run
    monkeypatch.setattr(RuntimeSession, "run", lambda *given: [result + 0.1 * steps for result in run(*given)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        onnxport.export(OneStep(), (torch.rand(4, 4),), verify=True)
    assert any("does not give" in str(warning.message) for warning in caught) == told


class Head(nn.Module):
    """Averages on a finer grid than what is averaged, and a layer over them: the head of a quantized classifier."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        coarse = D.dequantize_per_tensor(
            D.quantize_per_tensor(x, 0.1, 9, 0, 255, torch.uint8), 0.1, 9, 0, 255, torch.uint8
        )
        mean = coarse.mean((2, 3))
        kept = D.dequantize_per_tensor(
            D.quantize_per_tensor(mean, 0.1, 9, 0, 255, torch.uint8), 0.1, 9, 0, 255, torch.uint8
        )
        fine = D.dequantize_per_tensor(
            D.quantize_per_tensor(kept, 0.03, 0, 0, 255, torch.uint8), 0.03, 0, 0, 255, torch.uint8
        )
        return nn.functional.hardswish(self.layer(fine))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("steps", "told"), [(1, False), (9, True)])
def test_a_step_may_be_seen_through_the_last_layer(monkeypatch: pytest.MonkeyPatch, steps: int, told: bool) -> None:
    model, run = Head(), RuntimeSession.run
    moved = 0.1 * steps * float(model.layer.weight.detach().abs().max())
    monkeypatch.setattr(RuntimeSession, "run", lambda *given: [result + moved for result in run(*given)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        onnxport.export(model, (torch.rand(4, 8, 2, 2),), verify=True)
    assert any("does not give" in str(warning.message) for warning in caught) == told


@pytest.mark.parametrize("scheme", ["int8", "int4", "uint4", "dynamic-int8", "float16", "bfloat16"])
def test_a_quantized_export_is_compared_with_its_own_weights(scheme: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxport.export(
            model, (torch.randn(3, 128),), dynamic_shapes=({0: "batch"},), verify=True, quantize=scheme
        )
    assert program.verification is not None and program.verification.matches
    report = program.quantization
    assert report is not None
    ((name, moved),) = report.end_to_end.items()
    assert 0 < moved < (0.15 if "4" in scheme else 0.05)
    assert f"output {name}: moved by" in str(report)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_runtime_that_may_round_what_it_multiplies_is_allowed_to() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 100))
    tied = nn.Sequential(nn.Embedding(200, 64), nn.SiLU(), nn.Linear(64, 200, bias=False))
    tied[2].weight = tied[0].weight
    way = onnxport.Quantization("int4", accuracy_level=4)
    for model, example in ((plain, torch.randn(4, 64)), (tied, torch.randint(200, (4, 5)))):
        program = onnxport.export(model, (example,), quantize=way, target="onnxruntime", verify=True)
        assert program.verification is not None and program.verification.matches
