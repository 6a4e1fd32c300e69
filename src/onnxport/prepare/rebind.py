"""``x.data = y``: from there on the name ``x`` stands for the values of ``y``.

A capture shows nothing of the assignment but torch's question whether the two are of one kind, which nobody reads.
"""

from __future__ import annotations

import torch

from onnxport.errors import Problem, TranslationError
from onnxport.provenance import source_line

_ASSIGNMENT = torch.ops.aten._has_compatible_shallow_copy_type.default


def has_assignments(graph: torch.fx.Graph) -> bool:
    """Whether data is assigned anywhere in the graph."""
    return bool(graph.find_nodes(op="call_function", target=_ASSIGNMENT))


def rebind_data(graph: torch.fx.Graph) -> None:
    """Let what reads a tensor after an assignment read what was assigned."""
    assignments = graph.find_nodes(op="call_function", target=_ASSIGNMENT)
    if not assignments:
        return
    order = {node: place for place, node in enumerate(graph.nodes)}
    problems = []
    # From the last to the first, so that each one finds only the readers up to the next.
    for node in reversed(assignments):
        tensor, value = node.args
        if not _fits(tensor, value):
            what = f"`.data` of {tensor} is set to {value}, which has another shape or type"
            problems.append(Problem(what, source_line(node), "Assign to a new name instead: y = value."))
            continue
        place = order[node]
        tensor.replace_all_uses_with(value, delete_user_cb=lambda user, place=place: order[user] > place)
        graph.erase_node(node)
    if problems:
        raise TranslationError("A tensor is given data of another form:", problems)


def _fits(tensor: torch.fx.Node, value: torch.fx.Node) -> bool:
    one, other = tensor.meta.get("val"), value.meta.get("val")
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    return one.dtype == other.dtype and [str(size) for size in one.shape] == [str(size) for size in other.shape]
