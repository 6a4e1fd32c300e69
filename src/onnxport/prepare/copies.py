"""Calls that copy at some sizes and not at others, where a write then makes the difference.

``x.t().contiguous()`` is a copy, but at a size of 1 it is ``x`` itself, and ``flatten`` of a slice is a view where the
slice is all there is. The graph does what the example did; a write to the one that is read through the other is an
assumption about sizes. So is another shape in place (`unsqueeze_`) where a call returns its argument itself at some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from onnxport.errors import Problem, listing, warn
from onnxport.events import EventLog
from onnxport.prepare.effects import Effects, copies_at_some_sizes, effects, returned_at_some_sizes
from onnxport.prepare.emit import bind_node
from onnxport.provenance import source_line

Node = torch.fx.Node


def report_uncertain_copies(graph: torch.fx.Graph, shared: Mapping[Node, Node], events: EventLog) -> None:
    """Record, and warn of, every such call among the nodes that show memory which is written to, by that memory."""
    problems = []
    for node in graph.nodes:
        if node not in shared or effects(node.target).view_of is None:
            continue
        source = bind_node(node)[effects(node.target).view_of or ""]
        if not copies_at_some_sizes(node, source):
            continue
        same = {other for other, memory in shared.items() if memory is shared[node]}
        if _write_tells(graph, node, same) or _reshaping_tells(graph, node, source):
            what = (
                f"{node.target} copies at some sizes only, and what is written afterwards is seen through it where not"
            )
            problems.append(Problem(what, source_line(node), "Write .clone() there if a copy is meant."))
    _report(problems, events)


def report_uncertain_returns(graph: torch.fx.Graph, shared: Mapping[Node, Node], events: EventLog) -> None:
    """The same for calls that return arguments themselves where they have the shape of the result already.

    They are asked before they are taken apart: an `expand` that a model writes always returns another tensor.
    """
    problems = []
    for node in graph.nodes:
        for result, source in returned_at_some_sizes(node) if node in shared else ():
            if _reshaping_tells(graph, result, source):
                what = f"{node.target} returns an argument itself at some sizes, and the shape of one changes in place"
                problems.append(Problem(what, source_line(node), "Write .clone() there, or give shapes not in place."))
                break
    _report(problems, events)


def _report(problems: Sequence[Problem], events: EventLog) -> None:
    for problem in problems:
        events.add("assumption", "prepare", problem.what, where=problem.where)
    if problems:
        warn(listing("The exported model follows the example where the code depends on a size:", problems))


def _write_tells(graph: torch.fx.Graph, node: Node, same: set[Node]) -> bool:
    """Whether one of the two tensors is written to after the call, and the other is read after that.

    Only what shows the same memory, at the example's sizes, is looked at.
    """
    shown = {node}
    written: set[bool] = set()
    after = False
    for later in graph.nodes:
        if later is node:
            after = True
        elif after:
            reads = {source in shown for source in later.all_input_nodes if source in same}
            if any(side != read for side in written for read in reads):
                return True
            if shown.intersection(later.all_input_nodes) and later in same:
                shown.add(later)
            known = effects(later.target)
            if known.writes:
                bound = bind_node(later)
                targets = [bound[name] for name in known.writes]
                written |= {target in shown for target in targets if isinstance(target, Node) and target in same}
    return False


def _reshaping_tells(graph: torch.fx.Graph, node: Node, source: Node) -> bool:
    """Whether one of the two tensors is given another shape in place after the call, and the other is read then.

    What does not copy may return its argument itself, not a view of it: ``x.contiguous().unsqueeze_(0)``.
    """
    if node.meta["val"].dim() != source.meta["val"].dim():
        return False
    itself: dict[Node, Node] = {}
    reshaped: set[Node] = set()
    after = False
    for later in graph.nodes:
        theirs = itself.get(source, source)
        read = {itself.get(each, each) for each in later.all_input_nodes}
        if (node in reshaped and theirs in read) or (theirs in reshaped and node in read):
            return True
        known = effects(later.target)
        target = bind_node(later)[known.returns[0]] if _in_place(known) and known.returns[0] is not None else None
        if isinstance(target, Node):
            itself[later] = itself.get(target, target)
            if after and known.as_view is not None:
                reshaped.add(itself[later])
        after = after or later is node
    return False


def _in_place(known: Effects) -> bool:
    return (known.as_view is not None or bool(known.writes)) and bool(known.returns)
