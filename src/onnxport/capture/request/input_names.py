"""What the file calls inputs: as torch does, but for states of caches, which go by layer: past_key_values.0.key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from onnxport.capture.request.caches import CacheState, cache_states
from onnxport.capture.request.inputs import Inputs
from onnxport.capture.request.trees import Leaf, Step, branch, leaves

_SIDES = {"self_attention_cache": "decoder", "cross_attention_cache": "encoder"}
"""What the two halves of an encoder-decoder's cache are called, after the part whose positions they hold."""


@dataclass(frozen=True)
class NamedLeaf:
    """A leaf of the inputs or outputs, its name in the file, and what it is if a cache holds it."""

    leaf: Leaf
    name: str
    state: CacheState | None = None
    side: str = ""


def named_leaves(value: object, parameter: str) -> list[NamedLeaf]:
    """The leaves of an argument, in order, with the names of the inputs they become."""
    return list(_named(value, parameter, (parameter,), parameter, ""))


def _named(value: object, path: str, steps: tuple[Step, ...], name: str, side: str) -> Iterator[NamedLeaf]:
    states = cache_states(value)
    if states is not None:
        for leaf, state in zip(leaves(value, path, steps), states, strict=True):
            middle = f"{state.layer}.{side}" if side else f"{state.layer}"
            yield NamedLeaf(leaf, f"{name}.{middle}.{state.kind}", state, side)
        return
    here = branch(value)
    if here is None:
        leaf = Leaf(path, steps, value)
        yield NamedLeaf(leaf, _torchs_name(leaf))
        return
    for step, suffix, child in zip(here.steps, here.suffixes, here.children, strict=True):
        yield from _named(child, path + suffix, (*steps, step), name, _SIDES.get(str(step), side))


def _torchs_name(leaf: Leaf) -> str:
    """The steps to an input, joined as torch does."""
    return "_".join(str(step) for step in leaf.steps)


def names_in_file(inputs: Inputs, captured: Sequence[str], given: Sequence[str]) -> Sequence[str]:
    """The names of inputs: those that were given, then those of the capture, but for the states of caches."""
    entries = [entry for name, value in inputs.arguments.items() for entry in named_leaves(value, name)]
    states = {_torchs_name(entry.leaf): entry.name for entry in entries if entry.state is not None}
    if not states:
        return given
    return [*given, *(states.get(name, name) for name in captured[len(given) :])]


def named_tensors(inputs: Inputs, input_names: Sequence[str] | None) -> dict[str, int]:
    """Map each input's name to its position among the leaves; the states of caches have torch's name as well."""
    names: dict[str, int] = {}
    entries = [entry for name, value in inputs.arguments.items() for entry in named_leaves(value, name)]
    of_states = {entry.leaf.path: entry.name for entry in entries if entry.state is not None}
    given = iter(input_names if input_names is not None else ())
    for index, leaf in enumerate(inputs.leaves):
        if not isinstance(leaf.value, torch.Tensor):
            continue
        name = next(given, None)
        if name is not None:
            names[name] = index
        else:
            names.update(dict.fromkeys([of_states.get(leaf.path, _torchs_name(leaf)), _torchs_name(leaf)], index))
    return names
