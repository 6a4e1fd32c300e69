"""Rotary embeddings of queries and keys, by onnxruntime's operator, with heads one after the other in the last axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.fusions.heads import SWAP, with_heads_joined
from onnxport.onnx_build.opsets import CONTRIBUTED_DOMAIN
from onnxport.optimize.rules.pattern import made_by
from onnxport.optimize.scope import Scope, known_dims

_KINDS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)


def rotate_by_heads(node: ir.Node, scope: Scope) -> bool:
    """Let RotaryEmbedding turn halves of heads.

    ``Add(Mul(x, cos), Mul(Concat(Neg(second half of x), first half of x), sin))`` with ``x = Transpose(heads)``, and
    cosines and sines that are the same in both halves, becomes ``Transpose(Reshape(RotaryEmbedding(heads)))``. The
    operator looks its cosines up by position; it is given those of the call, and each token its own place among them,
    or the place of the first where all rows have the same.
    """
    value = node.outputs[0]
    dims = known_dims(value)
    found = _turned(node, scope)
    if found is None or dims is None or len(dims) != 4 or value.dtype not in _KINDS or node.graph is not scope.graph:
        return False
    x, cosine, sine = found
    batch, heads, length, size = dims
    swap = made_by(x, "Transpose")
    if swap is None or list(swap.attributes.get_ints("perm", [])) != SWAP or known_dims(x) != dims:
        return False
    # Positions that are the same in all rows have one row of angles, or no axis for rows.
    (rows, *others) = known_dims(cosine) or (None,)
    alike = rows == 1 or len(others) == 1
    wanted = (length, size) if len(others) == 1 else (1 if alike else batch, 1, length, size)
    halves = [_half(one, wanted) for one in (cosine, sine)]
    known = [half for half in halves if half is not None]
    if len(known) != 2 or not isinstance(heads, int) or not isinstance(size, int):
        return False
    tables = [_table(node, one, half, scope) for one, half in zip((cosine, sine), known, strict=True)]
    places = scope.int64s(0) if alike else _places(node, known[0][1], scope)
    inputs = [with_heads_joined(node, x, scope), places, *tables]
    turned = ir.Node(CONTRIBUTED_DOMAIN, "RotaryEmbedding", inputs)
    turned.outputs[0].type, turned.outputs[0].shape = value.type, ir.Shape([batch, length, heads * size])
    scope.insert_node_before(node, turned)
    apart = scope.insert_before(
        node,
        "Reshape",
        [turned.outputs[0], scope.int64s(0, 0, heads, size)],
        value.dtype,
        [batch, length, heads, size],
    )
    scope.become(node, "Transpose", [apart], [ir.AttrInt64s("perm", SWAP)])
    return True


def _turned(node: ir.Node, scope: Scope) -> tuple[ir.Value, ir.Value, ir.Value] | None:
    """``x``, cosine and sine of what is turned."""
    for plain, crossed in (node.inputs, node.inputs[::-1]):
        straight, across = made_by(plain, "Mul"), made_by(crossed, "Mul")
        if straight is None or across is None:
            continue
        for swapped, sine in (across.inputs, across.inputs[::-1]):
            x = _source_of_halves(swapped, scope)
            for same, cosine in (straight.inputs, straight.inputs[::-1]):
                if x is not None and same is x and cosine is not None and sine is not None:
                    return x, cosine, sine
    return None


def _source_of_halves(value: ir.Value | None, scope: Scope) -> ir.Value | None:
    """``x`` of ``Concat(Neg(second half of x), first half of x)`` along the last axis."""
    joined = made_by(value, "Concat")
    if joined is None or len(joined.inputs) != 2 or joined.attributes.get_int("axis", 0) not in (3, -1):
        return None
    negated, first = made_by(joined.inputs[0], "Neg"), made_by(joined.inputs[1], "Slice")
    second = None if negated is None else made_by(negated.inputs[0], "Slice")
    if first is None or second is None or first.inputs[0] is not second.inputs[0]:
        return None
    x = first.inputs[0]
    dims = known_dims(x)
    size = dims[3] if dims is not None and len(dims) == 4 else None
    if not isinstance(size, int) or size % 2:
        return None
    ranges = [_range(one, size, scope) for one in (first, second)]
    return x if ranges == [(0, size // 2), (size // 2, size)] else None


def _range(node: ir.Node, size: int, scope: Scope) -> tuple[int, int] | None:
    """From where to where the last axis is cut."""
    numbers = [scope.ints(value) for value in node.inputs[1:]]
    if len(numbers) < 3 or any(one is None or len(one) != 1 for one in numbers):
        return None
    (start,), (end,), (axis,), *steps = [one for one in numbers if one is not None]
    return (start, min(end, size)) if axis in (3, -1) and steps in ([], [[1]]) and 0 <= start < end else None


def _half(value: ir.Value | None, dims: tuple[int | ir.SymbolicDim, ...]) -> tuple[list[ir.Node], ir.Value] | None:
    """What is computed element by element of two equal halves: the nodes, the last first, and a half."""
    wide = made_by(value, "Unsqueeze")
    rank = 2 if len(dims) == 2 else 3
    if known_dims(value) != dims or (wide is None and rank == 3):
        return None
    chain: list[ir.Node] = []
    source = wide.inputs[0] if wide is not None and rank == 3 else value
    while (node := source.producer() if source is not None else None) is not None and node.domain == "":
        if node.op_type == "Concat":
            half = node.inputs[0]
            same = len(node.inputs) == 2 and node.inputs[1] is half and len(known_dims(half) or ()) == rank
            last = node.attributes.get_int("axis", 0) in (rank - 1, -1)
            return (chain, half) if same and last and half is not None else None
        scaled = node.op_type == "Mul" and node.inputs[1] is not None and known_dims(node.inputs[1]) == ()
        if node.op_type not in ("Cos", "Sin", "Cast") and not scaled:
            return None
        chain.append(node)
        source = node.inputs[0]
    return None


def _table(node: ir.Node, value: ir.Value, half: tuple[list[ir.Node], ir.Value], scope: Scope) -> ir.Value:
    """A half of cosines or sines, with a row for each token of each row."""

    def make() -> ir.Value:
        chain, found = half
        dims = known_dims(found) or ()
        for one in reversed(chain):
            dtype = one.outputs[0].dtype
            assert dtype is not None
            operands = [found, *[other for other in one.inputs[1:] if other is not None]]
            found = scope.insert_before(node, one.op_type, operands, dtype, dims, list(one.attributes.values()))
        width = dims[-1]
        assert found.dtype is not None and isinstance(width, int)
        if len(dims) == 2:
            return found
        rows = ir.SymbolicDim(None)
        return scope.insert_before(node, "Reshape", [found, scope.int64s(-1, width)], found.dtype, [rows, width])

    return scope.once(("table", value), make)


def _places(node: ir.Node, angles: ir.Value, scope: Scope) -> ir.Value:
    """The row of each token among all: 0, 1, … in the shape of batch and length."""
    integer = ir.DataType.INT64
    batch, length, _ = known_dims(angles) or ()

    def make() -> ir.Value:
        ends = [ir.AttrInt64("start", 0), ir.AttrInt64("end", 2)]
        shape = scope.insert_before(node, "Shape", [angles], integer, [2], ends)
        count = scope.insert_before(node, "ReduceProd", [shape], integer, [], [ir.AttrInt64("keepdims", 0)])
        zero, one = (scope.literal(np.array(number), integer, f"scalar_i64_{number}") for number in (0, 1))
        rows = ir.SymbolicDim(None)
        counted = scope.insert_before(node, "Range", [zero, count, one], integer, [rows])
        return scope.insert_before(node, "Reshape", [counted, shape], integer, [batch, length])

    return scope.once(("places", angles), make)


@dataclass(frozen=True)
class Turning:
    """What turns queries and keys alike, and what they are before that."""

    queries: ir.Value
    keys: ir.Value
    _tables: tuple[ir.Value, ir.Value]

    def places(self, node: ir.Node, given: ir.Value, scope: Scope) -> ir.Value:
        """The row of the tables for each token of ``given``, in the shape of batch and length."""
        integer = ir.DataType.INT64
        batch, length, _ = known_dims(given) or ()

        def make() -> ir.Value:
            zero, one = (scope.literal(np.array(number), integer, f"scalar_i64_{number}") for number in (0, 1))
            count = scope.insert_before(node, "Squeeze", [self._rows(node, scope), scope.int64s(0)], integer, [])
            counted = scope.insert_before(node, "Range", [zero, count, one], integer, [length])
            ends = [ir.AttrInt64("start", 0), ir.AttrInt64("end", 2)]
            shape = scope.insert_before(node, "Shape", [given], integer, [2], ends)
            return scope.insert_before(node, "Expand", [counted, shape], integer, [batch, length])

        return scope.once(("places of rows", self._tables), make)

    def tables(self, node: ir.Node, positions: ir.Value, scope: Scope) -> list[ir.Value]:
        """Cosines and sines, with zeros behind them: attention wants as many rows as there are positions."""
        integer = ir.DataType.INT64

        def pads() -> ir.Value:
            missing = scope.insert_before(node, "Sub", [positions, self._rows(node, scope)], integer, [1])
            more = scope.insert_before(node, "Max", [missing, scope.int64s(0)], integer, [1])
            parts = [scope.int64s(0, 0), more, scope.int64s(0)]
            return scope.insert_before(node, "Concat", parts, integer, [4], [ir.AttrInt64("axis", 0)])

        def long(table: ir.Value) -> ir.Value:
            assert table.dtype is not None and table.shape is not None
            dims = [ir.SymbolicDim(None), table.shape[1]]
            behind = scope.once(("pads", self._tables), pads)
            return scope.insert_before(node, "Pad", [table, behind], table.dtype, dims)

        cosines, sines = self._tables
        return [scope.once(("long", cosines), lambda: long(cosines)), scope.once(("long", sines), lambda: long(sines))]

    def _rows(self, node: ir.Node, scope: Scope) -> ir.Value:
        ends = [ir.AttrInt64("start", 0), ir.AttrInt64("end", 1)]
        return scope.once(
            ("rows", self._tables),
            lambda: scope.insert_before(node, "Shape", [self._tables[0]], ir.DataType.INT64, [1], ends),
        )


def turned_alike(queries: ir.Value, keys: ir.Value) -> Turning | None:
    """What turns queries and keys before attention, if RotaryEmbedding turns both, and all rows by the same angles.

    In the first call of several rows GroupQueryAttention reads the place of the first token only (onnxruntime 1.31),
    so rows with angles of their own are turned before it.
    """
    first, second = queries.producer(), keys.producer()
    if first is None or second is None or list(first.inputs[1:]) != list(second.inputs[1:]):
        return None
    if any(one.op_type != "RotaryEmbedding" or one.domain != CONTRIBUTED_DOMAIN for one in (first, second)):
        return None
    before, places, cosines, sines = first.inputs
    assert before is not None and places is not None and cosines is not None and sines is not None
    other = second.inputs[0]
    assert other is not None
    return Turning(before, other, (cosines, sines)) if known_dims(places) == (1,) else None
