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
