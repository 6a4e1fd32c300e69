"""What a model takes for its images: pixels in the layout that its code wants, and numbers that say how large they are.

Sizes that come as numbers (``image_sizes``, ``image_grid_thw``, ``spatial_shapes``) are read by Python code, which
cuts, joins and places features by them. A file is then for images of one size: these numbers are part of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.capture.rewriting.open_lists import concatenated
from onnxport.errors import InputError
from onnxport.generation.files import left_padded
from onnxport.pretrained.library_loop import prompt_types, types_tell_prompts
from onnxport.pretrained.model_inputs import (
    draw_numbers,
    draw_tokens,
    fixed_image_sizes,
    placeholder,
    required_besides,
    setting,
    those_taken,
)
from onnxport.pretrained.parts import Tensors

Model: TypeAlias = Any
Stated: TypeAlias = int | tuple[int, ...] | tuple[tuple[int, ...], ...]

_FEATURES = "get_image_features"
_PIXELS = "pixel_values"
_SIZES, _SHAPES, _SEEN = "image_sizes", "spatial_shapes", "pixel_attention_mask"
_GRIDS = {"image_grid_thw": 3, "image_grid_hw": 2, "target_sizes": 2}
"""What says how many patches an image has: along time, height and width, or the last two."""
_MERGED, _PLACES = "image_merge_sizes", "image_position_ids"
_SMALL = (64, 96)
"""The height and width of images that may have any."""
_TILES = (1, 2, 3, 4, 5, 7, 10)
"""How many pieces an image may be cut into."""


@dataclass(frozen=True)
class ImageInputs:
    """Images as a model takes them.

    Attributes:
        model: The model.
        before: Sizes before the axis that counts images: 1 where images stand in a row of their prompt.
        each: The sizes of one image.
        joined: The axis of ``each`` along which images follow each other, where they have no axis of their own.
        stated: What is said of the size of one image, by the name of the parameter: numbers, or rows of them.
        as_list: Whether sizes may be said as numbers, which code decides by without reading data.
    """

    model: Model
    before: tuple[int, ...]
    each: tuple[int, ...]
    joined: int | None = None
    stated: tuple[tuple[str, Stated], ...] = ()
    as_list: bool = False

    def pixels(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Random images."""
        shape = (*self.before, count, *self.each)
        if self.joined is not None:
            shape = tuple(size * (count if axis == self.joined else 1) for axis, size in enumerate(self.each))
        return draw_numbers(self.model)(shape, generator)

    def prompt_pixels(self, prompts: int, generator: torch.Generator) -> torch.Tensor:
        """Random images, one for each prompt."""
        if not self.before:
            return self.pixels(prompts, generator)
        return draw_numbers(self.model)((prompts, 1, *self.each), generator)

    def numbers(self, count: int) -> Tensors:
        """What is said of the size of each of so many images."""
        return {name: torch.tensor([row] * count) for name, row in self.stated}

    def features(self, pixels: torch.Tensor, numbers: Tensors) -> torch.Tensor:
        """Rows of features of images, of which numbers say how large they are."""
        said: dict[str, Any] = dict(numbers)
        if self.as_list:
            said = {name: numbers[name].tolist() for name, _ in self.stated}
        return rows_of_features(features_function(self.model)(pixels, **said, return_dict=True))


TYPES = ("token_type_ids", "mm_token_type_ids")
"""The names by which models take which tokens are of an image."""


def prompts_with_images(images: ImageInputs, batch: int) -> tuple[list[list[int]], Tensors]:
    """Prompts of an image and a text each, and what a model takes for them; the first is shorter where there are more.

    Those that are shorter are filled up on the left.
    """
    model, generator = images.model, torch.Generator().manual_seed(batch)
    pixels, token = images.prompt_pixels(batch, generator), placeholder(images.model, "image")
    with torch.no_grad(), attributes_preserved(model):
        rows = len(images.features(images.pixels(1, torch.Generator()), images.numbers(1)))
    words = draw_tokens(model)((batch, 6), generator).tolist()
    prompts = [[*row[1 if batch > 1 and not i else 0 : 2], *([token] * rows), *row[2:]] for i, row in enumerate(words)]
    tokens, mask = left_padded(prompts, 0)
    takes = inspect.signature(model.forward).parameters
    types = {name: (tokens == token).long() for name in TYPES if name in takes}
    if "token_type_ids" in types:
        types["token_type_ids"] = prompt_types(types_tell_prompts(model), tokens == token)
    given = {"input_ids": tokens, "attention_mask": mask, "pixel_values": pixels, **images.numbers(batch), **types}
    return prompts, given


def rows_of_features(result: Any) -> torch.Tensor:
    """What the library's functions of features return, as rows of one after another."""
    pooled = getattr(result, "pooler_output", result)
    found = result.last_hidden_state if pooled is None else pooled
    rows = concatenated(found) if isinstance(found, (list, tuple)) else found
    return rows.reshape(-1, rows.shape[-1])


def features_function(model: Model) -> Any:
    """What makes features of images: a method of the model without its head, or of the model; None if there is none."""
    # Of the two the inner one says what it takes.
    return next((found for one in (model.base_model, model) if (found := getattr(one, _FEATURES, None))), None)


