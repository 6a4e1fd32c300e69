"""What the library's own loop gives a model besides tokens: asked of the loop, since each model may prepare it anew."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.pretrained.library import transformers
from onnxport.pretrained.plain_generation import generate_plainly

Model: TypeAlias = Any
_SIDES = 3
"""Time, height and width: what positions count where tokens are of an image."""
Named: TypeAlias = dict[str, Any]
_LENGTH = "original_max_position_embeddings"
# What transformers 5 calls after each step of its loop; nothing else shows what becomes of masks and types of tokens.
_UPDATE = "_update_model_kwargs_for_generation"


@contextlib.contextmanager
def first_call(model: Model) -> Iterator[Named]:
    """While this is open, keep what the first call of the model is given by name."""
    kept: Named = {}
    names = list(inspect.signature(model.forward).parameters)

    def look(module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if not kept:
            kept.update(zip(names, args, strict=False))
            kept.update(kwargs)

    handle = model.register_forward_pre_hook(look, with_kwargs=True)
    try:
        yield kept
    finally:
        handle.remove()


@dataclass(frozen=True)
class LoopCalls:
    """What the loop gives in its first two calls.

    Attributes:
        generating: The model that it calls: the one that was asked, or one inside it.
        first: What the first call is given by name.
        later: The same of the second call.
        result: What the first call returned, by field.
    """

    generating: Model
    first: Named
    later: Named
    result: Named


def loop_calls(model: Model, prompt: dict[str, torch.Tensor]) -> LoopCalls:
    """Generate two tokens in the model's own way, and look at the calls of the outermost model that made both."""
    seen: dict[str, list[tuple[Named, Named]]] = {}
    with contextlib.ExitStack() as hooks:
        mixin = transformers().GenerationMixin
        for name, module in model.named_modules():
            if isinstance(module, mixin):
                hooks.callback(_looked_at(module, seen.setdefault(name, [])).remove)
        with attributes_preserved(model):
            generate_plainly(model, prompt, own_loop=True, max_new_tokens=2)
    name, calls = next((name, calls) for name, calls in seen.items() if len(calls) > 1)
    return LoopCalls(model.get_submodule(name), calls[0][0], calls[1][0], calls[0][1])


def _looked_at(module: Model, calls: list[tuple[Named, Named]]) -> torch.utils.hooks.RemovableHandle:
    names = list(inspect.signature(module.forward).parameters)

    def look(module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object], result: Any) -> None:
        calls.append(({**dict(zip(names, args, strict=False)), **kwargs}, dict(result)))

    handle: torch.utils.hooks.RemovableHandle = module.register_forward_hook(look, with_kwargs=True)
    return handle


@dataclass(frozen=True)
class Positions:
    """How positions are counted: from which number on, and in how many rows (of time, height and width); 0 for one."""

    offset: int = 0
    rows: int = 0


def counted_positions(model: Model, prompt: dict[str, torch.Tensor] | None = None) -> Positions:
    """The positions that the loop gives to a prompt: one with what the model reads besides text, or one of text."""
    tokens = torch.full((1, 3), 5)
    text = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    for given in (text if prompt is None else prompt, text):
        with attributes_preserved(model), first_call(model) as call, contextlib.suppress(Exception):
            # A model that doesn't take this says so in its own way, and is asked for nothing special then.
            generate_plainly(model, given, max_new_tokens=1)
        found = call.get("position_ids")
        if isinstance(found, torch.Tensor):
            return Positions(int(found.reshape(-1)[0]), _rows_read(model, found) if found.dim() > 2 else 0)
    return Positions()


def _rows_read(model: Model, positions: torch.Tensor) -> int:
    """How many rows of positions there are; without the first where it only counts tokens, which nothing reads then."""
    rows = len(positions)
    if rows <= _SIDES:
        return rows
    tokens = torch.full((1, 4), 5)
    text = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    # Rows that differ, so that each is seen to matter.
    stated = torch.arange(rows).view(-1, 1, 1) + torch.arange(tokens.shape[1])
    with torch.no_grad(), attributes_preserved(model), contextlib.suppress(Exception):
        # A model that takes no fewer rows says so in its own way.
        less = model(**text, position_ids=stated[-_SIDES:]).logits
        return _SIDES if torch.equal(less, model(**text, position_ids=stated).logits) else rows
    return rows


def anew_from(model: Model) -> int | None:
    """With how many tokens the loop gives a model all of them again, and no states; None where it never does.

    It does so where positions have other frequencies from some length on. The configuration says the length, under
    one name in all models; whether the loop then does it, only the loop knows.
    """
    config = model.config.get_text_config(decoder=True)
    nested = getattr(config, "rope_parameters", None)
    named = [getattr(config, _LENGTH, None), nested.get(_LENGTH) if isinstance(nested, dict) else None]
    lengths = [length for length in dict.fromkeys(named) if isinstance(length, int) and length > 0]
    return next((length + 1 for length in lengths if _states_dropped(model, length)), None)


def _states_dropped(model: Model, length: int) -> bool:
    """Whether the loop drops the states of so many tokens when there is one more."""
    cache = transformers().DynamicCache()
    states = torch.empty(1, 1, length, 1, device="meta")
    cache.update(states, states, 0)
    tokens = torch.zeros(1, length + 1, dtype=torch.int64)
    given = {"attention_mask": torch.ones_like(tokens), "use_cache": True, "next_sequence_length": 1}
    return model.prepare_inputs_for_generation(tokens, past_key_values=cache, **given).get("past_key_values") is None


def types_tell_prompts(model: Model) -> bool:
    """Whether the loop gives ``token_type_ids`` of 1 to generated tokens, whatever the prompt's are."""
    tokens = torch.full((1, 3), 5)
    found = []
    for kind in (0, 1):
        given = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "token_type_ids": tokens * 0 + kind}
        with update_calls(model) as calls:
            generate_plainly(model, given, max_new_tokens=1)
        found.append(int(calls[0]["token_type_ids"][0, -1]))
    return found == [1, 1]


def prompt_types(tells_prompts: bool, is_placeholder: torch.Tensor) -> torch.Tensor:
    """The types that processors give to the tokens of a prompt: 1 to those of images, or 0 as to any first text."""
    return torch.zeros_like(is_placeholder, dtype=torch.int64) if tells_prompts else is_placeholder.long()


@contextlib.contextmanager
def update_calls(model: Model) -> Iterator[list[Named]]:
    """While this is open, keep what the loop makes of its tensors after each step."""
    kept: list[Named] = []
    update = getattr(model, _UPDATE)

    def looked_at(*args: object, **kwargs: object) -> Named:
        found: Named = update(*args, **kwargs)
        kept.append(dict(found))
        return found

    setattr(model, _UPDATE, looked_at)
    try:
        yield kept
    finally:
        delattr(model, _UPDATE)
