"""Weights that a model unpacks itself: written as numbers of few bits in front of the product."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from packed_layers import (
    AWQ,
    FP4,
    GPTQ,
    HQQ,
    MXFP4,
    NF4,
    NVFP4,
    BitsAndBytes,
    Float8Blocks,
    Int4ForCPU,
    Int8Channels,
    PlacedHQQ,
    Shifted,
)
from torch import Tensor, nn

import onnxport
from comparison import assert_agrees

INPUTS, OUTPUTS = 512, 256
UNPACKING = {"BitShift", "BitwiseAnd", "Concat", "Expand", "Where"}

#: A layer, the element type of its weights in opset 21, and the operator that onnxruntime makes of its product.
ROWS: list[tuple[str, Callable[[], nn.Module], str, str]] = [
    ("gptq", lambda: GPTQ(INPUTS, OUTPUTS), "UINT4", "MatMulNBits"),
    ("gptq-one-group", lambda: GPTQ(INPUTS, OUTPUTS, INPUTS, bias=False), "UINT4", "MatMulNBits"),
    ("gptq-reordered", lambda: GPTQ(INPUTS, OUTPUTS, ordered=False), "UINT4", "MatMulNBits"),
    ("gptq-128", lambda: GPTQ(INPUTS, OUTPUTS, 128), "UINT4", "MatMulNBits"),
    ("awq", lambda: AWQ(INPUTS, OUTPUTS), "UINT4", "MatMulNBits"),
    ("awq-64", lambda: AWQ(INPUTS, OUTPUTS, 64), "UINT4", "MatMulNBits"),
    ("hqq", lambda: HQQ(INPUTS, OUTPUTS), "UINT4", "MatMulNBits"),
    ("hqq-8-bits", lambda: HQQ(INPUTS, OUTPUTS, 64, bits=8), "UINT8", "MatMulNBits"),
    ("hqq-placed", lambda: PlacedHQQ(INPUTS, OUTPUTS), "UINT4", "MatMulNBits"),
    ("hqq-one-group", lambda: HQQ(INPUTS, OUTPUTS, INPUTS), "UINT4", "MatMulNBits"),
    ("shifted", lambda: Shifted(INPUTS, OUTPUTS), "UINT4", "MatMulNBits"),
    ("shifted-down", lambda: Shifted(INPUTS, OUTPUTS, taken_off=True), "UINT4", "MatMulNBits"),
    ("int8", lambda: Int8Channels(INPUTS, OUTPUTS), "INT8", "MatMulNBits"),
    ("float8-blocks", lambda: Float8Blocks(INPUTS, OUTPUTS), "FLOAT8E4M3FN", ""),
    # No grid of steps: numbers of a table stay places in it, two in a byte, and are looked up at run time.
    ("nf4", lambda: BitsAndBytes(INPUTS, OUTPUTS, NF4), "", ""),
    ("fp4", lambda: BitsAndBytes(INPUTS, OUTPUTS, FP4), "", ""),
    ("mxfp4", lambda: MXFP4(INPUTS, OUTPUTS), "", ""),
    ("nvfp4", lambda: NVFP4(INPUTS, OUTPUTS), "", ""),
]


def stored_bytes(model: nn.Module) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in (*model.buffers(), *model.parameters()))


def exported(model: nn.Module, opset: int, dtype: torch.dtype = torch.float32) -> onnxport.ONNXProgram:
    example = torch.randn(3, INPUTS, dtype=dtype)
    return onnxport.export(model, (example,), dynamic_shapes=({0: "batch"},), opset_version=opset)


@pytest.mark.parametrize("opset", [20, 21])
@pytest.mark.parametrize(("make", "kind", "fused"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_layer(make: Callable[[], nn.Module], kind: str, fused: str, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = make()
    program = exported(model, opset)
    assert_agrees(program, model, (torch.randn(5, INPUTS),), rtol=1e-4, atol=1e-4)
    path = tmp_path / "layer.onnx"
    program.save(path, external_data=False, metadata="none")
    assert path.stat().st_size <= 1.1 * stored_bytes(model)
    if opset < 21 or not kind:
        return
    written = onnx.load(path).graph
    assert not UNPACKING & {node.op_type for node in written.node}
    assert kind in {onnx.TensorProto.DataType.Name(tensor.data_type) for tensor in written.initializer}
    if fused:
        assert fused in optimized_operators(path)


def optimized_operators(path: Path) -> set[str]:
    """The operators that onnxruntime runs."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path.with_suffix(".optimized.onnx"))
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return {node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node}


