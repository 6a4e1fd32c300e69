"""Sizes that are known and are 0 where an axis is empty at run time.

torch takes an axis that varies for one that has elements, so that ``x[:1]`` has one, and so has what is computed of it.
In ONNX a slice of nothing is nothing, and what follows goes by that of itself; only what makes a tensor of sizes that
are known, or divides by them, has to ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from onnxport.torch_internals.operators import OpOverload
from onnxport.translate.builder import Builder
from onnxport.translate.dims import Dim, Int
from onnxport.translate.tensor import Tensor

_KEPT = {
    *("clone", "contiguous", "detach", "_to_copy", "to", "index"),
    *("flip", "mT", "permute", "swapaxes", "t", "transpose"),
}
"""What has sizes of its first argument, in some order, beside what computes element by element."""
_PARTS = (torch.ops.aten.slice.Tensor, torch.ops.aten.diagonal.default)


def sizes_of_parts(graph: torch.fx.Graph) -> frozenset[int]:
    """The known sizes of parts of axes that vary, in a graph and in those that it calls."""
    return frozenset(size for node in _slices(graph) for size, _ in _cuts(node))


def _slices(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    for target in _PARTS:
        yield from graph.find_nodes(op="call_function", target=target)
    owner = graph.owning_module
    for node in graph.find_nodes(op="get_attr") if owner is not None else ():
        body = getattr(owner, node.target, None)
        if isinstance(body, torch.fx.GraphModule):
            yield from _slices(body.graph)


def shape_if_empty(op: Builder, x: Tensor) -> Sequence[Int]:
    """The shape of an argument of the call, where a known size that is part of an axis that is empty is 0."""
    # Most have no such axis, and then nothing was looked at.
    if op.shared.sizes_of_parts.isdisjoint(x.shape) or op.call is None:
        return x.shape
    return [_if_empty(op, op.call, size) if x.shape.count(size) == 1 else size for size in x.shape]


def _if_empty(op: Builder, call: torch.fx.Node, size: Int) -> Int:
    if size not in op.shared.sizes_of_parts or not isinstance(size, int) or (axis := _axis_cut_to(call, size)) is None:
        return size
    length = op.shared.dim_names.read(axis)
    return size * one_if_any(length) if isinstance(length, Dim) and op.may_be_empty([length]) else size


def one_if_any(length: Dim) -> Int:
    """1 for an axis that has elements, else 0; the smaller of 1 and the size is simplified to 1."""
    return (2 * length) // (length + 1)


def _axis_cut_to(call: torch.fx.Node, size: int) -> torch.SymInt | None:
    """The axis that varies of which a size that the call is given is a part, if there is one."""
    seen: set[torch.fx.Node] = set()
    waiting = list(call.all_input_nodes[:1])
    while waiting:
        source = waiting.pop()
        if source in seen or not _has_once(source, size):
            continue
        seen.add(source)
        for part, axis in _cuts(source):
            if part == size:
                return axis
        if _keeps_sizes(source):
            waiting += source.all_input_nodes
    return None


def _has_once(node: torch.fx.Node, size: int) -> bool:
    """Whether one axis of a result is known to have a size."""
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and [isinstance(one, int) and one == size for one in value.shape].count(True) == 1
    )


def _keeps_sizes(node: torch.fx.Node) -> bool:
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    return torch.Tag.pointwise in target.tags or target._schema.name.removeprefix("aten::") in _KEPT


def _cuts(node: torch.fx.Node) -> Iterator[tuple[int, torch.SymInt]]:
    """The known size of a part, and the axis that varies that it is a part of."""
    if node.target not in _PARTS:
        return
    given, result = node.all_input_nodes[0].meta["val"].shape, node.meta["val"].shape
    if node.target is torch.ops.aten.diagonal.default:
        # It has the place of the last axis, and the size of the smaller of two.
        rest = [size.node.expr for size in result[:-1] if isinstance(size, torch.SymInt)]
        whole = [size for size in given if isinstance(size, torch.SymInt) and size.node.expr not in rest]
        part = result[-1]
    else:
        place = node.args[1] if len(node.args) > 1 else 0
        assert isinstance(place, int)
        whole = [size for size in (given[place],) if isinstance(size, torch.SymInt)]
        part = result[place]
    if len(whole) == 1 and isinstance(part, int):
        yield part, whole[0]
