"""Batch normalisations that files don't have: the layers before them are written with the weights of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxport
from onnxport.provenance import FOLDED


def with_statistics(model: nn.Module) -> nn.Module:
    torch.manual_seed(3)
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            assert module.running_mean is not None and module.running_var is not None
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 2)
            nn.init.normal_(module.bias)
    return model.eval()


class Shared(nn.Module):
    """One convolution before two normalisations, or one whose own result is returned too."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.conv, self.calls = nn.Conv2d(3, 4, 3), calls
        self.one, self.two = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = self.conv(x)
        return self.one(first), self.two(self.conv(x + 1) if self.calls == 2 else first)


class Again(nn.Module):
    """A convolution and a normalisation that are run twice, behind which something else may read the first."""

    def __init__(self, bias: bool = False, apart: bool = False) -> None:
        super().__init__()
        self.conv, self.norm, self.apart = nn.Conv2d(3, 3, 3, padding=1, bias=bias), nn.BatchNorm2d(3), apart

    def forward(self, x: Tensor) -> Tensor:
        first = self.norm(self.conv(x)).relu()
        return self.conv(first) if self.apart else self.norm(self.conv(first))


def image(batch: int) -> Tensor:
    return torch.randn(batch, 3, 6, 5)


def row(batch: int) -> Tensor:
    return torch.randn(batch, 6)


ROWS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor], list[str]]] = {
    "conv": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), image, ["Conv", "Relu"]),
    "conv without bias, at the end": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)),
        image,
        ["Conv"],
    ),
    "grouped": (lambda: nn.Sequential(nn.Conv2d(3, 6, 3, groups=3), nn.BatchNorm2d(6)), image, ["Conv"]),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(3, 6, 3, groups=3), nn.BatchNorm2d(6)),
        image,
        ["ConvTranspose"],
    ),
    "linear": (lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU()), row, ["Gemm", "Relu"]),
    "without a layer before": (
        lambda: nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3)),
        image,
        ["Relu", "BatchNormalization"],
    ),
    "read twice": (lambda: Shared(1), image, ["Conv", "BatchNormalization", "BatchNormalization"]),
    "both run twice": (Again, image, ["Conv", "Relu", "Conv"]),
    "both run twice, with a bias": (lambda: Again(bias=True), image, ["Conv", "Relu", "Conv"]),
    "one of both run twice": (lambda: Again(apart=True), image, ["Conv", "BatchNormalization", "Relu", "Conv"]),
    "called twice": (lambda: Shared(2), image, ["Conv", "BatchNormalization", "Add", "Conv", "BatchNormalization"]),
}


@pytest.mark.parametrize(("make", "example", "expected"), ROWS.values(), ids=ROWS.keys())
def test_written(
    make: Callable[[], nn.Module], example: Callable[[int], Tensor], expected: list[str], tmp_path: Path
) -> None:
    model = with_statistics(make())
    program = onnxport.export(model, (example(2),), dynamic_shapes=({0: "batch"},))
    for external in (False, True):
        path = tmp_path / f"{external}.onnx"
        program.save(path, external_data=external)
        proto = onnx.load(path)
        onnx.checker.check_model(proto, full_check=True)
        assert [node.op_type for node in proto.graph.node] == expected
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        x = example(5)
        found = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        with torch.no_grad():
            wanted = model(x)
        for ours, eager in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            torch.testing.assert_close(torch.from_numpy(ours), eager, rtol=1e-5, atol=1e-5)
    assert "BatchNormalization" in {node.op_type for node in program.model.graph}


def block() -> nn.Module:
    return with_statistics(nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)))


def written(program: onnxport.ONNXProgram, path: Path, **options: bool) -> list[str]:
    program.save(path, **options)  # type: ignore[arg-type]
    return [node.op_type for node in onnx.load(path).graph.node]


def test_weights_keep_their_names_and_say_what_they_hold(tmp_path: Path) -> None:
    program = onnxport.export(block(), (image(2),))
    program.save(tmp_path / "m.onnx")
    weights = {tensor.name: {entry.key: entry.value for entry in tensor.metadata_props}
               for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer}  # fmt: skip
    assert {name: texts[FOLDED] for name, texts in weights.items()} == {"0.weight": "1", "0.bias": "1"}


def test_any_state_dict_can_be_applied() -> None:
    program, other = onnxport.export(block(), (image(2),)), block()
    nn.init.normal_(other[0].weight)
    other[1].running_var.fill_(3)
    program.apply_weights({name: tensor for name, tensor in other.state_dict().items() if "tracked" not in name})
    x = image(2)
    torch.testing.assert_close(program(x)[0], other(x).detach(), rtol=1e-5, atol=1e-5)


def test_files_whose_weights_come_from_elsewhere_have_the_state_dicts(tmp_path: Path) -> None:
    program = onnxport.export(block(), (image(2),))
    pair = ["Conv", "BatchNormalization"]
    assert written(program, tmp_path / "a.onnx", include_initializers=False) == pair
    assert written(program, tmp_path / "b.onnx", keep_initializers_as_inputs=True) == pair
    assert written(program, tmp_path / "c.onnx") == ["Conv"]


@pytest.mark.parametrize("options", [{"fold_batch_norm": False}, {"optimize": False}])
def test_it_can_be_turned_off(options: dict[str, bool], tmp_path: Path) -> None:
    program = onnxport.export(block(), (image(2),), **options)  # type: ignore[arg-type]
    assert written(program, tmp_path / "m.onnx") == ["Conv", "BatchNormalization"]


def test_values_before_a_normalisation_can_be_computed() -> None:
    model = block()
    program = onnxport.export(model, (image(2),))
    x = image(2)
    result = program.model.graph[0].outputs[0].name
    assert isinstance(result, str)
    found = program.compute_values([result], (x,))
    torch.testing.assert_close(next(iter(found)), model[0](x).detach(), rtol=1e-5, atol=1e-5)


def test_no_more_than_a_piece_is_computed_at_once() -> None:
    from onnxport.weights.batch_norm import ScaledTensor

    tensor = ir.tensor(torch.randn(64, 64, 128).numpy())
    factors = torch.rand(64, 1, 1).numpy()
    scaled = ScaledTensor(tensor, lambda: factors, "w")
    pieces = [piece.nbytes for piece in scaled.slabs()]
    assert len(pieces) == 2 and sum(pieces) == scaled.nbytes
    assert scaled.tobytes() == (tensor.numpy().astype("float64") * factors).astype("float32").tobytes()


def test_what_a_layer_gives_is_stated(tmp_path: Path) -> None:
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1), nn.BatchNorm2d(2)]
    model = with_statistics(nn.Sequential(*layers))
    onnxport.export(model, (image(2),), tmp_path / "m.onnx", dynamic_shapes=({0: "batch"},))
    graph = onnx.load(tmp_path / "m.onnx").graph
    stated = {info.name: len(info.type.tensor_type.shape.dim) for info in (*graph.value_info, *graph.output)}
    assert {name: 4 for node in graph.node for name in node.output} == stated
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
