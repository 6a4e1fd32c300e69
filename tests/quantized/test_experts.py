"""Mixtures of experts whose weights are quantized: looked up matrix by matrix, or one operator of onnxruntime."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxport
from onnxport.verification.quantized import written_weights

WIDTH, INNER, EXPERTS = 64, 96, 6


class Experts(nn.Module):
    """Rows sorted by the expert that they chose, and a product for the rows of each, as transformers has it."""

    def __init__(self, activation: str = "swiglu", shares: str = "softmax", inner: int = INNER, each: int = 2) -> None:
        super().__init__()
        self.activation, self.shares, self.each = activation, shares, each
        torch.manual_seed(0)
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, inner * (2 if activation == "swiglu" else 1), WIDTH) / 8)
        self.down = nn.Parameter(torch.randn(EXPERTS, WIDTH, inner) / 10)

    def act(self, x: Tensor) -> Tensor:
        if self.activation == "swiglu":
            gate, other = x.chunk(2, -1)
            return nn.functional.silu(gate) * other
        result: Tensor = getattr(nn.functional, self.activation)(x)
        return result

    def forward(self, x: Tensor) -> Tensor:
        scores = self.router(x)
        scores = scores.softmax(-1) if self.shares == "softmax" else scores
        shares, chosen = torch.topk(scores, self.each, dim=-1)
        shares = shares / shares.sum(-1, keepdim=True)
        numbers, order = torch.sort(chosen.reshape(-1))
        ends = torch.histc(numbers.float(), EXPERTS, 0, EXPERTS - 1).cumsum(0, dtype=torch.int32)
        rows = self.act(torch._grouped_mm(x[order // self.each], self.up.transpose(1, 2), offs=ends))
        rows = torch._grouped_mm(rows, self.down.transpose(1, 2), offs=ends)
        rows = rows * shares.reshape(-1)[order].unsqueeze(-1)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        return rows[back].view(-1, self.each, WIDTH).sum(1)


def quantized(model: nn.Module, way: str, target: str, opset: int = 21) -> tuple[onnxport.ONNXProgram, list[str]]:
    """A quantized program that agrees with the model at other sizes, with the operators that it has."""
    program = onnxport.export(
        model, (torch.randn(5, WIDTH),), dynamic_shapes=({0: "rows"},), opset_version=opset, target=target
    )
    report = program.quantize(way)
    assert {"up", "down"} <= {layer.name for layer in report.layers}, report
    with written_weights(report), torch.no_grad():
        for count in (1, 4, 33):
            x = torch.randn(count, WIDTH)
            torch.testing.assert_close(program(x)[0], model(x), rtol=1e-4, atol=1e-5)
    return program, [node.op_type for node in program.model.graph.all_nodes()]


@pytest.mark.parametrize("way", ["int4", "uint4", "int8", "int4:block_size=16"])
@pytest.mark.parametrize("activation", ["swiglu", "silu", "relu"])
def test_one_operator(activation: str, way: str) -> None:
    _, operators = quantized(Experts(activation), way, "onnxruntime")
    assert operators.count("QMoE") == 1
    assert "Loop" not in operators


@pytest.mark.parametrize(
    ("options", "way"),
    [
        ({"activation": "gelu"}, "int4"),  # The operator's is an approximation.
        ({"shares": "any"}, "int4"),  # It leaves out experts whose share is negative.
        ({"inner": 80}, "int4"),  # The last block would be short.
        ({}, "int8:block_size=32"),  # It would round inputs.
    ],
)
def test_where_one_operator_would_compute_something_else(options: dict[str, Any], way: str) -> None:
    _, operators = quantized(Experts(**options), way, "onnxruntime")
    assert "QMoE" not in operators
    assert operators.count("Loop") == 2


@pytest.mark.parametrize(("way", "opset"), [("int4", 21), ("uint4", 21), ("int8", 21), ("int8", 18)])
def test_standard_operators_take_one_matrix_after_the_other(way: str, opset: int) -> None:
    program, operators = quantized(Experts(inner=76), way, "onnx", opset)
    assert operators.count("Loop") == 2
    held = program.model.graph.initializers["up"]
    assert str(held.shape) == ("[6,64,152]" if way == "int8" else "[6,64,76]")


def test_experts_are_no_embeddings() -> None:
    """A pattern leaves them as they are, not what is said of tables."""
    program = onnxport.export(Experts(), (torch.randn(5, WIDTH),), target="onnxruntime", opset_version=21)
    report = program.quantize(onnxport.Quantization("int4", exclude=["down"]))
    assert {one.name: one.reason for one in report.left}["down"] == "excluded by a pattern"
    assert "up" in {layer.name for layer in report.layers}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_experts_of_sixteen_bits(dtype: torch.dtype) -> None:
    model = Experts().to(dtype)
    x = torch.randn(5, WIDTH, dtype=dtype)
    program = onnxport.export(model, (x,), opset_version=21, quantize="int4", verify=True)
    assert program.quantization is not None and program.verification.matches
    assert {"up", "down"} <= {layer.name for layer in program.quantization.layers}
