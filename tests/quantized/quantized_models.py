"""Quantized models by origin, scheme and layer: those of packed checkpoints, and those quantized on the way out."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from packed_layers import AWQ, FP4, GPTQ, HQQ, MXFP4, NF4, NVFP4, BitsAndBytes, Float8Blocks, Int8Channels
from torch import Tensor, nn
from torch.nn import functional

import onnxport
from onnxport import Quantization

WIDTH = 256
Layer = Callable[[int, int], nn.Module]


class Attention(nn.Module):
    """Four projections of a layer of any kind, and the attention between them."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (layer(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self._heads(layer(x)) for layer in (self.query, self.key, self.value))
        y = functional.scaled_dot_product_attention(q / 8, k, v)
        return self.out(y.transpose(1, 2).flatten(2))

    @staticmethod
    def _heads(x: Tensor) -> Tensor:
        return x.unflatten(-1, (4, -1)).transpose(1, 2)


class Experts(nn.Module):
    """Two of three experts for each row, of layers of any kind."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(layer(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        scores, chosen = self.router(x).softmax(-1).topk(2)
        weights = torch.zeros_like(self.router(x)).scatter(-1, chosen, scores)
        return torch.stack([expert(x) for expert in self.experts], -1) @ weights.unsqueeze(-1)


class Stacked(nn.Module):
    """Experts whose weights are one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(4, WIDTH, WIDTH) / 16)

    def forward(self, x: Tensor) -> Tensor:
        return (x.unsqueeze(1) @ self.up).relu().sum(1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(64, 64, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x.unflatten(-1, (64, 2, 2)).transpose(1, 2).flatten(3)).relu()


class Looked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.table((x[..., 0].abs() * 200).long())


def plain(inputs: int, outputs: int) -> nn.Module:
    return nn.Linear(inputs, outputs)


LAYERS: dict[str, Callable[[Layer], nn.Module]] = {
    "linear": lambda layer: nn.Sequential(layer(WIDTH, 4 * WIDTH), nn.ReLU(), layer(4 * WIDTH, WIDTH)),
    "attention": Attention,
    "experts": Experts,
}
PACKED: dict[str, Layer] = {
    "gptq": GPTQ,
    "gptq-reordered": lambda inputs, outputs: GPTQ(inputs, outputs, ordered=False),
    "awq": AWQ,
    "hqq": HQQ,
    "llm-int8": Int8Channels,
    "float8-blocks": Float8Blocks,
    "nf4": lambda inputs, outputs: BitsAndBytes(inputs, outputs, NF4),
    "fp4": lambda inputs, outputs: BitsAndBytes(inputs, outputs, FP4),
    "mxfp4": MXFP4,
    "nvfp4": NVFP4,
}
OTHERS: dict[str, Callable[[], nn.Module]] = {
    "conv": Convolution,
    "embedding": Looked,
    "lstm": Recurrent,
    "stacked-experts": Stacked,
}
SCHEMES = ["int8", "int4", "uint4", "dynamic-int8", "static-int8", "float16", "bfloat16"]
#: By how much results may differ, in parts of their magnitude, where more than weights is rounded.
COARSE = {"dynamic-int8": 0.1, "static-int8": 0.15, "float16": 5e-3, "bfloat16": 5e-2}


def example(rows: int) -> Tensor:
    return torch.randn(rows, 4, WIDTH)


def moved(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


CASES = [(scheme, name) for scheme in SCHEMES for name in LAYERS]
CASES += [(scheme, name) for scheme in ("int8", "int4") for name in ("embedding", "stacked-experts")]
CASES += [(scheme, name) for scheme in ("int8", "static-int8", "float16") for name in ("conv",)]
CASES += [(scheme, "lstm") for scheme in ("int8", "float16")]


def packed_model(origin: str, name: str) -> nn.Module:
    """The layers of a name, with weights packed as checkpoints of an origin have them."""
    torch.manual_seed(0)
    return LAYERS[name](PACKED[origin]).eval()


def stored_bytes(model: nn.Module) -> int:
    """The bytes of all that a model holds: what a file can't be much smaller than."""
    return sum(tensor.numel() * tensor.element_size() for tensor in (*model.buffers(), *model.parameters()))


def exported_with(scheme: Any, name: str) -> tuple[nn.Module, onnxport.ONNXProgram]:
    """A model of floating point, and its export with a scheme."""
    torch.manual_seed(0)
    model = (LAYERS[name](plain) if name in LAYERS else OTHERS[name]()).eval()
    options: dict[str, Any] = {"calibration": [(example(8),)]} if scheme == "static-int8" else {}
    way = Quantization(scheme, include_embeddings=True, **options)
    return model, onnxport.export(
        model, (example(2),), dynamic_shapes=({0: "batch"},), quantize=way, opset_version=21, verbose=False
    )


def least_bytes(model: nn.Module, report: Any) -> int:
    """The bytes of the quantized weights and of all others."""
    everything = sum(parameter.numel() for parameter in model.parameters())
    quantized = sum(layer.weight.size for layer in report.layers)
    rest = 2 * everything if report.converted else 4 * (everything - quantized)
    return int(rest + report.bytes_after)


def with_written_weights(model: nn.Module, report: Any) -> nn.Module:
    """The model with the numbers that the file holds."""
    other = copy.deepcopy(model)
    state = other.state_dict()
    for layer in report.layers:
        real, target = layer.weight.real(), state[layer.name]
        if layer.name.startswith("rnn."):
            # The gates in ONNX's order: input, output, forget, cell.
            real = real.reshape(4, WIDTH, -1)[[0, 2, 3, 1]]
        elif real.dim() == 3:
            real = real.mT
        target.copy_(real.reshape(target.shape))
    return other
