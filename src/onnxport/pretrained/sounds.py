"""What a model takes for what it hears: samples or features over time, and a mask of what is no padding."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from onnxport.errors import InputError
from onnxport.pretrained.images import rows_of_features
from onnxport.pretrained.model_inputs import (
    Layout,
    ModelInputs,
    draw_mask,
    draw_numbers,
    feature_layouts,
    refusal_of,
    required_besides,
    those_taken,
)
from onnxport.pretrained.parts import Tensors

Model: TypeAlias = Any

BATCH = "sounds"
_FEATURES = "get_audio_features"
_SOUNDS = ("input_features", "input_values")
_MASKS = ("input_features_mask", "padding_mask")
_TIMES = ("frames", "samples")


@dataclass(frozen=True)
class SoundInputs:
    """Recordings as a model takes them.

    Attributes:
        model: The model.
        name: What they are called.
        masks: What the masks of what is no padding are called.
        inputs: What the file takes: recordings, and the masks unless all of a recording is heard.
        unpadded: The masks that are no inputs, for one recording. Code that cuts recordings up by what their masks
            say has a file for recordings of one length, all of which is heard.
    """

    model: Model
    name: str
    masks: Sequence[str]
    inputs: ModelInputs
    unpadded: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def features(self, tensors: Tensors) -> torch.Tensor:
        """Rows of features of recordings, one after another."""
        return rows_of_features(sound_function(self.model)(**tensors, **self.unpadded, return_dict=True))


def sound_function(model: Model) -> Any:
    """What makes features of sound: a method of the model without its head, or of the model; None if there is none."""
    # Of the two the inner one says what it takes.
    return next((found for one in (model.base_model, model) if (found := getattr(one, _FEATURES, None))), None)


def find_sounds(model: Model) -> list[SoundInputs]:
    """How a model takes recordings: the layouts that its code runs with, those with most axes that vary first."""
    takes = inspect.signature(inspect.unwrap(sound_function(model))).parameters
    name = next((name for name in _SOUNDS if name in takes), None)
    masks = [name for name in _MASKS if name in takes]
    lacking = required_besides([known for known in ("self", name, *masks) if known is not None], takes)
    if name is None or lacking:
        raise InputError(
            f"{type(model).__name__}.{_FEATURES} takes {', '.join(lacking or takes)}, and the configuration doesn't "
            "say what that is. Export the encoder of sound with onnxport.export and inputs of your own."
        )

    def refusal(sounds: SoundInputs) -> Exception | None:
        return refusal_of(model, sounds.features, sounds.inputs)

    return list(those_taken(model, _candidates(model, name, masks), refusal, "sounds", "encoder of sound"))


def _candidates(model: Model, name: str, masks: Sequence[str]) -> Iterator[SoundInputs]:
    """Recordings in each layout with their masks, and one of a fixed length without."""
    draws = {name: draw_numbers(model), **dict.fromkeys(masks, draw_mask(model))}
    layouts = list(_layouts(model, name))
    for layout in layouts:
        beside = dict.fromkeys(masks, (layout[0], _time(layout)))
        yield SoundInputs(model, name, masks, ModelInputs({name: layout, **beside}, draws))
    for layout in layouts:
        if masks and all(isinstance(size, int) for size in layout):
            heard = torch.ones(1, int(_time(layout)), dtype=torch.int64)
            yield SoundInputs(model, name, masks, ModelInputs({name: layout}, draws), dict.fromkeys(masks, heard))


def _layouts(model: Model, name: str) -> Iterator[Layout]:
    """Several recordings at once and one, of any length and of one."""
    each = feature_layouts(model) if name == "input_features" else [("batch", "samples"), ("batch", 1, "samples")]
    for layout in each:
        yield (BATCH, *layout[1:])
    for layout in each:
        yield (1, *layout[1:])


def _time(layout: Layout) -> int | str:
    """The axis of time: one that varies, or the longest fixed one."""
    fixed = max((size for size in layout[1:] if isinstance(size, int)), default=0)
    return next((size for size in layout if size in _TIMES), fixed)