def find_images(model: Model, *, any_width: bool = False) -> ImageInputs:
    """How a model takes images: the first layout that its code runs with.

    Args:
        model: The model.
        any_width: Whether features may be of another width than embeddings of tokens.
    """
    # The library's own functions around it hide what it takes.
    function = features_function(model)
    if function is None:
        raise InputError(f"{type(model).__name__} has no image features to put in the places of tokens.")
    takes = inspect.signature(inspect.unwrap(function)).parameters
    known = ("self", _PIXELS, _SIZES, *_GRIDS, _MERGED, _PLACES, _SHAPES, _SEEN)
    lacking = required_besides(known, takes)
    if lacking:
        raise InputError(
            f"{type(model).__name__}.{_FEATURES} takes {', '.join(lacking)} besides {_PIXELS}, and the "
            "configuration doesn't say what that is. Export the vision encoder with onnxport.export and inputs of "
            "your own."
        )

    def refusal(images: ImageInputs) -> Exception | None:
        try:
            with torch.no_grad(), attributes_preserved(model):
                rows = images.features(images.pixels(1, torch.Generator().manual_seed(0)), images.numbers(1))
        except Exception as error:  # noqa: BLE001 - a model says in its own way that it takes no such images
            return error
        width = model.get_input_embeddings().embedding_dim
        # What is no row for each token yet is made one by code that no function of the model has for itself.
        return (
            None
            if any_width or rows.shape[-1] == width
            else InputError(f"Features are {rows.shape[-1]} wide, not {width}.")
        )

    return next(those_taken(model, _layouts(model, takes), refusal, "images", "vision encoder"))


def _layouts(model: Model, takes: Mapping[str, inspect.Parameter]) -> Iterator[ImageInputs]:
    grid = next((name for name in _GRIDS if name in takes), None)
    if grid is not None:
        yield from _grids(model, grid, takes)
        return
    if _SHAPES in takes or _PLACES in takes:
        yield from _rows_of_patches(model, takes)
        return
    # Where sizes are said with the images, a configuration needn't name any.
    sizes = fixed_image_sizes(model, otherwise=_SMALL if _SIZES in takes else None)
    if _SIZES not in required_besides((), takes):
        yield ImageInputs(model, (), sizes)
        yield ImageInputs(model, (1,), sizes)
        yield from _rows_of_patches(model, takes)
    if _SIZES in takes:
        stated = ((_SIZES, sizes[1:]),)
        shapes = [sizes, *((tiles, *sizes) for tiles in _TILES)]
        yield from (ImageInputs(model, (), each, None, stated, as_list) for as_list in (True, False) for each in shapes)
        yield ImageInputs(model, (1,), sizes, stated=stated)


@dataclass(frozen=True)
class _Patches:
    """An image as a grid of patches, two by three of those that are merged to one feature."""

    height: int
    width: int
    merged: int
    side: int
    channels: int
    """With those of several points in time, where a patch spans them."""

    @property
    def count(self) -> int:
        return self.height * self.width

    @property
    def numbers(self) -> int:
        return self.channels * self.side * self.side


_MERGES = ("spatial_merge_size", "merge_kernel_size", "merge_size", "downsample_factor", "pooling_kernel_size")


def merged_patches(model: Model) -> int:
    """How many patches, along each side, become one feature; 1 where the configuration says nothing of it."""
    merged = setting(model.config, *_MERGES)
    found = merged[0] if isinstance(merged, (list, tuple)) else merged
    return 1 if found is None else max(int(found), 1)


def _patches(model: Model) -> _Patches:
    config = model.config
    merged = merged_patches(model)
    depth = int(setting(config, "temporal_patch_size") or 1)
    channels = int(setting(config, "in_channels", "num_channels", "in_chans") or 3)
    return _Patches(2 * merged, 3 * merged, merged, int(setting(config, "patch_size") or 14), channels * depth)


def _grids(model: Model, grid: str, takes: Container[str]) -> Iterator[ImageInputs]:
    """Patches of all images one after another, flat or in channels, or beside each other, and the grid of each."""
    stated_one = _patches(model)
    # A model may merge patches that it merged before, and patches may span two points in time.
    for factor, depth in ((1, 1), (2, 1), (1, 2)):
        one = replace(
            stated_one,
            height=stated_one.height * factor,
            width=stated_one.width * factor,
            channels=stated_one.channels * depth,
        )
        stated: tuple[tuple[str, Stated], ...] = ((grid, (1, one.height, one.width)[-_GRIDS[grid] :]),)
        if _MERGED in takes:
            stated = (*stated, (_MERGED, one.merged))
        flat = ImageInputs(model, (), (one.count, one.numbers), 0, stated)
        beside = replace(flat, each=(1, one.channels, one.side, one.side * one.count), joined=3)
        in_channels = replace(flat, each=(one.count, one.channels, one.side, one.side))
        yield from (beside, in_channels) if grid == "target_sizes" else (flat, in_channels)


def _rows_of_patches(model: Model, takes: Container[str]) -> Iterator[ImageInputs]:
    """Images as rows of flat patches, with the shape of each and a mask of what is no padding, or where each stands."""
    small = _patches(model)
    merged = replace(small, height=2, width=3, side=small.side * small.merged)
    for one in dict.fromkeys((small, merged)):
        stated: tuple[tuple[str, Stated], ...] = (
            (_SHAPES, (one.height, one.width)),
            (_SEEN, (1,) * one.count),
            (_PLACES, tuple((column, row) for row in range(one.height) for column in range(one.width))),
        )
        yield ImageInputs(model, (), (one.count, one.numbers), stated=tuple(row for row in stated if row[0] in takes))
