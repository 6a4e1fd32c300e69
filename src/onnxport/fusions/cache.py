"""Attention over what was kept of earlier calls and what is new, by onnxruntime's operator that keeps it in a buffer.

GroupQueryAttention takes past keys and values of any length that holds them, and where the caller gives the same memory
for past and present, new ones are written behind the old ones and nothing is copied. How many positions there are is
told by a number, which is read from the length of the mask over all of them: past lengths are read from no cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.fusions.causality import Forbidden, forbidden
from onnxport.fusions.heads import SWAP, joined_result, only_reader, with_heads_joined
from onnxport.fusions.projections import joined_projections
from onnxport.fusions.rotary import turned_alike
from onnxport.onnx_build.opsets import CONTRIBUTED_DOMAIN
from onnxport.optimize.rules.pattern import made_by
from onnxport.optimize.scope import Scope, known_dims
from onnxport.provenance import CACHE_BUFFERS

_PLAIN = frozenset({"scale", "is_causal"})
_KINDS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_POSITIONS = 2
"""The axis of positions in keys and values."""
_TURNED_BY = 16
"""Heads are turned by the operator if their size is a multiple of this."""
_HEAD_STEP = 8
"""The operator takes heads whose size is a multiple of this (onnxruntime 1.31)."""


@dataclass(frozen=True)
class _Cached:
    """Keys or values: what was kept, what is new, and the node that joins the two."""

    past: ir.Value
    new: ir.Value
    joined: ir.Node


@dataclass(frozen=True)
class _Call:
    """A call of Attention that GroupQueryAttention can do."""

    node: ir.Node
    keys: _Cached
    values: _Cached
    mask: ir.Value
    total: tuple[ir.Value, int]
    """The input that is as long as past and new positions together, and its axis."""
    forbids: Forbidden
    heads: int
    kept_heads: int
    size: int

    @property
    def joined_dims(self) -> list[int | ir.SymbolicDim]:
        """The shape of queries and results whose heads are one after the other in the last axis."""
        batch, _, queries, _ = known_dims(self.node.inputs[0]) or ()
        return [batch, queries, self.heads * self.size]


def attend_with_cache(node: ir.Node, scope: Scope) -> bool:
    """Let GroupQueryAttention join past and new keys and values, and attend.

    ``Attention(q, Concat(past_k, k), Concat(past_v, v), mask)`` becomes
    ``o, present_k, present_v = GroupQueryAttention(q, k, v, past_k, past_v, total - 1, total, bias)``. The operator is
    causal, so the mask must forbid later positions for sure; whatever else it forbids, padding too, is in the bias.
    Where RotaryEmbedding gives queries and keys, the operator turns them itself, and where they and the values are
    products of one input, it takes them as one.
    """
    call = _recognised(node, scope)
    if call is None:
        return False
    dtype = node.outputs[0].dtype
    assert dtype is not None
    ends, total = _lengths(call, scope)
    operands, angles = _operands(call, scope)
    inputs = [*operands, call.keys.past, call.values.past, ends, total, *angles, _bias(call, dtype, scope)]
    attributes: list[ir.Attr] = [
        ir.AttrInt64("num_heads", call.heads),
        ir.AttrInt64("kv_num_heads", call.kept_heads),
    ]
    if any(value is not None for value in angles):
        attributes.append(ir.AttrInt64("do_rotary", 1))
    if "scale" in node.attributes:
        attributes.append(ir.AttrFloat32("scale", node.attributes.get_float("scale", 1.0)))
    if call.forbids.window is not None:
        attributes.append(ir.AttrInt64("local_window_size", call.forbids.window))
    fused = ir.Node(CONTRIBUTED_DOMAIN, "GroupQueryAttention", inputs, attributes, num_outputs=3)
    joined = (node, call.keys.joined, call.values.joined)
    for output, value in zip(fused.outputs, (one.outputs[0] for one in joined), strict=True):
        output.type, output.shape = value.type, value.shape
    fused.outputs[0].shape = ir.Shape(call.joined_dims)
    scope.insert_node_before(node, fused)
    _hand_over(call, fused.outputs[0], dtype, scope)
    scope.replace(call.keys.joined.outputs[0], fused.outputs[1])
    scope.replace(call.values.joined.outputs[0], fused.outputs[2])
    return True


def _recognised(node: ir.Node, scope: Scope) -> _Call | None:
    """The call, if everything holds that the operator takes for granted."""
    if not set(node.attributes) <= _PLAIN or node.attributes.get_int("is_causal", 0) != 0:
        return None
    if node.graph is not scope.graph or len(node.outputs) != 1 or node.outputs[0].dtype not in _KINDS:
        return None
    if len(node.inputs) < 4 or any(value is not None for value in node.inputs[4:]):
        return None
    keys, values = (_cached(value, node, scope) for value in node.inputs[1:3])
    mask, queries = node.inputs[3], known_dims(node.inputs[0])
    dims = known_dims(mask)
    if keys is None or values is None or mask is None or queries is None or dims is None or len(dims) != 4:
        return None
    kept, kept_values = known_dims(keys.past), known_dims(values.past)
    if kept is None or kept != kept_values or mask.dtype != ir.DataType.BOOL or dims[1] != 1 or dims[2] != queries[2]:
        return None
    heads, kept_heads, size = queries[1], kept[1], kept[3]
    if not isinstance(heads, int) or not isinstance(kept_heads, int) or not isinstance(size, int) or queries[3] != size:
        return None
    if size % _HEAD_STEP != 0:
        return None
    total = _axis_of_input(scope.graph, dims[3], besides=(keys.past, values.past))
    forbids = forbidden(mask, keys.past, queries[2], scope)
    if total is None or not forbids.later:
        return None
    return _Call(node, keys, values, mask, total, forbids, heads, kept_heads, size)


def _cached(value: ir.Value | None, node: ir.Node, scope: Scope) -> _Cached | None:
    """Keys or values that are an input of the graph and new ones behind it, which nothing else reads."""
    joined = made_by(value, "Concat")
    if value is None or joined is None or len(joined.inputs) != 2:
        return None
    past, new = joined.inputs
    dims = known_dims(past)
    if past is None or new is None or dims is None or len(dims) != 4 or not past.is_graph_input():
        return None
    if joined.attributes.get_int("axis", 0) % 4 != _POSITIONS or joined.graph is not scope.graph:
        return None
    readers = {user for user, _ in value.uses() if user not in scope.dead}
    return _Cached(past, new, joined) if readers == {node} else None


def _operands(call: _Call, scope: Scope) -> tuple[list[ir.Value | None], list[ir.Value | None]]:
    """Queries, keys and values, and the cosines, sines and places that turn the first two."""
    node = call.node
    queries, keys, values = (
        with_heads_joined(node, value, scope) for value in (node.inputs[0], call.keys.new, call.values.new)
    )
    turning = turned_alike(queries, keys) if call.size % _TURNED_BY == 0 else None
    if turning is not None:
        queries, keys = turning.queries, turning.keys
    joined = joined_projections(node, (queries, keys, values), scope)
    operands: list[ir.Value | None] = [queries, keys, values] if joined is None else [joined, None, None]
    if turning is None:
        return operands, [None, None, None]
    positions = scope.once(("all positions", *call.total), lambda: _size(node, *call.total, scope))
    places = turning.places(node, queries if joined is None else joined, scope)
    return operands, [*turning.tables(node, positions, scope), places]


def _axis_of_input(
    graph: ir.Graph, size: int | ir.SymbolicDim, besides: tuple[ir.Value, ...] = ()
) -> tuple[ir.Value, int] | None:
    """An input of the graph that has an axis of a size that only run time knows."""
    for value in graph.inputs:
        dims = None if value in besides or isinstance(size, int) else known_dims(value)
        if dims is not None and size in dims:
            return value, dims.index(size)
    return None


def _size(node: ir.Node, value: ir.Value, axis: int, scope: Scope) -> ir.Value:
    attributes = [ir.AttrInt64("start", axis), ir.AttrInt64("end", axis + 1)]
    return scope.insert_before(node, "Shape", [value], ir.DataType.INT64, [1], attributes)


def _cast(node: ir.Node, value: ir.Value, dtype: ir.DataType, scope: Scope) -> ir.Value:
    shape = [] if value.shape is None else list(value.shape)
    return scope.insert_before(node, "Cast", [value], dtype, shape, [ir.AttrInt64("to", dtype)])


def _lengths(call: _Call, scope: Scope) -> tuple[ir.Value, ir.Value]:
    """The place of the last position in each row, and the number of positions."""
    node, (source, axis) = call.node, call.total
    integer = ir.DataType.INT32

    def ends() -> ir.Value:
        count = _size(node, source, axis, scope)
        last = scope.insert_before(node, "Sub", [count, scope.int64s(1)], ir.DataType.INT64, [1])
        rows = _size(node, call.keys.past, 0, scope)
        batch = call.joined_dims[0]
        return scope.insert_before(node, "Expand", [_cast(node, last, integer, scope), rows], integer, [batch])

    def total() -> ir.Value:
        count = _size(node, source, axis, scope)
        number = scope.insert_before(node, "Squeeze", [count, scope.int64s(0)], ir.DataType.INT64, [])
        return _cast(node, number, integer, scope)

    return scope.once(("last position", source), ends), scope.once(("positions", source), total)


def _bias(call: _Call, dtype: ir.DataType, scope: Scope) -> ir.Value:
    """What is added to products for a mask: nothing, or half of the least number, to which more can be added."""
    low, zero = (
        scope.literal(np.array(number, dtype=dtype.numpy()), dtype, name)
        for number, name in ((float(dtype.min) / 2, "forbidden"), (0.0, "allowed"))
    )
    return scope.once(
        ("bias", call.mask),
        lambda: scope.insert_before(call.node, "Where", [call.mask, zero, low], dtype, known_dims(call.mask) or ()),
    )


def _attending(call: _Call, scope: Scope) -> ir.Value:
    """Which queries may attend to anything; others give zeros in torch."""
    node, (batch, _, queries, _) = call.node, known_dims(call.mask) or ()

    def make() -> ir.Value:
        integer = ir.DataType.INT32
        numbers = _cast(node, call.mask, integer, scope)
        most = scope.insert_before(
            node,
            "ReduceMax",
            [numbers, scope.int64s(3)],
            integer,
            [batch, 1, queries, 1],
            [ir.AttrInt64("keepdims", 1)],
        )
        rows = scope.insert_before(node, "Squeeze", [most, scope.int64s(1)], integer, [batch, queries, 1])
        return _cast(node, rows, ir.DataType.BOOL, scope)

    return scope.once(("attending", call.mask), make)


def _hand_over(call: _Call, found: ir.Value, dtype: ir.DataType, scope: Scope) -> None:
    """Let what reads the call's result read what was found, with heads as the reader wants them."""
    node = call.node
    # A sink in each softmax would do the same, and takes the operator up to 1.3 times as long (onnxruntime 1.31).
    zero = scope.literal(np.array(0, dtype=dtype.numpy()), dtype, "allowed")
    result = scope.insert_before(node, "Where", [_attending(call, scope), found, zero], dtype, call.joined_dims)
    joined = joined_result(node, scope)
    if joined is not None:
        scope.replace(joined.outputs[0], result)
        return
    batch, queries, _ = call.joined_dims
    shape = scope.int64s(0, 0, call.heads, call.size)
    apart = scope.insert_before(node, "Reshape", [result, shape], dtype, [batch, queries, call.heads, call.size])
    swap = only_reader(node, "Transpose", scope)
    if swap is not None and list(swap.attributes.get_ints("perm", [])) == SWAP:
        scope.replace(swap.outputs[0], apart)
        return
    dims = [batch, call.heads, queries, call.size]
    attributes = [ir.AttrInt64s("perm", SWAP)]
    scope.replace(node.outputs[0], scope.insert_before(node, "Transpose", [apart], dtype, dims, attributes))


