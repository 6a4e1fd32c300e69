"""Trace one call on its own into the few calls it is made of, and put those in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import Argument

from onnxport.prepare.emit import PROVENANCE_META, fake_mode_of, on_fake_values
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import enable_python_dispatcher
from onnxport.torch_internals.operators import OpOverload

Attach = Callable[[str, object], str]
"""Makes a value an attribute of the module that owns the graph, and returns the attribute's name."""


@dataclass(frozen=True)
class Traced:
    """The calls that one call is made of: placeholders are its node arguments in order, outputs its flat results."""

    graph: torch.fx.Graph
    owner: torch.fx.GraphModule
    result: pytree.TreeSpec

    def attach(self, name: str, value: object) -> str:
        """Make a value an attribute that the traced graph can read."""
        setattr(self.owner, name, value)
        return name


def trace_call(
    node: torch.fx.Node,
    function: Callable[..., object],
    decompositions: Mapping[OpOverload, Callable[..., object]] | None = None,
) -> Traced:
    """Run ``function`` on the fake arguments of a node and record the calls it makes; sizes stay symbolic."""
    leaves, structure = pytree.tree_flatten((list(node.args), dict(node.kwargs)))
    given = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.fx.Node)]
    values = [leaves[index].meta["val"] for index in given]
    results: list[pytree.TreeSpec] = []

    def run(*arguments: object) -> list[object]:
        filled = list(leaves)
        for index, argument in zip(given, arguments, strict=True):
            filled[index] = argument
        args, kwargs = pytree.tree_unflatten(filled, structure)
        flat, result = pytree.tree_flatten(function(*args, **kwargs))
        results.append(result)
        return flat

    with on_fake_values(fake_mode_of(values)), enable_python_dispatcher():
        owner = make_fx(run, decomposition_table=decompositions, _allow_non_fake_inputs=True)(*values)
    _unwrap_numbers(owner.graph)
    return Traced(owner.graph, owner, results[-1])


def _unwrap_numbers(graph: torch.fx.Graph) -> None:
    """Let a number be a number again that vectorisation made a tensor of, to convert it to the dtype beside it."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten._to_copy.default):
        number = node.args[0]
        if isinstance(number, int | float):
            dtype = node.meta["val"].dtype
            substitute(node, float(number) if dtype.is_floating_point else number)
            graph.erase_node(node)


def trace_kernel(node: torch.fx.Node) -> Traced:
    """Trace the kernel that defines an operator in terms of others."""
    assert isinstance(node.target, OpOverload)
    return trace_call(node, node.target.decompose)


def splice(node: torch.fx.Node, traced: Traced, attach: Attach) -> list[torch.fx.Node]:
    """Replace a call by what was traced of it and return the new nodes, in order."""
    leaves = pytree.tree_leaves((list(node.args), dict(node.kwargs)))
    arguments = [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]
    copies: dict[torch.fx.Node, Any] = {}
    added: list[torch.fx.Node] = []
    flat: list[Argument] = []
    for inner in traced.graph.nodes:
        if inner.op == "placeholder":
            copies[inner] = arguments[len(copies)]
        elif inner.op == "output":
            flat = list(torch.fx.node.map_arg(inner.args[0], copies.__getitem__))
        else:
            copies[inner] = _copy(inner, node, copies, traced.owner, attach)
            added.append(copies[inner])
    _replace(node, pytree.tree_unflatten(flat, traced.result), added)
    return added


def _copy(
    inner: torch.fx.Node,
    node: torch.fx.Node,
    copies: Mapping[torch.fx.Node, Argument],
    owner: torch.fx.GraphModule,
    attach: Attach,
) -> torch.fx.Node:
    with node.graph.inserting_before(node):
        target = inner.target
        if inner.op == "get_attr":
            assert isinstance(target, str)
            target = attach(f"{node.name}_{target.strip('_')}", getattr(owner, target))
        args = torch.fx.node.map_arg(inner.args, copies.__getitem__)
        kwargs = torch.fx.node.map_arg(inner.kwargs, copies.__getitem__)
        copy = node.graph.create_node(inner.op, target, args, kwargs, name=f"{node.name}_{inner.name}")
    copy.meta.update({key: node.meta[key] for key in PROVENANCE_META if key in node.meta})
    if "val" in inner.meta:
        copy.meta["val"] = inner.meta["val"]
    elif inner.op == "get_attr":
        copy.meta["val"] = getattr(owner, str(inner.target))
    return copy


def _replace(node: torch.fx.Node, result: object, added: list[torch.fx.Node]) -> None:
    _replace_items(node, result)
    substitute(node, result)
    name = node.name
    node.graph.erase_node(node)
    if isinstance(result, torch.fx.Node) and result in added:
        result.name = name


def _replace_items(node: torch.fx.Node, result: object) -> None:
    """Let what is taken out of a list, or out of a list in it, be the item itself."""
    if not isinstance(result, (list, tuple)):
        return
    for user in list(node.users):
        if user.target is getitem and user.args[0] is node:
            item = result[user.args[1]]  # type: ignore[index]
            _replace_items(user, item)
            substitute(user, item)
            user.graph.erase_node(user)


def substitute(node: torch.fx.Node, replacement: Any) -> None:
    """Let all users of a node use something else: another node, a constant, or a list of either."""
    for user in list(node.users):
        user.args = torch.fx.node.map_arg(user.args, lambda other: replacement if other is node else other)
        user.kwargs = torch.fx.node.map_arg(user.kwargs, lambda other: replacement if other is node else other)
