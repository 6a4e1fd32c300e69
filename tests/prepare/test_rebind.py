"""``x.data = y``, which a capture hardly shows: computed as eager does, or refused with its line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import onnxport
from onnxport.errors import TranslationError


class Calls(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def of_a_result(self: Calls, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.data = x * 3
    return y


def of_an_input(self: Calls, x: torch.Tensor) -> torch.Tensor:
    x.data = x * 3
    return x + 1


def of_a_parameter(self: Calls, x: torch.Tensor) -> torch.Tensor:
    self.weight.data = x.mean(0)
    return x + self.weight


def twice(self: Calls, x: torch.Tensor) -> torch.Tensor:
    y, first, second = x * 2, x * 3, x * 5
    y.data = first
    z = y + 1
    y.data = second
    return y + z + first * 10


def then_written_to(self: Calls, x: torch.Tensor) -> torch.Tensor:
    y, other = x * 2, x * 3
    before = y + 1
    y.data = other
    y.add_(1)
    return y + before


@pytest.mark.parametrize("function", [of_a_result, of_an_input, of_a_parameter, twice, then_written_to])
def test_as_eager(function: Callable[..., torch.Tensor]) -> None:
    program = onnxport.export(Calls(function), (torch.rand(2, 3),), dynamic_shapes=({0: "n"},))
    x = torch.rand(5, 3)
    expected = Calls(function)(x.clone())
    torch.testing.assert_close(program(x)[0], expected)


def test_data_of_another_shape_is_refused_with_the_line() -> None:
    class Other(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.data = x.sum(0)
            return y

    with pytest.raises(TranslationError, match=r"(?s)another shape or type.*test_rebind\.py:\d+"):
        onnxport.export(Other(), (torch.rand(2, 3),))
