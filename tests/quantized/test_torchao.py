"""Models that torchao quantized, where it is installed (``make test-torchao``)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

import onnxport
from comparison import assert_close, eager_result

quantization: Any = pytest.importorskip("torchao.quantization")
granularity: Any = pytest.importorskip("torchao.quantization.granularity")
pytestmark = pytest.mark.filterwarnings("ignore")

D = ir.DataType


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).relu())


def _intx(bits: torch.dtype, blocks: Any, **options: Any) -> Any:
    return quantization.IntxWeightOnlyConfig(weight_dtype=bits, granularity=blocks, **options)


def _dynamic_intx(bits: torch.dtype, blocks: Any, **options: Any) -> Any:
    kind = quantization.Int8DynamicActivationIntxWeightConfig
    return kind(weight_dtype=bits, weight_granularity=blocks, **options)


def _float8(model: nn.Module, blocks: Any) -> None:
    """What the configuration for float8 products leaves; it asks for a graphics card, though a CPU computes them."""
    from torchao.quantization.quantize_.common.kernel_preference import KernelPreference
    from torchao.quantization.quantize_.workflows.float8.float8_tensor import (
        Float8Tensor,
        QuantizeTensorToFloat8Kwargs,
    )

    how = QuantizeTensorToFloat8Kwargs(granularity=blocks, kernel_preference=KernelPreference.TORCH)
    for layer in (module for module in model.modules() if isinstance(module, nn.Linear)):
        weight = Float8Tensor.from_hp(
            layer.weight.detach(),
            granularity=blocks,
            mm_config=quantization.Float8MMConfig(),
            kernel_preference=KernelPreference.TORCH,
            act_quant_kwargs=how,
        )
        layer.weight = nn.Parameter(weight, requires_grad=False)


GROUPS, ROWS, ALL = granularity.PerGroup(32), granularity.PerAxis(0), granularity.PerTensor()
ASYMMETRIC = quantization.MappingType.ASYMMETRIC
# The configuration, the element type that the weights are stored in at opset 21, and how far results may be apart.
CONFIGURATIONS: dict[str, tuple[Any, ir.DataType, float]] = {
    "int8": (quantization.Int8WeightOnlyConfig(version=2), D.INT8, 1e-5),
    "int8-dynamic": (quantization.Int8DynamicActivationInt8WeightConfig(version=2), D.INT8, 1e-5),
    "int8-rows": (_intx(torch.int8, ROWS), D.INT8, 1e-5),
    "int8-groups": (_intx(torch.int8, GROUPS), D.INT8, 1e-5),
    "int4-groups": (_intx(torch.int4, GROUPS), D.INT4, 1e-5),
    "int4-asymmetric": (_intx(torch.int4, GROUPS, mapping_type=ASYMMETRIC), D.INT4, 1e-5),
    "int4-rows": (_intx(torch.int4, ROWS), D.INT4, 1e-5),
    "int3-groups": (_intx(torch.int3, GROUPS), D.INT4, 1e-5),
    "int2-rows": (_intx(torch.int2, ROWS), D.INT4, 1e-5),
    "int6-groups": (_intx(torch.int6, granularity.PerGroup(16)), D.INT8, 1e-5),
    "int8-int4": (_dynamic_intx(torch.int4, GROUPS), D.INT4, 1e-5),
    "int8-int4-asymmetric": (_dynamic_intx(torch.int4, GROUPS, weight_mapping_type=ASYMMETRIC), D.INT4, 1e-5),
    "int8-int8": (_dynamic_intx(torch.int8, ROWS), D.INT8, 1e-5),
    "float8": (quantization.Float8WeightOnlyConfig(), D.FLOAT8E4M3FN, 1e-5),
}


def quantized(name: str, model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    quantization.quantize_(model.eval(), CONFIGURATIONS[name][0])
    return model


def check(model: nn.Module, shape: tuple[int, ...], other: tuple[int, ...], opset: int, off: float) -> Any:
    program = onnxport.export(
        model, (torch.randn(shape),), dynamic_shapes=({0: "batch"},), opset_version=opset, verbose=False
    )
    x = torch.randn(other)
    assert_close(list(program(x)), eager_result(model, [x]), rtol=off, atol=off)
    return program


@pytest.mark.parametrize("opset", [21, 23])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations(name: str, opset: int) -> None:
    _, kind, off = CONFIGURATIONS[name]
    program = check(quantized(name, Network()), (4, 64), (7, 64), opset, off)
    # What is computed of the weight of the state dict has a name of its own.
    names = (".qdata", ".qdata_unpacked")
    weights = {key: value for key, value in program.model.graph.initializers.items() if key.endswith(names)}
    assert [value.dtype for value in weights.values()] == [kind, kind]
    assert [list(value.shape or ()) for value in weights.values()] == [[64, 128], [128, 32]]


@pytest.mark.parametrize("name", ["int8", "int8-dynamic", "int4-groups", "int4-asymmetric", "int8-int4"])
def test_old_opsets_keep_integers(name: str) -> None:
    program = check(quantized(name, Network()), (4, 64), (7, 64), 17, 1e-5)
    kinds = [v.dtype for key, v in program.model.graph.initializers.items() if key.endswith("qdata")]
    assert kinds == [D.INT8, D.INT8]


@pytest.mark.parametrize("name", ["int4-groups", "int8-int4", "int6-groups"])
def test_bfloat16(name: str) -> None:
    """Checkpoints are of bfloat16 mostly, and no runtime dequantizes to it."""
    model = quantized(name, Network().bfloat16())
    example, x = (torch.randn(count, 64, dtype=torch.bfloat16) for count in (4, 7))
    program = onnxport.export(model, (example,), dynamic_shapes=({0: "batch"},), opset_version=21)
    assert_close(list(program(x)), eager_result(model, [x]), rtol=2e-2, atol=2e-2)
    kinds = [v.dtype for key, v in program.model.graph.initializers.items() if key.endswith("qdata")]
    assert kinds == [CONFIGURATIONS[name][1]] * 2


@pytest.mark.parametrize("name", ["int8", "int8-dynamic", "int4-groups", "int8-int4", "float8"])
def test_more_axes(name: str) -> None:
    check(quantized(name, Network()), (2, 3, 64), (5, 3, 64), 23, 1e-5)


@pytest.mark.parametrize("name", ["int8", "int4-groups", "int4-rows"])
def test_products_with_weights_are_the_runtime_s_own_operator(name: str, tmp_path: Any) -> None:
    import onnx
    import onnxruntime

    program = check(quantized(name, Network()), (2, 3, 64), (5, 3, 64), 21, 1e-5)
    program.save(tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options, providers=["CPUExecutionProvider"])
    kinds = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert kinds.count("MatMulNBits") == 2
    assert "DequantizeLinear" not in kinds


FLOAT8_PRODUCTS: dict[str, tuple[Any, torch.dtype]] = {
    "tensor": (granularity.PerTensor(), torch.float32),
    "row": (granularity.PerRow(), torch.bfloat16),
}


@pytest.mark.parametrize("name", FLOAT8_PRODUCTS)
def test_float8_products(name: str) -> None:
    blocks, dtype = FLOAT8_PRODUCTS[name]
    torch.manual_seed(0)
    model = Network().eval().to(dtype)
    _float8(model, blocks)
    program = onnxport.export(model, (torch.randn(4, 64, dtype=dtype),), dynamic_shapes=({0: "batch"},))
    x = torch.randn(7, 64, dtype=dtype)
    # Where a sum is rounded differently, an activation may fall on the next of the few numbers that 8 bits have.
    assert_close(list(program(x)), eager_result(model, [x]), rtol=0.05, atol=0.05)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(50, 64), nn.Linear(64, 50)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.words(x))


def test_embeddings() -> None:
    model = Words()
    everything: Callable[..., bool] = lambda module, name: isinstance(module, nn.Embedding | nn.Linear)  # noqa: E731
    quantization.quantize_(model, _intx(torch.int4, GROUPS), everything)
    program = onnxport.export(model, (torch.arange(6).reshape(2, 3),), dynamic_shapes=({0: "b"},), opset_version=21)
    x = torch.arange(20).reshape(4, 5)[:, :3]
    assert_close(list(program(x)), eager_result(model, [x]))
    assert [v.dtype for k, v in program.model.graph.initializers.items() if k.endswith("qdata")] == [D.INT4, D.INT4]


def test_other_weights() -> None:
    program = check(quantized("int4-groups", Network()), (4, 64), (7, 64), 21, 1e-5)
    other = copy.deepcopy(quantized("int4-groups", Network()))
    program.apply_weights(other.state_dict())
    x = torch.randn(3, 64)
    assert_close(list(program(x)), eager_result(other, [x]))
