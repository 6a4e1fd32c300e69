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
