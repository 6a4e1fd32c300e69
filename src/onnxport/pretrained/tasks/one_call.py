"""Tasks that take one call: encoders, classifiers, detectors. One file computes all fields that the model returns."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from functools import partial

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.errors import InputError, warn, with_article
from onnxport.pretrained.model_inputs import ModelInputs, find_inputs, main_input
from onnxport.pretrained.padding_masks import with_masks
from onnxport.pretrained.parts import Part, Tensors
from onnxport.pretrained.tasks.task import Model, Task


def one_call_parts(model: Model, principal: Sequence[str] = (), leading: Sequence[str] = ()) -> Sequence[Part]:
    """The whole model as one file; its inputs are those that the task is about, or the model's main one."""
    takes = inspect.signature(model.forward).parameters
    # What takes films calls them by a name of their own.
    films = {name: f"{name}_videos" for name in principal if name not in takes}
    chosen = tuple(films[name] if films.get(name) in takes else name for name in principal) or (main_input(model),)
    if _DECODED in takes and model.config.is_encoder_decoder:
        chosen = (*chosen, _DECODED)
    forward = model.forward
    settings = {name: value for name, value in (("return_dict", True), ("use_cache", False)) if name in takes}

    layouts = _layouts(model, chosen, () if principal else _BESIDE, leading)
    if stated := layouts[0].stated:
        rows, columns = stated["spatial_shapes"][0].tolist()
        warn(f"model.onnx takes one image of {rows} x {columns} patches at a time: the code reads sizes from data.")

    def part(index: int) -> Part | None:
        if index == len(layouts):
            return None
        inputs = layouts[index]

        def call(tensors: Tensors) -> Tensors:
            return output_tensors(forward(**tensors, **inputs.stated, **settings))

        example, others = inputs.sizes()
        with torch.no_grad(), attributes_preserved(model):
            outputs = tuple(call(inputs.made(example)))
        axes, said = inputs.axes(), tuple(inputs.stated.values())
        narrower = partial(part, index + 1)
        return Part("model", model, call, inputs.made, axes, example, others, outputs, narrower, constants=said)

    widest = part(0)
    assert widest is not None
    return [widest]


def _layouts(model: Model, chosen: tuple[str, ...], beside: Sequence[str], leading: Sequence[str]) -> list[ModelInputs]:
    """The inputs of a model: with all that may stand beside its main one, where it takes that, and then without.

    Classifiers with a decoder give it the text that the encoder has, and take no other.
    """
    takes = inspect.signature(model.forward).parameters
    more = (name for name in beside if name in takes and name not in chosen)
    found: list[ModelInputs] = []
    for names in dict.fromkeys(((*chosen, *more), chosen)):
        with contextlib.suppress(InputError):
            found += find_inputs(model, names, leading)
    found = found or find_inputs(model, tuple(name for name in chosen if name != _DECODED), leading)
    return with_masks(model, found)


def output_tensors(result: object) -> Tensors:
    """The tensors in the fields of what a model returned: by field, and by number within one that holds several."""
    if not isinstance(result, Mapping):
        raise InputError(
            f"The model returns {with_article(type(result).__name__)}, which names nothing that could be an output."
        )
    found: Tensors = {}
    for name, value in result.items():
        if isinstance(value, torch.Tensor):
            found[name] = value
        elif isinstance(value, (tuple, list)):
            found |= {f"{name}.{i}": entry for i, entry in enumerate(value) if isinstance(entry, torch.Tensor)}
    return found


_DECODED = "decoder_input_ids"
_BESIDE = ("input_ids", "pixel_values", "input_features", "input_values", "input_points")
"""What models take together: texts beside images or sound, places in images."""

_READ = (
    "import numpy, onnxruntime",
    "",
    'session = onnxruntime.InferenceSession(f"{folder}/model.onnx")',
    "print([(value.name, value.shape) for value in session.get_inputs()])",
    "outputs = session.run(None, inputs)  # inputs: arrays by name, as the processor of the model makes them",
)

_ROWS: Sequence[tuple[str, str | None, Sequence[str], Sequence[str]]] = (
    ("fill-mask", "MASKED_LM", (), ()),
    ("text-classification", "SEQUENCE_CLASSIFICATION", (), ()),
    ("token-classification", "TOKEN_CLASSIFICATION", (), ()),
    ("question-answering", "QUESTION_ANSWERING", (), ()),
    ("multiple-choice", "MULTIPLE_CHOICE", (), ("choices",)),
    ("image-classification", "IMAGE_CLASSIFICATION", (), ()),
    ("image-segmentation", "SEMANTIC_SEGMENTATION", (), ()),
    ("universal-segmentation", "UNIVERSAL_SEGMENTATION", (), ()),
    ("object-detection", "OBJECT_DETECTION", (), ()),
    ("depth-estimation", "DEPTH_ESTIMATION", (), ()),
    ("audio-classification", "AUDIO_CLASSIFICATION", (), ()),
    ("ctc", "CTC", (), ()),
    ("zero-shot-image-classification", "ZERO_SHOT_IMAGE_CLASSIFICATION", ("input_ids", "pixel_values"), ()),
    ("feature-extraction", None, (), ()),
)

#: What each is called, the library's table for it, its inputs where they are not the model's main one, and axes that
#: stand between the batch and the others.
ONE_CALL: tuple[Task, ...] = tuple(
    Task(
        name,
        "MODEL_MAPPING" if table is None else f"MODEL_FOR_{table}_MAPPING",
        partial(one_call_parts, principal=principal, leading=leading),
        _READ,
    )
    for name, table, principal, leading in _ROWS
)
