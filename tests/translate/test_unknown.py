"""What can't be translated is said all at once, with the user's lines."""

from __future__ import annotations

import pytest
import torch

import onnxport
from onnxport.errors import TranslationError


@torch.library.custom_op("onnxport_tests::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("onnxport_tests::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@halve.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = double(x)
        y = double(y)
        return halve(y)


def test_all_unknown_operators_are_listed() -> None:
    with pytest.raises(TranslationError) as caught:
        onnxport.export(Model(), (torch.ones(2),))
    message = str(caught.value)
    assert "2 operator(s) of the model have no translation" in message
    assert "onnxport_tests.double.default has no translation (2 times)" in message
    assert "onnxport_tests.halve.default has no translation" in message
    assert "test_unknown.py" in message
    assert "y = double(x)" in message
    assert "custom_translation_table" in message


def test_a_custom_table_supplies_them() -> None:
    table = {
        torch.ops.onnxport_tests.double: lambda op, x: op.Add(x, x),
        halve: lambda op, x: x / 2,
    }
    program = onnxport.export(Model(), (torch.ones(2),), custom_translation_table=table)
    assert program(torch.ones(2))[0].tolist() == [2.0, 2.0]


def test_unused_unknown_operators_do_no_harm() -> None:
    class Unused(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            double(x)
            return x + 1

    assert onnxport.export(Unused(), (torch.ones(2),))(torch.ones(2))[0].tolist() == [2.0, 2.0]
