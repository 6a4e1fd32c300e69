"""Bounds at every opset: infinities stay, bounds may cross, and shapes may differ where nothing was broadcast."""

from __future__ import annotations

import math

import pytest
import torch

import onnxport
from cases import Wrapped
from comparison import assert_agrees

X = torch.tensor([[math.inf, -math.inf, math.nan, 0.5, -3.0], [1.0, 2.0, 3.0, 4.0, 5.0]])


def _bounded(x: torch.Tensor) -> list[torch.Tensor]:
    return [x.clamp(min=0), x.clamp(max=1), x.clamp(2, 1), x.clamp(-1, 1), torch.maximum(x, x[:1]), x.clamp(x[1], x[1])]


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 20, 26])
def test_bounds(opset: int) -> None:
    program = onnxport.export(Wrapped(_bounded), (X,), opset_version=opset)
    assert_agrees(program, _bounded, (X,), rtol=0, atol=0)
