"""transformers caches as containers of tensors: each layer keeps its kind, and every state it holds is an input.

A cache has layers of several kinds: attention over all that was seen, attention over a window of it, convolution and
recurrence with states of a fixed size. What differs between calls are the tensors; the kinds and their settings are the
structure.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree

_LISTS = {"keys": "key_cache", "values": "value_cache"}
"""The names under which transformers' own registration lists the states that every attention has."""

_COUNTED = "cumulative_length"
"""The number of positions seen: it grows with each call, so that it is read from the tensors, not kept."""


def register_dynamic_cache(kind: type) -> None:
    """Register a cache that grows as a container of its layers' states: keys, values, then what else there is."""

    def flatten(cache: Any) -> tuple[list[Any], Any]:
        lists: dict[str, list[Any]] = {name: [] for name in _LISTS.values()}
        layers = []
        for layer in cache.layers:
            slots = []
            for attribute, key, tensor in _states(layer):
                name = _LISTS.get(attribute, attribute)
                lists.setdefault(name, []).append(tensor)
                slots.append([name, attribute, key])
            layers.append([_path(type(layer)), slots, _settings(layer)])
        grows = cache.layer_class_to_replicate is not None
        return list(lists.values()), [list(lists), layers, grows]

    def flatten_with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, context = flatten(cache)
        return [(_pytree.MappingKey(name), child) for name, child in zip(context[0], children, strict=True)], context

    def unflatten(children: Any, context: Any) -> Any:
        names, layers, grows = context
        lists = {name: iter(child) for name, child in zip(names, children, strict=True)}
        cache: Any = kind()
        cache.layers = [_layer(path, slots, settings, lists) for path, slots, settings in layers]
        if not grows:
            cache.layer_class_to_replicate = None
        _count(cache.layers)
        return cache

    register_class(kind, flatten, unflatten, flatten_with_keys)


def caveat(value: Any) -> str | None:
    """Say what a cache of windows alone cannot tell the model: how many positions were seen once they are full."""
    if not any(parent.__module__ == "transformers.cache_utils" for parent in type(value).__mro__):
        return None
    held = [layer for layer in getattr(value, "layers", ()) if _holds(layer)]
    windows = [layer.sliding_window for layer in held if hasattr(layer, _COUNTED)]
    if not windows or len(windows) < len(held):
        return None
    return (
        f"Every layer of the {type(value).__qualname__} keeps at most {max(windows) - 1} positions, so the model takes "
        "the number it holds for the number that was seen. To go on after more than that, have the model take "
        "position_ids, and an attention_mask of the positions held and the new ones only."
    )


def register_encoder_decoder_cache(kind: type) -> None:
    """Register the pair of caches of an encoder-decoder model as a container of the two."""
    names = ["self_attention_cache", "cross_attention_cache"]

    def flatten(cache: Any) -> tuple[list[Any], Any]:
        return [getattr(cache, name) for name in names], names

    def flatten_with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], Any]:
        return [(_pytree.GetAttrKey(name), getattr(cache, name)) for name in names], names

    def unflatten(children: Any, context: Any) -> Any:
        return kind(*children)

    register_class(kind, flatten, unflatten, flatten_with_keys)


def register_class(kind: type, flatten: Any, unflatten: Any, flatten_with_keys: Any) -> None:
    """Register a class under its own name, with named children."""
    _pytree.register_pytree_node(
        kind,
        flatten,
        unflatten,
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
        flatten_with_keys_fn=flatten_with_keys,
    )


def _states(layer: Any) -> Iterator[tuple[str, Any, torch.Tensor]]:
    """Yield the tensors of a layer: the attribute, the key where the attribute is a dict, and the tensor."""
    for attribute, value in vars(layer).items():
        # What begins with an underscore is made by the layer for itself, from its settings.
        if attribute.startswith("_"):
            continue
        if isinstance(value, torch.Tensor):
            yield attribute, None, value
        elif isinstance(value, dict):
            yield from ((attribute, key, entry) for key, entry in value.items() if isinstance(entry, torch.Tensor))


def _settings(layer: Any) -> list[list[Any]]:
    """List what a layer is told and what it remembers besides tensors, in a form that compares and serialises."""
    parameters = inspect.signature(type(layer).__init__).parameters
    found = []
    for attribute, value in vars(layer).items():
        if attribute == _COUNTED:
            continue
        if isinstance(value, dict):
            found += [[attribute, key, entry] for key, entry in value.items() if _is_plain(entry)]
        elif _is_plain(value) or attribute in parameters:
            found.append([attribute, None, value])
    return found


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _layer(path: list[str], slots: list[list[Any]], settings: list[list[Any]], lists: dict[str, Any]) -> Any:
    kind = _find(*path)
    parameters = inspect.signature(kind.__init__).parameters
    layer = kind(**{attribute: value for attribute, key, value in settings if key is None and attribute in parameters})
    for attribute, key, value in settings:
        _put(layer, attribute, key, value)
    for name, attribute, key in slots:
        tensor = next(lists[name])
        _put(layer, attribute, key, tensor)
        if isinstance(tensor, torch.Tensor):
            layer.dtype, layer.device = tensor.dtype, tensor.device
    return layer


def _put(layer: Any, attribute: str, key: Any, value: Any) -> None:
    if key is None:
        setattr(layer, attribute, value)
    else:
        getattr(layer, attribute)[key] = value


def _count(layers: list[Any]) -> None:
    """Tell the layers that forget how many positions were seen: what a layer that keeps them all holds."""
    held = [layer.keys.shape[-2] for layer in layers if _holds(layer) and not hasattr(layer, _COUNTED)]
    for layer in layers:
        if hasattr(layer, _COUNTED) and _holds(layer):
            setattr(layer, _COUNTED, held[0] if held else layer.keys.shape[-2])
            layer.get_mask_sizes = functools.partial(_mask_sizes, layer, layer.get_mask_sizes)


def _holds(layer: Any) -> bool:
    return isinstance(getattr(layer, "keys", None), torch.Tensor)


def _mask_sizes(layer: Any, otherwise: Callable[[int], tuple[int, int]], query_length: int) -> tuple[int, int]:
    """Say how long a window's mask is and where it begins, in a formula: transformers asks whether the window is full.

    That question would be answered for the example, and the exported model would serve full windows only, or none.
    """
    if layer.record_past:
        return otherwise(query_length)
    held = layer.keys.shape[-2]
    return held + query_length, getattr(layer, _COUNTED) - held


def _path(kind: type) -> list[str]:
    return [kind.__module__, kind.__qualname__]


def _find(module: str, qualname: str) -> Any:
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))
