"""Whether vision, embedding and decoder files answer as the library does: greedy tokens after an image and a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from onnxport.errors import Problem
from onnxport.generation import Session
from onnxport.generation.files import ImagesAndText, left_padded
from onnxport.pretrained.model_inputs import draw_numbers, draw_tokens, fixed_image_sizes, images_by_prompt, setting
from onnxport.pretrained.plain_generation import NEW_TOKENS, generate_plainly, token_differences


def check_image_text(model: Any, folder: Path) -> list[Problem]:
    """Where greedy tokens of the folder and of ``generate`` differ, for one prompt and for a padded batch of two."""
    session = Session(folder)
    assert isinstance(session.files, ImagesAndText)
    sizes = ((1,) if images_by_prompt(model) else ()) + fixed_image_sizes(model)
    problems = []
    for batch in (1, 2):
        generator = torch.Generator().manual_seed(batch)
        images = draw_numbers(model)((batch, *sizes), generator)
        rows = len(session.files.features({"pixel_values": images})) // batch
        prompts = _prompts(model, batch, rows, generator)
        inputs = {"pixel_values": images}
        tokens, mask = left_padded(prompts, 0)
        result = generate_plainly(model, {"input_ids": tokens, "attention_mask": mask, **inputs})
        expected = result.sequences[:, tokens.shape[1] :].tolist()
        found = session.generate(prompts, NEW_TOKENS, eos_token_ids=(), inputs=inputs)
        problems += token_differences(model, expected, found, result.logits, f"a batch of {batch}")
    return problems


def _prompts(model: Any, batch: int, rows: int, generator: torch.Generator) -> list[list[int]]:
    """An image and a text for each row; the first row is shorter where there are others."""
    image = [int(setting(model.config, "image_token_id", "image_token_index"))] * rows
    words = draw_tokens(model)((batch, 6), generator).tolist()
    return [[*row[1 if batch > 1 and not i else 0 : 2], *image, *row[2:]] for i, row in enumerate(words)]
