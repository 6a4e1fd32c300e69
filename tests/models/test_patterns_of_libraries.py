"""Patterns of libraries' models at sizes other than the example's: each row is the least that shows one."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree
from transformers import DynamicCache, MistralConfig, MistralForCausalLM, StaticCache
from transformers.cache_utils import (
    DynamicIndexedLayer,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionLayer,
)

import onnxport
from onnxport.capture import capture
from onnxport.errors import InputError, OnnxExporterWarning
from onnxport.events import EventLog

WINDOW = 4
HELD = {0: "batch", 2: "held"}
PAST = {0: "batch", 2: "past"}
STATE = {0: "batch"}


class Decodes(nn.Module):
    """What a decoder does with its cache: positions from its length, masks from its sizes, and one update a layer."""

    def forward(self, x: torch.Tensor, cache: Any) -> Any:
        length = x.shape[2]
        found = []
        for index, layer in enumerate(cache.layers):
            if isinstance(layer, LinearAttentionLayer):
                window = cache.update_conv_state(x[:, 0].mT, index)
                state = cache.get_recurrent_state(index)
                found += [window.sum(-1), cache.update_recurrent_state(state * 0.5 + x[:, 0].sum(1), index)]
            if isinstance(layer, DynamicIndexedLayer):
                found.append(cache.update_indexer(x[:, 0], index).sum(1))
            if isinstance(layer, DynamicLayer):
                kept, offset = cache.get_mask_sizes(length, index)
                at = torch.arange(length) + layer.get_seq_length()
                mask = at[:, None] >= torch.arange(kept) + offset
                keys, values = cache.update(x, x + 1, index)
                found.append((x @ keys.mT).masked_fill(~mask, -1e9).softmax(-1) @ values)
        return found, cache


def filled(layers: list[Any], batch: int, past: int, length: int) -> tuple[torch.Tensor, Any]:
    """Make a cache that has seen `past` positions, and the new ones."""
    torch.manual_seed(past)
    cache = DynamicCache()
    cache.layers, cache.layer_class_to_replicate = layers, None
    seen = torch.randn(batch, 2, past, 8)
    for index, layer in enumerate(layers):
        if isinstance(layer, LinearAttentionLayer):
            cache.update_conv_state(torch.randn(batch, 8, WINDOW), index)
            cache.update_recurrent_state(torch.randn(batch, 8), index)
        if isinstance(layer, DynamicIndexedLayer):
            cache.update_indexer(torch.randn(batch, past, 8), index)
        if isinstance(layer, DynamicLayer):
            cache.update(seen, seen * 2, index)
    return torch.randn(batch, 2, length, 8), cache


def layers(kinds: str) -> list[Any]:
    made = {
        "full": DynamicLayer,
        "window": lambda: DynamicSlidingWindowLayer(WINDOW),
        "linear": LinearAttentionLayer,
        "both": LinearAttentionAndFullAttentionLayer,
        "indexed": DynamicIndexedLayer,
    }
    return [made[kind]() for kind in kinds.split()]


CACHES = [
    # (kinds of the layers, the axes of the states in the order of the lists)
    ("full full", [[PAST, PAST], [PAST, PAST]]),
    ("window full", [[HELD, PAST], [HELD, PAST]]),
    ("full window window", [[PAST, HELD, HELD], [PAST, HELD, HELD]]),
    ("linear full", [[PAST], [PAST], [STATE], [STATE]]),
    ("full linear window", [[PAST, HELD], [PAST, HELD], [STATE], [STATE]]),
    ("both", [[PAST], [PAST], [STATE], [STATE]]),
    ("indexed", [[PAST], [PAST], [{0: "batch", 1: "past"}]]),
]


@pytest.mark.parametrize(("kinds", "axes"), CACHES, ids=[kinds for kinds, _ in CACHES])
def test_a_cache_keeps_the_kinds_of_its_layers(kinds: str, axes: Any) -> None:
    model = Decodes()
    x, cache = filled(layers(kinds), 2, 2, 3)
    shapes = {"x": {0: "batch", 2: "new"}, "cache": axes}
    program = onnxport.export(model, (x, cache), dynamic_shapes=shapes)
    # The example's windows had room; one is just full in the second call, and forgot most of what it saw in the third.
    for sizes in [(2, 2, 3), (1, 3, 2), (3, 9, 1), (2, 7, 6)]:
        inputs = filled(layers(kinds), *sizes)
        expected = _pytree.tree_leaves(model(*copy.deepcopy(inputs)))
        torch.testing.assert_close(list(program(*inputs)), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("kinds", "told"), [("window", True), ("window full", False), ("full", False)])
def test_a_cache_of_windows_alone_says_what_it_does_not_tell(kinds: str, told: bool) -> None:
    events = EventLog()
    with pytest.warns(OnnxExporterWarning, match="To go on after more") if told else contextlib.nullcontext():
        capture(Decodes(), filled(layers(kinds), 2, 2, 3), events=events)
    notes = [event.message for event in events.events if "keeps at most 3 positions" in event.message]
    assert len(notes) == told


class Listed(DynamicCache):
    """A cache that lists states of its own, with an empty list for each layer that has none."""

    def __init__(self) -> None:
        super().__init__()
        self.linear_cache: list[Any] = []


class Continues(nn.Module):
    def forward(self, x: torch.Tensor, cache: Any) -> Any:
        cache.linear_cache[1] = cache.linear_cache[1] * 0.5 + x.sum(2)
        return cache.update(x, x, 0)[0], cache


def test_a_cache_keeps_lists_of_its_own() -> None:
    def inputs(batch: int, past: int, length: int) -> tuple[torch.Tensor, Any]:
        cache = Listed()
        cache.update(torch.randn(batch, 2, past, 4), torch.randn(batch, 2, past, 4), 0)
        cache.linear_cache = [[], torch.randn(batch, 2, 4)]
        return torch.randn(batch, 2, length, 4), cache

    shapes = {"x": {0: "batch", 2: "new"}, "cache": [[PAST], [PAST], [STATE]]}
    program = onnxport.export(Continues(), inputs(2, 5, 3), dynamic_shapes=shapes)
    for sizes in [(2, 5, 3), (3, 4, 1)]:
        given = inputs(*sizes)
        expected = _pytree.tree_leaves(Continues()(*copy.deepcopy(given)))
        torch.testing.assert_close(list(program(*given)), expected)


class Fills(nn.Module):
    def forward(self, x: torch.Tensor, cache: Any) -> Any:
        keys, values = cache.update(x, x + 1, 0)
        return x @ keys.mT @ values, cache.get_seq_length() + 0, cache


def test_a_cache_of_a_fixed_size_counts_in_a_tensor() -> None:
    config = MistralConfig(num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, sliding_window=None)

    def inputs(batch: int, past: int, length: int) -> tuple[torch.Tensor, Any]:
        cache = StaticCache(config=config, max_cache_len=8)
        cache.update(torch.randn(batch, 2, past, 4), torch.randn(batch, 2, past, 4), 0)
        return torch.randn(batch, 2, length, 4), cache

    shapes = {"x": {0: "batch", 2: "new"}, "cache": [[{0: "batch"}], [{0: "batch"}], [{}]]}
    program = onnxport.export(Fills(), inputs(2, 2, 3), dynamic_shapes=shapes)
    for sizes in [(2, 2, 3), (2, 5, 2), (3, 4, 1)]:
        given = inputs(*sizes)
        expected = _pytree.tree_leaves(Fills()(*copy.deepcopy(given)))
        torch.testing.assert_close(list(program(*given)), expected)


class Counting(DynamicLayer):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.entry_count = {"compressor": 3}


def test_a_cache_that_counts_in_python_is_refused() -> None:
    cache = DynamicCache()
    cache.layers = [Counting(None)]
    cache.update(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4), 0)
    with pytest.raises(InputError, match=r"cache holds a layer of the class Counting, .* \(entry_count\)"):
        capture(Decodes(), (torch.ones(1, 2, 1, 4), cache), events=EventLog())


@pytest.mark.filterwarnings("ignore:Every layer of the DynamicCache keeps at most")
def test_a_cache_of_windows_alone_goes_on_with_positions_given() -> None:
    config = MistralConfig(
        vocab_size=50, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, sliding_window=WINDOW,
    )  # fmt: skip
    torch.manual_seed(0)
    model = MistralForCausalLM(config).eval()

    def inputs(batch: int, past: int, length: int) -> dict[str, Any]:
        with torch.no_grad():
            cache = model(torch.randint(0, 50, (batch, past))).past_key_values
        return {
            "input_ids": torch.randint(0, 50, (batch, length)),
            "attention_mask": torch.ones(batch, min(past, WINDOW - 1) + length, dtype=torch.int64),
            "position_ids": torch.arange(past, past + length).expand(batch, -1),
            "past_key_values": cache,
        }

    new = {0: "batch", 1: "new"}
    shapes = {"input_ids": new, "attention_mask": {0: "batch", 1: "all"}, "position_ids": new}
    program = onnxport.export(
        model, kwargs=inputs(2, 2, 3), dynamic_shapes={**shapes, "past_key_values": [[HELD], [HELD]]}
    )
    for sizes in [(2, 2, 3), (1, 9, 1), (3, 7, 2)]:
        given = inputs(*sizes)
        with torch.no_grad():
            whole = torch.ones(sizes[0], sizes[1] + sizes[2], dtype=torch.int64)
            expected = model(**{**copy.deepcopy(given), "attention_mask": whole}).logits
        torch.testing.assert_close(program(**given)[0], expected, atol=1e-5, rtol=1e-4)
