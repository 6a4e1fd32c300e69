"""The walk forwards: at each node the rewrite rules, then constant folding, then common subexpressions.

Three passes one after the other would have to repeat, since each makes work for the others. At one node they need
not: everything they look at lies before it and has taken its final form.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable

import onnx_ir as ir

from onnxport.graphs import bodies
from onnxport.optimize.fold import fold
from onnxport.optimize.known_bodies import compute_before_branches, compute_once, take_known_branch
from onnxport.optimize.merge import merge
from onnxport.optimize.rules import BY_OPERATOR
from onnxport.optimize.rules.pattern import Rule
from onnxport.optimize.scope import Scope

_LOOPS = frozenset({"Loop", "Scan"})


def rewrite_forwards(scope: Scope) -> None:
    """Simplify every node of a graph and of the bodies in it, in order."""
    _walk(scope.graph, scope, ChainMap())


def _walk(graph: ir.Graph, scope: Scope, seen: ChainMap[Hashable, ir.Node]) -> None:
    scope.tally["visits"] += len(graph)
    for node in graph:
        inner = bodies(node)
        if inner:
            if node.op_type == "If" and node.domain == "" and take_known_branch(node, scope):
                continue
            for body in inner:
                _walk(body, scope, seen.new_child())
            if node.op_type in _LOOPS and node.domain == "":
                compute_once(node, scope)
            elif node.op_type == "If" and node.domain == "":
                compute_before_branches(node, scope)
        # A node with a version of its own may read differently from what the rules know of its operator.
        canonical = node.domain == "" and node.version is None
        if canonical and not (scope.in_function and any(a.is_ref() for a in node.attributes.values())):
            # Each rule that changes a node moves it closer to the inputs of the graph, so this ends.
            rules = BY_OPERATOR.get(node.op_type)
            while rules is not None and _apply(rules, node, scope):
                rules = BY_OPERATOR.get(node.op_type)
            if node in scope.dead or fold(node, scope):
                continue
        merge(node, scope, seen)


def _apply(rules: tuple[Rule, ...], node: ir.Node, scope: Scope) -> bool:
    """Apply the first rule that fits; whether the node is still there in another form."""
    for rule in rules:
        if not rule.matches(node):
            continue
        result = rule.rewrite(node, scope)
        if result is None:
            continue
        if result is True:
            scope.tally[rule.name] += 1
            return True
        if scope.replace(node.outputs[0], result):
            scope.tally[rule.name] += 1
        return False
    return False
