"""Common subexpressions: one node for equal operations on equal inputs."""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir as ir

from onnxport.onnx_build.literals import literal_key
from onnxport.onnx_build.operators import RANDOM
from onnxport.optimize.scope import Scope, readable

#: What is left of these after the rules keeps two names apart.
SEPARATE = RANDOM | {"Identity"}
#: Operators of other domains may keep state or draw numbers, for all one can tell.
DOMAINS = frozenset({"", "ai.onnx.ml"})

Seen = dict[Hashable, ir.Node]


def merge(node: ir.Node, scope: Scope, seen: Seen) -> bool:
    """Let the first of two equal nodes of a graph serve for both; whether that happened.

    ``a = Exp(x); b = Exp(x); c = Add(a, b)`` becomes ``a = Exp(x); c = Add(a, a)``.
    A second graph output stays, as an Identity of the first.
    """
    key = _key(node)
    if key is None:
        return False
    if scope.apart is not None:
        key = (scope.apart(node), key)
    first = seen.get(key)
    if first is None or first in scope.dead:
        seen[key] = node
        return False
    if len(node.outputs) > 1 and any(output.is_graph_output() for output in node.outputs):
        return False
    for output, same in zip(node.outputs, first.outputs, strict=True):
        scope.replace(output, same)
    scope.tally["common subexpression"] += 1
    return True


def _key(node: ir.Node) -> Hashable | None:
    op_type = node.op_type
    if node.domain not in DOMAINS or op_type in SEPARATE or (op_type == "Dropout" and len(node.inputs) > 2):
        return None
    attributes: list[Hashable] = []
    given = node.attributes.data
    for name in sorted(given) if len(given) > 1 else given:
        part = _attribute_key(given[name])
        if part is None:
            return None
        attributes.append((name, part))
    return (op_type, node.domain, node.version, node.inputs, len(node.outputs), *attributes)


def _attribute_key(attribute: ir.Attr) -> Hashable | None:
    if attribute.is_ref():
        return ("ref", attribute.ref_attr_name)
    kind = attribute.type
    if kind is ir.AttributeType.INT or kind is ir.AttributeType.INTS or kind is ir.AttributeType.STRING:
        return (kind, attribute.value)
    if kind is ir.AttributeType.FLOAT or kind is ir.AttributeType.FLOATS:
        # By its digits: 0.0 equals -0.0 and is not the same.
        return (kind, repr(attribute.value))
    if kind is ir.AttributeType.STRINGS:
        return (kind, tuple(attribute.value))
    if kind is ir.AttributeType.TENSOR:
        # Not as_tensor(), whose check of the tensor's protocol costs more than all the rest.
        tensor: ir.TensorProtocol = attribute.value
        return literal_key(tensor.dtype, tensor.numpy()) if readable(tensor) else None
    return None
