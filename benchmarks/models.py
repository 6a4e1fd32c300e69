"""The models that are compared: real architectures at real sizes, with random weights and a dynamic batch axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class BenchModel:
    """How to build a model and its inputs at a batch size; the first axis of every input is dynamic."""

    name: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[[int], Inputs]
    batch: int = 2
    other_batch: int = 3

    def build(self) -> torch.nn.Module:
        """Build the model in eval mode, with the same weights every time and in every process."""
        torch.manual_seed(0)
        return self.make().eval()

    def example(self, batch: int | None = None) -> Inputs:
        """Return the same inputs every time for a batch size."""
        torch.manual_seed(1)
        return self.inputs(self.batch if batch is None else batch)

    def dynamic_shapes(self) -> dict[str, dict[int, str]]:
        """Declare the batch axis of every input dynamic, under one name."""
        return {name: {0: "batch"} for name in self.inputs(1)}


def _mlp(size: int, hidden: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(size, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, size))


class MixerBlock(torch.nn.Module):
    """Mix along tokens, then along channels, each behind a normalisation and around a residual."""

    def __init__(self, tokens: int, channels: int) -> None:
        super().__init__()
        self.token_norm = torch.nn.LayerNorm(channels)
        self.token_mlp = _mlp(tokens, channels // 2)
        self.channel_norm = torch.nn.LayerNorm(channels)
        self.channel_mlp = _mlp(channels, 4 * channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``x`` mixed."""
        x = x + self.token_mlp(self.token_norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mlp(self.channel_norm(x))


class Mixer(torch.nn.Module):
    """A chain of blocks of the size of Mixer-S/32; its length alone varies, which is what growth is measured on."""

    def __init__(self, depth: int, tokens: int = 49, channels: int = 512) -> None:
        super().__init__()
        self.blocks = torch.nn.Sequential(*(MixerBlock(tokens, channels) for _ in range(depth)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``x`` after all blocks."""
        return self.blocks(x)


def _text(batch: int, length: int = 128) -> Inputs:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, length - 16 :] = 0
    return {"input_ids": torch.randint(0, 30_000, (batch, length)), "attention_mask": mask}


def _image(batch: int) -> Inputs:
    return {"pixel_values": torch.randn(batch, 3, 224, 224)}


def _tokens(batch: int) -> Inputs:
    return {"x": torch.randn(batch, 49, 512)}


def _bert() -> torch.nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig())


def _vit() -> torch.nn.Module:
    from transformers import ViTConfig, ViTModel

    return ViTModel(ViTConfig())


def _resnet() -> torch.nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=1000))


def _gpt2() -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False))


def _llama() -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32_000,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=4,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


MODELS = [
    BenchModel("bert-base", _bert, _text),
    BenchModel("vit-base", _vit, _image),
    BenchModel("resnet-50", _resnet, _image),
    BenchModel("gpt2", _gpt2, _text),
    BenchModel("llama-8", _llama, _text),
    BenchModel("mixer-64", lambda: Mixer(64), _tokens),
]

TINY = BenchModel("tiny", lambda: Mixer(1, 8, 8), lambda batch: {"x": torch.randn(batch, 8, 8)})
GROWTH = (
    BenchModel("mixer-32", lambda: Mixer(32), _tokens),
    BenchModel("mixer-64", lambda: Mixer(64), _tokens),
)


def by_name(name: str) -> BenchModel:
    """Return the model of that name."""
    models = {model.name: model for model in [*MODELS, *GROWTH, TINY]}
    if name not in models:
        raise SystemExit(f"There is no benchmark model {name!r}; the names are {', '.join(models)}.")
    return models[name]
