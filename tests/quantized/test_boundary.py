"""Quantized tensors that a model is given and returns: integers, a scale and a zero point each."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch
import torch.ao.nn.quantized as nnq
from torch import nn

import onnxport
from onnxport.quantized_parts import taken_apart


class Calling(nn.Module):
    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args, *self.layers)


RANDOM = torch.Generator().manual_seed(0)


def q(*shape: int, scale: float = 0.05, zero_point: int = 128, dtype: torch.dtype = torch.quint8) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.randn(*shape, generator=RANDOM), scale, zero_point, dtype)


def layer(made: nn.Module, *shape: int) -> nn.Module:
    """A layer with weights, which those of torch.ao come without; small ones, as its own kernels saturate too."""
    made.set_weight_bias(q(*shape, scale=0.1, zero_point=0, dtype=torch.qint8), torch.zeros(shape[0]))
    made.scale, made.zero_point = 0.1, 60
    return made


Q = torch.ops.quantized
# A model, its example, and another with other grids.
MODELS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]] = {
    "dequantized": (
        Calling(lambda x: x.dequantize() * 2),
        (q(3, 4),),
        (q(3, 4, scale=0.1, zero_point=100),),
    ),
    "moved": (Calling(torch.flatten), (q(2, 3, 4),), (q(2, 3, 4, scale=0.2, zero_point=3),)),
    "signed": (
        Calling(lambda x: torch.relu(x).dequantize()),
        (q(3, 4, zero_point=0, dtype=torch.qint8),),
        (q(3, 4, zero_point=-5, dtype=torch.qint8),),
    ),
    "added": (
        Calling(lambda x, y: Q.add(x, y, 0.1, 120)),
        (q(3, 4), q(3, 4)),
        (q(3, 4, scale=0.02), q(3, 4, zero_point=60)),
    ),
    "beside a float": (
        Calling(lambda x, y: x.dequantize() + y),
        (q(3, 4), torch.randn(3, 4)),
        (q(3, 4), torch.ones(3, 4)),
    ),
    "returned": (
        Calling(lambda x: (torch.quantize_per_tensor(x, 0.1, 3, torch.qint8), x + 1)),
        (torch.randn(3, 4),),
        (torch.randn(3, 4),),
    ),
    "linear": (
        Calling(lambda x, linear: linear(x), layer(nnq.Linear(4, 5), 5, 4)),
        (q(3, 4, scale=0.1, zero_point=20),),
        (q(3, 4, scale=0.2, zero_point=30),),
    ),
    "convolution": (
        layer(nnq.Conv2d(2, 3, 3), 3, 2, 3, 3),
        (q(1, 2, 6, 6, scale=0.1, zero_point=20),),
        (q(1, 2, 6, 6, scale=0.2, zero_point=30),),
    ),
}


def parts(values: Any) -> list[torch.Tensor]:
    apart = taken_apart(values, torch.float32, None)
    return [leaf for leaf in torch.utils._pytree.tree_leaves(apart) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dynamo", [True, False])
def test_quantized_inputs_and_results(name: str, dynamo: bool) -> None:
    model, example, other = MODELS[name]
    destination = io.BytesIO()
    program = onnxport.export(model.eval(), example, None if dynamo else destination, dynamo=dynamo)
    if program is not None:
        program.save(destination)
    # Its kernels for integers saturate on processors without VNNI.
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(destination.getvalue(), plain, providers=["CPUExecutionProvider"])
    for inputs in (example, other):
        flat = torch.utils._pytree.tree_leaves(taken_apart(inputs))
        feeds = {put.name: leaf.numpy() for put, leaf in zip(session.get_inputs(), flat, strict=True)}
        found = session.run(None, feeds)
        expected = parts(model(*inputs))
        for actual, wanted in zip(found, expected, strict=True):
            # One step of the grid: kernels round halves in their own way.
            step = 1 if not wanted.is_floating_point() else 1e-5
            torch.testing.assert_close(torch.from_numpy(actual), wanted, rtol=1e-5, atol=step)


class Added(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.quantized.add(x, y, 0.1, 120)


def test_a_program_takes_quantized_tensors() -> None:
    model, (example, other) = Added(), MODELS["added"][1:]
    program = onnxport.export(model, example, verify=True)
    names = [value.name for value in program.model.graph.inputs]
    assert names == [f"{name}_{part}" for name in ("x", "y") for part in ("value", "scale", "zero_point")]
    values, scale, zero_point = program(*other)
    assert (scale, zero_point) == (torch.tensor(0.1), torch.tensor(120))
    torch.testing.assert_close(values, model(*other).int_repr(), rtol=0, atol=1)


def test_quantized_numbers_of_four_bytes_are_refused() -> None:
    with pytest.raises(onnxport.OnnxExporterError, match="use 8 bits"):
        onnxport.export(Calling(lambda x: x.dequantize()), (q(3, 4, zero_point=0, dtype=torch.qint32),))


def test_a_scale_for_each_channel_is_refused() -> None:
    channels = torch.quantize_per_channel(torch.randn(3, 4), torch.ones(3), torch.zeros(3), 0, torch.qint8)
    with pytest.raises(onnxport.OnnxExporterError, match="a scale for each channel"):
        onnxport.export(Calling(lambda x: x.dequantize()), (channels,))
