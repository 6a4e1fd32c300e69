"""Models that answer about images: features of images, the embedding that takes them in, and the decoder, a file each.

``vision.onnx`` makes rows of features of images, ``embedding.onnx`` puts them in the places of the image tokens of a
prompt, and ``model.onnx`` generates as a language model does, but for the first call, which takes embeddings too. Those
that do more with images have a file for the first call and one for all after it (``prompted.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.errors import InputError, warn
from onnxport.pretrained.genai import image_genai_config
from onnxport.pretrained.image_text_check import check_image_text
from onnxport.pretrained.images import TYPES, ImageInputs, features_function, find_images, prompts_with_images
from onnxport.pretrained.library_loop import first_call
from onnxport.pretrained.parts import Part, Sizes, Tensors
from onnxport.pretrained.plain_generation import generate_plainly, tie_width
from onnxport.pretrained.prompts import find_prompts, takes_images
from onnxport.pretrained.states import PAST
from onnxport.pretrained.tasks.embedded import embedded_decoder_part, embedding_part
from onnxport.pretrained.tasks.prompted import PromptedModel
from onnxport.pretrained.tasks.task import Model, Task
from onnxport.pretrained.tasks.text_generation import decoder_part


def vision_part(images: ImageInputs) -> Part:
    """Images to rows of features; several at once, or one where the code goes through them one by one."""

    numbers = images.numbers(1)

    def features(tensors: Tensors) -> Tensors:
        return {"image_features": images.features(tensors["pixel_values"], numbers)}

    def made(count: Sizes) -> Tensors:
        return {"pixel_values": images.pixels(count.get("images", 1), torch.Generator().manual_seed(0))}

    outputs = ("image_features",)
    one = Part("vision", images.model, features, made, {}, {}, (), outputs, constants=tuple(numbers.values()))
    if images.stated:
        return one
    several = {"images": 3}, ({"images": 2}, {"images": 1})
    axes = {"pixel_values": {len(images.before): "images"}}
    return Part("vision", images.model, features, made, axes, *several, outputs, lambda: one)


def image_text_parts(model: Model, *, last_logits: bool = False) -> Sequence[Part]:
    """The three files, or two where features are not all that an image brings; one where the model takes no images."""
    if model.config.is_encoder_decoder:
        raise InputError(f"{type(model).__name__} has an encoder and a decoder, which are another task's files.")
    if not takes_images(model):
        return decoder_part(model, last_logits=last_logits)
    if features_function(model) is not None:
        with contextlib.suppress(InputError):
            images = find_images(model)
            text = embedded_decoder_part(model, prompts_with_images(images, 1)[1], last_logits=last_logits)
            parts = [vision_part(images), embedding_part(model, "image", has_types="token_types" in text.axes), text]
            if answers_alike(images, parts):
                _warn_of_sizes(images, "vision.onnx")
                return parts
    prompts = find_prompts(model)
    if prompts.images is not None:
        _warn_of_sizes(prompts.images, "prompt.onnx")
    return PromptedModel(prompts, last_logits=last_logits).parts()


def _warn_of_sizes(images: ImageInputs, file: str) -> None:
    if images.stated:
        said = ", ".join(f"{name} {rows[0].tolist()}" for name, rows in images.numbers(1).items())
        warn(f"{file} takes one image at a time and of one size ({said}): the code reads sizes from data.")


def answers_alike(images: ImageInputs, parts: Sequence[Part]) -> bool:
    """Whether the three parts, one after another, give the logits that the model itself gives after a prompt."""
    model, (vision, embedding, text) = images.model, parts
    _, given = prompts_with_images(images, 1)
    try:
        with attributes_preserved(model), first_call(model) as call:
            expected = generate_plainly(model, given, max_new_tokens=1).logits[0]
        with torch.no_grad(), attributes_preserved(model):
            features = vision.forward({"pixel_values": given["pixel_values"]})
            embedded = embedding.forward({"input_ids": given["input_ids"], **features})
            tensors = text.inputs({"batch": 1, "sequence": given["input_ids"].shape[1], "past": 0})
            # Nothing was seen: states of a fixed size, of convolutions and recurrences, begin with zeros.
            tensors |= {name: state.zero_() for name, state in tensors.items() if name.startswith(PAST)}
            stated = {name: given[name] for name in TYPES if name in given}
            positions = call.get("position_ids")
            if positions is not None and positions.dim() > 2:
                stated["position_ids"] = positions[-len(tensors["position_ids"]) :]
            found = text.forward({**tensors, **{name: stated[name] for name in stated if name in tensors}, **embedded})
    except Exception:  # noqa: BLE001 - a model says in its own way that it can't go on from embeddings alone
        return False
    logits = found["logits"][:, -1]
    return bool((logits - expected).abs().max() <= tie_width(model) * expected.abs().max())


IMAGE_TEXT = Task(
    "image-text-to-text",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING",
    image_text_parts,
    (
        "import onnxport.generation",
        "",
        "session = onnxport.generation.Session(folder)",
        "# prompts: tokens with those of images in their places; inputs: tensors by name, as the processor makes them",
        "print(session.generate(prompts, max_new_tokens=40, inputs=inputs))",
    ),
    check_image_text,
    image_genai_config,
    last_logits=partial(image_text_parts, last_logits=True),
    encoder_decoder=False,
)
