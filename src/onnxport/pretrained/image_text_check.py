"""Whether vision, embedding and decoder files answer as the library does: greedy tokens after an image and a text."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch

from onnxport.errors import Problem
from onnxport.generation import Session
from onnxport.generation.files import FeaturesAndText, left_padded
from onnxport.pretrained.images import find_images
from onnxport.pretrained.library_loop import first_call
from onnxport.pretrained.model_inputs import draw_tokens, placeholder
from onnxport.pretrained.parts import Tensors
from onnxport.pretrained.plain_generation import NEW_TOKENS, generate_plainly, token_differences


def check_image_text(model: object, folder: Path) -> list[Problem]:
    """Where greedy tokens of the folder and of ``generate`` differ, for one prompt and for a padded batch of two."""
    session, images = Session(folder), find_images(model)
    assert isinstance(session.files, FeaturesAndText)
    problems = []
    for batch in (1, 2):
        generator = torch.Generator().manual_seed(batch)
        pixels = images.prompt_pixels(batch, generator)
        rows = len(session.files.features({"pixel_values": pixels})) // batch
        prompts = _prompts(model, batch, rows, generator)
        tokens, mask = left_padded(prompts, 0)
        given = {"input_ids": tokens, "attention_mask": mask, "pixel_values": pixels, **images.numbers(batch)}
        given |= _types(model, tokens)
        with first_call(model) as call:
            result = generate_plainly(model, given)
        inputs = {"pixel_values": pixels, **_types(model, tokens)}
        positions = call.get("position_ids")
        if positions is not None and positions.dim() > 2:
            inputs["position_ids"] = positions
        expected = result.sequences[:, tokens.shape[1] :].tolist()
        found = session.generate(prompts, NEW_TOKENS, eos_token_ids=(), inputs=inputs)
        problems += token_differences(model, expected, found, result.logits, f"a batch of {batch}")
    return problems


def _types(model: Any, tokens: torch.Tensor) -> Tensors:
    """Which tokens are of an image, under the names by which models take it."""
    token = placeholder(model, "image")
    takes = inspect.signature(model.forward).parameters
    return {name: (tokens == token).long() for name in ("token_type_ids", "mm_token_type_ids") if name in takes}


def _prompts(model: object, batch: int, rows: int, generator: torch.Generator) -> list[list[int]]:
    """An image and a text for each row; the first row is shorter where there are others."""
    image = [placeholder(model, "image")] * rows
    words = draw_tokens(model)((batch, 6), generator).tolist()
    return [[*row[1 if batch > 1 and not i else 0 : 2], *image, *row[2:]] for i, row in enumerate(words)]
