"""Language models that read features of images or sound in the places of a token: their embedding and decoder."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.pretrained.library_loop import counted_positions, prompt_types, types_tell_prompts
from onnxport.pretrained.model_inputs import (
    draw_numbers,
    draw_tokens,
    placeholder,
    required_besides,
    setting,
)
from onnxport.pretrained.parts import Part, Sizes, Tensors
from onnxport.pretrained.tasks.task import Model
from onnxport.pretrained.tasks.text_generation import EXAMPLE, Decoder

_TYPES = "token_types"
"""The types of new tokens: ``token_type_ids`` with an axis behind them, as onnxruntime-genai hands on per token."""


class EmbeddedDecoder(Decoder):
    """A decoder that takes embeddings in the place of tokens, and positions as the library's loop counts them."""

    def __init__(self, model: Model, prompt: Tensors | None, *, last_logits: bool = False) -> None:
        super().__init__(model, last_logits=last_logits)
        self.positions = counted_positions(model, prompt)
        self.has_types = "token_type_ids" in self.takes

    def inputs(self, sizes: Sizes) -> Tensors:
        """Embeddings, mask, positions and types behind a past of random content."""
        found = super().inputs(sizes)
        tokens = found.pop("input_ids")
        shape = (*tokens.shape, self.model.get_input_embeddings().embedding_dim)
        if self.positions.rows and "position_ids" in found:
            found["position_ids"] = found["position_ids"].repeat(self.positions.rows, 1, 1)
        if self.has_types:
            found[_TYPES] = torch.zeros(*tokens.shape, 1, dtype=torch.int64)
            found[_TYPES][:, 1 : 1 + shape[1] // 2] = 1
        return {"inputs_embeds": draw_numbers(self.model)(shape, torch.Generator().manual_seed(0)), **found}

    def axes(self) -> dict[str, Mapping[int, str]]:
        """The axes that vary, by input."""
        found = super().axes()
        if self.positions.rows:
            found["position_ids"] = {axis + 1: name for axis, name in found["position_ids"].items()}
        new = found.pop("input_ids")
        return {"inputs_embeds": new, **({_TYPES: new} if self.has_types else {}), **found}

    def given(self, tensors: Tensors) -> dict[str, Any]:
        """What forward is called with. Types of tokens say who sees whom: they become a mask, in every call."""
        given = super().given(tensors)
        if self.positions.offset and "position_ids" in given:
            given["position_ids"] = given["position_ids"] + self.positions.offset
        if self.has_types:
            assert self.cache is not None
            # What came before is seen by all that is new.
            new, mask = tensors[_TYPES][..., 0], given["attention_mask"]
            before = torch.zeros_like(mask[:, : mask.shape[1] - new.shape[1]])
            given["attention_mask"] = self.model.create_masks_for_generate(
                config=self.model.config,
                inputs_embeds=given["inputs_embeds"],
                attention_mask=mask,
                past_key_values=given.get(self.cache),
                position_ids=given.get("position_ids"),
                token_type_ids=torch.cat([before, new], dim=1),
                is_first_iteration=True,
            )
        return given


def embedding_part(model: Model, kind: str, *, has_types: bool = False) -> Part:
    """Tokens to embeddings, with rows of features of a kind (image, audio) in the places of its token, and types."""
    token, features, count = placeholder(model, kind), f"{kind}_features", f"{kind}_tokens"
    embedding = model.get_input_embeddings()
    words, numbers = draw_tokens(model), draw_numbers(model)
    ignored = _read_as_zero(model)
    tells_prompts = has_types and types_tell_prompts(_generating(model))

    def embed(tensors: Tensors) -> Tensors:
        tokens = tensors["input_ids"]
        # Without any, as after the first call, the token is one like all others. Their number is a sum, since torch
        # takes a size of an input for one that is not 0.
        is_feature = (tokens == token) & (torch.ones_like(tensors[features][:, 0]).sum() > 0)
        # The token may be beyond the vocabulary, and what it would be is overwritten.
        is_zero = is_feature
        for other in ignored:
            is_zero = is_zero | (tokens == other)
        embedded = embedding(torch.where(is_zero, torch.zeros_like(tokens), tokens))
        rows = tensors[features].to(embedded.dtype)
        merged = embedded.masked_scatter(is_feature.unsqueeze(-1).expand_as(embedded), rows)
        types = {_TYPES: prompt_types(tells_prompts, tokens == token).unsqueeze(-1)} if has_types else {}
        return {"inputs_embeds": merged, **types}

    def made(sizes: Sizes) -> Tensors:
        generator = torch.Generator().manual_seed(0)
        tokens = words((sizes["batch"], sizes["sequence"]), generator)
        tokens.view(-1)[: sizes[count]] = token
        return {
            "input_ids": tokens,
            features: numbers((sizes[count], embedding.embedding_dim), generator),
        }

    axes = {"input_ids": {0: "batch", 1: "sequence"}, features: {0: count}}
    others = ({"batch": 3, "sequence": 4, count: 0}, {"batch": 1, "sequence": 7, count: 7})
    return Part("embedding", model, embed, made, axes, {"batch": 2, "sequence": 5, count: 6}, others)


def _read_as_zero(model: Model) -> list[int]:
    """Tokens that stand for images, films or sound, and that the model takes for the token 0 where there are none."""

    def read(token: int) -> torch.Tensor | None:
        tokens = torch.tensor([[5, token]])
        try:
            with torch.no_grad(), attributes_preserved(model):
                return model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits  # type: ignore[no-any-return]
        except Exception:  # noqa: BLE001 - a model says in its own way that such a token comes with what it stands for
            return None

    named = (setting(model.config, f"{kind}_token_id", f"{kind}_token_index") for kind in ("image", "video", "audio"))
    zero, tokens = read(0), {token for token in named if isinstance(token, int)}
    if zero is None:
        return []
    return sorted(token for token in tokens if (found := read(token)) is not None and torch.equal(found, zero))


def embedded_decoder_part(model: Model, prompt: Tensors | None = None, *, last_logits: bool) -> Part:
    """The decoder behind the embedding; a prompt with features shows how its positions are counted."""
    decoder = EmbeddedDecoder(_generating(model), prompt, last_logits=last_logits)
    outputs = ("logits", *decoder.states.output_names)
    return Part(
        "model",
        model,
        decoder.step,
        decoder.inputs,
        decoder.axes(),
        EXAMPLE,
        decoder.others,
        outputs,
        metadata=decoder.metadata,
    )


def _generating(model: Model) -> Model:
    """The model that the library's loop calls: one inside it where its own forward asks for images in every call."""
    inner = getattr(model, "language_model", None)
    is_whole = inner is not None and required_besides((), inspect.signature(model.forward).parameters)
    return inner if is_whole else model