def free_caches(model: ir.Model, scope: Scope) -> None:
    """Read no length from a past that attention takes as a buffer, and say which inputs may be buffers.

    ``Shape(past)`` of the positions becomes ``Shape(mask) - Shape(tokens)``. Inputs that something else reads, too, are
    as long as what they hold.
    """
    fused = [node for node in scope.graph if node.op_type == "GroupQueryAttention" and node not in scope.dead]
    free: list[str] = []
    for node in fused:
        for past in node.inputs[3:5]:
            assert past is not None
            if all(_reads_no_length(user, index, node, scope) for user, index in past.uses() if user not in scope.dead):
                free.append(str(past.name))
    if free:
        model.metadata_props[CACHE_BUFFERS] = " ".join(free)


def _reads_no_length(reader: ir.Node, index: int, fused: ir.Node, scope: Scope) -> bool:
    """Whether a reader of a past takes it as a buffer or can be told its length otherwise; that is done here."""
    if reader is fused:
        return index in (3, 4)
    if reader.op_type != "Shape" or reader.domain != "":
        return False
    start, end = reader.attributes.get_int("start", 0), reader.attributes.get_int("end", 4)
    if not start <= _POSITIONS < end:
        return True
    new, count = known_dims(fused.inputs[0]), made_by(_converted(fused.inputs[6]), "Squeeze")
    total = None if count is None else made_by(count.inputs[0], "Shape")
    if end != start + 1 or total is None or new is None or total.inputs[0] is None:
        return False
    tokens = _axis_of_input(scope.graph, new[1])
    if isinstance(new[1], int):
        added = scope.int64s(new[1])
    elif tokens is not None:
        added = _size(reader, *tokens, scope)
    else:
        return False
    everything = _size(reader, total.inputs[0], total.attributes.get_int("start", 0), scope)
    scope.become(reader, "Sub", [everything, added])
    return True


def _converted(value: ir.Value | None) -> ir.Value | None:
    """What a Cast converts."""
    cast = made_by(value, "Cast")
    return None if cast is None else cast.inputs[0]
