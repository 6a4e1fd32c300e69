"""Weights that are quantized on the way out: every scheme, reader and target against eager with the same numbers."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import onnxport
from comparison import assert_close, eager_result
from onnxport import Quantization
from onnxport.command_line import app
from onnxport.errors import InputError, OpsetError
from onnxport.quantize import as_quantization
from onnxport.quantize.calibration import ObservedRange

LENGTH = {"x": {0: "batch"}}


class Products(nn.Module):
    """A product by Gemm, by MatMul with a transposed weight, and by a weight as it stands; one from the left."""

    def __init__(self, width: int = 72) -> None:
        super().__init__()
        self.first = nn.Linear(width, 48)
        self.second = nn.Linear(48, 40, bias=False)
        self.third = nn.Parameter(torch.randn(40, 33))
        self.left = nn.Parameter(torch.randn(24, 48))

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.left @ self.second(y.unsqueeze(1).expand(-1, 48, -1)) @ self.third


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(301, 64)
        self.inner = nn.Linear(64, 64)
        self.lm_head = nn.Linear(64, 301, bias=False)
        self.lm_head.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.lm_head(self.inner(self.table(x)).relu())


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 24, 3, padding=1, groups=2)
        self.up = nn.ConvTranspose2d(24, 8, 2)
        self.rnn = nn.LSTM(40, 32, bidirectional=True)
        self.experts = nn.Parameter(torch.randn(4, 64, 48))

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(self.conv(x).relu())
        y, _ = self.rnn(y.flatten(2).mean(1, keepdim=True).unflatten(2, (-1, 40)).flatten(0, 1))
        return torch.matmul(y.unsqueeze(1), self.experts)


def with_written_weights(model: nn.Module, report: Any) -> nn.Module:
    """The model with the numbers that the quantized weights stand for, each within half a step of its own."""
    other = copy.deepcopy(model)
    state = other.state_dict()
    for layer in report.layers:
        weight, real = layer.weight, layer.weight.real()
        if not weight.refine:
            steps = weight.parameters[0].repeat_interleave(weight.block, -1)[..., : weight.inputs]
            # The end of a grid that has zero on it may lie another half step away.
            part = 0.51 if weight.grid.symmetric else 1.01
            assert ((real - weight.load()).abs() <= part * steps).all(), layer.name
        target = state[layer.name]
        turned = real.shape != target.shape and real.mT.shape == target.shape
        target.copy_((real.mT if turned else real).reshape(target.shape))
    return other


def parameters_of(program: onnxport.ONNXProgram) -> dict[str, str]:
    return {name: value.dtype.name for name, value in program.model.graph.initializers.items() if value.dtype}


WAYS = [
    Quantization("int8"),
    Quantization("int8", symmetric=False),
    Quantization("int8", block_size=16),
    Quantization("int4"),
    Quantization("int4", symmetric=False, block_size=16),
    Quantization("uint4"),
    Quantization("uint4", symmetric=True, block_size=64),
    Quantization("int4", refine="hqq"),
    Quantization("uint4", refine="hqq"),
]


@pytest.mark.parametrize("target", ["onnx", "onnxruntime"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.scheme}-{way.block_size}-{way.symmetric}-{way.refine}")
def test_products_compute_with_the_numbers_that_are_written(way: Quantization, target: str) -> None:
    torch.manual_seed(0)
    model = Products().eval()
    program = onnxport.export(model, (torch.randn(3, 72),), dynamic_shapes=LENGTH, quantize=way, target=target)
    report = program.quantization
    assert report is not None
    assert [layer.name for layer in report.layers] == ["first.weight", "second.weight", "left", "third"]
    x = torch.randn(5, 72)
    assert_close(program(x)[0], eager_result(with_written_weights(model, report), (x,)), rtol=1e-4, atol=1e-3)
    assert all(layer.error < (0.01 if way.bits == 8 else 0.15) for layer in report.layers)
    onnx.checker.check_model(program.model_proto)


@pytest.mark.parametrize("target", ["onnx", "onnxruntime"])
@pytest.mark.parametrize("scheme", ["int8", "int4", "uint4"])
def test_tied_weights_are_written_once(scheme: Any, target: str) -> None:
    torch.manual_seed(0)
    model = Tied().eval()
    way = Quantization(scheme, block_size=32, include_embeddings=True)
    program = onnxport.export(
        model, (torch.zeros(2, 3, dtype=torch.int64),), dynamic_shapes=LENGTH, quantize=way, target=target
    )
    report = program.quantization
    assert report is not None
    assert (
        sum(
            value.dtype.name == "FLOAT" and value.const_value.size > 1000
            for value in program.model.graph.initializers.values()
        )
        == 0
    )
    reference = with_written_weights(model, report)
    reference.lm_head.weight = reference.table.weight
    x = torch.randint(0, 301, (4, 3))
    assert_close(program(x)[0], eager_result(reference, (x,)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scheme", ["int8", "int4", "uint4"])
@pytest.mark.parametrize("width", [64, 71])
@pytest.mark.parametrize("target", ["onnx", "onnxruntime"])
def test_tables_alone(scheme: Any, width: int, target: str) -> None:
    torch.manual_seed(0)
    model = nn.Embedding(97, width)
    way = Quantization(scheme, include_embeddings=True)
    program = onnxport.export(model, (torch.zeros(3, 2, dtype=torch.int64),), quantize=way, target=target)
    report = program.quantization
    assert report is not None and report.layers[0].bytes_after < 0.35 * report.layers[0].bytes_before
    x = torch.randint(0, 97, (3, 2))
    assert_close(program(x)[0], eager_result(with_written_weights(model, report), (x,)))


@pytest.mark.parametrize("opset", [13, 20, 21, 23])
def test_convolutions_recurrent_layers_and_experts(opset: int) -> None:
    torch.manual_seed(0)
    model = Mixed().eval()
    program = onnxport.export(model, (torch.randn(2, 8, 7, 9),), quantize="int8", opset_version=opset)
    report = program.quantization
    assert report is not None
    names = {layer.name for layer in report.layers}
    assert {"conv.weight", "up.weight"} <= names
    assert ("experts" in names) == (opset >= 21)
    x = torch.randn(2, 8, 7, 9)
    if opset < 21:
        assert any("opset 21" in one.reason for one in report.left)
        assert_close(program(x)[0], eager_result(with_written_weights(model, report), (x,)), rtol=1e-4, atol=1e-4)
    else:
        assert len(names) == 5
        assert_close(program(x)[0], eager_result(model, (x,)), rtol=5e-2, atol=5e-2)


def test_what_is_left_and_why() -> None:
    model = Tied().eval()
    example = (torch.zeros(2, 3, dtype=torch.int64),)
    for way, expected in (
        (Quantization("int4"), {"table.weight": None}),
        (Quantization("int4", include_lm_head=False), {"table.weight": "include_lm_head is False"}),
        (Quantization("int4", exclude=["inner.*"]), {"inner.weight": "excluded by a pattern"}),
        (Quantization("int4", include=["inner.*"]), {"table.weight": "not included by a pattern"}),
    ):
        report = onnxport.export(model, example, quantize=way).quantization
        assert report is not None
        reasons = {one.name: one.reason for one in report.left}
        for name, reason in expected.items():
            assert reasons.get(name) == reason, way
    assert "excluded" not in str(report)
    assert "inner.weight" in str(report)


def test_the_same_bytes_each_time_and_a_small_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 256, bias=False))
    files = []
    for name in ("one", "two"):
        program = onnxport.export(model, (torch.randn(1, 512),), quantize=Quantization("int4", refine="hqq"))
        program.save(tmp_path / f"{name}.onnx", external_data=False)
        files.append((tmp_path / f"{name}.onnx").read_bytes())
    assert files[0] == files[1]
    ideal = (512 * 512 + 512 * 256) * (4 / 8 + 4 / 32) + 512 * 4
    assert len(files[0]) <= 1.1 * ideal
    stream = io.BytesIO()
    program.save(stream)
    assert stream.getvalue() == files[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scales_have_the_type_of_the_model(dtype: torch.dtype) -> None:
    model = nn.Linear(64, 64, bias=False).to(dtype)
    program = onnxport.export(model, (torch.ones(2, 64, dtype=dtype),), quantize="int4")
    kind = "FLOAT16" if dtype == torch.float16 else "FLOAT"  # onnxruntime multiplies no bfloat16
    assert parameters_of(program) == {"weight": "INT4", "weight_scale": kind}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"quantize": "int5"}, InputError, "did you mean 'int"),
        ({"quantize": "int4", "opset_version": 20}, OpsetError, "needs opset 21.*opset_version=21"),
        ({"quantize": "int8", "opset_version": 12}, OpsetError, "needs opset 13"),
        ({"quantize": "int4", "target": "tensorrt"}, OpsetError, "needs opset 21"),
    ],
)
def test_refusals_say_what_to_do(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        onnxport.export(nn.Linear(64, 64), (torch.ones(2, 64),), **options)


def test_wrong_options_are_refused() -> None:
    for options, message in (
        ({"block_size": 48}, "16, 32, 64, 128, 256"),
        ({"refine": "gptq"}, "'hqq' or None"),
        ({"exclude": "lm_head"}, r"\['lm_head'\]"),
        ({"accuracy_level": 7}, "0 to 4"),
        ({"exclude": [3]}, "a list of patterns of names"),
        ({"percentile": "most"}, "a number above 50"),
        ({"symmetric": "no"}, "True or False"),
        ({"calibration": torch.ones(2)}, "each a tuple of arguments"),
        ({"scheme": "float16", "block_size": 32}, "'float16' has none"),
        ({"scheme": "dynamic-int8", "symmetric": False}, "no zero points"),
    ):
        with pytest.raises(InputError, match=message):
            Quantization(**{"scheme": "int4", **options})  # type: ignore[arg-type]
    assert as_quantization("int4:percentile=99.5").percentile == 99.5
    with pytest.raises(onnxport.OnnxExporterError, match="infinity or NaN"):
        layer = nn.Linear(64, 64)
        layer.weight.data[3, 3] = float("nan")
        onnxport.export(layer, (torch.ones(2, 64),), quantize="int4").save(io.BytesIO())


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text("import torch\ndef net(): return torch.nn.Linear(64, 64)\n")
    monkeypatch.chdir(tmp_path)
    line = "export net.py:net out.onnx -i 2,64 --quantize uint4:block_size=64,symmetric=true"
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 0, result.output
    model = onnx.load(tmp_path / "out.onnx")
    kinds = {tensor.name: (tensor.data_type, list(tensor.dims)) for tensor in model.graph.initializer}
    assert kinds["weight"] == (onnx.TensorProto.UINT4, [64, 64])
    assert kinds["weight_scale"][1] == [64]
    result = CliRunner().invoke(app, [*line.split()[:-1], "int4:size=3"])
    assert result.exit_code == 2
    assert "no option of a quantization" in result.output


def test_weights_come_first() -> None:
    with onnxport.enable_fake_mode():
        layer = nn.Linear(64, 64)
        program = onnxport.export(layer, (torch.ones(2, 64),), opset_version=21)
    with pytest.raises(onnxport.OnnxExporterError, match="apply_weights first"):
        program.quantize("int4")
    state = nn.Linear(64, 64).state_dict()
    program.apply_weights(state)
    report = program.quantize("int4")
    with pytest.raises(onnxport.OnnxExporterError, match="Apply the weights before quantizing"):
        program.apply_weights(state)
    x = torch.randn(2, 64)
    expected = nn.functional.linear(x, report.layers[0].weight.real(), state["bias"])
    assert_close(program(x)[0], expected, rtol=1e-4, atol=1e-4)


class Block(nn.Module):
    """A transformer's layer in small: normalisations, softmax, products, a branch of data."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)
        self.rnn = nn.GRU(64, 32, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.norm(x)
        y = x + self.attention(y, y, y, need_weights=False)[0]
        y = y + self.down(nn.functional.gelu(self.up(y)))
        y = torch.cond(y.sum() > 0, lambda y: y * 2, lambda y: y - 1, (y,))
        return y, self.rnn(y)[0]


@pytest.mark.parametrize(("scheme", "tolerance"), [("float16", 5e-3), ("bfloat16", 5e-2)])
@pytest.mark.parametrize("opset", [13, 20])
def test_sixteen_bits_with_islands(scheme: Any, tolerance: float, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Block().eval()
    program = onnxport.export(
        model, (torch.randn(2, 5, 64),), dynamic_shapes=LENGTH, quantize=scheme, opset_version=opset
    )
    kinds = parameters_of(program)
    stored = program.quantization.converted if program.quantization is not None else ()
    assert {"up.weight", "down.weight", "attention.in_proj_weight"} <= set(stored)
    assert all(kinds[name] == scheme.upper() for name in stored)
    assert {value.dtype.name for value in program.model.graph.outputs if value.dtype} == {"FLOAT"}
    onnx.checker.check_model(program.model_proto, full_check=True)
    program.save(tmp_path / "half.onnx", external_data=False)
    written = onnx.load(tmp_path / "half.onnx").graph.initializer
    weights = sum(parameter.numel() for parameter in model.parameters())
    assert sum(len(tensor.raw_data) for tensor in written) < 2 * weights * 1.1
    for scale in (1.0, -1.0):
        x = scale * torch.rand(3, 5, 64)
        for found, expected in zip(program(x), eager_result(model, (x,)), strict=True):
            assert_close(found, expected, rtol=tolerance, atol=10 * tolerance)


class Normalized(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        spread = x.var(-1, keepdim=True, correction=0).sqrt() / x.std(-1, keepdim=True)
        return nn.functional.normalize(x, dim=-1) * 2 + spread


def test_squares_keep_more_than_sixteen_bits() -> None:
    program = onnxport.export(Normalized(), (torch.randn(2, 8),), dynamic_shapes=({0: "batch"},), quantize="float16")
    products = [node for node in program.model.graph if node.op_type == "Mul"]
    kinds = [(node.inputs[0] is node.inputs[1], str(node.outputs[0].dtype)) for node in products]
    assert sorted(kinds) == [(False, "FLOAT16"), *[(True, "FLOAT")] * (len(kinds) - 1)]
    for scale in (1e-3, 1e3):
        x = scale * torch.randn(3, 8)
        assert_close(program(x)[0], Normalized()(x), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("reduce_range", [False, True])
def test_products_of_integers(reduce_range: bool) -> None:
    torch.manual_seed(0)
    model = Products().eval()
    way = Quantization("dynamic-int8", reduce_range=reduce_range)
    program = onnxport.export(model, (torch.randn(3, 72),), dynamic_shapes=LENGTH, quantize=way)
    operators = [node.op_type for node in program.model.graph]
    assert operators.count("MatMulInteger") == 3
    assert operators.count("DynamicQuantizeLinear") == 3
    x = torch.randn(5, 72)
    expected = eager_result(model, (x,))
    # onnxruntime's kernels saturate with all 8 bits on some processors.
    found = (program if reduce_range else program.call_reference)(x)[0]
    assert (found - expected).square().mean().sqrt() < 0.05 * expected.square().mean().sqrt()


class Vision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, bias=False)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(self.first(x).relu()).relu()
        return self.head(y.mean((2, 3)))


def test_ranges_behind_a_relu_are_those_of_what_it_let_through() -> None:
    """Half of the values are zero, which is on every grid; they don't make the others rarer."""
    torch.manual_seed(0)
    values, seen = torch.randn(20000).relu(), ObservedRange()
    seen.see_bounds(values)
    seen.see_spread(values)
    low, high = seen.range("entropy")
    assert low == 0 and high > 3
    zeros = ObservedRange()
    zeros.see_bounds(torch.zeros(3))
    zeros.see_spread(torch.zeros(3))
    assert zeros.range("entropy") == (0, 0)


def test_what_calibration_cuts_off_is_not_called_wrong() -> None:
    class Rare(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.weight).relu() @ self.weight

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.eye(64))

    torch.manual_seed(0)
    example = torch.rand(64, 64)
    example[0, 0] = 5
    way = Quantization("static-int8", calibration=[(example,)], calibrate="percentile", percentile=99.0)
    program = onnxport.export(Rare(), (example,), quantize=way, verify=True)
    assert program.verification is not None and program.verification.matches
    assert (program(example)[0] - example).abs().max() > 3


@pytest.mark.parametrize("calibrate", ["min-max", "percentile", "entropy"])
def test_grids_from_calibration(calibrate: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Vision().eval()
    inputs = [(torch.randn(2, 3, 12, 12),) for _ in range(4)]
    way = Quantization("static-int8", calibration=inputs, calibrate=calibrate, percentile=99.9)
    program = onnxport.export(model, inputs[0], dynamic_shapes=LENGTH, quantize=way, verify=True)
    assert program.verification is not None and program.verification.matches
    x = torch.randn(5, 3, 12, 12)
    expected = eager_result(model, (x,))
    found = program(x)[0]
    assert (found - expected).square().mean().sqrt() < 0.1 * expected.square().mean().sqrt()
    path = tmp_path / "static.onnx"
    program.save(path, external_data=False)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    run = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert run.count("QLinearConv") == 2
    kinds = {tensor.name: tensor.data_type for tensor in onnx.load(path).graph.initializer}
    assert kinds["first.bias_quantized"] == onnx.TensorProto.INT32


def test_calibration_goes_with_static_grids() -> None:
    with pytest.raises(InputError, match="`calibration` is a list of inputs"):
        Quantization("static-int8")
    with pytest.raises(InputError, match="`calibration` is a list of inputs"):
        Quantization("int8", calibration=[(torch.ones(2),)])
    with pytest.raises(InputError, match="min-max, percentile, entropy"):
        Quantization("static-int8", calibration=[(torch.ones(2),)], calibrate="mean")  # type: ignore[arg-type]


class BothSides(nn.Module):
    """A weight that is the left side of one product and the right side of another."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(48, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.weight @ x.transpose(-1, -2), x @ self.weight.t()


class InBranches(nn.Module):
    """Weights that only a branch reads, where onnxruntime's fusions look for them in vain."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.first(x), lambda x: self.second(x).relu(), (x,))


class TiedAndNarrow(nn.Module):
    """A table that is multiplied with too, whose rows are no whole number of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 50)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.table(x.abs().mul(10).long()[..., :2] % 50)
        return torch.tanh(rows) @ self.table.weight.t()


@pytest.mark.parametrize("target", ["onnx", "onnxruntime"])
@pytest.mark.parametrize("scheme", ["int4", "int8"])
@pytest.mark.parametrize("make", [BothSides, InBranches, TiedAndNarrow])
def test_weights_with_readers_of_several_kinds(make: type[nn.Module], scheme: Any, target: str) -> None:
    torch.manual_seed(0)
    way = Quantization(scheme, include_embeddings=True)
    options: dict[str, Any] = {"quantize": way, "target": target, "verify": True}
    program = onnxport.export(make().eval(), (torch.randn(3, 64),), dynamic_shapes=({0: "rows"},), **options)
    assert program.quantization is not None and program.quantization.layers
    assert program.verification.matches


@pytest.mark.parametrize("target", ["onnx", "onnxruntime"])
def test_tables_of_bfloat16(target: str) -> None:
    """No runtime dequantizes to it: by way of float32, in which a product with the same table reads it too."""
    model = nn.Sequential(nn.Embedding(50, 64), nn.Linear(64, 50, bias=False))
    model[1].weight = model[0].weight
    example = torch.randint(0, 50, (2, 3))
    way = Quantization("uint4", include_embeddings=True)
    program = onnxport.export(model.bfloat16(), (example,), quantize=way, target=target, verify=True)
    assert program.quantization is not None and len(program.quantization.layers) == 1
    assert program.verification.matches
