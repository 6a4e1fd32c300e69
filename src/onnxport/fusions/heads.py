"""Attention whose heads lie in one axis before and after, by onnxruntime's operator for that."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.onnx_build.opsets import CONTRIBUTED_DOMAIN
from onnxport.optimize.rules.pattern import made_by
from onnxport.optimize.scope import Scope, known_dims

SWAP = [0, 2, 1, 3]
_PLAIN = frozenset({"scale", "is_causal"})


def attend_by_heads(node: ir.Node, scope: Scope) -> bool:
    """Let MultiHeadAttention take heads apart, attend, and join them.

    ``Reshape(Transpose(Attention(T(q), T(k), T(v))))`` with ``T(x) = Transpose(Reshape(x, [0, 0, heads, size]))``
    becomes ``MultiHeadAttention(q, k, v)``.
    """
    if not set(node.attributes) <= _PLAIN or node.attributes.get_int("is_causal", 0) != 0:
        return False
    if len(node.outputs) != 1 or any(value is not None for value in node.inputs[3:]):
        return False
    operands = [joined_operand(value) for value in node.inputs[:3]]
    given = [value for value in operands if value is not None]
    joined = joined_result(node, scope)
    if len(given) != 3 or joined is None or given[0].dtype != ir.DataType.FLOAT:
        return False
    heads = {_heads(value) for value in node.inputs[:3]}
    if len(heads) != 1 or None in heads:
        return False
    (count,) = heads
    assert count is not None
    attributes: list[ir.Attr] = [ir.AttrInt64("num_heads", count)]
    if "scale" in node.attributes:
        attributes.append(ir.AttrFloat32("scale", node.attributes.get_float("scale", 1.0)))
    scope.become(joined, "MultiHeadAttention", given, attributes, domain=CONTRIBUTED_DOMAIN)
    return True


def _heads(value: ir.Value | None) -> int | None:
    dim = value.shape[1] if value is not None and value.shape is not None else None
    return dim if isinstance(dim, int) else None


def joined_operand(value: ir.Value | None) -> ir.Value | None:
    """``x`` of ``Transpose(Reshape(x))``, if the last axis of ``x`` holds the heads one after the other."""
    swap = made_by(value, "Transpose")
    if swap is None or list(swap.attributes.get_ints("perm", [])) != SWAP:
        return None
    apart = made_by(swap.inputs[0], "Reshape")
    source = apart.inputs[0] if apart is not None else None
    before, after = known_dims(source), known_dims(swap.inputs[0])
    if before is None or after is None or len(before) != 3 or len(after) != 4:
        return None
    heads, size = after[2:]
    if not isinstance(heads, int) or not isinstance(size, int):
        return None
    return source if before == (*after[:2], heads * size) else None


def with_heads_joined(node: ir.Node, value: ir.Value | None, scope: Scope) -> ir.Value:
    """A value of batch, heads, positions and size with its heads one after the other in the last axis.

    It is what the heads were taken apart from, if it can be found; else a new node before ``node`` joins them.
    """
    assert value is not None and value.dtype is not None
    source = joined_operand(value)
    if source is not None:
        return source
    batch, heads, length, size = known_dims(value) or ()
    assert isinstance(heads, int) and isinstance(size, int)
    swap = made_by(value, "Transpose")
    if swap is not None and list(swap.attributes.get_ints("perm", [])) == SWAP and swap.inputs[0] is not None:
        apart = swap.inputs[0]
    else:
        perm = [ir.AttrInt64s("perm", SWAP)]
        apart = scope.insert_before(node, "Transpose", [value], value.dtype, [batch, length, heads, size], perm)
    shape = scope.int64s(0, 0, heads * size)
    return scope.insert_before(node, "Reshape", [apart, shape], value.dtype, [batch, length, heads * size])


def joined_result(node: ir.Node, scope: Scope) -> ir.Node | None:
    """The Reshape that joins the heads of the result, if nothing else reads the result."""
    swap = only_reader(node, "Transpose", scope)
    if swap is None or list(swap.attributes.get_ints("perm", [])) != SWAP:
        return None
    joined = only_reader(swap, "Reshape", scope)
    if joined is None:
        return None
    before, after = known_dims(swap.outputs[0]), known_dims(joined.outputs[0])
    if before is None or after is None or not isinstance(before[2], int) or not isinstance(before[3], int):
        return None
    return joined if after == (*before[:2], before[2] * before[3]) and joined.graph is node.graph else None


def only_reader(node: ir.Node, op_type: str, scope: Scope) -> ir.Node | None:
    """The node of this operator that alone reads the result of another."""
    value = node.outputs[0]
    if value.is_graph_output() or scope.counts.get(value, 0) != 1:
        return None
    readers = [reader for reader, _ in value.uses() if reader not in scope.dead]
    if len(readers) != 1 or readers[0].op_type != op_type or readers[0].domain != "":
        return None
    return readers[0]
