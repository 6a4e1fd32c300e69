"""Walking nested inputs and outputs: children with readable paths, and registration of unknown containers."""

from __future__ import annotations

import collections
import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import torch

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.capture.request.caches import register_class, register_encoder_decoder_cache, register_layered_cache
from onnxport.torch_internals import pytree

Step = str | int


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A leaf of the inputs: the parameter it belongs to, the steps from there, and its value."""

    path: str
    steps: tuple[Step, ...]
    value: Any


@dataclasses.dataclass(frozen=True)
class Branch:
    """The children of a container, with the step and the printed form of the step to each."""

    steps: tuple[Step, ...]
    suffixes: tuple[str, ...]
    children: Sequence[object]
    by_name: bool
    flattens_to: type | None


def _key_step(key: object) -> tuple[Step, str]:
    if isinstance(key, pytree.MappingKey):
        return (key.key if isinstance(key.key, int) else str(key.key)), f"[{key.key!r}]"
    if isinstance(key, pytree.GetAttrKey):
        return key.name, f".{key.name}"
    index = key.idx if isinstance(key, pytree.SequenceKey) else str(key)
    return index, f"[{index}]"


def branch(value: object) -> Branch | None:
    """Return the children of a container, or None for a leaf."""
    kind = pytree.get_node_type(value)
    node = pytree.SUPPORTED_NODES.get(kind)
    if node is None:
        return None
    children, _ = node.flatten_fn(value)
    if node.flatten_with_keys_fn is not None:
        keys = [_key_step(key) for key, _ in node.flatten_with_keys_fn(value)[0]]
    else:
        keys = [(index, f"[{index}]") for index in range(len(children))]
    builtin = kind in pytree.BUILTIN_TYPES
    return Branch(
        steps=tuple(step for step, _ in keys),
        suffixes=tuple(suffix for _, suffix in keys),
        children=children,
        by_name=any(isinstance(step, str) for step, _ in keys) or isinstance(value, dict),
        # torch matches a registered class against the plain sequence that its flatten function returns.
        flattens_to=None if builtin else type(children),
    )


def leaves(value: object, path: str, steps: tuple[Step, ...]) -> list[Leaf]:
    """List the leaves below a value, in flattening order."""
    here = branch(value)
    if here is None:
        return [Leaf(path, steps, value)]
    found: list[Leaf] = []
    for step, suffix, child in zip(here.steps, here.suffixes, here.children, strict=True):
        found += leaves(child, path + suffix, (*steps, step))
    return found


def copied(value: object) -> Any:
    """The same containers of copied tensors, so that a call may write to them, as it does to a cache."""
    return pytree.tree_map(lambda leaf: _copy_of(leaf) if isinstance(leaf, torch.Tensor) else leaf, value)


def _copy_of(tensor: torch.Tensor) -> torch.Tensor:
    copy = tensor.detach().clone()
    return copy.requires_grad_() if tensor.requires_grad else copy


def steps_of(spec: pytree.TreeSpec) -> Sequence[object]:
    """The names or positions of what a container holds."""
    count, context = len(pytree.children_of(spec)), spec.context
    fields = getattr(spec.type, "_fields", None) or getattr(context, "_fields", None)
    if fields is not None and len(fields) == count:
        return tuple(fields)
    if isinstance(context, list):
        # A dict's context is its keys; a dataclass's, a cache's and a defaultdict's hold them beside other things.
        lists = [context, *(part for part in context if isinstance(part, list))]
        for keys in lists if dataclasses.is_dataclass(spec.type) else (*lists[:1], *lists[-1:], *lists[1:2]):
            if len(keys) == count and all(isinstance(key, str | int) for key in keys):
                return keys
    return range(count)


def register_containers(value: object, report: Callable[[str], None]) -> None:
    """Teach torch the dataclasses and transformers caches in a value, so that it sees the tensors inside.

    The registration stays: the captured program's input and output structures refer to it.
    """
    kind = type(value)
    here = branch(value)
    if here is None and _register(value):
        report(f"{kind.__module__}.{kind.__qualname__} was registered as a container of tensors for torch.export.")
        here = branch(value)
    _complete(pytree.get_node_type(value))
    for child in here.children if here is not None else ():
        register_containers(child, report)


def _complete(kind: type) -> None:
    """Give a class the user registered without keys the keys torch.export asks for: positions."""
    node = pytree.SUPPORTED_NODES.get(kind)
    if node is None or node.flatten_with_keys_fn is not None:
        return
    flatten = node.flatten_fn

    def flatten_with_keys(value: object) -> tuple[list[tuple[pytree.KeyEntry, object]], object]:
        children, context = flatten(value)
        return [(pytree.SequenceKey(index), child) for index, child in enumerate(children)], context

    pytree.SUPPORTED_NODES[kind] = node._replace(flatten_with_keys_fn=flatten_with_keys)


def _register(value: object) -> bool:
    if isinstance(value, (torch.Tensor, str, int, float, complex, bytes, type(None), torch.dtype, torch.device)):
        return False
    for kind in type(value).__mro__:
        if kind.__module__ == "transformers.cache_utils" and kind.__name__ in _CACHES:
            _CACHES[kind.__name__](type(value))
            return True
        if kind.__module__ == "transformers.utils.generic" and kind.__name__ == "ModelOutput":
            return _register_model_output(type(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        torch.export.register_dataclass(type(value))
        return True
    if isinstance(value, dict | collections.UserDict):
        _register_mapping(type(value))
        return True
    return False


def _register_mapping(kind: type[object]) -> None:
    """Teach torch a class of dicts; it is filled anew from the values, whatever its constructor takes."""

    def flatten(value: Mapping[object, object]) -> tuple[list[object], list[object]]:
        return list(value.values()), list(value)

    def flatten_with_keys(value: Mapping[object, object]) -> tuple[list[tuple[pytree.KeyEntry, object]], list[object]]:
        return [(pytree.MappingKey(key), item) for key, item in value.items()], list(value)

    def unflatten(values: Iterable[object], keys: list[object]) -> object:
        made = cast(Any, kind).__new__(kind)
        if isinstance(made, collections.UserDict):
            made.data = {}
        for key, value in zip(keys, values, strict=True):
            made[key] = value
        return made

    register_class(kind, flatten, unflatten, flatten_with_keys)


def _register_model_output(kind: type) -> bool:
    """Have transformers register an output class, which it puts off for one defined while torch traces.

    It keeps its own list of what it registered and refuses to find a class registered by others.
    """
    register = getattr(sys.modules["transformers.utils.generic"], "_register_model_output_pytree_node", None)
    if register is None:
        return False
    with attributes_replaced([(torch.compiler, "is_compiling", lambda: False)]):
        register(kind)
    return kind in pytree.SUPPORTED_NODES


_CACHES: dict[str, Callable[[type], None]] = {
    "DynamicCache": register_layered_cache,
    "StaticCache": register_layered_cache,
    "EncoderDecoderCache": register_encoder_decoder_cache,
}
