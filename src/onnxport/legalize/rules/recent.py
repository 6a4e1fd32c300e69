"""Operators of opsets 24 to 26 by older ones."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Attribute, Refusal, RuleBuilder
from onnxport.onnx_build.literals import INT64_MAX


@lowers("TensorScatter", below=24)
def tensor_scatter(op: RuleBuilder, node: ir.Node) -> Replacement:
    """ScatterElements, each row at its place: counted from where its sample begins, perhaps around the end."""
    cache, update, begin = op.needed(0), op.needed(1), op.input(2)
    rank, axis = op.rank(cache), op.axis(cache, op.attr_int("axis", -2))
    linear = op.attr_string("mode", "linear") == "linear"
    if linear and begin is not None and (common := _same_everywhere(begin)) is not None:
        end = op.Add(common, op.dim(update, axis))
        before = op.Slice(cache, op.i64([0]), common, op.i64([axis]))
        behind = op.Slice(cache, end, op.i64([INT64_MAX]), op.i64([axis]))
        return op.Concat(before, update, behind, axis=axis)
    places = op.Range(op.i64(0), op.squeeze(op.dim(update, axis), [0]), op.i64(1))
    if axis < rank - 1:
        places = op.unsqueeze(places, list(range(1, rank - axis)))
    if begin is not None:
        places = op.Add(op.unsqueeze(begin, list(range(1, rank))), places)
    if not linear:
        places = op.Mod(places, op.dim(cache, axis))
    return op.ScatterElements(cache, op.Expand(places, op.Shape(update)), update, axis=axis)


def _same_everywhere(begin: ir.Value) -> ir.Value | None:
    """The one place, a vector of one, where all samples begin, if they begin at the same."""
    producer = begin.producer()
    place = producer.inputs[0] if producer is not None and producer.op_type == "Expand" else begin
    return place if place is not None and place.shape is not None and place.shape.dims == (1,) else None


@lowers("CumProd", below=26)
def cum_prod(op: RuleBuilder, node: ir.Node) -> Replacement:
    """A Scan that multiplies."""
    data = op.needed(0)
    axes = op.integers(1, "the axis of CumProd")
    assert axes is not None
    return accumulated(op, data, op.axis(data, axes[0]), "Mul", op.like(1, data))


def accumulated(op: RuleBuilder, data: ir.Value, axis: int, combine: str, start: ir.Value) -> ir.Value:
    """A Scan that combines each slice with what came before it, as the attributes of the operator say."""
    others = [op.dim(data, other) for other in range(op.rank(data)) if other != axis]
    if others:
        start = op.Expand(start, others[0] if len(others) == 1 else op.Concat(*others, axis=0))
    before, factor = (ir.Value(name=op.name(part), type=data.type, shape=start.shape) for part in ("before", "factor"))
    with op.subgraph() as body:
        after = op.emit(combine, before, factor)
        shown = op.Identity(before if op.attr_int("exclusive", 0) else after)
        for value in (after, shown):
            value.type, value.shape = data.type, start.shape
    graph = ir.Graph([before, factor], [after, shown], nodes=body, name=op.name("body"))
    direction = [op.attr_int("reverse", 0)]
    attributes: dict[str, Attribute] = {
        "body": ir.AttrGraph("body", graph),
        "num_scan_inputs": 1,
        "scan_input_axes": [axis],
        "scan_output_axes": [axis],
        "scan_input_directions": direction,
        "scan_output_directions": direction,
    }
    _, result = op.emit_many("Scan", 2, [start, data], attributes)
    return result


@lowers("BitCast", below=26)
def bit_cast(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Between whole numbers of one width, a Cast keeps the bits; no older operator shows those of a float."""
    data, wanted = op.needed(0), ir.DataType(op.attr_int("to", 0))
    if data.dtype is None or not (_is_whole(data.dtype) and _is_whole(wanted)):
        raise Refusal("only the bits of whole numbers can be kept by a Cast")
    return op.Cast(data, to=int(wanted))


def _is_whole(dtype: ir.DataType) -> bool:
    return dtype == ir.DataType.BOOL or dtype.is_integer()
