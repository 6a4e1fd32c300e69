"""Whether the files of a folder answer about an image as the library does: greedy tokens after an image and a text."""

from __future__ import annotations

from pathlib import Path

from onnxport.errors import Problem
from onnxport.generation import Session, TokenRules
from onnxport.pretrained.greedy import check_tokens
from onnxport.pretrained.images import TYPES, find_images, prompts_with_images
from onnxport.pretrained.library_loop import first_call
from onnxport.pretrained.parts import Tensors
from onnxport.pretrained.plain_generation import NEW_TOKENS, generate_plainly, token_differences
from onnxport.pretrained.prompts import find_prompts, padded_prompts, takes_images


def check_image_text(model: object, folder: Path) -> list[Problem]:
    """Where greedy tokens of the folder and of ``generate`` differ, for one prompt and for a padded batch of two."""
    if not takes_images(model):
        return check_tokens(model, folder)
    session = Session(folder)
    is_prompted = session.model.prompt is not None
    whole = find_prompts(model) if is_prompted else None
    images = find_images(model) if whole is None else None
    problems = []
    for batch in (1, 2):
        inputs: Tensors
        if whole is not None:
            prompts, given = padded_prompts(whole, batch, session.pad_token_id)
            inputs = {name: value for name, value in given.items() if name not in ("input_ids", "attention_mask")}
        else:
            assert images is not None
            prompts, given = prompts_with_images(images, batch)
            inputs = {name: given[name] for name in ("pixel_values", *TYPES) if name in given}
        with first_call(model) as call:
            result = generate_plainly(model, given, own_loop=is_prompted)
        positions = call.get("position_ids")
        if positions is not None and positions.dim() > 2:
            inputs["position_ids"] = positions
        expected = result.sequences[:, -NEW_TOKENS:].tolist()
        found = session.generate(prompts, NEW_TOKENS, eos_token_ids=(), rules=TokenRules(), inputs=inputs)
        problems += token_differences(model, expected, found, result.logits, f"a batch of {batch}")
    return problems
