"""The form of saved files: weights stand at the operators that take them, and nothing describes them twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import nn

import onnxport
from onnxport.errors import InputError
from onnxport.provenance import ARRANGED
from onnxport.weights.metadata import inner_graphs


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(tokens))


class Twice(nn.Module):
    """One weight read in its own order and in the other one, and one read in two halves."""

    def __init__(self) -> None:
        super().__init__()
        self.square = nn.Parameter(torch.randn(8, 8))
        self.both = nn.Parameter(torch.randn(16, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key = self.both.chunk(2, 0)
        x = x @ self.square + nn.functional.linear(x, self.square)
        return nn.functional.linear(x, query) @ nn.functional.linear(x, key).transpose(-1, -2)


class SideBySide(nn.Module):
    """One product with the columns of two weights, of which one is stored the other way round."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Parameter(torch.randn(6, 8)), nn.Parameter(torch.randn(8, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.cat([self.left.T, self.right], 1)


def tokens() -> torch.Tensor:
    return torch.randint(0, 50, (2, 5))


def vectors() -> torch.Tensor:
    return torch.randn(2, 5, 8)


Make = Callable[[], nn.Module]
CASES: list[tuple[str, Make, Callable[[], torch.Tensor], set[str], set[str]]] = [
    ("linear", lambda: nn.Linear(8, 6), vectors, {"MatMul", "Add"}, {"weight", "bias"}),
    ("lstm", lambda: nn.LSTM(8, 70, batch_first=True, bidirectional=True), vectors, {"Concat", "Gather"}, set()),
    ("gru", lambda: nn.GRU(8, 70, num_layers=2), vectors, set(), set()),
    ("prelu", lambda: nn.PReLU(5), lambda: torch.randn(2, 5, 3, 4), {"PRelu"}, {"weight"}),
    ("tied", Tied, tokens, {"Gather", "Transpose", "MatMul"}, {"embed.weight"}),
    ("twice", Twice, vectors, set(), {"square"}),
    ("side by side", SideBySide, vectors, {"MatMul"}, set()),
]


def readers_of_weights(proto: onnx.ModelProto) -> set[str]:
    names = {tensor.name for tensor in proto.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT}
    return {node.op_type for node in proto.graph.node if names & set(node.input)}


@pytest.mark.parametrize("external_data", [False, True])
@pytest.mark.parametrize(("name", "make", "example", "operators", "names"), CASES, ids=[case[0] for case in CASES])
def test_weights_stand_at_their_operators(name, make, example, operators, names, external_data, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = make().eval(), example()
    program = onnxport.export(model, (x,))
    state = {key: value.clone() for key, value in model.state_dict().items()}
    program.save(tmp_path / "m.onnx", external_data=external_data)
    proto = onnx.load(tmp_path / "m.onnx")
    if name not in ("tied", "twice"):
        assert not readers_of_weights(proto) & {"Transpose", "Reshape", "Unsqueeze", "Concat", "Gather", "Slice"}
    assert names <= {tensor.name for tensor in proto.graph.initializer}
    assert operators <= {node.op_type for node in proto.graph.node} or name == "lstm"
    weights = sum(np.prod(t.dims) for t in proto.graph.initializer if t.data_type == onnx.TensorProto.FLOAT)
    kept = {value.data_ptr(): value.numel() for value in model.state_dict().values()}
    assert weights <= sum(kept.values()) + 300
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = model(x)
    expected = expected[0] if isinstance(expected, tuple) else expected
    got = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-5)
    # The program itself keeps the state dict's layout, in which other weights are applied.
    program.apply_weights({key: value + 0.1 for key, value in state.items()})
    model.load_state_dict({key: value + 0.1 for key, value in state.items()})
    with torch.no_grad():
        expected = model(x)
    expected = expected[0] if isinstance(expected, tuple) else expected
    torch.testing.assert_close(program(x)[0], expected, rtol=1e-4, atol=1e-4)


def test_the_change_is_recorded(tmp_path: Path) -> None:
    onnxport.export(nn.Linear(8, 6), (vectors(),), tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    weight = next(tensor for tensor in proto.graph.initializer if tensor.name == "weight")
    assert list(weight.dims) == [8, 6]
    assert {entry.key: entry.value for entry in weight.metadata_props}[ARRANGED] == "transpose(weight, [1, 0])"


@pytest.mark.parametrize("form", [{"keep_initializers_as_inputs": True}, {"include_initializers": False}])
def test_weights_that_come_from_outside_are_those_of_the_state_dict(form: dict[str, bool], tmp_path: Path) -> None:
    program = onnxport.export(nn.Linear(8, 6), (vectors(),))
    program.save(tmp_path / "m.onnx", **form)
    proto = onnx.load(tmp_path / "m.onnx")
    assert "Transpose" in {node.op_type for node in proto.graph.node}
    stated = {info.name: info for info in (*proto.graph.input, *proto.graph.value_info)}["weight"]
    assert [dim.dim_value for dim in stated.type.tensor_type.shape.dim] == [6, 8]


def test_initializers_are_described_by_their_tensors_alone(tmp_path: Path) -> None:
    program = onnxport.export(nn.Sequential(nn.Linear(8, 6), nn.Softmax(-1)), (vectors(),), opset_version=11)
    for proto in (program.model_proto, onnx.ModelProto.FromString(onnxport_bytes(program, tmp_path))):
        described = {info.name for info in proto.graph.value_info}
        assert described and not described & {tensor.name for tensor in proto.graph.initializer}
        assert described <= {name for node in proto.graph.node for name in node.output}


def onnxport_bytes(program: onnxport.ONNXProgram, folder: Path) -> bytes:
    program.save(folder / "m.onnx")
    return (folder / "m.onnx").read_bytes()


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.fc(x) + 1, lambda x: self.fc(x) - 1, (x,))


@pytest.mark.parametrize(
    ("metadata", "keys"),
    [
        ("full", {"namespace", "pkg.torch.onnx.stack_trace", "pkg.torch.onnx.fx_node"}),
        ("names", {"namespace"}),
        ("none", set()),
    ],
)
def test_metadata_can_be_left_out(metadata, keys: set[str], tmp_path: Path) -> None:
    program = onnxport.export(Branches(), (vectors(),), tmp_path / "m.onnx", metadata=metadata)
    proto = onnx.load(tmp_path / "m.onnx")
    graphs = [proto.graph, *(inner for node in proto.graph.node for inner in inner_graphs(node))]
    assert len(graphs) == 3
    found = {entry.key for graph in graphs for node in graph.node for entry in node.metadata_props}
    assert found == keys or (metadata == "full" and keys < found)
    # That a weight stands transposed is told with the names, since the state dict has it otherwise.
    told = {entry.key for tensor in proto.graph.initializer for entry in tensor.metadata_props} - {ARRANGED}
    assert bool(told) == (metadata == "full")
    program.save(tmp_path / "other.onnx", metadata="none")
    assert not ir.load(tmp_path / "other.onnx").graph.metadata_props


def test_an_unknown_amount_of_metadata_is_refused() -> None:
    with pytest.raises(InputError, match="'full', 'names', 'none'"):
        onnxport.export(nn.ReLU(), (torch.ones(2),), metadata="some")  # type: ignore[arg-type]
