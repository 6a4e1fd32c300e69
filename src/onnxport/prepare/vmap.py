"""Vectorised regions: what ``torch.vmap`` maps over a dimension, as calls on whole tensors.

A capture records the mapped function as it sees single examples, between markers of the mapping. Running those calls
once more under the real transform gives the batched calls, which then take their place.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxport.prepare.emit import PROVENANCE_META
from onnxport.prepare.trace import Attach, splice, trace_call
from onnxport.torch_internals.operators import vmap_decrement_nesting, vmap_increment_nesting


def has_vmaps(graph: torch.fx.Graph) -> bool:
    """Whether a graph has a vectorised region."""
    return any(node.target is vmap_increment_nesting for node in graph.nodes)


def expand_vmaps(graph: torch.fx.Graph, attribute: Callable[[str], object], attach: Attach) -> None:
    """Replace every vectorised region, in place, by the batched calls it stands for."""
    for region in _regions(graph):
        _expand(graph, region, attribute, attach)


def _regions(graph: torch.fx.Graph) -> list[list[torch.fx.Node]]:
    """The outermost regions: from entering a mapping to leaving it, nested ones included."""
    regions: list[list[torch.fx.Node]] = []
    depth = 0
    for node in graph.nodes:
        if node.target is vmap_increment_nesting:
            if depth == 0:
                regions.append([])
            depth += 1
        if depth and node.op == "call_function":
            regions[-1].append(node)
        if node.target is vmap_decrement_nesting:
            depth -= 1
    return regions


def _expand(
    graph: torch.fx.Graph, region: Sequence[torch.fx.Node], attribute: Callable[[str], object], attach: Attach
) -> None:
    inside = set(region)
    outside = dict.fromkeys(source for node in region for source in node.all_input_nodes if source not in inside)
    # Attributes that are no tensors (functions and the structure of their arguments, for flat_apply) are read here.
    known = {node: attribute(str(node.target)) for node in outside if node.op == "get_attr" and "val" not in node.meta}
    inputs = [node for node in outside if node not in known]
    outputs = [node for node in region if any(user not in inside for user in node.users)]
    last = region[-1]
    with graph.inserting_after(last):
        call = graph.call_function(_runner(region, inputs, outputs, known), tuple(inputs))
    call.meta.update({key: last.meta[key] for key in PROVENANCE_META if key in last.meta})
    call.meta["val"] = [node.meta["val"] for node in outputs]
    for index, node in enumerate(outputs):
        with graph.inserting_after(call):
            item = graph.call_function(operator.getitem, (call, index))
        item.meta.update(node.meta)
        node.replace_all_uses_with(item, delete_user_cb=lambda user: user not in inside)
    for node in reversed(region):
        graph.erase_node(node)
    splice(call, trace_call(call, call.target), attach)  # type: ignore[arg-type]


def _runner(
    region: Sequence[torch.fx.Node],
    inputs: Sequence[torch.fx.Node],
    outputs: Sequence[torch.fx.Node],
    known: Mapping[torch.fx.Node, object],
) -> Callable[..., list[object]]:
    steps = [(node, node.target, node.args, node.kwargs) for node in region]

    def run(*arguments: Any) -> list[object]:
        values = {**known, **dict(zip(inputs, arguments, strict=True))}
        for node, target, args, kwargs in steps:
            values[node] = target(  # type: ignore[operator]
                *torch.fx.node.map_arg(args, values.__getitem__), **torch.fx.node.map_arg(kwargs, values.__getitem__)
            )
        return [values[node] for node in outputs]

    return run
