"""Models whose first call is another than those after it: one file reads the prompt, another goes on token by token.

``prompt.onnx`` takes tokens, images and what goes with them, and returns logits, the states to go on with, and whatever
else later calls are given. ``model.onnx`` takes one token. What a later call is given is seen in the library's loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.errors import InputError
from onnxport.generation.decoder_model import NEXT
from onnxport.pretrained.images import TYPES
from onnxport.pretrained.library import transformers
from onnxport.pretrained.library_loop import LoopCalls, loop_calls
from onnxport.pretrained.parts import Part, Sizes, Tensors
from onnxport.pretrained.prompts import BATCH, PromptInputs
from onnxport.pretrained.states import PAST, PRESENT, find_states, widened

Cache: TypeAlias = Any
Passed: TypeAlias = Callable[[Tensors, Any], torch.Tensor]
"""Makes what later calls are given, of what the first was given and of its result."""

_SEEN = "past"
_TOKENS, _MASK, _POSITIONS, _CACHE = "input_ids", "attention_mask", "position_ids", "past_key_values"
_SERVED = (_TOKENS, _MASK, _POSITIONS, _CACHE, "logits_to_keep", *TYPES)
"""What calls of the loop are given, and files take in their own way: after the first call no token is an image's."""


class PromptedModel:
    """A model as the first two calls of the library's loop show it."""

    def __init__(self, prompts: PromptInputs, *, last_logits: bool = False) -> None:
        self.prompts, self.model, self.last_logits = prompts, prompts.model, last_logits
        self.forward = self.model.forward
        # Made before anything is captured: they are constants of the file.
        self.numbers = prompts.numbers(1)
        prompt = self._prompt(1, 3)
        calls = loop_calls(self.model, prompt)
        self.generating, self.step_forward = calls.generating, calls.generating.forward
        # What calls a model inside it counts positions itself.
        is_whole = self.generating is self.model
        self.counts_first = is_whole and isinstance(calls.first.get(_POSITIONS), torch.Tensor)
        self.counts_later = isinstance(calls.later.get(_POSITIONS), torch.Tensor)
        counted = calls.first[_POSITIONS] if self.counts_first else torch.zeros(1, 1, dtype=torch.int64)
        self.offset, self.rows = int(counted.reshape(-1)[0]), len(counted) if counted.dim() > 2 else 0
        self.passed = _passed(calls, prompt)
        self.settings = {name: value for name, value in calls.later.items() if isinstance(value, bool)}
        self.states = find_states(
            self.model,
            lambda batch, length, cache: self._read(self._prompt(batch, length), self._empty())[1],
            lambda kind: kind,
            before=prompts.places,
        )

    def _prompt(self, batch: int, words: int) -> Tensors:
        """Prompts of an image and so many words each, with what is said of the images."""
        return self.prompts.made(self.prompts.sized(batch, words)) | self.prompts.numbers(batch)

    def _empty(self) -> Cache:
        library: Any = transformers().cache_utils
        return widened(library.DynamicCache(config=self.generating.config), vars(library))

    def _read(self, tensors: Tensors, cache: Cache) -> tuple[Any, Cache]:
        """The model's result, and the cache that it has filled."""
        given = {**tensors, _CACHE: cache, "use_cache": True, "return_dict": True}
        if _POSITIONS in given:
            given[_POSITIONS] = given[_POSITIONS] + self.offset
        return self.forward(**given), cache

    def read(self, tensors: Tensors) -> Tensors:
        """The first call: logits, states, and what later calls are given."""
        return self._results(tensors, tensors | self.numbers)

    def _results(self, tensors: Tensors, given: Tensors) -> Tensors:
        result, cache = self._read(given, self._empty())
        logits = result.logits[:, -1:] if self.last_logits else result.logits
        passed = {NEXT + name: make(tensors, result) for name, make in self.passed.items()}
        return {"logits": logits, **passed, **self.states.outputs(cache)}

    def step(self, tensors: Tensors) -> Tensors:
        """A later call, with one token."""
        given: dict[str, Any] = {name: value for name, value in tensors.items() if not name.startswith(PAST)}
        if _POSITIONS in given:
            given[_POSITIONS] = given[_POSITIONS] + self.offset
        given |= {**self.settings, _CACHE: self.states.cache(tensors), "use_cache": True, "return_dict": True}
        result = self.step_forward(**given)
        return {"logits": result.logits, **self.states.outputs(result.past_key_values)}

    def read_inputs(self, sizes: Sizes) -> Tensors:
        """Prompts of the given sizes."""
        found = self.prompts.made({BATCH: 1, **sizes})
        if self.counts_first:
            found[_POSITIONS] = self._counted(found[_TOKENS].shape)
        return found

    def step_inputs(self, sizes: Sizes) -> Tensors:
        """A token behind prompts, with what the first call leaves to it."""
        batch, seen = sizes[BATCH], sizes[_SEEN] - self.states.beyond
        prompt = self._prompt(batch, seen - self.prompts.places)
        if self.counts_first:
            prompt[_POSITIONS] = self._counted(prompt[_TOKENS].shape)
        with torch.no_grad(), attributes_preserved(self.model):
            left = self._results(prompt, prompt)
        found = {_TOKENS: prompt[_TOKENS][:, -1:], _MASK: torch.ones(batch, seen + 1, dtype=torch.int64)}
        found = {
            name: value for name, value in found.items() if name in inspect.signature(self.step_forward).parameters
        }
        if self.counts_later:
            found[_POSITIONS] = self._counted((batch, seen + 1))[..., -1:]
        states = {name.replace(PRESENT, PAST, 1): left[name] for name in self.states.output_names}
        return {**found, **{name: left[NEXT + name] for name in self.passed}, **states}

    def _counted(self, shape: Sequence[int]) -> torch.Tensor:
        batch, length = shape
        counted = torch.arange(length).repeat(batch, 1)
        return counted.repeat(self.rows, 1, 1) if self.rows else counted

    def parts(self) -> list[Part]:
        """The two files."""
        seen = self.prompts.places + self.states.beyond
        names = ("logits", *(NEXT + name for name in self.passed), *self.states.output_names)
        axes = self.prompts.axes()
        if self.counts_first:
            axes[_POSITIONS] = {axis + (1 if self.rows else 0): name for axis, name in axes[_TOKENS].items()}
        sizes, *others = (self.prompts.sized(batch, words) for batch, words in ((2, 5), (3, 3), (1, 9)))
        reading = Part(
            "prompt",
            self.model,
            self.read,
            self.read_inputs,
            axes,
            sizes,
            others,
            names,
            filled=tuple(sizes),
            constants=tuple(self.numbers.values()),
        )
        single = _of_one_prompt(reading)
        if self.prompts.is_single:
            reading = single
        else:
            reading = replace(reading, narrower=lambda: single)
        later = ({BATCH: 3, _SEEN: seen + 2}, {BATCH: 1, _SEEN: seen + 11})
        return [
            reading,
            Part(
                "model",
                self.generating,
                self.step,
                self.step_inputs,
                self._step_axes(),
                {BATCH: 2, _SEEN: seen + 6},
                later,
                ("logits", *self.states.output_names),
                filled=(BATCH,),
            ),
        ]

    def _step_axes(self) -> dict[str, Mapping[int, str]]:
        more = 1 - self.states.beyond
        found: dict[str, Mapping[int, str]] = {
            _TOKENS: {0: BATCH},
            _MASK: {0: BATCH, 1: f"{_SEEN} + {more}" if more > 0 else f"{_SEEN} - {-more}"},
            _POSITIONS: {1 if self.rows else 0: BATCH},
        }
        return {**found, **{name: {0: BATCH} for name in self.passed}, **self.states.axes()}


