"""Weights that several nodes read, as tools of onnxruntime that change weights where they are take them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from onnxruntime.quantization import quantize_dynamic
from torch import Tensor, nn

import onnxport


class Twice(nn.Module):
    """A linear layer that is run for each of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.layer(x) - self.layer(y)


class Tied(nn.Module):
    """A layer that scores rows by the table that they are taken from."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(4, 4), nn.Linear(4, 4, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.head(x + self.table((y[:, 0] > 0).long()))


@pytest.mark.parametrize(
    ("make", "turned", "integers"), [(Twice, 0, 1), (Tied, 1, 1)], ids=["linear layer", "tied to a table"]
)
def test_shared_weights_are_quantized_right(
    make: Callable[[], nn.Module], turned: int, integers: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = make().eval()
    example = (torch.randn(2, 4), torch.randn(2, 4))
    onnxport.export(model, example, tmp_path / "m.onnx", dynamic_shapes=({0: "n"}, {0: "n"}))
    written = onnx.load(tmp_path / "m.onnx").graph
    assert [node.op_type for node in written.node].count("Transpose") == turned
    assert len([one for one in written.initializer if list(one.dims) == [4, 4]]) == 1
    quantize_dynamic(tmp_path / "m.onnx", tmp_path / "q.onnx")
    found = onnx.load(tmp_path / "q.onnx").graph.initializer
    kinds = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    assert len([one for one in found if one.data_type in kinds and list(one.dims) == [4, 4]]) == integers
    session = onnxruntime.InferenceSession(str(tmp_path / "q.onnx"), providers=["CPUExecutionProvider"])
    x, y = torch.randn(5, 4), torch.randn(5, 4)
    (ours,) = session.run(None, {"x": x.numpy(), "y": y.numpy()})
    torch.testing.assert_close(torch.from_numpy(ours), model(x, y).detach(), rtol=0.1, atol=0.1)
