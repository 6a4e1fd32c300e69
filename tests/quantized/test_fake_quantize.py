"""Quantization-aware training before it is converted: modules that round to grids, and no longer move them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.ao.quantization as ao
from torch import Tensor, nn

import onnxport
from comparison import assert_agrees
from onnxport.errors import CaptureError

pytestmark = pytest.mark.filterwarnings("ignore")


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = ao.QuantStub(), ao.DeQuantStub()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.conv(self.quant(x))))
        return self.dequant(self.head(x.mean((2, 3))))


def trained(version: int) -> nn.Module:
    """A network after some steps; version 1 observes and rounds in one operator, version 0 in several."""
    torch.manual_seed(0)
    network: Any = Network().train()
    ao.fuse_modules_qat(network, [["conv", "norm", "relu"]], inplace=True)
    network.qconfig = ao.get_default_qat_qconfig("fbgemm", version=version)
    prepared: nn.Module = ao.prepare_qat(network)
    for _ in range(3):
        prepared(torch.randn(4, 3, 8, 8))
    return prepared.eval()


@pytest.mark.parametrize("version", [0, 1])
def test_grids_that_stay(version: int) -> None:
    model = trained(version)
    model.apply(ao.disable_observer)
    names = list(model.state_dict())
    program = onnxport.export(model, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: "batch"},))
    assert_agrees(program, model, (torch.randn(5, 3, 8, 8),), rtol=0, atol=0.02)
    kinds = [node.op_type for node in program.model.graph]
    assert kinds.count("QuantizeLinear") == kinds.count("DequantizeLinear") == 5
    assert list(model.state_dict()) == names
    # Switched off, nothing is rounded.
    model.apply(ao.disable_fake_quant)
    program = onnxport.export(model, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: "batch"},))
    assert "QuantizeLinear" not in [node.op_type for node in program.model.graph]
    assert_agrees(program, model, (torch.randn(5, 3, 8, 8),))


@pytest.mark.parametrize("version", [0, 1])
def test_grids_that_move_are_refused(version: int) -> None:
    model = trained(version)
    with pytest.raises(CaptureError, match=r"quant.activation_post_process and 4 more still observes") as caught:
        onnxport.export(model, (torch.randn(2, 3, 8, 8),))
    assert "disable_observer" in str(caught.value)
    assert isinstance(model.quant.activation_post_process.observer_enabled, Tensor)  # type: ignore[union-attr]


def test_fixed_grids_observe_nothing() -> None:
    model = nn.Sequential(
        nn.Sigmoid(), ao.FixedQParamsFakeQuantize(observer=ao.default_fixed_qparams_range_0to1_observer)
    )
    program = onnxport.export(model.eval(), (torch.randn(2, 6),), dynamic_shapes=({0: "batch"},))
    assert_agrees(program, model, (torch.randn(5, 6),), rtol=0, atol=0.004)
