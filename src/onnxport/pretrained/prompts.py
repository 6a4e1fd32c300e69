"""Prompts with an image, as a model takes them whole: tokens, pixels, and what says which belong together.

A parameter's name says what it holds. How many pieces an image has, and how many tokens stand for it, the model is
asked, by running it with what may fit.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.errors import InputError
from onnxport.pretrained.images import TYPES, ImageInputs, features_function, find_images
from onnxport.pretrained.model_inputs import (
    Layout,
    draw_numbers,
    draw_patches,
    draw_tokens,
    fixed_image_sizes,
    patch_layouts,
    placeholder,
    setting,
    those_taken,
)
from onnxport.pretrained.parts import Sizes, Tensors

Model: TypeAlias = Any

BATCH, SEQUENCE = "batch", "sequence"
_ASKED = "question"
"""The axis of a text that is read together with the image, beside the prompt."""
_COUNTS = ("latent_query_num", "num_query_tokens", "image_seq_length", "mm_tokens_per_image", "num_image_tokens")
"""Settings that say how many tokens stand for an image."""
_FILMS = ("num_frames", "max_num_tiles", "frames")
"""Settings that say how many pictures of a film, or pieces of an image, are one input."""
_TOKENS, _MASK, _PIXELS = "input_ids", "attention_mask", "pixel_values"
_AT_PLACES = ("image_embeds_position_mask", *TYPES)


@dataclass(frozen=True)
class PromptInputs:
    """Prompts of an image and a text each, as a model takes them.

    Attributes:
        model: The model.
        places: How many tokens stand for the image.
        layouts: The sizes of what is given besides the tokens.
        images: The images, where the model has a function that makes features of them.
    """

    model: Model
    places: int
    layouts: Mapping[str, Layout]
    images: ImageInputs | None = None
    leading: int = field(default=1)

    def numbers(self, batch: int) -> Tensors:
        """What is said of the sizes of the images of so many prompts."""
        return {} if self.images is None else self.images.numbers(batch)

    def made(self, sizes: Sizes) -> Tensors:
        """Prompts of these sizes without numbers that are said of images; the same sizes give the same values."""
        batch, length = sizes[BATCH], sizes[SEQUENCE]
        generator = torch.Generator().manual_seed(batch)
        tokens = draw_tokens(self.model)((batch, length), generator)
        is_image = torch.zeros(batch, length, dtype=torch.bool)
        is_image[:, self.leading : self.leading + self.places] = True
        if self.places and (token := _image_token(self.model)) is not None:
            tokens[is_image] = token
        found = {_TOKENS: tokens, _MASK: torch.ones_like(tokens)}
        for name, layout in self.layouts.items():
            shape = tuple(sizes[size] if isinstance(size, str) else size for size in layout)
            found[name] = is_image.long() if name in _AT_PLACES else _DRAWN[name](self.model)(shape, generator)
        if self.images is not None:
            found[_PIXELS] = self.images.prompt_pixels(batch, generator)
        return {
            name: tensor for name, tensor in found.items() if name in inspect.signature(self.model.forward).parameters
        }

    def sized(self, batch: int, words: int) -> dict[str, int]:
        """Sizes for so many prompts of an image and so many words each, and one word less for a question beside."""
        asked = {_ASKED: words - 1} if any(_ASKED in layout for layout in self.layouts.values()) else {}
        return {BATCH: batch, SEQUENCE: self.places + words, **asked}

    def axes(self) -> dict[str, dict[int, str]]:
        """The axes that vary, by input."""
        text: Layout = (BATCH, SEQUENCE)
        layouts = {_TOKENS: text, _MASK: text, **self.layouts}
        if self.images is not None:
            layouts[_PIXELS] = (BATCH,)
        return {name: {i: size for i, size in enumerate(row) if isinstance(size, str)} for name, row in layouts.items()}

    @property
    def is_single(self) -> bool:
        """Whether sizes are said of images, which code reads: there is a prompt at a time then."""
        return self.images is not None and bool(self.images.stated)


def takes_images(model: Model) -> bool:
    """Whether a model takes images besides tokens: the library has language models among those that do."""
    return any(name in inspect.signature(model.forward).parameters for name in (_PIXELS, "flattened_patches"))


def find_prompts(model: Model) -> PromptInputs:
    """How a model takes prompts with an image: the first way in which its result follows from the image."""

    def refusal(prompts: PromptInputs) -> Exception | None:
        sizes = prompts.sized(2, 4)
        try:
            with torch.no_grad(), attributes_preserved(model):
                given = prompts.made(sizes) | prompts.numbers(2)
                seen = model(**given, use_cache=True, return_dict=True).logits
                other = model(**_inverted(given), use_cache=True, return_dict=True).logits
        except Exception as error:  # noqa: BLE001 - a model says in its own way that it takes no such prompts
            return error
        return InputError("The result does not follow from the image.") if torch.equal(seen, other) else None

    return next(those_taken(model, _candidates(model), refusal, "prompts with images", "model"))


def _inverted(given: Tensors) -> Tensors:
    """The same prompts with other images; the first two numbers of a flat patch say where it is."""
    changed = {name: -value for name, value in given.items() if value.is_floating_point()}
    if (patches := given.get("flattened_patches")) is not None:
        changed["flattened_patches"] = torch.cat([patches[..., :2], -patches[..., 2:]], dim=-1)
    return given | changed


def padded_prompts(prompts: PromptInputs, batch: int, padding: int) -> tuple[list[list[int]], Tensors]:
    """Prompts, and what a model takes for them; the first of several is shorter and filled up on the left."""
    given = prompts.made(prompts.sized(batch, 6)) | prompts.numbers(batch)
    rows = given[_TOKENS].tolist()
    if batch > 1:
        rows[0] = rows[0][prompts.leading :]
        given[_TOKENS][0, : prompts.leading], given[_MASK][0, : prompts.leading] = padding, 0
    return rows, given


def _candidates(model: Model) -> Iterator[PromptInputs]:
    takes = inspect.signature(model.forward).parameters
    if features_function(model) is not None:
        yield from _with_features(model, takes)
    for pieces, pixels in _pixel_layouts(model, takes):
        beside = {name: layout for name in takes if (layout := _beside(name, pieces, model)) is not None}
        counts = [setting(model.config, name) for name in _COUNTS]
        places = [int(count) for count in counts if isinstance(count, int)]
        for count in dict.fromkeys([0, *places, *(pieces * count for count in places)]):
            yield PromptInputs(model, count, {**pixels, **beside})


def _with_features(model: Model, takes: Mapping[str, inspect.Parameter]) -> Iterator[PromptInputs]:
    """As the function of the model takes its images, and as many tokens as it makes rows of one."""
    try:
        images = find_images(model, any_width=True)
    except InputError:
        return
    with torch.no_grad(), attributes_preserved(model):
        rows = len(images.features(images.pixels(1, torch.Generator()), images.numbers(1)))
    layouts: dict[str, Layout] = {name: (BATCH, SEQUENCE) for name in _AT_PLACES if name in takes}
    yield PromptInputs(model, rows, layouts, images)


def _pixel_layouts(model: Model, takes: Mapping[str, inspect.Parameter]) -> Iterator[tuple[int, dict[str, Layout]]]:
    """One image for each prompt, alone, in a row of one, in pieces or as a film; and of how many pieces it is."""
    if "flattened_patches" in takes:
        for layout in patch_layouts(model):
            yield 1, {"flattened_patches": tuple(12 if size == "patches" else size for size in layout)}
        return
    sizes = fixed_image_sizes(model)
    yield 1, {_PIXELS: (BATCH, *sizes)}
    yield 1, {_PIXELS: (BATCH, 1, *sizes)}
    found = setting(model.config, *_FILMS)
    for pieces in dict.fromkeys([int(found)] if isinstance(found, int) else [4]):
        yield pieces, {_PIXELS: (BATCH, 1, pieces, *sizes)}
        yield pieces, {_PIXELS: (BATCH, pieces, *sizes)}


def _beside(name: str, pieces: int, model: Model) -> Layout | None:
    """The sizes of what goes with images; None for what is none of it."""
    known: dict[str, Layout] = {
        "image_attention_mask": (BATCH, SEQUENCE, 1),
        "aspect_ratio_ids": (BATCH, 1),
        "aspect_ratio_mask": (BATCH, 1, pieces),
        "cross_attention_mask": (BATCH, SEQUENCE, 1, pieces),
        "qformer_input_ids": (BATCH, _ASKED),
        "qformer_attention_mask": (BATCH, _ASKED),
        **dict.fromkeys(_AT_PLACES, (BATCH, SEQUENCE)),
    }
    return known.get(name)


def _ones(model: Model) -> Callable[[tuple[int, ...], torch.Generator], torch.Tensor]:
    return lambda shape, generator: torch.ones(shape, dtype=torch.int64)


_DRAWN: Mapping[str, Any] = {
    _PIXELS: draw_numbers,
    "flattened_patches": draw_patches,
    "qformer_input_ids": draw_tokens,
    **dict.fromkeys(("image_attention_mask", "aspect_ratio_ids", "aspect_ratio_mask", "cross_attention_mask"), _ones),
    "qformer_attention_mask": _ones,
}


def _image_token(model: Model) -> int | None:
    """The token that stands for images or films, where the configuration names one; else masks say where they are."""
    for kind in ("image", "video"):
        with contextlib.suppress(InputError):
            return placeholder(model, kind)
    return None
