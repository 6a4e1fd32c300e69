"""Sizes of 1 that are 0 where an axis is empty at run time.

torch takes an axis that varies for one that has elements, so that ``x[:1]`` has one, and so has what is computed of it.
In ONNX a slice of nothing is nothing, and what follows goes by that of itself; only what makes a tensor of sizes that
are known, or divides by them, has to ask.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def shape_if_empty(op: Builder, x: Tensor) -> Sequence[Int]:
    """The shape of an argument of the call, where a size of 1 that is part of an axis that is empty is none."""
    # Most have no such axis, and then nothing was looked at.
    if x.shape.count(1) != 1 or op.call is None or (axis := _axis_cut_to_one(op.call)) is None:
        return x.shape
    length = op.shared.dim_names.read(axis)
    if not isinstance(length, Dim) or not op.may_be_empty([length]):
        return x.shape
    return [one_if_any(length) if size == 1 else size for size in x.shape]


def one_if_any(length: Dim) -> Int:
    """1 for an axis that has elements, else 0; the smaller of 1 and the size is simplified to 1."""
    return (2 * length) // (length + 1)


def _axis_cut_to_one(call: torch.fx.Node) -> torch.SymInt | None:
    """The axis that varies of which a size of 1 that the call is given is a part, if there is one."""
    seen: set[torch.fx.Node] = set()
    waiting = list(call.all_input_nodes[:1])
    while waiting:
        source = waiting.pop()
        if source in seen or not _has_one(source):
            continue
        seen.add(source)
        if (axis := _cut(source)) is not None:
            return axis
        if _keeps_sizes(source):
            waiting += source.all_input_nodes
    return None


def _has_one(node: torch.fx.Node) -> bool:
    """Whether a single size of 1 is known of a result."""
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and [isinstance(size, int) and size == 1 for size in value.shape].count(True) == 1
    )


def _keeps_sizes(node: torch.fx.Node) -> bool:
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    return torch.Tag.pointwise in target.tags or target._schema.name.removeprefix("aten::") in _KEPT


def _cut(node: torch.fx.Node) -> torch.SymInt | None:
    target = node.target
    name = target._schema.name if isinstance(target, OpOverload) else ""
    if name not in ("aten::slice", "aten::diagonal"):
        return None
    given, result = node.all_input_nodes[0].meta["val"].shape, node.meta["val"].shape
    if name == "aten::diagonal":
        # It has the place of the last axis, and the size of the smaller of two.
        rest = [size.node.expr for size in result[:-1] if isinstance(size, torch.SymInt)]
        cut = [size for size in given if isinstance(size, torch.SymInt) and size.node.expr not in rest]
        return cut[0] if len(cut) == 1 and isinstance(result[-1], int) and result[-1] == 1 else None
    place = node.args[1] if len(node.args) > 1 else 0
    assert isinstance(place, int)
    size = given[place]
    return size if isinstance(size, torch.SymInt) and isinstance(result[place], int) and result[place] == 1 else None