class Wrapping(nn.Module):
    """Differences of unsigned numbers that wrap around below zero, which DequantizeLinear's do not."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 256, (64, 32), dtype=torch.uint8))
        self.register_buffer("scale", torch.rand(1, 64) + 0.1)

    def forward(self, x: Tensor) -> Tensor:
        integers = torch.cat([self.packed & 15, self.packed >> 4], dim=1) - 8
        return x @ (integers.to(torch.float32) * self.scale)


class Shared(nn.Module):
    """An unpacked weight that is a result too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = HQQ(64, 64)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        layer = self.layer
        integers = torch.cat([(layer.W_q & 240) >> 4, layer.W_q & 15], dim=0)
        weight = ((integers.to(torch.float32) - layer.zero) * layer.scale).reshape(64, 64)
        return x @ weight, weight


@pytest.mark.parametrize("model", [Wrapping(), Shared()], ids=["wrapping", "shared"])
def test_what_is_computed_otherwise_stays(model: nn.Module) -> None:
    program = onnxport.export(model, (torch.randn(3, 64),), opset_version=21)
    assert "DequantizeLinear" not in {node.op_type for node in program.model.graph}
    assert_agrees(program, model, (torch.randn(3, 64),), rtol=1e-4, atol=1e-4)


class Wide(nn.Module):
    """Scales of 16 bits, and a product in float32."""

    def __init__(self, layer: GPTQ) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        layer = self.layer
        weight = (layer.qweight.unsqueeze(1) >> layer.wf.unsqueeze(-1)).to(torch.int8) & 15
        integers = weight.reshape(-1, layer.scales.shape[1])
        return x @ ((integers - 8) * layer.scales.float()[layer.g_idx.long()])


def test_weights_packed_for_a_processor() -> None:
    torch.manual_seed(0)
    model = Int4ForCPU(INPUTS, OUTPUTS)
    for opset, kind in ((21, "INT4"), (20, "INT8")):
        program = exported(model, opset)
        assert_agrees(program, model, (torch.randn(5, INPUTS),), rtol=1e-4, atol=1e-4)
        assert kind in {value.dtype.name for value in program.model.graph.initializers.values() if value.dtype}
    with onnxport.enable_fake_mode():
        fake: Any = Int4ForCPU(INPUTS, OUTPUTS)
    with pytest.raises(onnxport.errors.OnnxExporterError, match="have to be constants of the model"):
        exported(fake, 21)


