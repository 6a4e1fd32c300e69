"""Dicts with tensors as keys: the keys are inputs too, as they are to the TorchScript exporter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from onnxport.capture.request.caches import register_class
from onnxport.torch_internals import pytree


class KeyedByTensors(dict[Any, Any]):
    """A dict whose keys are tensors; to torch.export both keys and values are children of it, pair by pair."""


def keys_as_inputs(value: object) -> Any:
    """Arguments in which dicts with tensors as keys are such dicts.

    >>> import torch
    >>> from onnxport.capture.request.tensor_keys import keys_as_inputs
    >>> type(keys_as_inputs(({torch.ones(2): 1},))[0]).__name__
    'KeyedByTensors'
    """
    if type(value) is tuple or type(value) is list:
        return type(value)(keys_as_inputs(part) for part in value)
    if type(value) is not dict:
        return value
    parts = {key: keys_as_inputs(part) for key, part in value.items()}
    return KeyedByTensors(parts) if parts and all(isinstance(key, torch.Tensor) for key in parts) else parts


def takes_keys(structure: pytree.TreeSpec) -> bool:
    """Whether arguments of a structure have the keys of dicts among their leaves."""
    return structure.type is KeyedByTensors or any(map(takes_keys, pytree.children_of(structure)))


def _flatten(value: KeyedByTensors) -> tuple[list[Any], None]:
    return [part for pair in value.items() for part in pair], None


def _unflatten(children: Iterable[object], context: None) -> KeyedByTensors:
    given = list(children)
    return KeyedByTensors(zip(given[::2], given[1::2], strict=True))


def _flatten_with_keys(value: KeyedByTensors) -> tuple[list[tuple[pytree.KeyEntry, object]], None]:
    return [(pytree.SequenceKey(place), child) for place, child in enumerate(_flatten(value)[0])], None


register_class(KeyedByTensors, _flatten, _unflatten, _flatten_with_keys)
