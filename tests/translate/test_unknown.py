"""What can't be translated is said all at once, with the user's lines."""

from __future__ import annotations

from typing import Any

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


def test_constants_and_types_as_onnx_writes_them() -> None:
    def to_double(op: Any, x: Any) -> Any:
        two = op.Constant(value_float=2.0)
        ones = op.Constant(value=torch.ones(3))
        axes = op.Constant(value_ints=[0])
        one = op.Cast(op.Squeeze(op.Unsqueeze(op.Constant(value_int=1), axes), axes), to=1)
        return op.Mul(op.Mul(x, op.Constant(value_floats=[1.0, 1.0, 1.0])), op.Mul(two, op.Mul(ones, one)))

    class Doubling(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return double(x)

    example = torch.arange(3.0)
    program = onnxport.export(Doubling(), (example,), custom_translation_table={double: to_double})
    torch.testing.assert_close(program(example)[0], example * 2)
