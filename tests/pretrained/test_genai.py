"""onnxruntime-genai takes an exported folder as it is (``make test-genai``; skipped where it is not installed)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models
import torch
from transformers import (
    AutoModelForCausalLM,
    FalconH1Config,
    Gemma3TextConfig,
    Gemma4TextConfig,
    GemmaConfig,
    GPT2Config,
    Lfm2Config,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

import onnxport
from onnxport.generation import Session
from onnxport.pretrained.grid_positions import start_of_image
from onnxport.pretrained.images import find_images, prompts_with_images
from onnxport.pretrained.model_inputs import placeholder
from onnxport.pretrained.plain_generation import generate_plainly
from onnxport.pretrained.tasks.image_text import IMAGE_TEXT

SMALL: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "initializer_range": 0.4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    # Not generated within twenty tokens.
    "eos_token_id": 98,
}
CONFIGS: dict[str, Any] = {
    "llama": LlamaConfig(**SMALL),
    "mistral": MistralConfig(**SMALL, sliding_window=6),
    "gpt2": GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=98),
    "qwen2": Qwen2Config(**SMALL),
    "qwen3": Qwen3Config(**SMALL),
    "gemma": GemmaConfig(**SMALL),
    "gemma3": Gemma3TextConfig(**SMALL),
    "phi3": Phi3Config(**SMALL),
    "smollm3": SmolLM3Config(**SMALL),
    # Layers whose heads differ in width.
    "gemma4": Gemma4TextConfig(
        **SMALL,
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=6,
        global_head_dim=16,
        num_kv_shared_layers=0,
        vocab_size_per_layer_input=99,
        hidden_size_per_layer_input=8,
    ),
    # States of convolutions beside attention, and those of recurrences with them.
    "lfm2": Lfm2Config(**SMALL, layer_types=["conv", "full_attention"]),
    "falcon_h1": FalconH1Config(
        **SMALL | {"eos_token_id": 97},
        mamba_d_ssm=32,
        mamba_d_state=8,
        mamba_n_heads=4,
        mamba_d_head=8,
        mamba_chunk_size=4,
    ),
}


def exported(name: str, out: Path, target: str = "onnx", *, verify: bool = False) -> None:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[name]).eval()
    onnxport.export_pretrained(model, out, target=target, verify=verify)


@pytest.mark.parametrize("target", ["onnx", "onnxruntime"])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_runtime_generates_the_same_tokens(name: str, target: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime_genai")
    exported(name, tmp_path, target)
    prompts = [[5, 6, 7, 8], [9, 10, 11, 12]]
    model = runtime.Model(str(tmp_path))
    parameters = runtime.GeneratorParams(model)
    parameters.set_search_options(max_length=24, batch_size=2)
    generator = runtime.Generator(model, parameters)
    generator.append_tokens(np.array(prompts, dtype=np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    for row, wanted in enumerate(Session(tmp_path).generate(prompts, 20)):
        assert list(generator.get_sequence(row)[4 : 4 + len(wanted)]) == wanted


def test_the_runtime_hears(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime_genai")
    config = WhisperConfig(
        vocab_size=99,
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_mel_bins=8,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=98,
        decoder_start_token_id=3,
        init_std=0.4,
    )
    torch.manual_seed(0)
    onnxport.export_pretrained(WhisperForConditionalGeneration(config).eval(), tmp_path)
    features = torch.randn(2, 8, 3000, generator=torch.Generator().manual_seed(0))
    model = runtime.Model(str(tmp_path))
    parameters = runtime.GeneratorParams(model)
    parameters.set_search_options(max_length=21, batch_size=2)
    generator = runtime.Generator(model, parameters)
    generator.set_model_input("input_features", features.numpy())
    generator.append_tokens(np.array([[3], [3]], dtype=np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    no_prompts: list[list[int]] = []
    found = Session(tmp_path).generate(no_prompts, 20, inputs={"input_features": features})
    assert len(set(found[0])) > 3
    for row, wanted in enumerate(found):
        assert list(generator.get_sequence(row)[1 : 1 + len(wanted)]) == wanted


@pytest.mark.filterwarnings("ignore::onnxport.errors.OnnxExporterWarning")
@pytest.mark.parametrize(
    ("kind", "target"),
    [
        *((kind, "onnx") for kind in ("idefics3", "llava", "mistral3", "qwen2_5_vl", "glm4v", "gemma3", "paligemma")),
        *((kind, "onnxruntime") for kind in ("llava", "qwen2_5_vl")),
    ],
)
def test_the_runtime_sees(kind: str, target: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime_genai")
    model = small_models.small_model(kind, IMAGE_TEXT)
    small_models.spread(model, 0.2)
    onnxport.export_pretrained(model, tmp_path, target=target, verify=False)
    _, given = prompts_with_images(find_images(model), 1)
    tokens = given["input_ids"]
    is_image = tokens[0] == placeholder(model, "image")
    if (start := start_of_image(model)) is not None:
        tokens[0, int(is_image.int().argmax()) - 1] = start
    expected = generate_plainly(model, given).sequences[0].tolist()
    seen = runtime.Model(str(tmp_path))
    parameters = runtime.GeneratorParams(seen)
    parameters.set_search_options(max_length=len(expected), batch_size=1)
    generator = runtime.Generator(seen, parameters)
    # The runtime reads them where they are, until it has seen the prompt.
    given["num_image_tokens"] = is_image.sum().reshape(1)
    for name in given.keys() & {"pixel_values", "image_grid_thw", "num_image_tokens"}:
        generator.set_model_input(name, given[name].numpy())
    generator.append_tokens(tokens.numpy().astype(np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    found = list(generator.get_sequence(0))
    # It may end earlier, by what the model says of its end.
    assert found == expected[: len(found)]
    assert len(found) > tokens.shape[1] + 5


@pytest.mark.parametrize("name", ["mistral", "qwen3"])
def test_caches_are_buffers_for_onnxruntime(name: str, tmp_path: Path) -> None:
    exported(name, tmp_path, "onnxruntime", verify=True)
    assert json.loads((tmp_path / "genai_config.json").read_text())["search"]["past_present_share_buffer"] is True
    assert len(Session(tmp_path).model.buffers) == 4


def test_what_is_written_of_a_model(tmp_path: Path) -> None:
    exported("llama", tmp_path)
    section = json.loads((tmp_path / "genai_config.json").read_text())["model"]
    assert section["decoder"]["inputs"]["past_key_names"] == "past_key_values.%d.key"
    assert section["decoder"]["outputs"]["present_value_names"] == "present.%d.value"
    assert (section["decoder"]["num_key_value_heads"], section["decoder"]["head_size"]) == (2, 8)
    assert Session(tmp_path).model.buffers == frozenset()
    assert (section["context_length"], section["eos_token_id"], section["pad_token_id"]) == (64, 98, 0)
