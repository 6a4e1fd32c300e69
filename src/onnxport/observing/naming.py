"""Names of inputs, outputs and axes, as runtimes of language models and people expect them.

``past_key_values.0.key`` goes in and ``present.0.key`` comes out; the axes are ``batch``, ``sequence``, ``past`` and
``past + sequence``. What has no such name keeps its own: that of the parameter, or of the field that a model returns.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from onnxport.capture.request.input_names import NamedLeaf, named_leaves
from onnxport.capture.request.trees import branch
from onnxport.observing.growth import Lengths

_NEW = ("decoder_input_ids", "decoder_inputs_embeds", "input_ids", "inputs_embeds")
"""Inputs over the new positions, the surest first."""

_ENCODED = ("encoder_outputs", "encoder_hidden_states")
_IMAGES = ("pixel_values",)
_ABOUT_TEXT = ("_ids", "_mask", "_embeds", *_ENCODED)


def output_names(result: object) -> list[str] | None:
    """Names for the tensors that a model returned in fields; None where it names nothing."""
    here = branch(result)
    if here is None or not here.by_name:
        return None
    found = []
    for step, child in zip(here.steps, here.children, strict=True):
        for entry in named_leaves(child, str(step)):
            if entry.leaf.value is None:
                continue
            if not isinstance(entry.leaf.value, torch.Tensor):
                return None
            name = entry.name if entry.state is None else f"present.{entry.name.partition('.')[2]}"
            found.append(name if entry.state is not None else ".".join(map(str, entry.leaf.steps)))
    return found


def axis_names(inputs: list[NamedLeaf], sizes: Mapping[str, Mapping[int, Lengths]]) -> dict[str, dict[int, str]]:
    """Names for axes that vary, of each input by its path; ``sizes`` are those that the axes had in all calls.

    Axes get one name only where they mean the same thing: of tensors about text and of caches. Two axes of images
    that were as long as each other in every call need not be so in the next.
    """
    lengths = _lengths(inputs, sizes)
    found: dict[str, dict[int, str]] = {}
    for entry in inputs:
        of_axes = sizes.get(entry.leaf.path, {})
        named = {axis: _axis_name(entry, axis, vector, lengths) for axis, vector in of_axes.items()}
        found[entry.leaf.path] = {axis: name for axis, name in named.items() if name is not None}
    return found


def _lengths(inputs: list[NamedLeaf], sizes: Mapping[str, Mapping[int, Lengths]]) -> dict[str, Lengths]:
    """The sizes that stand for each name."""
    found: dict[str, Lengths] = {}
    parameters = {str(entry.leaf.steps[0]): sizes.get(entry.leaf.path, {}) for entry in inputs if entry.state is None}
    new = [name for name in _NEW if name in parameters]
    encoded = [name for name in (*_ENCODED, *(new[1:] if "input_ids" in new[1:] else ())) if name in parameters]
    for name, holders in (("sequence", new[:1]), ("encoder_sequence", encoded[:1])):
        for holder in holders:
            if 1 in parameters[holder]:
                found[name] = parameters[holder][1]
    for entry in inputs:
        axis = None if entry.state is None else entry.state.growing_axis
        if entry.state is not None and axis is not None and axis in sizes.get(entry.leaf.path, {}):
            name = "encoder_sequence" if entry.side == "encoder" else "past" if entry.state.window is None else "window"
            found.setdefault(name, sizes[entry.leaf.path][axis])
    if "window" in found and "past" not in found:
        found["past"] = found.pop("window")
    if "past" in found and "sequence" in found:
        found["past + sequence"] = tuple(sum(pair) for pair in zip(found["past"], found["sequence"], strict=True))
    first = [name for name, of_axes in parameters.items() if 0 in of_axes]
    of_text = [name for name in first if _is_about_text(name)]
    if of_text or len(first) == 1:
        found["batch"] = parameters[(of_text or first)[0]][0]
    return found


def _axis_name(entry: NamedLeaf, axis: int, vector: Lengths, lengths: Mapping[str, Lengths]) -> str | None:
    parameter = str(entry.leaf.steps[0])
    if axis == 0 and lengths.get("batch") == vector:
        return "batch" if entry.state is not None or _is_about_text(parameter) or "sequence" not in lengths else None
    if parameter in _IMAGES and entry.leaf.value.dim() == 4 and axis in (2, 3):
        return "height" if axis == 2 else "width"
    if entry.state is None and not _is_about_text(parameter):
        return None
    wanted: tuple[str, ...] = ("sequence", "past + sequence", "encoder_sequence")
    if entry.state is not None:
        wanted = ("encoder_sequence",) if entry.side == "encoder" else ("past", "window")
    return next((name for name in wanted if axis > 0 and lengths.get(name) == vector), None)


def _is_about_text(parameter: str) -> bool:
    return parameter.endswith(_ABOUT_TEXT)
