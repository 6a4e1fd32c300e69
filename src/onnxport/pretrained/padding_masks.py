"""Masks of what is padding in recordings and rows of patches: whether what a model makes of them follows from one."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.pretrained.model_inputs import Layout, Model, ModelInputs, draw_mask, setting
from onnxport.pretrained.parts import Tensors

MASK = "attention_mask"
_TIMES = ("frames", "samples", "patches")


def padding_mask(model: Model, inputs: ModelInputs) -> Layout | None:
    """The layout of a mask that a model takes beside its inputs, and that its result follows from; None for none."""
    if MASK in inputs.layouts or MASK not in inspect.signature(model.forward).parameters:
        return None
    sizes = {size for layout in inputs.layouts.values() for size in layout}
    time = next((name for name in _TIMES if name in sizes), None)
    if time is None:
        return None
    example, _ = inputs.sizes()
    given, whole = inputs.made(example), torch.ones(example["batch"], example[time], dtype=torch.int64)
    part = whole.clone()
    part[:, example[time] // 2 :] = 0
    follows = _differ(model, {**given, MASK: whole}, {**given, MASK: part})
    return ("batch", time) if follows else None


def with_masks(model: Model, found: Sequence[ModelInputs]) -> list[ModelInputs]:
    """Each of the inputs with the mask that goes with it, where there is one, and without.

    Models of samples whose convolutions are normed over a recording (``"group"``) are given none, as transformers says.
    """
    if setting(model.config, "feat_extract_norm") == "group":
        return list(found)
    both = []
    for inputs in found:
        mask = padding_mask(model, inputs)
        if mask is not None:
            layouts, draws = {**inputs.layouts, MASK: mask}, {**inputs.draws, MASK: draw_mask(model)}
            both.append(replace(inputs, layouts=layouts, draws=draws))
        both.append(inputs)
    return both


def _differ(model: Model, one: Tensors, other: Tensors) -> bool:
    """Whether results differ; a model that raises takes no such mask."""
    try:
        with torch.no_grad(), attributes_preserved(model):
            first, second = (model(**given, return_dict=True)[0] for given in (one, other))
    except Exception:  # noqa: BLE001 - a model says in its own way that it takes none, and is given none then
        return False
    return not torch.equal(first, second)
