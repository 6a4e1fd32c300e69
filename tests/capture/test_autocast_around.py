"""Inside of ``torch.autocast`` an export gives what the model gives there: the same dtypes, values but for rounding."""

from __future__ import annotations

import pytest
import torch

import onnxport


class Mixed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.conv = torch.nn.Conv1d(1, 2, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.linear(x)
        return y, self.norm(y), torch.softmax(y @ y.t(), -1), self.conv(x[:, None]), y.float().exp().cumsum(0), x * 2


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_export_inside_of_autocast(dtype: torch.dtype, dynamo: bool) -> None:
    torch.manual_seed(0)
    model, x = Mixed().eval(), torch.randn(3, 4)
    with torch.autocast("cpu", dtype), torch.no_grad():
        program = onnxport.export(model, (x,), dynamic_shapes=({0: "rows"},), dynamo=dynamo, verbose=False)
        x = torch.randn(5, 4)
        expected = model(x)
    for given, wanted in zip(program(x), expected, strict=True):
        assert given.dtype == wanted.dtype
        torch.testing.assert_close(given.float(), wanted.float(), rtol=0.02, atol=0.02)
    assert expected[0].dtype == dtype


class Deep(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.last = torch.nn.Linear(4, 4)
        self.weight = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)[None]
        x = self.attention(x, x, x)[0]
        with torch.autocast("cpu", enabled=False):
            x = self.last(x.float())
        for _ in range(x.shape[1]):
            x = torch.relu(x @ self.weight) + 1
        return x


def test_layers_after_each_other_are_cast_inside_of_autocast_and_loops_too() -> None:
    torch.manual_seed(0)
    model, x = Deep().eval(), torch.randn(3, 4)
    with torch.autocast("cpu"):
        program = onnxport.export(model, (x,), dynamic_shapes=({0: "rows"},), verbose=False)
        again = onnxport.export(program.exported_program, verbose=False)
        x = torch.randn(2, 4)
        expected = model(x)
    for (given,) in (program(x), again(x)):
        assert given.dtype == expected.dtype
        torch.testing.assert_close(given.float(), expected.float(), rtol=0.03, atol=0.03)


def test_a_recurrent_layer_inside_of_autocast() -> None:
    model, x = torch.nn.LSTM(4, 3).eval(), torch.randn(3, 2, 4)
    with torch.autocast("cpu"), torch.no_grad():
        for _ in range(2):
            program = onnxport.export(model, (x,), dynamic_shapes=({0: "length"},), verbose=False)
        x = torch.randn(5, 2, 4)
        expected = model(x)[0]
    torch.testing.assert_close(program(x)[0].float(), expected.float(), rtol=0.03, atol=0.03)
