"""Whether vision, embedding and decoder files answer as the library does: greedy tokens after an image and a text."""

from __future__ import annotations

from pathlib import Path

from onnxport.errors import Problem
from onnxport.generation import Session
from onnxport.pretrained.images import TYPES, find_images, prompts_with_images
from onnxport.pretrained.library_loop import first_call
from onnxport.pretrained.plain_generation import NEW_TOKENS, generate_plainly, token_differences


def check_image_text(model: object, folder: Path) -> list[Problem]:
    """Where greedy tokens of the folder and of ``generate`` differ, for one prompt and for a padded batch of two."""
    session, images = Session(folder), find_images(model)
    problems = []
    for batch in (1, 2):
        prompts, given = prompts_with_images(images, batch)
        with first_call(model) as call:
            result = generate_plainly(model, given)
        inputs = {name: given[name] for name in ("pixel_values", *TYPES) if name in given}
        positions = call.get("position_ids")
        if positions is not None and positions.dim() > 2:
            inputs["position_ids"] = positions
        expected = result.sequences[:, given["input_ids"].shape[1] :].tolist()
        found = session.generate(prompts, NEW_TOKENS, eos_token_ids=(), inputs=inputs)
        problems += token_differences(model, expected, found, result.logits, f"a batch of {batch}")
    return problems
