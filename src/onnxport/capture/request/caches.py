"""transformers caches as containers of tensors: each layer keeps its kind, and every state it holds is an input.

A cache has layers of several kinds: attention over all that was seen, attention over a window of it, convolution and
recurrence with states of a fixed size. What differs between calls are the tensors; the kinds and their settings are the
structure.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from onnxport.errors import InputError
from onnxport.torch_internals import pytree

KEYS, VALUES = "key_cache", "value_cache"
_LISTS = {"keys": KEYS, "values": VALUES}
"""The names under which transformers' own registration lists the states that every attention has."""

_CACHES = "transformers.cache_utils"

LibraryObject: TypeAlias = Any
"""A cache, a layer of one or a class of transformers: the library is not imported, what it has is read by name."""

_SET_ONCE = ("sliding_window", "number_of_states", "conv_kernel_size")
"""Numbers of transformers' own layers that are settings."""

_BATCH = "batch_size"
"""The number of rows, which a layer of a fixed size remembers: it is read from the tensors, so that it may vary."""

_COUNTED = "cumulative_length"
"""The number of positions seen: it grows with each call, so that it is read from the tensors, not kept."""


@dataclass(frozen=True)
class CacheState:
    """One tensor of a cache: of which layer, what it is, and which axis of it grows from call to call, if one does.

    ``window`` is the number of positions that a layer of a sliding window looks at; it keeps one fewer.
    """

    layer: int
    kind: str
    growing_axis: int | None = None
    window: int | None = None


_KINDS = {"keys": "key", "values": "value"}


def cache_states(cache: object) -> list[CacheState] | None:
    """Say what the tensors of a cache of layers are, in the order in which it is flattened; None for anything else.

    >>> from transformers import DynamicCache
    >>> from onnxport.capture.request.caches import cache_states
    >>> cache = DynamicCache()
    >>> _ = cache.update(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4), 0)
    >>> [f"{state.layer}.{state.kind}" for state in cache_states(cache)]
    ['0.key', '0.value']
    """
    if not isinstance(getattr(cache, "layers", None), list) or not _descends(type(cache), "Cache"):
        return None
    lists: dict[str, list[CacheState]] = {name: [] for name in _LISTS.values()}
    for index, layer in enumerate(cache.layers):  # type: ignore[attr-defined]
        found = list(_states(layer))
        for attribute, key, tensor in found:
            kind = _KINDS.get(attribute, attribute.removesuffix("s"))
            # A layer that keeps its states by number has, most often, one of each.
            if key is not None and sum(attribute == other for other, _, _ in found) > 1:
                kind = f"{kind}.{key}"
            grows = attribute in _KINDS and _descends(type(layer), "DynamicLayer")
            window = layer.sliding_window if grows and _is_window(layer) else None
            state = CacheState(index, kind, tensor.dim() - 2 if grows else None, window)
            lists.setdefault(_LISTS.get(attribute, attribute), []).append(state)
    for attribute, value in vars(cache).items():
        if isinstance(value, list) and any(isinstance(entry, torch.Tensor) for entry in value):
            own = [index for index, entry in enumerate(value) if isinstance(entry, torch.Tensor)]
            lists[attribute] = [CacheState(index, attribute.removesuffix("s")) for index in own]
    return [state for states in lists.values() for state in states]


def _descends(kind: type, name: str) -> bool:
    return any((parent.__module__, parent.__name__) == (_CACHES, name) for parent in kind.__mro__)


