"""Common subexpressions: one node for equal operations on equal inputs."""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping

import onnx_ir as ir

from onnxport.onnx_build.literals import attribute_key
from onnxport.onnx_build.operators import RANDOM
from onnxport.optimize.scope import Scope

#: What is left of these after the rules keeps two names apart.
SEPARATE = RANDOM | {"Identity"}
#: Operators of other domains may keep state or draw numbers, for all one can tell.
DOMAINS = frozenset({"", "ai.onnx.ml"})

Seen = MutableMapping[Hashable, ir.Node]
"""The nodes so far by what they compute; in a body also those before the node that has it."""


def merge(node: ir.Node, scope: Scope, seen: Seen) -> bool:
    """Let the first of two equal nodes of a graph serve for both; whether that happened.

    ``a = Exp(x); b = Exp(x); c = Add(a, b)`` becomes ``a = Exp(x); c = Add(a, a)``.
    A second graph output stays, as an Identity of the first.
    """
    key = computed(node, scope)
    if key is None:
        return False
    first = seen.get(key)
    # A rule of a later node may have changed the first: transpositions around it went.
    if first is None or first in scope.dead or computed(first, scope) != key:
        seen[key] = node
        return False
    if len(node.outputs) > 1 and any(output.is_graph_output() for output in node.outputs):
        return False
    for output, same in zip(node.outputs, first.outputs, strict=True):
        scope.replace(output, same)
    scope.tally["common subexpression"] += 1
    return True


def computed(node: ir.Node, scope: Scope) -> Hashable | None:
    """What is equal for nodes that compute the same of the same, and may be one; None for a node that stays."""
    key = _key(node)
    return key if key is None or scope.apart is None else (scope.apart(node), key)


def _key(node: ir.Node) -> Hashable | None:
    op_type = node.op_type
    if node.domain not in DOMAINS or op_type in SEPARATE or (op_type == "Dropout" and len(node.inputs) > 2):
        return None
    attributes: list[Hashable] = []
    given = node.attributes.data
    for name in sorted(given) if len(given) > 1 else given:
        part = attribute_key(given[name])
        if part is None:
            return None
        attributes.append((name, part))
    return (op_type, node.domain, node.version, node.inputs, len(node.outputs), *attributes)
