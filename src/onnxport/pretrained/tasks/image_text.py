"""Models that answer about images: features of images, the embedding that takes them in, and the decoder, a file each.

``vision.onnx`` makes rows of features of images, ``embedding.onnx`` puts them in the places of the image tokens of a
prompt, and ``model.onnx`` generates as a language model does, but for the first call, which takes embeddings too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from onnxport.errors import InputError, warn
from onnxport.pretrained.image_text_check import check_image_text
from onnxport.pretrained.images import ImageInputs, features_function, find_images, prompts_with_images
from onnxport.pretrained.parts import Part, Sizes, Tensors
from onnxport.pretrained.tasks.embedded import embedded_decoder_part, embedding_part
from onnxport.pretrained.tasks.task import Model, Task


def vision_part(images: ImageInputs) -> Part:
    """Images to rows of features; several at once, or one where the code goes through them one by one."""

    numbers = images.numbers(1)

    def features(tensors: Tensors) -> Tensors:
        return {"image_features": images.features(tensors["pixel_values"], numbers)}

    def made(count: Sizes) -> Tensors:
        return {"pixel_values": images.pixels(count.get("images", 1), torch.Generator().manual_seed(0))}

    outputs = ("image_features",)
    one = Part("vision", images.model, features, made, {}, {}, (), outputs)
    if images.stated:
        return one
    several = {"images": 3}, ({"images": 2}, {"images": 1})
    axes = {"pixel_values": {len(images.before): "images"}}
    return Part("vision", images.model, features, made, axes, *several, outputs, lambda: one)


def image_text_parts(model: Model, *, last_logits: bool = False) -> Sequence[Part]:
    """The three files."""
    if features_function(model) is None or model.config.is_encoder_decoder:
        raise InputError(f"{type(model).__name__} has no image features to put in the places of tokens.")
    images = find_images(model)
    text = embedded_decoder_part(model, prompts_with_images(images, 1)[1], last_logits=last_logits)
    if images.stated:
        said = ", ".join(f"{name} {rows[0].tolist()}" for name, rows in images.numbers(1).items())
        warn(f"vision.onnx takes one image at a time and of one size ({said}): the code reads sizes from data.")
    return [vision_part(images), embedding_part(model, "image"), text]


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
    last_logits=partial(image_text_parts, last_logits=True),
)