def register_layered_cache(kind: type) -> None:
    """Register a cache as a container of its layers' states: keys, values, then what else there is."""
    base: LibraryObject = next(
        parent for parent in kind.__mro__ if (parent.__module__, parent.__name__) == (_CACHES, "Cache")
    )
    is_told = any(
        parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        for parameter in inspect.signature(kind).parameters.values()
    )

    def flatten(cache: LibraryObject) -> tuple[list[object], list[object]]:
        lists: dict[str, list[torch.Tensor]] = {name: [] for name in _LISTS.values()}
        layers = []
        for layer in cache.layers:
            slots = []
            for attribute, key, tensor in _states(layer):
                name = _LISTS.get(attribute, attribute)
                lists.setdefault(name, []).append(tensor)
                slots.append([name, attribute, key])
            layers.append([_path(type(layer)), slots, _settings(layer)])
        own = []
        for attribute, value in vars(cache).items():
            if isinstance(value, list) and any(isinstance(entry, torch.Tensor) for entry in value):
                lists[attribute] = [entry for entry in value if isinstance(entry, torch.Tensor)]
                own.append([attribute, [isinstance(entry, torch.Tensor) for entry in value]])
        grows = cache.layer_class_to_replicate is not None
        return list(lists.values()), [list(lists), layers, own, grows]

    def flatten_with_keys(cache: object) -> tuple[list[tuple[pytree.KeyEntry, object]], list[object]]:
        children, context = flatten(cache)
        names: Any = context[0]
        return [(pytree.MappingKey(name), child) for name, child in zip(names, children, strict=True)], context

    def unflatten(children: Iterable[Iterable[object]], context: LibraryObject) -> object:
        names, layers, own, grows = context
        lists = {name: iter(child) for name, child in zip(names, children, strict=True)}
        # One that must be told its size has nothing of its own but the layers.
        cache: LibraryObject = object.__new__(kind) if is_told else kind()
        base.__init__(cache, layers=[_layer(path, slots, settings, lists) for path, slots, settings in layers])
        for attribute, filled in own:
            # A layer that has no entry in the cache's own list holds an empty list in its place.
            setattr(cache, attribute, [next(lists[attribute]) if is_filled else [] for is_filled in filled])
        if grows:
            cache.layer_class_to_replicate = _find(_CACHES, "DynamicLayer")
        _count(cache.layers)
        return cache

    register_class(kind, flatten, unflatten, flatten_with_keys)


def layers_of_states(context: object) -> dict[str, list[int]]:
    """Of each list that a cache flattens to, the layers that its tensors are of; nothing for another class's."""
    layers: dict[str, list[int]] = {}
    if isinstance(context, list) and len(context) == 4 and isinstance(context[1], list):
        for index, (_, slots, _) in enumerate(context[1]):
            for name, _, _ in slots:
                layers.setdefault(name, []).append(index)
    return layers


def check_cache(name: str, value: object) -> str | None:
    """Refuse a cache that counts in Python, and say what one of windows alone cannot tell: how much was seen."""
    if not any(parent.__module__ == _CACHES for parent in type(value).__mro__):
        return None
    for layer in getattr(value, "layers", ()):
        counts = _counts(layer)
        if counts:
            raise InputError(
                f"{name} holds a layer of the class {type(layer).__qualname__}, which keeps numbers besides its "
                f"tensors ({', '.join(counts)}): the exported model would go on with the example's. Export the model "
                "without a cache (use_cache=False), or wrap it in a torch.nn.Module that takes tensors and makes the "
                "cache itself."
            )
    held = [layer for layer in getattr(value, "layers", ()) if _holds(layer)]
    windows = [layer.sliding_window for layer in held if _is_window(layer)]
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

    def flatten(cache: object) -> tuple[list[object], list[str]]:
        return [getattr(cache, name) for name in names], names

    def flatten_with_keys(cache: object) -> tuple[list[tuple[pytree.KeyEntry, object]], list[str]]:
        return [(pytree.GetAttrKey(name), getattr(cache, name)) for name in names], names

    def unflatten(children: Iterable[object], context: object) -> object:
        return kind(*children)

    register_class(kind, flatten, unflatten, flatten_with_keys)


def register_class(
    kind: type,
    flatten: pytree.FlattenFunc,
    unflatten: pytree.UnflattenFunc,
    flatten_with_keys: pytree.FlattenWithKeysFunc,
) -> None:
    """Register a class under its own name, with named children."""
    pytree.register_pytree_node(
        kind,
        flatten,
        unflatten,
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
        flatten_with_keys_fn=flatten_with_keys,
    )


