"""Arithmetic of weights alone that files of ``dynamo=False`` don't have: they have its result."""

from __future__ import annotations

import io

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxport


class Gained(nn.Module):
    """Layers whose weights are computed of parameters: by a gain, by norms, by functions of one parameter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.weight, self.scale = nn.Parameter(torch.randn(4, 3, 3)), nn.Parameter(torch.randn(4))
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 5, 3))
        self.linear = nn.utils.parametrizations.spectral_norm(nn.Linear(5, 4))
        self.divisors = torch.tensor([1, 2, 3, 4])

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(nn.functional.conv1d(x, self.weight * 0.3)).amax(-1)
        moved = torch.exp(self.scale) / self.divisors - torch.linalg.vector_norm(self.scale, 1)
        return self.linear(y) * moved + torch.sigmoid(self.scale).mean()  # type: ignore[no-any-return]


class Tied(nn.Module):
    """A weight that is read as it is, too, and one that would be larger: both stay."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(20, 20))
        self.integers = nn.Parameter(torch.randint(-9, 9, (20, 60), dtype=torch.int8), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight @ (self.weight * 2) @ (self.integers.float() * 0.5)


def exported(model: nn.Module, example: Tensor, **options: object) -> onnx.ModelProto:
    file = io.BytesIO()
    names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    onnxport.export(model.eval(), (example,), file, dynamo=False, **names, **options)  # type: ignore[arg-type]
    return onnx.load_from_string(file.getvalue())


def result(model: onnx.ModelProto, x: Tensor) -> Tensor:
    options = onnxruntime.SessionOptions()
    # Optimised, onnxruntime 1.31 rounds what it multiplies by integer weights to integers.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"x": x.numpy()})[0])


@pytest.mark.parametrize("opset", [11, 18])
def test_weights_are_written_as_they_are_used(opset: int) -> None:
    model, other = Gained(), torch.randn(5, 3, 9)
    file = exported(model, torch.randn(2, 3, 9), opset_version=opset)
    assert [node.op_type for node in file.graph.node] == ["Conv", "Conv", "ReduceMax", "Gemm", "Mul", "Add"]
    read = {name for node in file.graph.node for name in node.input}
    assert {entry.name for entry in file.graph.initializer} <= read
    torch.testing.assert_close(result(file, other), model(other).detach())


@pytest.mark.parametrize("option", [{"do_constant_folding": False}, {"keep_initializers_as_inputs": True}])
def test_left_to_the_reader_on_request(option: dict[str, bool]) -> None:
    """Weights that others may give by name have the names and values of the state dict."""
    file = exported(Gained(), torch.randn(2, 3, 9), opset_version=17, **option)
    assert {"conv.parametrizations.weight.original0", "scale"} <= {entry.name for entry in file.graph.initializer}


def test_no_file_grows() -> None:
    model, other = Tied(), torch.randn(3, 20)
    file = exported(model, torch.randn(2, 20), opset_version=17)
    kinds = [(list(entry.dims), entry.data_type) for entry in file.graph.initializer if len(entry.dims) == 2]
    assert kinds == [([20, 20], onnx.TensorProto.FLOAT), ([20, 60], onnx.TensorProto.INT8)]
    torch.testing.assert_close(result(file, other), model(other).detach(), rtol=1e-4, atol=1e-4)


def test_weights_can_be_replaced() -> None:
    model, example = Gained(), torch.randn(2, 3, 9)
    program = onnxport.export(model.eval(), (example,), None, dynamo=False, opset_version=17)
    with torch.no_grad():
        model.weight.mul_(2)
        model.scale.add_(1)
    program.apply_weights(model.state_dict())
    torch.testing.assert_close(program(example)[0], model(example).detach())


def test_unread_weights_are_not_written() -> None:
    """Not even where nothing is optimized."""

    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read, self.unread = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.read(x)  # type: ignore[no-any-return]

    file = exported(Half(), torch.ones(1, 3), do_constant_folding=False)
    assert {entry.name for entry in file.graph.initializer} == {"read.weight", "read.bias"}


def test_only_what_is_smaller_with_dynamo() -> None:
    """There weights keep their names, but for what most of them are not needed for."""

    class Summed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.gain = nn.Parameter(torch.randn(100, 8)), nn.Parameter(torch.randn(8))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.table.sum(0) * torch.exp(self.gain)

    model, other = Summed(), torch.randn(3, 8)
    program = onnxport.export(model, (torch.randn(2, 8),), dynamic_shapes=({0: "batch"},))
    file = program.model_proto
    assert [node.op_type for node in file.graph.node] == ["Mul", "Exp", "Mul"]
    assert {tuple(entry.dims) for entry in file.graph.initializer} == {(8,)}
    torch.testing.assert_close(program(other)[0], model(other).detach())
    with torch.no_grad():
        model.table.add_(1)
    program.apply_weights(model.state_dict())
    torch.testing.assert_close(program(other)[0], model(other).detach())


def test_weights_of_layers_are_initializers_with_dynamo() -> None:
    """What quantizes files looks for them there; a product of two weights, as of low rank, stays one."""

    class LowRank(Gained):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.up = nn.Parameter(torch.randn(4, 2)), nn.Parameter(torch.randn(2, 4))

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) @ (self.down @ self.up)

    model, other = LowRank().eval(), torch.randn(5, 3, 9)
    program = onnxport.export(model, (torch.randn(2, 3, 9),), dynamic_shapes=({0: "batch"},))
    file = program.model_proto
    weights = {entry.name for entry in file.graph.initializer}
    layers = [node for node in file.graph.node if node.op_type in ("Conv", "Gemm")]
    assert len(layers) == 3 and all(node.input[1] in weights for node in layers)
    assert {"down", "up"} <= weights
    torch.testing.assert_close(program(other)[0], model(other).detach())
    with torch.no_grad():
        model.conv.parametrizations["weight"].original0.mul_(2)
    program.apply_weights(model.state_dict())
    torch.testing.assert_close(program(other)[0], model(other).detach())
