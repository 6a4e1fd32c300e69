"""States: the tensors that a generating model hands from one call to the next, found by running it.

A cache of transformers is a container of layers, and each layer keeps tensors of its kind: keys and values of all that
was seen, the last inputs of a convolution, what a recurrence remembers. The model is run twice on fake tensors, at two
batch sizes and lengths: axes that follow the batch or the length vary, the others have a fixed size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.capture.request.caches import check_cache
from onnxport.capture.request.input_names import named_leaves
from onnxport.capture.request.trees import register_containers
from onnxport.errors import InputError, OnnxExporterError, with_article
from onnxport.pretrained.dry_run import dry_run
from onnxport.pretrained.parts import Sizes, Tensors
from onnxport.torch_internals import pytree

Cache: TypeAlias = Any
"""A cache of transformers, or any container of tensors."""

PAST, PRESENT = "past_key_values", "present"
_WIDE = {
    "DynamicSlidingWindowLayer": "DynamicLayer",
    "LinearAttentionAndSlidingWindowAttentionLayer": "LinearAttentionAndFullAttentionLayer",
}
"""Layers that forget what left their window, and those that keep it: the mask hides it all the same."""


@dataclass(frozen=True)
class State:
    """One tensor of a cache: what it is called after the prefix, its sizes, and the axes that vary."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    axes: Mapping[int, str]

    def sized(self, sizes: Sizes, seed: int) -> torch.Tensor:
        """Random content of the given sizes."""
        shape = [sizes[self.axes[axis]] if axis in self.axes else size for axis, size in enumerate(self.shape)]
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(shape, generator=generator).to(self.dtype)


@dataclass(frozen=True)
class States:
    """All states of a model in the order of its layers, and how they make up its cache."""

    entries: tuple[State, ...] = ()
    places: tuple[int, ...] = ()
    """Where each state stands among the leaves of the cache."""
    structure: pytree.TreeSpec | None = None
    beyond: int = 0
    """How many positions states hold besides those of tokens: features that stand before them."""

    @property
    def grow(self) -> bool:
        """Whether a state is as long as what was seen; where all have a fixed size, a call is given new tokens only."""
        return any("past" in state.axes.values() for state in self.entries)

    @property
    def output_names(self) -> list[str]:
        """What the states are called among the outputs of a file."""
        return [f"{PRESENT}.{state.name}" for state in self.entries]

    def cache(self, tensors: Tensors) -> Cache:
        """The cache that holds the states among the inputs of a file; None for a model without one."""
        if self.structure is None:
            return None
        content: list[torch.Tensor | None] = [None] * len(self.places)
        for place, state in zip(self.places, self.entries, strict=True):
            content[place] = tensors[f"{PAST}.{state.name}"]
        return pytree.tree_unflatten(content, self.structure)

    def outputs(self, cache: Cache) -> Tensors:
        """The states in a cache that a model returned, by their names in the file."""
        if self.structure is None:
            return {}
        found = pytree.tree_leaves(cache)
        return {name: found[place] for place, name in zip(self.places, self.output_names, strict=True)}

    def inputs(self, sizes: Sizes) -> Tensors:
        """States with random content, by their names in the file."""
        return {f"{PAST}.{state.name}": state.sized(sizes, seed) for seed, state in enumerate(self.entries)}

    def axes(self) -> dict[str, Mapping[int, str]]:
        """The axes that vary, by the names in the file."""
        return {f"{PAST}.{state.name}": state.axes for state in self.entries}


