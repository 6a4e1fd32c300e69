"""Axes that have elements in the example and none at run time, where runtimes fail unless gone around."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import onnxport
from comparison import assert_close

DYNAMIC = torch.export.Dim.DYNAMIC
FUNCTIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "running products": lambda x: (x.cumprod(0), x.cumprod(1)),
    "running extremes": lambda x: (x.cummax(0), x.cummin(1)),
    "each element twice": lambda x: (x.repeat_interleave(2, 0), x.repeat_interleave(2, 1)),
    "normalised over an axis": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    "whole products": lambda x: ((x * 1e6).long().prod(0), (x * 1e6).long().prod()),
    "running sums of exponentials": lambda x: (x.logcumsumexp(0), x.logcumsumexp(1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_axis_that_is_empty_at_run_time(name: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> object:
            return FUNCTIONS[name](x)

    program = onnxport.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: DYNAMIC, 1: DYNAMIC},), verbose=False)
    for shape in ((3, 6), (0, 4), (5, 0), (0, 0)):
        x = torch.randn(shape)
        assert_close(program(x), Model()(x))
