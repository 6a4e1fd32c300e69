"""Whether vision, embedding and decoder files answer as the library does: greedy tokens after an image and a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from onnxport.errors import Problem
from onnxport.pretrained.model_inputs import draw_numbers, draw_tokens, fixed_image_sizes, images_by_prompt, setting
from onnxport.pretrained.parts import Tensors
from onnxport.pretrained.plain_generation import NEW_TOKENS, generate_plainly, is_tie
from onnxport.program.runtime import RuntimeSession, default_session


class ImageTextFolder:
    """The three files of a folder, open."""

    def __init__(self, folder: Path) -> None:
        parts = ("vision", "embedding", "model")
        self.vision, self.embedding, self.decoder = (
            RuntimeSession(default_session(str(folder / f"{part}.onnx"))) for part in parts
        )

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """Rows of features of images, one by one where the file takes one."""
        several = not isinstance(self.vision.session.get_inputs()[0].shape[0], int)
        groups = [images] if several else images.split(1)
        return torch.cat([_only(self.vision.run(["image_features"], {"pixel_values": group})) for group in groups])

    def tokens(self, prompt: torch.Tensor, mask: torch.Tensor, rows: torch.Tensor, steps: int) -> torch.Tensor:
        """The likeliest tokens, one after another, after a prompt with images in it."""
        state: Tensors = {
            value.name: torch.zeros([len(prompt), *(0 if isinstance(n, str) else n for n in value.shape[1:])])
            for value in self.decoder.session.get_inputs()
            if value.name.startswith("past_key_values")
        }
        takes = {value.name for value in self.decoder.session.get_inputs()}
        results = [value.name for value in self.decoder.session.get_outputs()]
        new, found = prompt, []
        for _ in range(steps):
            embedded = _only(self.embedding.run(["inputs_embeds"], {"input_ids": new, "image_features": rows}))
            positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -new.shape[1] :]
            given = {"inputs_embeds": embedded, "attention_mask": mask, "position_ids": positions, **state}
            outputs = self.decoder.run(results, {name: value for name, value in given.items() if name in takes})
            by_name = {name: _only([value]) for name, value in zip(results, outputs, strict=True)}
            state |= {name.replace("present", "past_key_values"): by_name[name] for name in results if name != "logits"}
            new, rows = by_name["logits"][:, -1:].argmax(-1), rows[:0]
            mask = torch.cat([mask, torch.ones_like(new)], dim=1)
            found.append(new)
        return torch.cat(found, dim=1)


def _only(values: list[Any]) -> torch.Tensor:
    (value,) = values
    assert isinstance(value, torch.Tensor)
    return value


def check_image_text(model: Any, folder: Path) -> list[Problem]:
    """Where greedy tokens of the folder and of ``generate`` differ, for one prompt and for a padded batch of two."""
    files = ImageTextFolder(folder)
    sizes = ((1,) if images_by_prompt(model) else ()) + fixed_image_sizes(model)
    problems = []
    for batch in (1, 2):
        generator = torch.Generator().manual_seed(batch)
        images = draw_numbers(model)((batch, *sizes), generator)
        rows = files.features(images)
        prompt, mask = _prompt(model, batch, len(rows) // batch, generator)
        expected, logits = _library_tokens(model, {"input_ids": prompt, "attention_mask": mask, "pixel_values": images})
        actual = files.tokens(prompt, mask, rows, NEW_TOKENS)
        for row, (wanted, tokens) in enumerate(zip(expected.tolist(), actual.tolist(), strict=True)):
            at = next((i for i, pair in enumerate(zip(wanted, tokens, strict=True)) if pair[0] != pair[1]), None)
            if at is not None and not is_tie(model, logits[at][row], wanted[at], tokens[at]):
                what = f"Greedy tokens of row {row} of {batch} differ from the {at + 1}th on: "
                problems.append(Problem(f"{what}{tokens[at:]}, not {wanted[at:]}."))
    return problems


def _prompt(model: Any, batch: int, rows: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """An image and a text for each row; the first row is padded on the left where there are others."""
    image = torch.full((batch, rows), setting(model.config, "image_token_id", "image_token_index"))
    words = draw_tokens(model)((batch, 6), generator)
    prompt = torch.cat([words[:, :2], image, words[:, 2:]], dim=1)
    mask = torch.ones_like(prompt)
    if batch > 1:
        mask[0, :1] = 0
    return prompt, mask


def _library_tokens(model: Any, inputs: Tensors) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    result = generate_plainly(model, inputs)
    return result.sequences[:, inputs["input_ids"].shape[1] :], result.logits
