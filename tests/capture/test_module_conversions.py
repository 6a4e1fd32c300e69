"""Modules that a model converts while it runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import onnxport
from comparison import assert_close


class Converting(nn.Module):
    def __init__(self, run: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
        self.run = run

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self, x)


def _kept(model: Converting, x: torch.Tensor) -> torch.Tensor:
    model.layers = model.layers.to(torch.float32)
    return model.layers(x.float()).to(x.dtype)


ROWS: dict[str, tuple[Callable[..., torch.Tensor], torch.dtype]] = {
    "to the type it has": (_kept, torch.float16),
    "to the type of the input": (lambda model, x: model.layers.to(x.dtype)(x), torch.float64),
    "to the device of the input": (lambda model, x: model.layers.to(x.device)(x), torch.float32),
    "there and back": (
        lambda model, x: model.layers.double()(x.double()).float() + model.layers.float()(x),
        torch.float32,
    ),
}


@pytest.mark.parametrize(("run", "dtype"), ROWS.values(), ids=ROWS)
def test_a_module_is_converted_in_the_file_and_keeps_its_weights(
    run: Callable[..., torch.Tensor], dtype: torch.dtype
) -> None:
    model = Converting(run).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    program = onnxport.export(model, (torch.randn(3, 4, dtype=dtype),), dynamic_shapes=({0: "batch"},))
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    x = torch.randn(5, 4, dtype=dtype)
    assert_close(program(x)[0], model(x))
