"""The models that are run: layers at the sizes of real models, and fewer of them, since all layers cost the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class TimedModel:
    """How to build a model, and its inputs by a batch size and a number of tokens or cached positions."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int, int], Inputs]
    axes: Callable[[], Any]
    length: int = 0
    batch: int = 1

    def build(self) -> nn.Module:
        """Build the model in eval mode, with the same weights every time, and statistics that are not zero and one."""
        torch.manual_seed(0)
        model = self.make().eval()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                assert module.running_mean is not None and module.running_var is not None
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.8, 1.2)
        return model

    def example(self) -> Inputs:
        """The inputs that are traced: other sizes than those that are measured."""
        torch.manual_seed(1)
        return self.inputs(2, min(self.length, 40))

    def measured(self) -> Inputs:
        """The inputs that are measured."""
        torch.manual_seed(2)
        return self.inputs(self.batch, self.length)


class Text(nn.Module):
    """A model of transformers that takes tokens and their mask, and gives one tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The first output of the model."""
        result: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask)[0]
        return result


class Step(nn.Module):
    """A decoder that takes new tokens and what it has cached, and gives the logits and the longer cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """One step, for keys and values of each layer in turn."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache)[0]
        return logits, [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


class Image(nn.Module):
    """A model of transformers that takes an image or a spectrogram, and gives one tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, data: Tensor) -> Tensor:
        """The first output of the model."""
        result: Tensor = self.model(data)[0]
        return result


def _text(batch: int, length: int) -> Inputs:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, length - length // 8 :] = 0
    return torch.randint(0, 30_000, (batch, length)), mask


def _text_axes() -> Any:
    return {"input_ids": {0: "batch", 1: "length"}, "attention_mask": {0: "batch", 1: "length"}}


def _step(layers: int, heads: int, size: int) -> tuple[Callable[[int, int], Inputs], Callable[[], Any]]:
    def inputs(batch: int, past: int) -> Inputs:
        cache = [torch.randn(batch, heads, past, size) for _ in range(2 * layers)]
        return torch.randint(0, 30_000, (batch, 1)), torch.ones(batch, past + 1, dtype=torch.int64), cache

    def axes() -> Any:
        from torch.export import Dim

        batch, past = Dim("batch"), Dim("past", min=2)
        return {"input_ids": {0: batch}, "attention_mask": {0: batch, 1: past + 1},
                "past": [{0: batch, 2: past}] * (2 * layers)}  # fmt: skip

    return inputs, axes


def _image(batch: int, length: int) -> Inputs:
    return (torch.randn(batch, 3, 224, 224),)


def _sound(batch: int, length: int) -> Inputs:
    return (torch.randn(batch, 80, 3000),)


def _batch_axis() -> Any:
    return {"data": {0: "batch"}}


def _bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    return Text(BertModel(BertConfig(num_hidden_layers=4)))


def _distilbert() -> nn.Module:
    from transformers import DistilBertConfig, DistilBertModel

    return Text(DistilBertModel(DistilBertConfig(n_layers=3)))


def _vit() -> nn.Module:
    from transformers import ViTConfig, ViTModel

    return Image(ViTModel(ViTConfig(num_hidden_layers=4)))


def _gpt2(cached: bool) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=4, vocab_size=30_000, use_cache=cached))
    return Step(model) if cached else Text(model)


_DECODER = {
    "vocab_size": 30_000, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4,
    "num_attention_heads": 16, "num_key_value_heads": 4, "max_position_embeddings": 4096,
}  # fmt: skip


def _llama(cached: bool) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**_DECODER, use_cache=cached))
    return Step(model) if cached else Text(model)


def _qwen2(cached: bool) -> nn.Module:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    model = Qwen2ForCausalLM(Qwen2Config(**_DECODER, use_cache=cached))
    return Step(model) if cached else Text(model)


def _resnet() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    return Image(ResNetForImageClassification(ResNetConfig(num_labels=1000)))


def _convnext() -> nn.Module:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return Image(ConvNextForImageClassification(ConvNextConfig(depths=[2, 2, 3, 2], num_labels=1000)))


def _whisper() -> nn.Module:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(encoder_layers=2, decoder_layers=1, d_model=384, encoder_attention_heads=6,
                           encoder_ffn_dim=1536)  # fmt: skip
    return Image(WhisperModel(config).encoder)


class _Inverted(nn.Module):
    """A block of MobileNetV3."""

    def __init__(self, sizes: tuple[int, int, int, int, bool, type[nn.Module], int]) -> None:
        super().__init__()
        inside, kernel, expanded, outside, squeezes, activation, stride = sizes
        self.body = nn.Sequential()
        if expanded != inside:
            self.body.append(_normed(inside, expanded, 1, 1, activation))
        self.body.append(_normed(expanded, expanded, kernel, stride, activation, expanded))
        if squeezes:
            self.body.append(_Squeeze(expanded))
        self.body.append(_normed(expanded, outside, 1, 1, nn.Identity))
        self.adds = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.body(x)
        return x + result if self.adds else result


class _Squeeze(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        inner = max(8, (width // 4 + 4) // 8 * 8)
        self.pool, self.fc1, self.fc2 = nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, inner, 1), nn.Conv2d(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        weights: Tensor = nn.functional.hardsigmoid(self.fc2(nn.functional.relu(self.fc1(self.pool(x)))))
        return weights * x


def _normed(
    inside: int, outside: int, kernel: int, stride: int, activation: type[nn.Module], groups: int = 1
) -> nn.Module:
    conv = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outside), activation())


def _mobilenet() -> nn.Module:
    """MobileNetV3-Large, by the table of its paper."""
    r, h = nn.ReLU, nn.Hardswish
    rows: list[tuple[int, int, int, int, bool, type[nn.Module], int]] = [
        (16, 3, 16, 16, False, r, 1), (16, 3, 64, 24, False, r, 2), (24, 3, 72, 24, False, r, 1),
        (24, 5, 72, 40, True, r, 2), (40, 5, 120, 40, True, r, 1), (40, 5, 120, 40, True, r, 1),
        (40, 3, 240, 80, False, h, 2), (80, 3, 200, 80, False, h, 1), (80, 3, 184, 80, False, h, 1),
        (80, 3, 184, 80, False, h, 1), (80, 3, 480, 112, True, h, 1), (112, 3, 672, 112, True, h, 1),
        (112, 5, 672, 160, True, h, 2), (160, 5, 960, 160, True, h, 1), (160, 5, 960, 160, True, h, 1),
    ]  # fmt: skip
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000)]
    layers = nn.Sequential(_normed(3, 16, 3, 2, h), *map(_Inverted, rows), _normed(160, 960, 1, 1, h), *head)
    return _Named(layers)


class _Named(nn.Module):
    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, data: Tensor) -> Tensor:
        """The layers one after another, with the name of the input that all models of images have."""
        result: Tensor = self.layers(data)
        return result


MODELS = [
    TimedModel("bert-base", _bert, _text, _text_axes, 128),
    TimedModel("distilbert", _distilbert, _text, _text_axes, 128),
    TimedModel("vit-base", _vit, _image, _batch_axis),
    TimedModel("gpt2", lambda: _gpt2(False), _text, _text_axes, 128),
    TimedModel("gpt2-step", lambda: _gpt2(True), *_step(4, 12, 64), 1024 - 1),
    TimedModel("llama", lambda: _llama(False), _text, _text_axes, 128),
    TimedModel("llama-step", lambda: _llama(True), *_step(4, 4, 64), 1024),
    TimedModel("llama-step of 8", lambda: _llama(True), *_step(4, 4, 64), 1024, batch=8),
    TimedModel("qwen2", lambda: _qwen2(False), _text, _text_axes, 128),
    TimedModel("qwen2-step", lambda: _qwen2(True), *_step(4, 4, 64), 1024),
    TimedModel("resnet-50", _resnet, _image, _batch_axis),
    TimedModel("mobilenetv3", _mobilenet, _image, _batch_axis),
    TimedModel("convnext", _convnext, _image, _batch_axis),
    TimedModel("whisper", _whisper, _sound, _batch_axis),
]
