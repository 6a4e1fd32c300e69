"""Graphs that torchao's quantizers made (prepare_pt2e, convert_pt2e), where torchao is installed."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

import onnxport
from comparison import eager_result

pt2e: Any = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e")
x86: Any = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
pytestmark = pytest.mark.filterwarnings("ignore")
D = ir.DataType


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.grouped, self.head = nn.Conv2d(8, 8, 3, groups=2), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        x = self.grouped(x + torch.relu(x))
        return self.head(torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def quantized(qat: bool, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    axes = ({0: torch.export.Dim("b", min=1, max=64)},)
    model = Network().train() if qat else Network().eval()
    captured = torch.export.export(model, (torch.randn(2, 3, 8, 8),), dynamic_shapes=axes).module()
    quantizer = x86.X86InductorQuantizer()
    # Seven bits: onnxruntime's sums of products saturate on processors without VNNI.
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(reduce_range=True, is_qat=qat, **options))
    prepared = (pt2e.prepare_qat_pt2e if qat else pt2e.prepare_pt2e)(captured, quantizer)
    for _ in range(3):
        prepared(torch.randn(2, 3, 8, 8))
    return pt2e.convert_pt2e(prepared)  # type: ignore[no-any-return]


@pytest.mark.parametrize("opset", [13, 23])
@pytest.mark.parametrize("kind", ["static", "dynamic", "qat"])
def test_networks(kind: str, opset: int) -> None:
    model = quantized(kind == "qat", is_dynamic=kind == "dynamic")
    program = onnxport.export(model, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: "batch"},), opset_version=opset)
    x = torch.randn(5, 3, 8, 8)
    off = (program(x)[0] - eager_result(model, [x])).abs()
    assert off.max() < 0.03
    assert off.median() < 0.01
    initializers = program.model.graph.initializers.values()
    weights = [value.dtype for value in initializers if len(value.shape or ()) > 1]
    assert weights == [D.INT8] * 3
    # Zero points are of the type of what they belong to.
    assert not [v.name for v in initializers if v.dtype == D.INT64 and "zero_point" in str(v.name)]
    if kind != "dynamic":
        assert "Cast" not in [node.op_type for node in program.model.graph]