class Tied(nn.Module):
    """A table of integers that is looked up, and multiplied with."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randint(-127, 128, (300, 64), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(300, 1) * 0.01)

    def rows(self) -> Tensor:
        return self.table.float() * self.scale

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(nn.functional.embedding(x, self.rows()), self.rows())


def test_a_weight_with_other_readers_is_stored_once() -> None:
    torch.manual_seed(0)
    model = Tied()
    program = onnxport.export(model, (torch.arange(6).reshape(2, 3),), dynamic_shapes=({0: "b"},), opset_version=21)
    assert_agrees(program, model, (torch.arange(15).reshape(5, 3),), rtol=1e-4, atol=1e-4)
    assert [v.name for v in program.model.graph.initializers.values() if v.dtype == ir.DataType.INT8] == ["table"]


def test_sixteen_bits() -> None:
    """Scales of a model in float16 stay so; of one that computes in float32 with float16 scales too."""
    torch.manual_seed(0)
    model = AWQ(INPUTS, OUTPUTS).half()
    program = exported(model, 21, torch.float16)
    kinds = {value.dtype.name for value in program.model.graph.initializers.values() if value.dtype is not None}
    assert kinds == {"UINT4", "FLOAT16"}
    assert_agrees(program, model, (torch.randn(5, INPUTS, dtype=torch.float16),), rtol=2e-2, atol=2e-2)
    layer = GPTQ(INPUTS, OUTPUTS, bias=False)
    layer.scales = layer.scales.half()
    example = (torch.randn(3, INPUTS),)
    program = onnxport.export(Wide(layer), example, opset_version=21)
    kinds = {value.dtype.name for value in program.model.graph.initializers.values() if value.dtype is not None}
    assert kinds == {"UINT4", "FLOAT16"}
    assert_agrees(program, Wide(layer), example, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("make", [AWQ, HQQ])
def test_models_of_sixteen_bits(make: type[nn.Module], dtype: torch.dtype, tmp_path: Path) -> None:
    """Weights are stored and run as those of float32 are, though no runtime dequantizes to bfloat16."""
    torch.manual_seed(0)
    model = make(INPUTS, OUTPUTS).to(dtype)
    program = exported(model, 21, dtype)
    assert_agrees(program, model, (torch.randn(5, INPUTS, dtype=dtype),), rtol=2e-2, atol=2e-2)
    program.save(tmp_path / "layer.onnx", external_data=False, metadata="none")
    assert (tmp_path / "layer.onnx").stat().st_size <= 1.25 * stored_bytes(model)
    assert not UNPACKING & {node.op_type for node in program.model.graph}
    assert "MatMulNBits" in optimized_operators(tmp_path / "layer.onnx")


def test_other_weights_can_t_be_applied_to_unpacked_ones() -> None:
    model = GPTQ(INPUTS, OUTPUTS)
    program = exported(model, 21)
    with pytest.warns(onnxport.errors.OnnxExporterWarning, match="not weights of the ONNX model"):
        program.apply_weights(model.state_dict())


def test_fake_weights_stay_packed() -> None:
    with onnxport.enable_fake_mode():
        model: Any = GPTQ(INPUTS, OUTPUTS)
        program = exported(model, 21)
    real = GPTQ(INPUTS, OUTPUTS)
    program.apply_weights(dict(real.named_buffers()) | dict(real.named_parameters()))
    assert_agrees(program, real, (torch.randn(5, INPUTS),), rtol=1e-4, atol=1e-4)


class ReadTwice(nn.Module):
    """Integers moved to unsigned ones before they are multiplied, as kernels do, and the weight read once more."""

    def __init__(self, *, turned: bool) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-100, 100, (16, 64), dtype=torch.int8))
        self.turned = turned

    def forward(self, x: Tensor) -> Tensor:
        integers = (x * 10).round().clamp(-60, 60).to(torch.int8)
        product = torch._int_mm(integers, self.weight.t())
        sums = self.weight.t().to(torch.int32).sum(0) if self.turned else self.weight.to(torch.int32).sum(1)
        return product - 4 * sums


@pytest.mark.parametrize("turned", [False, True])
def test_a_weight_of_a_product_of_integers_that_is_read_twice_is_stored_once(turned: bool) -> None:
    model = ReadTwice(turned=turned)
    program = onnxport.export(model, (torch.randn(32, 64),), dynamic_shapes=({0: "batch"},))
    assert_agrees(program, model, (torch.randn(48, 64),))
    held = [tensor for tensor in program.model.graph.initializers.values() if len(tensor.shape or ()) == 2]
    assert [str(value.shape) for value in held] == ["[64,16]"]


@pytest.mark.parametrize(("opset", "kind"), [(17, "INT8"), (21, "INT4")])
def test_integers_are_in_the_file_once(opset: int, kind: str, tmp_path: Path) -> None:
    model = Int4ForCPU(128, 64)
    program = onnxport.export(model, (torch.randn(3, 128),), dynamic_shapes=({0: "batch"},), opset_version=opset)
    assert_agrees(program, model, (torch.randn(5, 128),), rtol=1e-4, atol=1e-4)
    program.save(tmp_path / "model.onnx", external_data=False)
    held = [tensor for tensor in onnx.load(tmp_path / "model.onnx").graph.initializer if tensor.dims == [128, 64]]
    assert [onnx.TensorProto.DataType.Name(tensor.data_type) for tensor in held] == [kind]
