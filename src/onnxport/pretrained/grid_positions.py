"""Positions by time, height and width: whether a model counts them as runtimes do that know one way to."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.pretrained.images import find_images, merged_patches, prompts_with_images
from onnxport.pretrained.library_loop import first_call
from onnxport.pretrained.model_inputs import placeholder, setting
from onnxport.pretrained.plain_generation import generate_plainly

Model: TypeAlias = Any

_STARTS = ("vision_start_token_id", "image_start_token_id")
_GRID = "image_grid_thw"


def grid_positions_alike(model: Model) -> bool:
    """Whether a prompt with an image gets the positions that :func:`grid_positions` counts."""
    start, images = start_of_image(model), find_images(model)
    grid = dict(images.stated).get(_GRID)
    if start is None or not isinstance(grid, tuple):
        return False
    _, given = prompts_with_images(images, 1)
    tokens = given["input_ids"]
    first = int((tokens[0] == placeholder(model, "image")).int().argmax())
    tokens[0, first - 1] = start
    with attributes_preserved(model), first_call(model) as call:
        generate_plainly(model, given, max_new_tokens=1)
    found = call.get("position_ids")
    time, *sides = torch.tensor(grid).tolist()
    expected = grid_positions(tokens.shape[1], first, (time, *(size // merged_patches(model) for size in sides)))
    # The library's loop has one more row before them, which counts tokens.
    return isinstance(found, torch.Tensor) and found.dim() == 3 and torch.equal(found[-3:, 0], expected)


def start_of_image(model: Model) -> int | None:
    """The token before those of an image; None where the configuration names none."""
    found = setting(model.config, *_STARTS)
    return found if isinstance(found, int) else None


def grid_positions(length: int, first: int, grid: tuple[int, ...]) -> torch.Tensor:
    """Positions of a prompt of a length with one image from a place on: three rows, of time, height and width.

    Text counts in all rows alike, what an image shows counts from there along each side of its grid, and what follows
    goes on behind the largest.

    >>> from onnxport.pretrained.grid_positions import grid_positions
    >>> grid_positions(9, 2, (1, 2, 2)).tolist()
    [[0, 1, 2, 2, 2, 2, 4, 5, 6], [0, 1, 2, 2, 3, 3, 4, 5, 6], [0, 1, 2, 3, 2, 3, 4, 5, 6]]
    """
    image = torch.cartesian_prod(*(torch.arange(size) for size in grid)).T + first
    behind = torch.arange(length - first - image.shape[1]) + int(image.max()) + 1
    return torch.cat([torch.arange(first).expand(3, -1), image, behind.expand(3, -1)], dim=1)
