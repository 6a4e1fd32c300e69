"""Inputs that are no tensors, and operands that eager execution refuses: said with names, types and lines."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onnxport
from comparison import assert_close, exported_and_compared
from onnxport.errors import OnnxExporterError, TranslationError


class Draws(torch.nn.Module):
    def __init__(self, own: torch.Generator | None = None) -> None:
        super().__init__()
        self.own = own

    def forward(self, x: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
        return x + torch.rand(x.shape, generator=self.own if generator is None else generator)


class Ignores(torch.nn.Module):
    def forward(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return x + 1


@pytest.mark.parametrize("model", [Draws(), Draws(torch.Generator())], ids=["input", "attribute"])
def test_a_generator(model: Draws) -> None:
    args = (torch.ones(2),) if model.own is not None else (torch.ones(2), torch.Generator())
    with pytest.raises(TranslationError) as caught:
        onnxport.export(model, args)
    message = str(caught.value)
    assert message.count("is a Generator") == 1
    assert "test_refused_operands.py" in message and "torch.rand(x.shape" in message
    assert "Leave out `generator`" in message


def test_a_generator_that_nobody_reads() -> None:
    program = onnxport.export(Ignores(), (torch.ones(2), torch.Generator()))
    assert [value.name for value in program.model.graph.inputs] == ["x"]
    assert_close(program(torch.ones(2), torch.Generator()), torch.full((2,), 2.0))


class Named(torch.nn.Module):
    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x)


class Product(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 1.0 @ torch.ones(3, 2)


MIXED: dict[str, tuple[torch.nn.Module, torch.dtype, str]] = {
    "double": (torch.nn.Linear(3, 2), torch.float64, "the input 'x' is float64, layer.weight is float32"),
    "half": (torch.nn.Linear(3, 2), torch.float16, "the input 'x' is float16, layer.weight is float32"),
    "integers": (torch.nn.Linear(3, 2), torch.int64, "the input 'x' is int64, layer.weight is float32"),
    "to-double": (torch.nn.Linear(3, 2).double(), torch.float32, "the input 'x' is float32, layer.weight is float64"),
    "result": (Product(), torch.float64, "mul is float64, ones is float32"),
    "layer-norm": (torch.nn.LayerNorm(3), torch.float64, "the input 'x' is float64, layer.weight is float32"),
    "batch-norm": (torch.nn.BatchNorm1d(3).eval(), torch.float64, "the input 'x' is float64, layer.weight is float32"),
    "group-norm": (torch.nn.GroupNorm(1, 3), torch.float64, "the input 'x' is float64, layer.weight is float32"),
    "convolution": (torch.nn.Conv1d(2, 2, 1), torch.float64, "different element types"),
    "recurrence": (torch.nn.LSTM(3, 2), torch.float64, "different element types"),
    "prelu": (torch.nn.PReLU(), torch.float64, "different element types"),
}


@pytest.mark.parametrize("row", MIXED)
def test_types_that_eager_refuses_to_mix(row: str) -> None:
    layer, dtype, expected = MIXED[row]
    x = torch.ones(2, 3, dtype=dtype)
    with pytest.raises((RuntimeError, ValueError)):
        layer(x)
    with pytest.raises(OnnxExporterError) as caught:
        onnxport.export(Named(layer), (x,))
    message = str(caught.value)
    assert expected in message
    assert "test_refused_operands.py" in message


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_one_type_is_fine(dtype: torch.dtype) -> None:
    least = 1e-3 if dtype == torch.float16 else 1e-6
    exported_and_compared(torch.nn.Linear(3, 2).to(dtype), (torch.rand(2, 3).to(dtype),), rtol=least, atol=least)


@pytest.mark.parametrize("layer", [torch.nn.LayerNorm(3), torch.nn.BatchNorm1d(3).eval(), torch.nn.GroupNorm(1, 3)])
def test_norms_of_half_precision_have_weights_of_single(layer: torch.nn.Module) -> None:
    exported_and_compared(layer, (torch.rand(2, 3).to(torch.bfloat16),), rtol=1e-2, atol=1e-2)


def test_autocast_is_fine() -> None:
    class Cast(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return self.layer(x)

    exported_and_compared(Cast(), (torch.rand(2, 3),), rtol=1e-2, atol=1e-2)
