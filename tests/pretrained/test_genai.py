"""onnxruntime-genai takes an exported folder as it is (``make test-genai``; skipped where it is not installed)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
)

import onnxport
from onnxport.generation import Session

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
