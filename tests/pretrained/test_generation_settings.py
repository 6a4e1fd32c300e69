"""What ``generation_config.json`` says of which tokens come: the folder follows it as the library does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import one_layer_llama
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    LlamaForCausalLM,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

import onnxport
from onnxport.errors import InputError
from onnxport.generation import Session, TokenRules
from onnxport.generation.rules import Rule
from onnxport.generation.starts import Start

SMALL: dict[str, Any] = {
    "vocab_size": 60,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "init_std": 0.6,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
}
#: Each changes what the model generates.
DECODERS: dict[str, dict[str, Any]] = {
    "penalty": {"repetition_penalty": 1.7},
    "n-grams": {"no_repeat_ngram_size": 2},
    "single-tokens-once": {"no_repeat_ngram_size": 1},
    "bad-words": {"bad_words_ids": [[n] for n in range(3, 25)] + [[30, 31], [2]]},
    "bias": {"sequence_bias": [[[7], 9.0], [[7, 7], -30.0], [[9, 8, 7, 6] * 9, 99.0]]},
    "longer": {"min_length": 14, "eos_token_id": list(range(20))},
    "more": {"min_new_tokens": 5, "eos_token_id": list(range(30))},
    "decay": {"exponential_decay_length_penalty": [2, 1.6], "eos_token_id": [11, 12]},
    "suppressed": {"suppress_tokens": [*range(10, 30), 77], "begin_suppress_tokens": list(range(30, 49))},
    "last": {"forced_eos_token_id": [4, 5]},
    "valid": {"remove_invalid_values": True, "suppress_tokens": [1]},
}
ENCODERS: dict[str, dict[str, Any]] = {
    "first-and-last": {"forced_bos_token_id": 9, "forced_eos_token_id": 2, "begin_suppress_tokens": list(range(30))},
    "read": {"encoder_repetition_penalty": 30.0, "encoder_no_repeat_ngram_size": 2},
}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    torch.manual_seed(0)
    model, folder = LlamaForCausalLM(one_layer_llama()).eval(), tmp_path_factory.mktemp("llama")
    model.generation_config.repetition_penalty = 1.25
    onnxport.export_pretrained(model, folder, verify=False)
    model.generation_config.repetition_penalty = None
    return model, folder


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    torch.manual_seed(0)
    model, folder = BartForConditionalGeneration(BartConfig(**SMALL)).eval(), tmp_path_factory.mktemp("bart")
    onnxport.export_pretrained(model, folder, verify=False)
    return model, folder


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    torch.manual_seed(0)
    config = WhisperConfig(**SMALL, num_mel_bins=8, max_source_positions=20, max_target_positions=40)
    model, folder = WhisperForConditionalGeneration(config).eval(), tmp_path_factory.mktemp("whisper")
    onnxport.export_pretrained(model, folder, verify=False)
    return model, folder


def told(folder: Path, settings: dict[str, Any]) -> Session:
    (folder / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": 3, **settings}))
    return Session(folder)


def until_end(rows: list[list[int]], settings: dict[str, Any]) -> list[list[int]]:
    named = settings.get("eos_token_id", 2)
    ends = [named] if isinstance(named, int) else named
    return [row[: next((i + 1 for i, token in enumerate(row) if token in ends), len(row))] for row in rows]


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_follows_settings(name: str, llama: tuple[Any, Path]) -> None:
    (model, folder), settings = llama, {"eos_token_id": 2, **DECODERS[name]}
    rows = torch.tensor([[0, 0, 5, 6, 7], [8, 9, 5, 30, 7]])
    given = {"input_ids": rows, "attention_mask": (rows != 0).long(), "pad_token_id": 0, "max_new_tokens": 16}
    expected = model.generate(**given, **settings)[:, 5:].tolist()
    session, prompts = told(folder, settings), [[5, 6, 7], [8, 9, 5, 30, 7]]
    found = session.generate(prompts, 16)
    assert found == until_end(expected, settings)
    if name != "valid":
        assert found != session.generate(prompts, 16, rules=TokenRules())


@pytest.mark.parametrize("name", ENCODERS)
def test_a_decoder_behind_an_encoder_follows_settings(name: str, bart: tuple[Any, Path]) -> None:
    (model, folder), settings = bart, {"eos_token_id": 2, **ENCODERS[name]}
    rows = torch.tensor([[5, 6, 7, 8, 9], [8, 9, 5, 1, 1]])
    given = {"input_ids": rows, "attention_mask": (rows != 1).long(), "max_new_tokens": 12, "num_beams": 1}
    expected = model.generate(**given, **{"forced_eos_token_id": None, **settings})[:, 1:].tolist()
    session, prompts = told(folder, {"pad_token_id": 1, **settings}), [[5, 6, 7, 8, 9], [8, 9, 5]]
    found = session.generate(prompts, 12)
    assert found == until_end(expected, settings)
    assert found != session.generate(prompts, 12, rules=TokenRules())


LANGUAGES = {
    "lang_to_id": {"<|en|>": 40, "<|de|>": 41, "<|fr|>": 42},
    "task_to_id": {"transcribe": 45, "translate": 46},
}


@pytest.mark.parametrize(
    "settings",
    [
        {"forced_decoder_ids": [[1, 7], [2, 9]], "suppress_tokens": [8, 30]},
        {**LANGUAGES, "no_timestamps_token_id": 50, "begin_suppress_tokens": [*range(20)]},
        {**LANGUAGES, "no_timestamps_token_id": 50, "language": "de", "is_multilingual": True},
        {**LANGUAGES, "language": "fr", "task": "translate", "is_multilingual": True},
    ],
    ids=["forced", "language-by-ear", "language", "task"],
)
def test_speech_begins_as_settings_say(settings: dict[str, Any], whisper: tuple[Any, Path]) -> None:
    built, folder = whisper
    session = told(folder, {"eos_token_id": 2, **settings})
    heard = {"input_features": torch.randn(2, 8, 40, generator=torch.Generator().manual_seed(1))}
    model = WhisperForConditionalGeneration(built.config).eval()
    model.load_state_dict(built.state_dict())
    for name, value in {"suppress_tokens": None, "begin_suppress_tokens": None, **settings}.items():
        setattr(model.generation_config, name, value)
    expected = model.generate(**heard, max_new_tokens=10, num_beams=1, return_dict_in_generate=True)
    found = session.generate([], 10, inputs=heard)
    assert found == until_end(expected.sequences[:, -10:].tolist(), {})


def test_settings_that_can_not_be_followed_are_an_error() -> None:
    with pytest.raises(InputError, match="says that the language is xy, and not which token that is"):
        Start.from_settings({"language": "xy", **LANGUAGES}.get, 3)
    with pytest.raises(InputError, match=r"sequence_bias is \{'7': 2\}; it is a list of pairs"):
        TokenRules(sequence_bias={"7": 2}).followed(1, 5, ())  # type: ignore[arg-type]


def test_tokens_without_a_score_are_nothing_to_follow() -> None:
    rules = TokenRules(suppress_tokens=[9], sequence_bias=[([9], 1.0)], repetition_penalty=2.0, forced_bos_token_id=1)
    scores, seen = torch.tensor([[1.0, -1.0, 2.0]]), torch.tensor([[9, 2]])
    followed: list[Rule] = list(rules.followed(2, 5, ()))
    for rule in followed:
        scores = rule(scores, seen)
    assert scores.tolist() == [[1.0, -1.0, 1.0]]


def test_other_runtimes_are_told_of_what_they_know(llama: tuple[Any, Path]) -> None:
    described = json.loads((llama[1] / "genai_config.json").read_text())
    assert described["search"]["repetition_penalty"] == 1.25


def test_texts_are_not_cut_or_filled_up_as_the_tokenizer_was_saved(llama: tuple[Any, Path]) -> None:
    tokenizer = Tokenizer(WordLevel({"a": 5, "b": 6, "c": 7}, unk_token="a"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.enable_padding(length=9)
    tokenizer.enable_truncation(2)
    tokenizer.save(str(llama[1] / "tokenizer.json"))
    session, seen = told(llama[1], {}), list[list[int | None]]()
    session.generate(["a b c"], 4, on_step=seen.append)
    assert [[token] for (token,) in seen] == [[token] for token in session.generate([[5, 6, 7]], 4)[0]]
