"""What need not stand in a body: the branch that is always taken, what all branches compute, or a loop every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

import onnx_ir as ir

from onnxport.onnx_build.names import names_in
from onnxport.onnx_build.operators import operator_set
from onnxport.optimize.merge import computed
from onnxport.optimize.scope import Scope, known_dims

_NEVER_FAILS = operator_set(
    "Abs Add Cast Cos Erf Exp Log MatMul Mul Neg Not Reciprocal Relu Sigmoid Sin Sqrt Sub Tanh Transpose"
)
"""What may be computed although the loop runs not at all: it raises nothing, at sizes that are known to fit."""


def take_known_branch(node: ir.Node, scope: Scope) -> bool:
    """Put the nodes of the branch that is taken in place of an If whose condition is a literal; whether it is one.

    ``y = If(true)<then_branch = {a = Exp(x)}, else_branch = {b = Neg(x)}>`` becomes ``y = Exp(x)``.
    """
    condition = scope.array(node.inputs[0])
    if condition is None or condition.size != 1:
        return False
    branch = node.attributes["then_branch" if condition.item() else "else_branch"].as_graph()
    if branch.initializers or node.graph is None:
        return False
    results = list(branch.outputs)
    branch.outputs.clear()
    nodes = list(branch)
    branch.remove(nodes)
    _move(nodes, scope)
    node.graph.insert_after(node, nodes)
    for output, result in zip(list(node.outputs), results, strict=True):
        inlined = result.producer() in nodes and not result.is_graph_output()
        if output.is_graph_output() and not inlined:
            result = _copy(output, result, nodes[-1] if nodes else node, scope)
        scope.replace(output, result)
    scope.discard(node)
    scope.tally["branch that is always taken"] += 1
    return True


def compute_once(node: ir.Node, scope: Scope) -> None:
    """Compute before a Loop or Scan what its body computes of outer values alone.

    ``Loop{a = Transpose(w) b = MatMul(h, a)}`` becomes ``a = Transpose(w) Loop{b = MatMul(h, a)}``.
    """
    body = node.attributes["body"].as_graph()
    invariant: list[ir.Node] = []
    moved: set[ir.Node] = set()
    for inner in body:
        if inner in scope.dead or inner.domain != "" or inner.op_type not in _NEVER_FAILS or inner.version is not None:
            continue
        if inner.outputs[0].is_graph_output() or known_dims(inner.outputs[0]) is None:
            continue
        if all(value is not None and (value.producer() in moved or value.graph is not body) for value in inner.inputs):
            invariant.append(inner)
            moved.add(inner)
    if invariant and node.graph is not None:
        body.remove(invariant)
        _move(invariant, scope)
        node.graph.insert_before(node, invariant)
        scope.tally["computed once before a loop"] += len(invariant)


def compute_before_branches(node: ir.Node, scope: Scope) -> None:
    """Compute before an If what both of its branches compute of outer values.

    ``If(c){a = Exp(x) b = Neg(a)}{d = Exp(x) e = Abs(d)}`` becomes ``a = Exp(x) If(c){b = Neg(a)}{e = Abs(a)}``.
    """
    one, other = (node.attributes[name].as_graph() for name in ("then_branch", "else_branch"))
    if node.graph is None:
        return
    waiting: dict[Hashable, ir.Node] = {}
    moved: set[ir.Node] = set()
    common: list[ir.Node] = []

    def note(nodes: Iterable[ir.Node]) -> None:
        for inner in nodes:
            key = _of_outer_values(inner, other, moved, scope)
            if key is not None:
                waiting.setdefault(key, inner)

    note(other)
    for inner in one:
        key = _of_outer_values(inner, one, moved, scope)
        same = None if key is None else waiting.pop(key, None)
        if same is None:
            continue
        common.append(inner)
        moved.add(inner)
        readers = [user for output in same.outputs for user, _ in output.uses() if user.graph is other]
        for output, first in zip(same.outputs, inner.outputs, strict=True):
            shape = _shape_in_both(first.shape, output.shape)
            scope.replace(output, first)
            first.shape = shape
        note(readers)
    if common:
        one.remove(common)
        _move(common, scope)
        node.graph.insert_before(node, common)
        scope.tally["computed before both branches"] += len(common)


def _shape_in_both(one: ir.Shape | None, other: ir.Shape | None) -> ir.Shape | None:
    """What is so in both branches, of which one may know a size that the other leaves open."""
    if one is None or other is None or len(one) != len(other):
        return None
    sizes = zip(one, other, strict=True)
    return ir.Shape([a if a == b or (isinstance(b, int) and not isinstance(a, int)) else b for a, b in sizes])


def _of_outer_values(node: ir.Node, body: ir.Graph, moved: set[ir.Node], scope: Scope) -> Hashable | None:
    """What a node of a branch computes, if that needs nothing of the branch and is not what the branch returns."""
    if node in scope.dead or any(output.is_graph_output() for output in node.outputs):
        return None
    for value in node.inputs:
        if value is not None and value.graph is body and value.producer() not in moved:
            return None
    return computed(node, scope)


def _move(nodes: list[ir.Node], scope: Scope) -> None:
    """Give nodes that leave a body names that nothing has where they go: bodies side by side may share theirs."""
    taken = Counter(names_in((scope.graph, *scope.nested)))
    for node in nodes:
        if node.name and taken[node.name]:
            node.name = scope.free_name(node.name)
        for output in node.outputs:
            if output.name and taken[output.name]:
                output.name = scope.free_name(output.name)


def _copy(output: ir.Value, source: ir.Value, behind: ir.Node, scope: Scope) -> ir.Value:
    copy = ir.Node("", "Identity", [source])
    scope.counts[source] = scope.counts.get(source, 0) + 1
    result = copy.outputs[0]
    result.name = scope.free_name(f"{output.name}_copy")
    result.type, result.shape = output.type, output.shape
    copy.name = f"node_{result.name}"
    assert behind.graph is not None
    behind.graph.insert_after(behind, copy)
    return result
