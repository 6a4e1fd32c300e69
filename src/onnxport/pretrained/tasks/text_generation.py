"""Text generation: one file takes tokens, mask and what was kept of earlier calls, and serves the first call too."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from onnxport.pretrained.genai import genai_config
from onnxport.pretrained.greedy import check_tokens
from onnxport.pretrained.library import transformers
from onnxport.pretrained.library_loop import anew_from
from onnxport.pretrained.parts import Part, Sizes, Tensors
from onnxport.pretrained.states import Cache, States, find_states, widened
from onnxport.pretrained.tasks.task import Model, Task
from onnxport.provenance import ANEW_FROM

_CACHES = ("past_key_values", "cache_params", "state")
"""What forward may call the cache, and the field of its result that holds the next."""

_BATCH, _SEQUENCE, _PAST, _ALL = "batch", "sequence", "past", "past + sequence"
EXAMPLE = {_BATCH: 2, _SEQUENCE: 4, _PAST: 3}
OTHERS = (
    {_BATCH: 1, _SEQUENCE: 5, _PAST: 0},
    {_BATCH: 3, _SEQUENCE: 1, _PAST: 9},
    {_BATCH: 2, _SEQUENCE: 1, _PAST: 0},
)
_LONG = 261
"""The length of a prompt for models with recurrences, which read it in chunks: of 256 tokens and fewer."""


class Decoder:
    """A decoder as its forward shows it: what it takes, and which states it keeps."""

    def __init__(self, model: Model, *, last_logits: bool = False) -> None:
        self.model = model
        self.last_logits = last_logits
        self.forward = model.forward
        self.takes = inspect.signature(model.forward).parameters
        self.cache = next((name for name in _CACHES if name in self.takes), None)
        self.vocabulary = int(model.get_input_embeddings().num_embeddings)
        self.states = States() if self.cache is None else find_states(model, self._run, self._empty)

    def inputs(self, sizes: Sizes) -> Tensors:
        """Tokens, mask and positions behind a past of random content."""
        batch, new, past = sizes[_BATCH], sizes[_SEQUENCE], sizes[_PAST] if self.states.grow else 0
        generator = torch.Generator().manual_seed(0)
        inputs = {
            "input_ids": torch.randint(0, self.vocabulary, (batch, new), generator=generator),
            "attention_mask": torch.ones(batch, past + new, dtype=torch.int64),
            "position_ids": torch.arange(past, past + new).repeat(batch, 1),
        }
        return {name: tensor for name, tensor in inputs.items() if name in self.takes} | self.states.inputs(sizes)

    def axes(self) -> dict[str, Mapping[int, str]]:
        """The axes that vary, by input."""
        new = {0: _BATCH, 1: _SEQUENCE}
        total = {0: _BATCH, 1: _ALL if self.states.grow else _SEQUENCE}
        return {"input_ids": new, "attention_mask": total, "position_ids": new, **self.states.axes()}

    @property
    def metadata(self) -> dict[str, str]:
        """What a loop has to know of the file."""
        length = anew_from(self.model) if self.states.entries else None
        return {} if length is None else {ANEW_FROM: str(length)}

    @property
    def others(self) -> Sequence[Sizes]:
        """Sizes to compare at: for a model with a recurrence, a prompt of several chunks among them."""
        if all(_PAST in state.axes.values() for state in self.states.entries):
            return OTHERS
        limit = getattr(self.model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        return (*OTHERS, {_BATCH: 1, _SEQUENCE: _LONG if limit is None else min(limit, _LONG), _PAST: 0})

    def step(self, tensors: Tensors) -> Tensors:
        """One call: logits of every new position, or of the last, and the states to go on with."""
        given = self.given(tensors)
        keeps = self.last_logits and "logits_to_keep" in self.takes
        if keeps:
            # The others are not computed, which is much of a first call where the vocabulary is large.
            given["logits_to_keep"] = 1
        result = self.forward(**given, return_dict=True)
        logits = result.logits[:, -1:] if self.last_logits and not keeps else result.logits
        cache = getattr(result, self.cache) if self.states.entries and self.cache is not None else None
        return {"logits": logits, **self.states.outputs(cache)}

    def given(self, tensors: Tensors) -> dict[str, Any]:
        """What forward is called with."""
        given: dict[str, Any] = {name: tensor for name, tensor in tensors.items() if name in self.takes}
        if self.states.entries and self.cache is not None:
            given |= {self.cache: self.states.cache(tensors), "use_cache": True}
        return given

    def _run(self, batch: int, length: int, cache: object) -> object:
        assert self.cache is not None
        tokens = torch.zeros(batch, length, dtype=torch.int64)
        given = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), self.cache: cache, "use_cache": True}
        result = self.forward(**{name: value for name, value in given.items() if name in self.takes}, return_dict=True)
        return getattr(result, self.cache, None)

    def _empty(self, kind: object) -> Cache:
        library: Any = transformers().cache_utils
        if type(kind).__name__ != "DynamicCache":
            return None
        return widened(library.DynamicCache(config=self.model.config), vars(library))


def decoder_part(model: Model, *, last_logits: bool = False) -> Sequence[Part]:
    """The whole model as one file."""
    decoder = Decoder(model, last_logits=last_logits)
    outputs = ("logits", *decoder.states.output_names)
    sizes, metadata = (EXAMPLE, decoder.others), decoder.metadata
    return [Part("model", model, decoder.step, decoder.inputs, decoder.axes(), *sizes, outputs, metadata=metadata)]


TEXT_GENERATION = Task(
    name="text-generation",
    mapping="MODEL_FOR_CAUSAL_LM_MAPPING",
    parts=decoder_part,
    readme=(
        "import onnxport.generation",
        "",
        "session = onnxport.generation.Session(folder)",
        'print(session.generate(["Once upon a time"], max_new_tokens=40)[0])',
    ),
    check=check_tokens,
    describe=genai_config,
    last_logits=partial(decoder_part, last_logits=True),
)
