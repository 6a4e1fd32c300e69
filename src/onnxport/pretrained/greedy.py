"""Whether a folder generates what the library generates: greedy tokens, one prompt and a padded batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from onnxport.errors import InputError, Problem
from onnxport.generation import Session, TokenRules
from onnxport.generation.files import left_padded
from onnxport.pretrained.plain_generation import NEW_TOKENS, generate_plainly, token_differences

_LENGTHS = ((5,), (1,), (3, 8))
"""How long the prompts of each batch are."""


def check_tokens(model: object, folder: Path) -> list[Problem]:
    """Where greedy tokens of the folder and of ``model.generate`` differ, but for logits that are nearly equal."""
    session = Session(folder)
    problems = []
    for lengths in _LENGTHS:
        prompts = _prompts(model, lengths)
        expected, logits = _library_tokens(model, prompts)
        found = session.generate(prompts, len(expected[0]), eos_token_ids=(), rules=TokenRules())
        batch = f"prompts of {' and '.join(map(str, lengths))} tokens"
        problems += token_differences(model, expected, found, logits, batch)
    return problems


def _prompts(model: Any, lengths: Sequence[int]) -> list[list[int]]:
    """Random tokens, none of which means something special."""
    config = model.config.get_text_config(decoder=True)
    named = [getattr(config, f"{kind}_token_id", None) for kind in ("pad", "bos", "eos")]
    special = {token for one in named for token in (one if isinstance(one, list) else [one])}
    size = int(model.get_input_embeddings().num_embeddings)
    generator = torch.Generator().manual_seed(len(lengths))
    plain = [token for token in torch.randperm(size, generator=generator)[:1000].tolist() if token not in special]
    return [[plain[(7 * row + i) % len(plain)] for i in range(length)] for row, length in enumerate(lengths)]


def _library_tokens(model: object, prompts: Sequence[Sequence[int]]) -> tuple[list[list[int]], Sequence[torch.Tensor]]:
    tokens, mask = left_padded(prompts, _padding(model))
    given, padding = {"input_ids": tokens, "attention_mask": mask}, _padding(model)
    try:
        result = generate_plainly(model, given, pad_token_id=padding)
    except InputError:
        # It may have fewer places than that: as many tokens as there are places for.
        fewer = _places(model) - tokens.shape[1]
        if not 0 < fewer < NEW_TOKENS:
            raise
        result = generate_plainly(model, given, pad_token_id=padding, max_new_tokens=fewer)
    return result.sequences[:, tokens.shape[1] :].tolist(), result.logits


def _places(model: Any) -> int:
    """How many tokens there are positions for; 0 where the configuration doesn't say."""
    config = model.config.get_text_config(decoder=True)
    return int(getattr(config, "max_position_embeddings", None) or 0)


def _padding(model: Any) -> int:
    token = getattr(model.config.get_text_config(decoder=True), "pad_token_id", None)
    return token if isinstance(token, int) and token >= 0 else 0