def _counts(layer: object) -> list[str]:
    """Name the numbers a layer keeps, other than those transformers' own layers are known for."""
    if type(layer).__module__ == _CACHES:
        return []
    known = {*inspect.signature(type(layer).__init__).parameters, *_SET_ONCE, _COUNTED}
    found = []
    for attribute, value in vars(layer).items():
        entries = value.values() if isinstance(value, dict) else [value]
        if attribute not in known and any(type(entry) is int for entry in entries):
            found.append(attribute)
    return found


def _states(layer: object) -> Iterator[tuple[str, object, torch.Tensor]]:
    """Yield the tensors of a layer: the attribute, the key where the attribute is a dict, and the tensor."""
    for attribute, value in vars(layer).items():
        # What begins with an underscore is made by the layer for itself, from its settings.
        if attribute.startswith("_"):
            continue
        if isinstance(value, torch.Tensor):
            yield attribute, None, value
        elif isinstance(value, dict):
            yield from ((attribute, key, entry) for key, entry in value.items() if isinstance(entry, torch.Tensor))


def _settings(layer: object) -> list[list[object]]:
    """List what a layer is told and what it remembers besides tensors, in a form that compares and serialises."""
    parameters = inspect.signature(type(layer).__init__).parameters
    found = []
    for attribute, value in vars(layer).items():
        if attribute in (_COUNTED, _BATCH):
            continue
        if isinstance(value, dict):
            found += [[attribute, key, entry] for key, entry in value.items() if _is_plain(entry)]
        elif _is_plain(value) or attribute in parameters:
            found.append([attribute, None, value])
    return found


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _layer(
    path: list[str],
    slots: list[tuple[str, str, object]],
    settings: list[tuple[str, object, object]],
    lists: dict[str, Iterator[object]],
) -> object:
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
    if _holds(layer) and isinstance(getattr(layer, _COUNTED, None), torch.Tensor):
        setattr(layer, _BATCH, layer.keys.shape[0])
    return layer


def _put(layer: object, attribute: str, key: object, value: object) -> None:
    if key is None:
        setattr(layer, attribute, value)
    else:
        getattr(layer, attribute)[key] = value


def _count(layers: list[LibraryObject]) -> None:
    """Tell the layers that forget how many positions were seen: what a layer that keeps them all holds."""
    held = [layer.keys.shape[-2] for layer in layers if _holds(layer) and not _is_window(layer)]
    for layer in layers:
        if _holds(layer) and type(layer).get_seq_length.__qualname__ == "DynamicLayer.get_seq_length":
            # transformers asks whether there is any element, which would be captured as a branch.
            layer.get_seq_length = functools.partial(_held_length, layer)
        if _is_window(layer) and _holds(layer):
            setattr(layer, _COUNTED, held[0] if held else layer.keys.shape[-2])
            if type(layer).get_mask_sizes.__module__ == _CACHES:
                layer.get_mask_sizes = functools.partial(_mask_sizes, layer, layer.get_mask_sizes)


def _held_length(layer: LibraryObject) -> int:
    length: int = layer.keys.shape[-2]
    return length


def _holds(layer: object) -> bool:
    return isinstance(getattr(layer, "keys", None), torch.Tensor)


def _is_window(layer: object) -> bool:
    # A layer of a fixed size counts in a tensor, which is a state like the others.
    return hasattr(layer, "sliding_window") and not isinstance(getattr(layer, _COUNTED, None), torch.Tensor)


def _mask_sizes(
    layer: LibraryObject, otherwise: Callable[[int], tuple[int, int]], query_length: int
) -> tuple[int, int]:
    """Say how long a window's mask is and where it begins, in a formula: transformers asks whether the window is full.

    That question would be answered for the example, and the exported model would serve full windows only, or none.
    """
    if layer.record_past:
        return otherwise(query_length)
    held = layer.keys.shape[-2]
    return held + query_length, getattr(layer, _COUNTED) - held


def _path(kind: type) -> list[str]:
    return [kind.__module__, kind.__qualname__]


def _find(module: str, qualname: str) -> LibraryObject:
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))
