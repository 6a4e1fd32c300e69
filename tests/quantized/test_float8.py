"""Products of float8 tensors, each with a scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

import onnxport
from comparison import exported_and_compared
from onnxport.errors import OpsetError

F8 = torch.float8_e4m3fn


class Product(nn.Module):
    """``x`` in float8 by a scale of its own, times a weight that is stored so."""

    def __init__(self, rows: bool, bias: Callable[[], Tensor | None], dtype: torch.dtype) -> None:
        super().__init__()
        self.rows, self.dtype = rows, dtype
        self.register_buffer("weight", torch.randn(16, 32).to(F8))
        self.register_buffer("scale", torch.rand(1, 16) if rows else torch.tensor(0.3))
        self.bias = bias()

    def forward(self, x: Tensor) -> Any:
        scale = (x.abs().amax(-1, keepdim=True) if self.rows else x.abs().amax()) / 448
        integers = (x / scale).to(F8)
        return torch._scaled_mm(integers, self.weight.t(), scale, self.scale, bias=self.bias, out_dtype=self.dtype)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scaled_products(rows: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Product(rows, lambda: torch.randn(16, dtype=dtype) if dtype == torch.bfloat16 else None, dtype)
    program = exported_and_compared(
        model, [torch.randn(3, 32)], [torch.randn(5, 32)], axes=[{0: "b"}], opset_version=21, rtol=0.02, atol=0.02
    )
    assert program.model.graph.initializers["weight"].dtype == ir.DataType.FLOAT8E4M3FN


class Recipes(Product):
    """The same by the function that says by what the scales are."""

    def forward(self, x: Tensor) -> Any:
        functional: Any = nn.functional
        scale = (x.abs().amax(-1, keepdim=True) if self.rows else x.abs().amax()) / 448
        kind = functional.ScalingType.RowWise if self.rows else functional.ScalingType.TensorWise
        return functional.scaled_mm(
            (x / scale).to(F8), self.weight.t(), scale, kind, self.scale, kind, bias=self.bias, output_dtype=self.dtype
        )


@pytest.mark.skipif(not hasattr(nn.functional, "scaled_mm"), reason="a function of newer versions of torch")
@pytest.mark.parametrize("rows", [False, True])
def test_scaled_products_by_recipe(rows: bool) -> None:
    torch.manual_seed(0)
    model = Recipes(rows, lambda: None, torch.float32)
    exported_and_compared(
        model, [torch.randn(3, 32)], [torch.randn(5, 32)], axes=[{0: "b"}], opset_version=21, rtol=0.02, atol=0.02
    )


class Weight(nn.Module):
    """A weight in float8 in a model of bfloat16."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(64, 32).to(F8))
        self.register_buffer("scale", torch.rand(64, 1).to(dtype))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.to(self.scale.dtype) * self.scale
        return nn.functional.linear(x, weight.to(torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_of_a_model_in_bfloat16(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    given, others = ([torch.randn(size, 32).bfloat16()] for size in (3, 5))
    program = exported_and_compared(
        Weight(dtype), given, others, axes=[{0: "b"}], opset_version=21, rtol=0.01, atol=0.01
    )
    assert program.model.graph.initializers["weight"].dtype == ir.DataType.FLOAT8E4M3FN


def test_an_opset_without_float8_is_refused_by_name() -> None:
    with pytest.raises(OpsetError, match="float8e4m3fn"):
        onnxport.export(Product(False, lambda: None, torch.float32), (torch.randn(3, 32),), opset_version=17)
