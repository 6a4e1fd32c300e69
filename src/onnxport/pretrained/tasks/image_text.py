"""Models that answer about images: features of images, the embedding that takes them in, and the decoder, a file each.

``vision.onnx`` makes rows of features of images, ``embedding.onnx`` puts them in the places of the image tokens of a
prompt, and ``model.onnx`` generates as a language model does, but for the first call, which takes embeddings too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from onnxport.errors import InputError, warn
from onnxport.pretrained.image_text_check import check_image_text
from onnxport.pretrained.images import ImageInputs, features_function, find_images
from onnxport.pretrained.library_loop import counted_positions, generated_type
from onnxport.pretrained.model_inputs import draw_numbers, draw_tokens, setting
from onnxport.pretrained.parts import Part, Sizes, Tensors
from onnxport.pretrained.tasks.task import Model, Task
from onnxport.pretrained.tasks.text_generation import EXAMPLE, OTHERS, Decoder
from onnxport.provenance import GENERATED_TYPE

_ROWS = "image_tokens"


class EmbeddedDecoder(Decoder):
    """A decoder that takes embeddings in the place of tokens, and positions as the library's loop counts them."""

    def __init__(self, model: Model, *, last_logits: bool = False) -> None:
        super().__init__(model, last_logits=last_logits)
        self.positions = counted_positions(model)
        self.has_types = "token_type_ids" in self.takes

    def inputs(self, sizes: Sizes) -> Tensors:
        """Embeddings, mask, positions and types behind a past of random content."""
        found = super().inputs(sizes)
        tokens = found.pop("input_ids")
        shape = (*tokens.shape, self.model.get_input_embeddings().embedding_dim)
        if self.positions.rows and "position_ids" in found:
            found["position_ids"] = found["position_ids"].repeat(self.positions.rows, 1, 1)
        if self.has_types:
            found["token_type_ids"] = found["attention_mask"] * 0
            found["token_type_ids"][:, 1 : 1 + shape[1] // 2] = 1
        return {"inputs_embeds": draw_numbers(self.model)(shape, torch.Generator().manual_seed(0)), **found}

    def axes(self) -> dict[str, Mapping[int, str]]:
        """The axes that vary, by input."""
        found = super().axes()
        if self.positions.rows:
            found["position_ids"] = {axis + 1: name for axis, name in found["position_ids"].items()}
        return {"inputs_embeds": found.pop("input_ids"), "token_type_ids": found["attention_mask"], **found}

    def given(self, tensors: Tensors) -> dict[str, Any]:
        """What forward is called with. Types of tokens say who sees whom: they become a mask, in every call."""
        given = super().given(tensors)
        if self.positions.offset and "position_ids" in given:
            given["position_ids"] = given["position_ids"] + self.positions.offset
        if self.has_types:
            assert self.cache is not None
            given["attention_mask"] = self.model.create_masks_for_generate(
                config=self.model.config,
                inputs_embeds=given["inputs_embeds"],
                attention_mask=given["attention_mask"],
                past_key_values=given.get(self.cache),
                position_ids=given.get("position_ids"),
                token_type_ids=given.pop("token_type_ids"),
                is_first_iteration=True,
            )
        return given


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


def embedding_part(model: Model) -> Part:
    """Tokens to embeddings, with rows of features in the places of image tokens."""
    token = setting(model.config, "image_token_id", "image_token_index")
    if token is None:
        raise InputError(f"The configuration of {type(model).__name__} doesn't say which token stands for an image.")
    embedding = model.get_input_embeddings()
    words, numbers = draw_tokens(model), draw_numbers(model)

    def embed(tensors: Tensors) -> Tensors:
        tokens = tensors["input_ids"]
        # Without images, as after the first call, the token is one like all others. Their number is a sum, since torch
        # takes a size of an input for one that is not 0.
        is_image = (tokens == token) & (torch.ones_like(tensors["image_features"][:, 0]).sum() > 0)
        # The image token may be beyond the vocabulary, and what it would be is overwritten.
        embedded = embedding(torch.where(is_image, torch.zeros_like(tokens), tokens))
        rows = tensors["image_features"].to(embedded.dtype)
        return {"inputs_embeds": embedded.masked_scatter(is_image.unsqueeze(-1).expand_as(embedded), rows)}

    def made(sizes: Sizes) -> Tensors:
        generator = torch.Generator().manual_seed(0)
        tokens = words((sizes["batch"], sizes["sequence"]), generator)
        tokens.view(-1)[: sizes[_ROWS]] = token
        return {
            "input_ids": tokens,
            "image_features": numbers((sizes[_ROWS], embedding.embedding_dim), generator),
        }

    axes = {"input_ids": {0: "batch", 1: "sequence"}, "image_features": {0: _ROWS}}
    others = ({"batch": 3, "sequence": 4, _ROWS: 0}, {"batch": 1, "sequence": 7, _ROWS: 7})
    return Part("embedding", model, embed, made, axes, {"batch": 2, "sequence": 5, _ROWS: 6}, others)


def image_text_parts(model: Model, *, last_logits: bool = False) -> Sequence[Part]:
    """The three files."""
    if features_function(model) is None or model.config.is_encoder_decoder:
        raise InputError(f"{type(model).__name__} has no image features to put in the places of tokens.")
    decoder = EmbeddedDecoder(model, last_logits=last_logits)
    metadata = {}
    if decoder.has_types and (kind := generated_type(model)) is not None:
        metadata[GENERATED_TYPE] = str(kind)
    outputs = ("logits", *decoder.states.output_names)
    text = Part(
        "model", model, decoder.step, decoder.inputs, decoder.axes(), EXAMPLE, OTHERS, outputs, metadata=metadata
    )
    images = find_images(model)
    if images.stated:
        said = ", ".join(f"{name} {list(row)}" for name, row in images.stated)
        warn(f"vision.onnx takes one image at a time and of one size ({said}): the code reads sizes from data.")
    return [vision_part(images), embedding_part(model), text]


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