def _of_one_prompt(part: Part) -> Part:
    """The part for one prompt at a time."""
    axes = {name: {axis: size for axis, size in by.items() if size != BATCH} for name, by in part.axes.items()}
    sizes, *others = (
        {name: size for name, size in sizes.items() if name != BATCH} for sizes in (part.sizes, *part.others)
    )
    return replace(part, axes=axes, sizes=sizes, others=others, narrower=None, filled=tuple(sizes))


def _passed(calls: LoopCalls, prompt: Tensors) -> dict[str, Passed]:
    """What later calls are given besides tokens, mask, positions and states, and where the loop takes it from."""
    found: dict[str, Passed] = {}
    for name, value in calls.later.items():
        if name in _SERVED or not isinstance(value, torch.Tensor):
            continue
        field = next((key for key, made in calls.result.items() if _is_same(made, value)), None)
        # What is given to a model inside is none of the prompt's.
        given = calls.first.get(name) if name in prompt else None
        if field is not None:
            found[name] = partial(_of_result, field)
        elif _is_same(given, value):
            found[name] = partial(_of_prompt, name)
        elif isinstance(given, torch.Tensor) and given.dim() > 1 and _is_same(given[:, -1:], value):
            found[name] = partial(_of_last_token, name)
        else:
            raise InputError(
                f"{type(calls.generating).__name__} is given {name} in every call, which is neither what the call "
                "before returned nor what the first was given: no file can be told where it comes from."
            )
    return found


def _of_result(name: str, tensors: Tensors, result: Any) -> torch.Tensor:
    return result[name]  # type: ignore[no-any-return]


def _of_prompt(name: str, tensors: Tensors, result: object) -> torch.Tensor:
    return tensors[name]


def _of_last_token(name: str, tensors: Tensors, result: object) -> torch.Tensor:
    return tensors[name][:, -1:]


def _is_same(one: object, other: torch.Tensor) -> bool:
    return isinstance(one, torch.Tensor) and one.shape == other.shape and torch.equal(one, other)
