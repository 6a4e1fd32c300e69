"""Decompose on demand: only a call without a translation is traced, alone, into calls that have one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol

import torch

from onnxport.events import EventLog
from onnxport.prepare.emit import dim_key
from onnxport.prepare.functionalize import functionalize, writes
from onnxport.prepare.trace import Attach, Traced, splice, trace_call
from onnxport.provenance import source_line
from onnxport.torch_internals import pytree
from onnxport.torch_internals.operators import OpOverload, decomposition_of


class HasTranslation(Protocol):
    """Whether calls of a target can be translated: of real tensors, or with complex ones among them."""

    def __call__(self, target: object, of_complex: bool = False, /) -> bool: ...


_SIZES = {"aten::size", "aten::sym_size", "aten::sym_stride", "aten::sym_numel", "aten::sym_storage_offset"}
"""Not computations on tensors: the translation reads them off shapes."""


def undecomposed(graph: torch.fx.Graph, has_translation: HasTranslation) -> bool:
    """Whether a graph has a call that lacks a translation and might be decomposed."""
    calls = {(node.target, _has_complex(node)) for node in graph.nodes if node.op == "call_function"}
    return any(_wanted(target, of_complex, has_translation) for target, of_complex in calls)


def _has_complex(node: torch.fx.Node) -> bool:
    values = (value.meta.get("val") for value in (node, *node.all_input_nodes))
    return any(
        isinstance(item, torch.Tensor) and item.dtype.is_complex
        for value in values
        for item in (value if isinstance(value, list | tuple) else (value,))
    )


def _wanted(target: object, of_complex: bool, has_translation: HasTranslation) -> bool:
    if not isinstance(target, OpOverload) or has_translation(target, of_complex):
        return False
    return target._schema.name not in _SIZES and _decomposition(target) is not None


@functools.cache
def _decomposition(target: OpOverload) -> Callable[..., object] | None:
    """How to compute an operator from others: torch's decomposition, its own kernel, or for a prim its ATen form."""
    by_torch = decomposition_of(target)
    if by_torch is not None:
        return by_torch
    if target._can_decompose():
        return target.decompose
    aten_form: Callable[..., object] | None = getattr(target, "impl_aten", None)
    return aten_form


def decompose(graph: torch.fx.Graph, has_translation: HasTranslation, attach: Attach, events: EventLog) -> None:
    """Replace, in place, every call without translation by calls that have one, as far as that is possible."""
    known: dict[object, Traced | None] = {}
    pending = [(node, frozenset[object]()) for node in reversed(list(graph.nodes))]
    while pending:
        node, ancestors = pending.pop()
        if node.op != "call_function" or node.target in ancestors:
            continue
        if not _wanted(node.target, _has_complex(node), has_translation):
            continue
        key = _key(node)
        if key not in known:
            known[key] = _traced(node, events)
        traced = known[key]
        if traced is not None:
            above = ancestors | {node.target}
            pending += [(part, above) for part in reversed(splice(node, traced, attach))]


def _traced(node: torch.fx.Node, events: EventLog) -> Traced | None:
    target = node.target
    assert isinstance(target, OpOverload)
    function = _decomposition(target)
    assert function is not None
    try:
        traced = trace_call(node, function)
        if writes(traced.graph):
            functionalize(traced.graph, traced.attach)
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything; the translation reports the call
        events.add("note", "prepare", f"{target} could not be decomposed: {error}", where=source_line(node))
        return None
    if any(part.target is target for part in traced.graph.nodes):
        return None
    return traced


def _key(node: torch.fx.Node) -> object:
    leaves, structure = pytree.tree_flatten((list(node.args), dict(node.kwargs)))
    return node.target, structure, tuple(_leaf_key(leaf) for leaf in leaves)


def _leaf_key(leaf: object) -> object:
    if not isinstance(leaf, torch.fx.Node):
        return type(leaf), repr(leaf)
    return tuple(_value_key(value) for value in pytree.tree_leaves(leaf.meta["val"]))


def _value_key(value: object) -> object:
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.layout is torch.strided else ()
        sizes = tuple(dim_key(size) for size in (*value.shape, *strides))
        return value.dtype, value.device, value.layout, sizes
    if isinstance(value, torch.SymInt):
        return "SymInt", dim_key(value)
    return type(value), repr(value)
