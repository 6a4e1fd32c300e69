"""Attention whose heads lie in one axis before and after, by onnxruntime's operator for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    scale = node.attributes.get_float("scale", 1.0) if "scale" in node.attributes else None
    return write_attention(node, node, [heads_of(value) for value in node.inputs[:3]], scale, scope)


def write_attention(
    node: ir.Node, last: ir.Node, operands: list[Heads | None], scale: float | None, scope: Scope
) -> bool:
    """Write MultiHeadAttention for queries, keys and values in the place of what joins the heads that ``last`` gives.

    What more it takes comes before ``node``, one that reads them.
    """
    given = [heads for heads in operands if heads is not None]
    joined = joined_result(last, scope)
    if len(given) != 3 or joined is None or given[0].source.dtype != ir.DataType.FLOAT:
        return False
    counts = {heads.count for heads in given}
    if len(counts) != 1:
        return False
    attributes: list[ir.Attr] = [ir.AttrInt64("num_heads", counts.pop())]
    if scale is not None:
        attributes.append(ir.AttrFloat32("scale", scale))
    values = [heads.joined(node, scope) for heads in given]
    scope.become(joined, "MultiHeadAttention", values, attributes, domain=CONTRIBUTED_DOMAIN)
    return True


@dataclass(frozen=True)
class Heads:
    """Heads one after the other in the last axis of a value, or in one of the equal parts of that axis.

    Attributes:
        source: The value.
        count: How many heads.
        part: In which part they are; None where they are all that there is.
        parts: How many parts there are.
    """

    source: ir.Value
    count: int
    part: int | None = None
    parts: int = 1

    def joined(self, node: ir.Node, scope: Scope) -> ir.Value:
        """The value with these heads alone in its last axis, from a new node before ``node`` if need be."""
        if self.part is None:
            return self.source
        source, parts = self.source, self.parts

        def make() -> ir.Value:
            *rows, width = known_dims(source) or ()
            assert isinstance(width, int) and source.dtype is not None
            sizes = scope.int64s(*[width // parts] * parts)
            split = ir.Node("", "Split", [source, sizes], [ir.AttrInt64("axis", -1)], num_outputs=parts)
            for output in split.outputs:
                output.type, output.shape = ir.TensorType(source.dtype), ir.Shape([*rows, width // parts])
            scope.insert_node_before(node, split)
            return split.outputs[0]

        producer = scope.once(("parts", source, parts, node.graph), make).producer()
        assert producer is not None
        return producer.outputs[self.part]


def heads_of(value: ir.Value | None, turned: bool = False) -> Heads | None:
    """Where the heads of a value of batch, heads, positions and size come from; ``turned`` has its last axes swapped.

    ``Transpose(Reshape(x, [0, 0, heads, size]))``, or one of the first axis of
    ``Transpose(Reshape(x, [0, 0, parts, heads, size]), [2, 0, 3, 1, 4])``.
    """
    if turned:
        swap = made_by(value, "Transpose")
        order = [] if swap is None else list(swap.attributes.get_ints("perm", []))
        if swap is not None and order == [0, 1, 3, 2]:
            return heads_of(swap.inputs[0])
        source = joined_operand(value, [0, 2, 3, 1])
        dims = known_dims(value)
    else:
        source, dims = joined_operand(value), known_dims(value)
    if source is None:
        return None if turned else _packed_heads(value)
    assert dims is not None and isinstance(dims[1], int)
    return Heads(source, dims[1])


def _packed_heads(value: ir.Value | None) -> Heads | None:
    squeezed = made_by(value, "Squeeze")
    split = None if squeezed is None else made_by(squeezed.inputs[0], "Split")
    if squeezed is None or split is None or split.attributes.get_int("axis", 0) != 0:
        return None
    swap = made_by(split.inputs[0], "Transpose")
    if swap is None or list(swap.attributes.get_ints("perm", [])) != [2, 0, 3, 1, 4]:
        return None
    apart = made_by(swap.inputs[0], "Reshape")
    source = apart.inputs[0] if apart is not None else None
    before, after = known_dims(source), known_dims(swap.inputs[0])
    if source is None or before is None or after is None or len(before) != 3 or len(after) != 5:
        return None
    parts, heads, size = after[2:]
    if not isinstance(parts, int) or not isinstance(heads, int) or not isinstance(size, int):
        return None
    # As many pieces as parts are pieces of one part each; of rank 4 is only what lost the axis of parts.
    dims = known_dims(value)
    if dims is None or len(dims) != 4 or len(split.outputs) != parts or before != (*after[:2], parts * heads * size):
        return None
    place = next(index for index, output in enumerate(split.outputs) if output is squeezed.inputs[0])
    return Heads(source, heads, place, parts)


def joined_operand(value: ir.Value | None, order: Sequence[int] = (0, 2, 1, 3)) -> ir.Value | None:
    """``x`` of ``Transpose(Reshape(x))``, if the last axis of ``x`` holds the heads one after the other."""
    swap = made_by(value, "Transpose")
    if swap is None or list(swap.attributes.get_ints("perm", [])) != list(order):
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
