"""Layers of libraries that quantize, by the libraries themselves, where they are installed (``make test-torchao``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxport
from comparison import assert_agrees

pytestmark = pytest.mark.filterwarnings("ignore")
Layer = Callable[[nn.Linear], nn.Module]


class Network(nn.Module):
    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.up, self.down = layer(nn.Linear(128, 256)), layer(nn.Linear(256, 64, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


def check(model: nn.Module, off: float = 1e-4) -> dict[str, int]:
    """Compare at another size; return how many larger initializers of each element type there are."""
    model.eval()
    program = onnxport.export(
        model, (torch.randn(2, 3, 128),), dynamic_shapes=({0: "batch"},), opset_version=21, verbose=False
    )
    assert_agrees(program, model, (torch.randn(5, 3, 128),), rtol=off, atol=off)
    kinds = [
        value.dtype.name for value in program.model.graph.initializers.values() if (value.const_value or ()).size > 4096
    ]  # type: ignore[union-attr]
    return {kind: kinds.count(kind) for kind in kinds}


def quantized_4bit(kind: str, *, nested: bool) -> Layer:
    library: Any = pytest.importorskip("bitsandbytes")

    def layer(plain: nn.Linear) -> nn.Module:
        made = library.nn.Linear4bit(
            plain.in_features,
            plain.out_features,
            bias=plain.bias is not None,
            compute_dtype=torch.float32,
            quant_type=kind,
            compress_statistics=nested,
        )
        made.load_state_dict(plain.state_dict())
        result: nn.Module = made.to("cpu")
        return result

    return layer


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_bitsandbytes_4_bits(kind: str, nested: bool) -> None:
    torch.manual_seed(0)
    assert check(Network(quantized_4bit(kind, nested=nested))) == {"UINT8": 2}


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_bitsandbytes_4_bit_embeddings(kind: str) -> None:
    library: Any = pytest.importorskip("bitsandbytes")
    torch.manual_seed(0)
    model = library.nn.Embedding4bit(64, 128, quant_type=kind)
    model.load_state_dict(nn.Embedding(64, 128).state_dict())
    model = model.to("cpu").eval()
    example, numbers = (torch.randint(0, 64, (count, 5)) for count in (2, 3))
    program = onnxport.export(model, (example,), dynamic_shapes=({0: "batch"},), opset_version=21)
    assert_agrees(program, model, (numbers,))
    kinds = [value.dtype.name for value in program.model.graph.initializers.values() if value.const_value.size > 1024]
    assert kinds == ["UINT8"]


@pytest.mark.parametrize("threshold", [0.0, 2.5])
def test_bitsandbytes_8_bits(threshold: float) -> None:
    library: Any = pytest.importorskip("bitsandbytes")
    torch.manual_seed(0)

    def layer(plain: nn.Linear) -> nn.Module:
        made = library.nn.Linear8bitLt(
            plain.in_features,
            plain.out_features,
            bias=plain.bias is not None,
            has_fp16_weights=False,
            threshold=threshold,
        )
        made.load_state_dict(plain.state_dict())
        result: nn.Module = made.to("cpu")
        return result

    model = Network(layer).eval()
    model(torch.randn(2, 3, 128))
    assert check(model, 1e-2) == {"INT8": 2}


class Columns(nn.Module):
    """Columns that hold large numbers are multiplied apart."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (64, 128), dtype=torch.int8))
        self.register_buffer("stats", torch.rand(64) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        operators: Any = torch.ops.bitsandbytes
        rows = x.flatten(0, 1)
        integers, stats, columns = operators.int8_vectorwise_quant(rows, 2.5)
        result: Tensor = operators.int8_mixed_scaled_mm(rows, integers, self.weight, stats, self.stats, columns)[0]
        return result


def test_bitsandbytes_columns_apart() -> None:
    pytest.importorskip("bitsandbytes")
    torch.manual_seed(0)
    model = Columns()
    program = onnxport.export(model, (torch.randn(2, 3, 128),), dynamic_shapes=({0: "batch"},), opset_version=21)
    for x in (torch.randn(5, 3, 128), torch.rand(4, 3, 128)):
        assert_agrees(program, model, (x,), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("bits", [8, 4, 3, 2])
def test_hqq(bits: int) -> None:
    library: Any = pytest.importorskip("hqq.core.quantize")
    torch.manual_seed(0)
    library.HQQLinear.set_backend(library.HQQBackend.PYTORCH)
    scheme = library.BaseQuantizeConfig(nbits=bits, group_size=64, axis=1)
    layer: Layer = lambda plain: library.HQQLinear(plain, scheme, compute_dtype=torch.float32, device="cpu")  # noqa: E731
    assert check(Network(layer)) == {"UINT8" if bits == 8 else "UINT4": 2}


@pytest.mark.parametrize(
    ("weights", "kinds"),
    [
        ("qint8", {"INT8": 2}),
        ("qint4", {"UINT4": 2}),
        ("qint2", {"UINT4": 2}),
        ("qfloat8", {"FLOAT8E4M3FN": 2}),
    ],
)
def test_quanto(weights: str, kinds: dict[str, int]) -> None:
    library: Any = pytest.importorskip("optimum.quanto")
    torch.manual_seed(0)
    model = Network(lambda plain: plain).eval()
    library.quantize(model, weights=getattr(library, weights))
    library.freeze(model)
    assert check(model) == kinds


def test_quanto_activations() -> None:
    library: Any = pytest.importorskip("optimum.quanto")
    torch.manual_seed(0)
    model = Network(lambda plain: plain).eval()
    library.quantize(model, weights=library.qint8, activations=library.qint8)
    with library.Calibration():
        model(torch.randn(8, 3, 128))
    library.freeze(model)
    assert check(model, 2e-2) == {"INT8": 2}
