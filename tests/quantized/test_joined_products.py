"""Products of one input with several weights are one product for onnxruntime, and the same numbers."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

import onnxport
from comparison import assert_close, eager_result
from onnxport import Quantization
from onnxport.errors import OpsetError


class Projections(nn.Module):
    """Four products of one input, the last with a bias; a fifth whose weight another input meets as well."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(96, width, bias=False) for width in (64, 32, 48))
        self.gate = nn.Linear(96, 64)
        self.twice = nn.Linear(96, 96, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.q(x), self.k(x), self.v(x), self.gate(x), self.twice(x), self.twice(x.relu())]
        return torch.cat(parts, -1)


@pytest.mark.parametrize(
    ("way", "opset"),
    [
        (Quantization("int4"), 11),
        (Quantization("int4"), 17),
        (Quantization("uint4", block_size=16), 21),
        (Quantization("int8", block_size=32), 17),
    ],
)
def test_one_product(way: Quantization, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Projections().eval()
    options: dict[str, Any] = {"opset_version": opset, "quantize": way, "target": "onnxruntime"}
    program = onnxport.export(model, (torch.randn(2, 3, 96),), dynamic_shapes=({0: "b", 1: "s"},), **options)
    report = program.quantization
    assert report is not None and len(report.layers) == 5
    written = copy.deepcopy(model)
    for layer in report.layers:
        written.state_dict()[layer.name].copy_(layer.weight.real())
    x = torch.randn(4, 1, 96)
    assert_close(list(program(x)), eager_result(written, (x,)), rtol=1e-4, atol=1e-4)
    path = tmp_path / "model.onnx"
    program.save(path, external_data=False)
    products = [node for node in onnx.load(path).graph.node if node.op_type == "MatMulNBits"]
    joined = "q.weight+k.weight+v.weight+gate.weight"
    assert len(products) == (3 if opset >= 13 else 6)
    assert (joined in {node.input[1] for node in products}) == (opset >= 13)


def test_scales_by_channel_are_refused_where_the_opset_has_none() -> None:
    options: dict[str, Any] = {"opset_version": 11, "quantize": "int8", "target": "onnxruntime"}
    with pytest.raises(OpsetError, match="int8 needs opset 13"):
        onnxport.export(nn.Linear(96, 96), (torch.randn(2, 96),), **options)


class SideBySide(nn.Module):
    """One product of three weights, as attention's queries, keys and values are written for onnxruntime."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(96, width, bias=False) for width in (64, 32, 48))

    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.cat([layer.weight.t() for layer in (self.q, self.k, self.v)], 1)


@pytest.mark.parametrize("target", ["onnx", "onnxruntime"])
@pytest.mark.parametrize("options", [{"exclude": ["v.*"]}, {"include": ["[qk].*"]}])
def test_patterns_are_of_weights_that_are_joined(options: dict[str, Any], target: str) -> None:
    model = SideBySide().eval()
    way = Quantization("int4", **options)
    program = onnxport.export(model, (torch.randn(2, 96),), opset_version=21, quantize=way, target=target, verify=True)
    report = program.quantization
    assert report is not None and program.verification.matches
    assert [layer.name for layer in report.layers] == ["q.weight", "k.weight"]
    assert [one.name for one in report.left] == ["v.weight"]
    assert program.model.graph.initializers["v.weight"].dtype == ir.DataType.FLOAT


def test_what_is_joined_is_one_product_again() -> None:
    program = onnxport.export(
        SideBySide().eval(), (torch.randn(2, 96),), opset_version=21, quantize="int4", target="onnxruntime", verify=True
    )
    assert program.verification.matches
    assert [node.op_type for node in program.model.graph] == ["MatMulNBits"]