def find_states(
    model: torch.nn.Module,
    run: Callable[[int, int, Cache], Cache],
    empty: Callable[[Cache], Cache],
    before: int | None = None,
) -> States:
    """Run a model on fake tensors and look at the cache that it returns.

    Args:
        model: The model.
        run: Calls the model with a batch size, a length and an empty cache (or None), and returns the cache.
        empty: Makes an empty cache of the kind of a given one.
        before: How many tokens there are besides that length; states may then be longer than the tokens are, by as
            much in every call. None where an empty cache is one that a file takes, so that they may not.
    """
    try:
        with dry_run(model):
            caches = _two_sizes(run, empty)
    except Exception:  # noqa: BLE001 - the code reads numbers, which shapes alone don't have; or it raises in any case
        caches = _computed(model, run, empty)
    if caches is None:
        return States()
    one, other = caches
    register_containers(one, lambda message: None)
    check_cache("The cache", one)
    names = _names(one)
    found, structure = pytree.tree_flatten(one)
    unknown = next((leaf for leaf in found if not isinstance(leaf, torch.Tensor)), None)
    if unknown is not None:
        raise InputError(
            f"The cache of {type(model).__name__} holds {with_article(type(unknown).__name__)}, of which is not known "
            "what is a tensor in it. Register the class with torch.utils._pytree.register_pytree_node, or export the "
            "model with onnxport.export and use_cache=False."
        )
    sizes = list(zip(names, found, pytree.tree_leaves(other), strict=True))
    extra = 0 if before is None else _growing(sizes)
    states = [_state(name, first, second, extra) for name, first, second in sizes]
    order = sorted(range(len(states)), key=lambda place: _order(names[place]))
    beyond = extra - (0 if before is None else before)
    return States(tuple(states[place] for place in order), tuple(order), structure, beyond)


def _growing(sizes: Sequence[tuple[str, torch.Tensor, torch.Tensor]]) -> int:
    """By how much states are longer than 3 and 7 positions."""
    pairs = (pair for _, one, other in sizes for pair in zip(one.shape, other.shape, strict=True))
    return next((first - 3 for first, second in pairs if second - first == 4), 0)


def _two_sizes(run: Callable[[int, int, Cache], Cache], empty: Callable[[Cache], Cache]) -> tuple[Cache, Cache] | None:
    kind = run(2, 3, None)
    return None if kind is None else (run(2, 3, empty(kind)), run(5, 7, empty(kind)))


def _computed(
    model: torch.nn.Module, run: Callable[[int, int, Cache], Cache], empty: Callable[[Cache], Cache]
) -> tuple[Cache, Cache] | None:
    """The same on tensors with numbers; what a model raises there it raises for whoever calls it."""
    try:
        with attributes_preserved(model), torch.no_grad():
            return _two_sizes(run, empty)
    except OnnxExporterError:
        raise
    except Exception as error:
        raise InputError(
            f"{type(model).__name__} does not run with the inputs that its configuration describes: it raises "
            f"{error!r}."
        ) from error


def widened(cache: Cache, layers: Mapping[str, type]) -> Cache:
    """A cache whose layers keep all they have seen; ``layers`` are the library's classes by name."""
    for index, layer in enumerate(cache.layers):
        wide = _WIDE.get(type(layer).__name__)
        if wide is not None:
            told = {"number_of_states": layer.number_of_states} if hasattr(layer, "number_of_states") else {}
            cache.layers[index] = layers[wide](**told)
    return cache


def _state(name: str, one: torch.Tensor, other: torch.Tensor, extra: int) -> State:
    labels = {(2, 5): "batch", (3 + extra, 7 + extra): "past"}
    axes = {}
    for axis, pair in enumerate(zip(one.shape, other.shape, strict=True)):
        if pair[0] == pair[1]:
            continue
        if pair not in labels:
            raise InputError(
                f"The state {name} of the cache has the shape {list(one.shape)} for a batch of 2 and 3 positions, and "
                f"{list(other.shape)} for a batch of 5 and 7: axis {axis} follows neither. Such a cache has no place "
                "among the inputs of a file; export the model with onnxport.export and use_cache=False."
            )
        axes[axis] = labels[pair]
    return State(name, one.dtype, tuple(one.shape), axes)


def _names(cache: Cache) -> list[str]:
    """What the leaves of a cache are called: by layer and kind, or by their place in a container of another form."""
    return [
        entry.name.partition(".")[2] if entry.state is not None else ".".join(map(str, entry.leaf.steps[1:]))
        for entry in named_leaves(cache, PAST)
    ]


def _order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in name.split(".")]
