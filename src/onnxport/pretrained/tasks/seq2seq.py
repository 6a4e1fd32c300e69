"""Encoder-decoders that generate: the encoder runs once, the decoder for each token.

The encoder's file returns, besides its hidden states, the keys and values that each layer of the decoder computes of
them for its cross-attention. So the decoder's file reads them like any other state, has no weights to compute them, and
serves the first token, with an empty past, as it does all others.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.errors import InputError, warn
from onnxport.pretrained.genai import speech_genai_config
from onnxport.pretrained.library import transformers
from onnxport.pretrained.model_inputs import Layout, ModelInputs, draw_mask, find_inputs, main_input
from onnxport.pretrained.padding_masks import MASK, padding_mask
from onnxport.pretrained.parts import Part, Sizes, Tensors
from onnxport.pretrained.seq2seq_check import check_seq2seq
from onnxport.pretrained.tasks.task import Model, Task
from onnxport.provenance import HEARD_WHOLE

Cache: TypeAlias = Any

_BATCH, _NEW, _PAST, _ENCODED = "batch", "sequence", "past", "encoder_sequence"
_KINDS = ("key", "value")
_EXAMPLE = {_BATCH: 2, _NEW: 4, _PAST: 3, _ENCODED: 6}
_OTHERS = (
    {_BATCH: 3, _NEW: 1, _PAST: 0, _ENCODED: 9},
    {_BATCH: 1, _NEW: 1, _PAST: 8, _ENCODED: 5},
)


class EncoderDecoder:
    """A model of an encoder and a decoder, as its forward and one run of it show it."""

    def __init__(self, model: Model, *, last_logits: bool = False) -> None:
        self.model = model
        self.last_logits = last_logits
        self.forward = model.forward
        self.encoder = model.get_encoder()
        self.takes = inspect.signature(model.forward).parameters
        inputs = find_inputs(model, (main_input(model), "decoder_input_ids"))[0]
        layouts = {name: layout for name, layout in inputs.layouts.items() if name != "decoder_input_ids"}
        self.tokens, mask = inputs.draws["decoder_input_ids"], padding_mask(model, inputs)
        encoded, draws = {"sequence"}, inputs.draws
        if mask is not None and self._keeps_length(ModelInputs(layouts, draws), mask):
            encoded, layouts, draws = (
                {*encoded, str(mask[-1])},
                {**layouts, MASK: mask},
                {**draws, MASK: draw_mask(model)},
            )
        # A mask that the decoder would need at another length than what was encoded has no place in its file.
        self.heard_whole = mask is not None and MASK not in layouts
        self.inputs = ModelInputs(
            {name: tuple(_ENCODED if size in encoded else size for size in layout) for name, layout in layouts.items()},
            draws,
        )
        with torch.no_grad(), attributes_preserved(model):
            given = self.inputs.made(self._encoder_sizes[0])
            encoded = self.encoder(**given, return_dict=True)
            # Some encoders return more than hidden states, and the model asks for it by name.
            self.result_kind = type(encoded)
            self.hands_mask_on = _is_same(getattr(encoded, "attention_mask", None), given.get("attention_mask"))
            hidden = encoded.last_hidden_state
            cache = self._decode(hidden, given.get("attention_mask"), torch.zeros(len(hidden), 1, dtype=torch.int64))
        self.width = hidden.shape[2]
        self.encoded = hidden.shape[1]
        self.layers = [(layer.keys.shape, layer.values.shape) for layer in cache.self_attention_cache.layers]
        self.cross = [(layer.keys.shape, layer.values.shape) for layer in cache.cross_attention_cache.layers]
        if not self.cross:
            raise InputError(
                f"{type(model).__name__} keeps no keys and values of its cross-attention from call to call, so that "
                "there are none to hand to its decoder."
            )
        self.refusal = self._refusal_of_several()

    def _keeps_length(self, inputs: ModelInputs, mask: Layout) -> bool:
        """Whether what the encoder returns is as long as a mask of what it reads."""
        example, (other, *_) = inputs.sizes()
        with torch.no_grad(), attributes_preserved(self.model):
            lengths = [self._hidden(inputs.made(sizes)).shape[1] for sizes in (example, other)]
        return lengths == [sizes[str(mask[-1])] for sizes in (example, other)]

    def _refusal_of_several(self) -> Exception | None:
        """What the decoder raises for several tokens behind others; None where it takes them."""
        try:
            with torch.no_grad(), attributes_preserved(self.model):
                self.step(self.step_inputs(_pick(_EXAMPLE, self._names)))
        except Exception as error:  # noqa: BLE001 - a model says in its own way that it takes one at a time
            return error
        return None

    @property
    def _names(self) -> set[str]:
        """The axes of the decoder's inputs."""
        return {_BATCH, _NEW, _PAST} if self._is_fixed else set(_EXAMPLE)

    @property
    def _encoder_sizes(self) -> tuple[Sizes, Sequence[Sizes]]:
        names = {size for layout in self.inputs.layouts.values() for size in layout if isinstance(size, str)}
        known, (other, *_) = ModelInputs({"x": tuple(names - {_ENCODED})}, {}).sizes()
        return {**known, **_pick(_EXAMPLE, names)}, ({**other, **_pick(_OTHERS[0], names)},)

    def _hidden(self, tensors: Tensors) -> torch.Tensor:
        return self.encoder(**tensors, return_dict=True).last_hidden_state  # type: ignore[no-any-return]

    def _decode(self, hidden: torch.Tensor, mask: torch.Tensor | None, tokens: torch.Tensor) -> Cache:
        """One call of the decoder over hidden states, and the cache that it fills."""
        library = transformers()
        caches = [library.DynamicCache(), library.DynamicCache()]
        return self._run(hidden, mask, tokens, library.EncoderDecoderCache(*caches)).past_key_values

    def _run(self, hidden: torch.Tensor, mask: torch.Tensor | None, tokens: torch.Tensor, cache: Cache) -> Any:
        # Some decoders take the mask of what was encoded from there.
        masked = {"attention_mask": mask} if self.hands_mask_on else {}
        given = {
            "encoder_outputs": self.result_kind(last_hidden_state=hidden, **masked),
            "attention_mask": mask,
            "decoder_input_ids": tokens,
            "past_key_values": cache,
            "use_cache": True,
            "return_dict": True,
        }
        result = self.forward(**{name: value for name, value in given.items() if name in self.takes})
        if type(result.past_key_values).__name__ != "EncoderDecoderCache":
            raise InputError(
                f"{type(self.model).__name__} keeps {type(result.past_key_values).__name__} from call to call, not an "
                "EncoderDecoderCache, so that there are no keys and values to hand to its decoder."
            )
        return result

    def encode(self, tensors: Tensors) -> Tensors:
        """Hidden states, and the keys and values of the decoder's cross-attention; the rest of it leaves no node."""
        hidden = self._hidden(tensors)
        start = torch.zeros(hidden.shape[0], 1, dtype=torch.int64, device=hidden.device)
        cache = self._decode(hidden, tensors.get("attention_mask"), start)
        found = {"encoder_hidden_states": hidden}
        for index, layer in enumerate(cache.cross_attention_cache.layers):
            found |= {f"present.{index}.encoder.key": layer.keys, f"present.{index}.encoder.value": layer.values}
        return found

    def step(self, tensors: Tensors) -> Tensors:
        """One call of the decoder: logits of the new positions, or of the last, and the states to go on with."""
        cache = self._cache(tensors)
        keys = tensors["past_key_values.0.encoder.key"]
        # What stands in for the hidden states is asked for its shape only: their keys and values are in the cache.
        hidden = keys.new_zeros(keys.shape[0], keys.shape[2], self.width)
        result = self._run(hidden, tensors.get("encoder_attention_mask"), tensors["decoder_input_ids"], cache)
        found = {"logits": result.logits[:, -1:] if self.last_logits else result.logits}
        for index, layer in enumerate(result.past_key_values.self_attention_cache.layers):
            found |= {f"present.{index}.decoder.key": layer.keys, f"present.{index}.decoder.value": layer.values}
        return found

    def _cache(self, tensors: Tensors) -> Cache:
        library = transformers().cache_utils
        both = {}
        for side, layers in (("decoder", self.layers), ("encoder", self.cross)):
            held = both[side] = library.DynamicCache()
            for index in range(len(layers)):
                layer = library.DynamicLayer()
                layer.keys, layer.values = (tensors[f"past_key_values.{index}.{side}.{kind}"] for kind in _KINDS)
                layer.dtype, layer.device, layer.is_initialized = layer.keys.dtype, layer.keys.device, True
                held.layers.append(layer)
        cache = library.EncoderDecoderCache(both["decoder"], library.DynamicCache())
        # Not by its constructor, which asks for the length to tell whether there are any.
        cache.cross_attention_cache = both["encoder"]
        cache.is_updated = dict.fromkeys(range(len(self.cross)), True)
        return cache

    def step_inputs(self, sizes: Sizes) -> Tensors:
        """A token or several, behind a past of random content, over an input of random content."""
        batch = sizes[_BATCH]
        length = sizes.get(_ENCODED, self.encoded)
        generator = torch.Generator().manual_seed(0)
        found = {"decoder_input_ids": self.tokens((batch, sizes.get(_NEW, 1)), generator)}
        if "attention_mask" in self.inputs.layouts:
            found["encoder_attention_mask"] = torch.ones(batch, length, dtype=torch.int64)
            found["encoder_attention_mask"][-1, max(length // 2, 1) :] = 0
        dtype = next(self.model.parameters()).dtype
        for side, layers, past in (("decoder", self.layers, sizes[_PAST]), ("encoder", self.cross, length)):
            for index, shapes in enumerate(layers):
                for kind, shape in zip(_KINDS, shapes, strict=True):
                    content = torch.randn(batch, shape[1], past, shape[3], generator=generator)
                    found[f"past_key_values.{index}.{side}.{kind}"] = content.to(dtype)
        return found

    def step_axes(self) -> dict[str, Mapping[int, str]]:
        """The axes of the decoder's inputs that vary; an encoder of a fixed length has no other there."""
        encoded: dict[int, str] = {} if self._is_fixed else {2: _ENCODED}
        new = {0: _BATCH} if self.refusal is not None else {0: _BATCH, 1: _NEW}
        axes: dict[str, Mapping[int, str]] = {"decoder_input_ids": new}
        axes["encoder_attention_mask"] = {0: _BATCH, **({} if self._is_fixed else {1: _ENCODED})}
        for side, layers, length in (("decoder", self.layers, {2: _PAST}), ("encoder", self.cross, encoded)):
            for index in range(len(layers)):
                for kind in _KINDS:
                    axes[f"past_key_values.{index}.{side}.{kind}"] = {0: _BATCH, **length}
        return axes

    @property
    def _is_fixed(self) -> bool:
        return all(
            size == _BATCH for layout in self.inputs.layouts.values() for size in layout if isinstance(size, str)
        )

    def parts(self) -> list[Part]:
        """The two files."""
        example, others = self._encoder_sizes
        names = self._names
        if self.refusal is not None:
            names.remove(_NEW)
            warn(f"decoder.onnx takes one token at a time. For several the model raises {self.refusal!r}.")
        encoded = ("encoder_hidden_states", *_present("encoder", len(self.cross)))
        return [
            Part(
                "encoder",
                self.model,
                self.encode,
                self.inputs.made,
                self.inputs.axes(),
                example,
                others,
                encoded,
                metadata={HEARD_WHOLE: MASK} if self.heard_whole else {},
            ),
            Part(
                "decoder",
                self.model,
                self.step,
                self.step_inputs,
                self.step_axes(),
                _pick(_EXAMPLE, names),
                [_pick(sizes, names) for sizes in _OTHERS],
                ("logits", *_present("decoder", len(self.layers))),
            ),
        ]


def _present(side: str, layers: int) -> list[str]:
    return [f"present.{index}.{side}.{kind}" for index in range(layers) for kind in _KINDS]


def _is_same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return one is not None and other is not None and torch.equal(one, other)


def _pick(sizes: Sizes, names: set[str]) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if name in names}


def seq2seq_parts(model: Model, *, last_logits: bool = False) -> Sequence[Part]:
    """Encoder and decoder as two files."""
    if not model.config.is_encoder_decoder:
        raise InputError(f"{type(model).__name__} has no encoder and decoder to export as two files.")
    return EncoderDecoder(model, last_logits=last_logits).parts()


_OPENED = ("import onnxport.generation", "", "session = onnxport.generation.Session(folder)")
_READ = (*_OPENED, 'print(session.generate(["Once upon a time"], max_new_tokens=40)[0])')
_HEARD = (
    *_OPENED,
    "print(session.generate([], inputs=inputs))  # inputs: tensors by name, as the processor makes them",
)

_LAST = partial(seq2seq_parts, last_logits=True)

SEQ2SEQ: tuple[Task, ...] = tuple(
    Task(name, f"MODEL_FOR_{table}_MAPPING", seq2seq_parts, readme, check_seq2seq, describe, _LAST, alone)
    for name, table, readme, describe, alone in (
        ("text2text-generation", "SEQ_TO_SEQ_CAUSAL_LM", _READ, None, None),
        ("automatic-speech-recognition", "SPEECH_SEQ_2_SEQ", _HEARD, speech_genai_config, None),
        # The library's table has models that put features of images in the places of tokens as well.
        ("image-to-text", "IMAGE_TEXT_TO_TEXT", _HEARD, None, True),
    )
)
