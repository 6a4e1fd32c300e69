"""Models that answer about images: features of images, the embedding that takes them in, and the decoder, a file each.

``vision.onnx`` makes rows of features of images, ``embedding.onnx`` puts them in the places of the image tokens of a
prompt, and ``model.onnx`` generates as a language model does, but for the first call, which takes embeddings too.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial

import torch

from onnxport.errors import InputError
from onnxport.pretrained.image_text_check import check_image_text
from onnxport.pretrained.model_inputs import draw_numbers, draw_tokens, fixed_image_sizes, images_by_prompt, setting
from onnxport.pretrained.parts import Part, Sizes, Tensors
from onnxport.pretrained.tasks.task import Model, Task
from onnxport.pretrained.tasks.text_generation import EXAMPLE, OTHERS, Decoder

_ROWS = "image_tokens"


class EmbeddedDecoder(Decoder):
    """A decoder that takes embeddings in the place of tokens."""

    def inputs(self, sizes: Sizes) -> Tensors:
        found = super().inputs(sizes)
        shape = (*found.pop("input_ids").shape, self.model.get_input_embeddings().embedding_dim)
        return {"inputs_embeds": draw_numbers(self.model)(shape, torch.Generator().manual_seed(0)), **found}

    def axes(self) -> dict[str, Mapping[int, str]]:
        found = super().axes()
        return {"inputs_embeds": found.pop("input_ids"), **found}


def vision_part(model: Model) -> Part:
    """Images to rows of features; several at once, or one where the code goes through them one by one."""
    get = model.get_image_features
    # The library's own functions around it hide what it takes.
    takes = inspect.signature(inspect.unwrap(get)).parameters
    lacking = [
        name
        for name, parameter in takes.items()
        if name not in ("self", "pixel_values")
        and parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if lacking:
        raise InputError(
            f"{type(model).__name__}.get_image_features takes {', '.join(lacking)} besides pixel_values: sizes that "
            "are read from data, which the file can't vary. Export the vision encoder with onnxport.export and inputs "
            "of your own."
        )
    sizes = fixed_image_sizes(model)
    before = (1,) if images_by_prompt(model) else ()
    draw = draw_numbers(model)

    def features(tensors: Tensors) -> Tensors:
        result = get(tensors["pixel_values"], return_dict=True)
        found = getattr(result, "pooler_output", result)
        rows = torch.cat(list(found)) if isinstance(found, (list, tuple)) else found
        return {"image_features": rows.reshape(-1, rows.shape[-1])}

    def images(count: Sizes) -> Tensors:
        shape = (*before, count.get("images", 1), *sizes)
        return {"pixel_values": draw(shape, torch.Generator().manual_seed(0))}

    outputs = ("image_features",)
    one = Part("vision", model, features, images, {}, {}, (), outputs)
    several = {"images": 3}, ({"images": 2}, {"images": 1})
    return Part(
        "vision", model, features, images, {"pixel_values": {len(before): "images"}}, *several, outputs, lambda: one
    )


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
    if not hasattr(model, "get_image_features") or model.config.is_encoder_decoder:
        raise InputError(f"{type(model).__name__} has no image features to put in the places of tokens.")
    if "token_type_ids" in inspect.signature(model.forward).parameters:
        raise InputError(
            f"{type(model).__name__} attends both ways within an image, by token_type_ids in the first call only: one "
            "decoder can't serve that call and those after it. Export the parts with onnxport.export."
        )
    decoder = EmbeddedDecoder(model, last_logits=last_logits)
    text = Part("model", model, decoder.step, decoder.inputs, decoder.axes(), EXAMPLE, OTHERS)
    return [vision_part(model), embedding_part(model), text]


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
