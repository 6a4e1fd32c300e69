"""Whether the files of a model that hears answer as the library does: greedy tokens after a recording and a text."""

from __future__ import annotations

from pathlib import Path

import torch

from onnxport.errors import Problem
from onnxport.generation import Session, TokenRules
from onnxport.generation.files import FeaturesAndText, left_padded
from onnxport.pretrained.model_inputs import draw_tokens, placeholder
from onnxport.pretrained.plain_generation import NEW_TOKENS, generate_plainly, token_differences
from onnxport.pretrained.sounds import BATCH, find_sounds


def check_audio_text(model: object, folder: Path) -> list[Problem]:
    """Where greedy tokens of the folder and of ``generate`` differ, for one prompt and for a padded batch of two."""
    session = Session(folder)
    assert isinstance(session.files, FeaturesAndText)
    taken = {value.name for value in session.files.encoder.get_inputs()}
    sounds = [sounds for sounds in find_sounds(model) if set(sounds.inputs.layouts) == taken][-1]
    token = placeholder(model, "audio")
    problems = []
    for batch in (1, 2):
        one = sounds.inputs.made({**sounds.inputs.sizes()[0], BATCH: 1})
        heard = {name: torch.cat([tensor] * batch) for name, tensor in one.items()}
        heard |= {name: torch.cat([mask] * batch) for name, mask in sounds.unpadded.items()}
        if batch > 1:
            # Another recording, all of which is heard.
            heard[sounds.name][1] = heard[sounds.name][1].flip(-1)
            heard |= {name: heard[name] | torch.tensor([[0], [1]]) for name in sounds.masks}
        words = draw_tokens(model)((batch, 6), torch.Generator().manual_seed(batch)).tolist()
        prompts = []
        for row in range(batch):
            alone = {name: heard[name][row : row + 1] for name in sounds.inputs.layouts}
            prompts.append([*words[row][:2], *[token] * len(session.files.features(alone)), *words[row][2:]])
        tokens, mask = left_padded(prompts, 0)
        result = generate_plainly(model, {"input_ids": tokens, "attention_mask": mask, **heard})
        expected = result.sequences[:, tokens.shape[1] :].tolist()
        found = session.generate(prompts, NEW_TOKENS, eos_token_ids=(), rules=TokenRules(), inputs=heard)
        problems += token_differences(model, expected, found, result.logits, f"a batch of {batch}")
    return problems
