"""Small, randomly initialised transformers models: one row each, with inputs for any batch and length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

BATCH = "batch"
LENGTH = "length"


@dataclass(frozen=True)
class ZooModel:
    """How to build a model, how to make its inputs at a size, and which axes vary."""

    name: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[int, int], dict[str, torch.Tensor]]
    dynamic_shapes: dict[str, Any]
    traced: tuple[int, int] = (2, 8)
    others: tuple[tuple[int, int], ...] = ((1, 5), (3, 11))
    tolerance: float = field(default=2e-5)


def _tokens(batch: int, length: int, vocabulary: int = 99) -> torch.Tensor:
    return torch.randint(2, vocabulary, (batch, length))


def _mask(batch: int, length: int) -> torch.Tensor:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[:, length - 2 :] = 0
    return mask


def _text(batch: int, length: int) -> dict[str, torch.Tensor]:
    return {"input_ids": _tokens(batch, length), "attention_mask": _mask(batch, length)}


def _image(batch: int, _: int) -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(batch, 3, 32, 32)}


_TEXT_AXES = {"input_ids": {0: BATCH, 1: LENGTH}, "attention_mask": {0: BATCH, 1: LENGTH}}
_IMAGE_AXES = {"pixel_values": {0: BATCH}}
_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def _bert() -> torch.nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(vocab_size=99, **_SMALL))


def _gpt2() -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, use_cache=False))


def _llama() -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(vocab_size=99, num_key_value_heads=2, use_cache=False, **_SMALL))


def _vit() -> torch.nn.Module:
    from transformers import ViTConfig, ViTModel

    return ViTModel(ViTConfig(image_size=32, patch_size=8, **_SMALL))


def _resnet() -> torch.nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 2, 1], num_labels=5)
    return ResNetForImageClassification(config)


def _convnext() -> torch.nn.Module:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return ConvNextForImageClassification(ConvNextConfig(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 2, 1]))


def _t5() -> torch.nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False)
    return T5ForConditionalGeneration(config)


def _t5_inputs(batch: int, length: int) -> dict[str, torch.Tensor]:
    return {**_text(batch, length), "decoder_input_ids": _tokens(batch, length + 1)}


def _clip() -> torch.nn.Module:
    from transformers import CLIPConfig, CLIPModel

    vision = {"image_size": 32, "patch_size": 8, **_SMALL}
    text = {"vocab_size": 99, "max_position_embeddings": 64, "eos_token_id": 98, **_SMALL}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))


def _clip_inputs(batch: int, length: int) -> dict[str, torch.Tensor]:
    tokens = _tokens(batch, length, 98)
    tokens[:, -1] = 98
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **_image(3, 0)}


def _whisper_encoder() -> torch.nn.Module:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        vocab_size=99,
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_layers=1,
        decoder_attention_heads=4,
        decoder_ffn_dim=64,
        max_source_positions=30,
        num_mel_bins=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return WhisperModel(config).get_encoder()


def _whisper_inputs(batch: int, _: int) -> dict[str, torch.Tensor]:
    return {"input_features": torch.randn(batch, 16, 60)}


ZOO = [
    ZooModel("bert", _bert, _text, _TEXT_AXES),
    ZooModel("gpt2", _gpt2, _text, _TEXT_AXES),
    ZooModel("llama", _llama, _text, _TEXT_AXES),
    ZooModel("vit", _vit, _image, _IMAGE_AXES),
    ZooModel("resnet", _resnet, _image, _IMAGE_AXES),
    ZooModel("convnext", _convnext, _image, _IMAGE_AXES),
    ZooModel(
        "t5",
        _t5,
        _t5_inputs,
        {**_TEXT_AXES, "decoder_input_ids": {0: BATCH, 1: "decoder_length"}},
    ),
    ZooModel("clip", _clip, _clip_inputs, {**_TEXT_AXES, "pixel_values": {0: "images"}}),
    ZooModel("whisper_encoder", _whisper_encoder, _whisper_inputs, {"input_features": {0: BATCH}}),
]
