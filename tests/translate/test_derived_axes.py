"""Axes whose sizes are declared by what they are made of: ``2 * Dim("half")``."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import onnxport
from comparison import assert_close

HALF = Dim("half", min=1, max=100)


class Counted(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        length = x.size(1)
        return torch.arange(length) * x.sum(), x[:, : (length + 1) // 2], torch.ones(y.size(0) * length), y[:length]


@pytest.mark.parametrize(
    ("axis", "sizes"),
    [(2 * HALF, (8, 2, 14)), (2 * HALF + 1, (7, 3, 21)), (HALF + 3, (6, 4, 30)), (3 * HALF - 1, (8, 2, 29))],
)
def test_sizes_follow_from_an_axis_that_is_made_of_them(axis: Dim, sizes: tuple[int, ...]) -> None:
    model = Counted()
    shapes = {"x": {1: axis}, "y": {0: "m"}}
    program = onnxport.export(model, (torch.randn(2, sizes[0]), torch.randn(5)), dynamic_shapes=shapes)
    for size in sizes:
        inputs = torch.randn(2, size), torch.randn(11)
        assert_close(list(program(*inputs)), list(model(*inputs)))


def test_an_axis_is_read_as_it_is() -> None:
    program = onnxport.export(
        Counted(), (torch.randn(2, 8), torch.randn(5)), dynamic_shapes={"x": {1: 2 * HALF}, "y": None}
    )
    counted = next(node for node in program.model.graph if node.op_type == "Range").inputs[1]
    producers = []
    while counted is not None and counted.producer() is not None:
        producers.append(counted.producer().op_type)
        counted = counted.producer().inputs[0]
    assert producers == ["Squeeze", "Shape"]
