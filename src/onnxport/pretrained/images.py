"""What a model takes for its images: pixels in the layout that its code wants, and numbers that say how large they are.

Sizes that come as numbers (``image_sizes``, ``image_grid_thw``, ``spatial_shapes``) are read by Python code, which
cuts, joins and places features by them. A file is then for images of one size: these numbers are part of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from onnxport.errors import InputError
from onnxport.pretrained.model_inputs import draw_numbers, fixed_image_sizes, required_besides, setting
from onnxport.pretrained.parts import Tensors

Model: TypeAlias = Any

_FEATURES = "get_image_features"
_SIZES, _GRID = "image_sizes", "image_grid_thw"
_SHAPES, _SEEN = "spatial_shapes", "pixel_attention_mask"
_TILES = (1, 2, 3, 4, 5, 7, 10)
"""How many pieces an image may be cut into."""


@dataclass(frozen=True)
class ImageInputs:
    """Images as a model takes them.

    Attributes:
        model: The model.
        before: Sizes before the axis that counts images: 1 where images stand in a row of their prompt.
        each: The sizes of one image; its first axis counts patches where ``joined``.
        joined: Whether images follow each other along the first axis of ``each``, without an axis of their own.
        stated: What is said of the size of one image, by the name of the parameter.
        as_list: Whether sizes may be said as numbers, which code decides by without reading data.
    """

    model: Model
    before: tuple[int, ...]
    each: tuple[int, ...]
    joined: bool = False
    stated: tuple[tuple[str, tuple[int, ...]], ...] = ()
    as_list: bool = False

    def pixels(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Random images."""
        shape = (count * self.each[0], *self.each[1:]) if self.joined else (*self.before, count, *self.each)
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
            said = {name: [list(row)] * len(numbers[name]) for name, row in self.stated}
        return rows_of_features(features_function(self.model)(pixels, **said, return_dict=True))


def rows_of_features(result: Any) -> torch.Tensor:
    """What the library's functions of features return, as rows of one after another."""
    found = getattr(result, "pooler_output", result)
    rows = torch.cat(list(found)) if isinstance(found, (list, tuple)) else found
    return rows.reshape(-1, rows.shape[-1])


def features_function(model: Model) -> Any:
    """What makes features of images: a method of the model, or of the model without its head; None if there is none."""
    return next((found for one in (model, model.base_model) if (found := getattr(one, _FEATURES, None))), None)


def find_images(model: Model) -> ImageInputs:
    """How a model takes images: the first layout that its code runs with."""
    # The library's own functions around it hide what it takes.
    function = features_function(model)
    if function is None:
        raise InputError(f"{type(model).__name__} has no image features to put in the places of tokens.")
    takes = inspect.signature(inspect.unwrap(function)).parameters
    known = ("self", "pixel_values", _SIZES, _GRID, _SHAPES, _SEEN)
    lacking = required_besides(known, takes)
    if lacking:
        raise InputError(
            f"{type(model).__name__}.get_image_features takes {', '.join(lacking)} besides pixel_values, and the "
            "configuration doesn't say what that is. Export the vision encoder with onnxport.export and inputs of "
            "your own."
        )
    refusals = []
    for images in _layouts(model, set(takes)):
        try:
            with torch.no_grad():
                images.features(images.pixels(1, torch.Generator().manual_seed(0)), images.numbers(1))
        except Exception as error:  # noqa: BLE001 - a model says in its own way that it takes no such images
            refusals.append(error)
        else:
            return images
    raise InputError(
        f"{type(model).__name__} takes none of the images that its configuration describes; the last is refused with "
        f"{refusals[-1]!r}. Export the vision encoder with onnxport.export and inputs of your own."
    )


def _layouts(model: Model, takes: set[str]) -> Iterator[ImageInputs]:
    if _GRID in takes:
        flat = _patches(model)
        yield flat
        side = int(setting(model.config, "patch_size") or 14)
        if flat.each[1] % (side * side) == 0:
            yield replace(flat, each=(flat.each[0], flat.each[1] // (side * side), side, side))
        return
    if _SHAPES in takes:
        yield _rows_of_patches(model, takes)
        return
    sizes = fixed_image_sizes(model)
    stated = ((_SIZES, sizes[1:]),) if _SIZES in takes else ()
    if stated:
        shapes = [sizes, *((tiles, *sizes) for tiles in _TILES)]
        yield from (
            ImageInputs(model, (), each, False, stated, as_list) for as_list in (True, False) for each in shapes
        )
    else:
        yield ImageInputs(model, (), sizes)
    yield ImageInputs(model, (1,), sizes, stated=stated)


def _rows_of_patches(model: Model, takes: set[str]) -> ImageInputs:
    """Images as rows of flat patches, with the shape of each and a mask of the patches that are no padding."""
    flat = _patches(model)
    ((_, (_, *shape)),) = flat.stated
    stated = ((_SHAPES, tuple(shape)), (_SEEN, (1,) * flat.each[0]))
    return replace(flat, joined=False, stated=tuple(row for row in stated if row[0] in takes))


def _patches(model: Model) -> ImageInputs:
    """An image as a grid of flat patches, two by three of those that are merged to one feature."""
    config = model.config
    merged = setting(config, "spatial_merge_size", "merge_kernel_size", "downsample_factor")
    merged = merged[0] if isinstance(merged, (list, tuple)) else merged
    side, depth = int(setting(config, "patch_size") or 14), int(setting(config, "temporal_patch_size") or 1)
    channels = int(setting(config, "in_channels", "num_channels", "in_chans") or 3)
    height, width = 2 * int(merged or 1), 3 * int(merged or 1)
    each = (height * width, channels * depth * side * side)
    return ImageInputs(model, (), each, joined=True, stated=((_GRID, (1, height, width)),))
