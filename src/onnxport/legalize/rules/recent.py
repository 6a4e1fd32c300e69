"""Operators of opsets 24 to 26 by older ones."""

from __future__ import annotations

import numpy as np
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
    """Between whole numbers of one width a Cast keeps the bits; of bits a float is computed, and no bits of a float."""
    data, wanted = op.needed(0), ir.DataType(op.attr_int("to", 0))
    if data.dtype is None or not _is_whole(data.dtype):
        raise Refusal("no older operator shows the bits of a float")
    if _is_whole(wanted):
        return op.Cast(data, to=int(wanted))
    if wanted in _MANTISSA_BITS:
        return _float_of_bits(op, data, wanted)
    if wanted.bitwidth == 8:
        bits = op.Mod(op.cast(data, ir.DataType.INT64), op.i64(256))
        numbers = np.arange(256, dtype=np.uint8).view(wanted.numpy()).astype(np.float32)
        return op.cast(op.Gather(op.literal(numbers), bits), wanted)
    raise Refusal(f"bits can't be read as {wanted.name.lower()}")


_MANTISSA_BITS = {ir.DataType.FLOAT: 23, ir.DataType.FLOAT16: 10, ir.DataType.BFLOAT16: 7}


def _float_of_bits(op: RuleBuilder, data: ir.Value, wanted: ir.DataType) -> ir.Value:
    """Sign, exponent and mantissa as whole numbers, and of them the number, exactly: in double."""
    mantissa, width = _MANTISSA_BITS[wanted], wanted.bitwidth
    top = 2 ** (width - 1 - mantissa) - 1
    bits = op.Mod(op.cast(data, ir.DataType.INT64), op.i64(2**width))
    positive = op.Less(bits, op.i64(2 ** (width - 1)))
    rest = op.Mod(bits, op.i64(2 ** (width - 1)))
    exponent, fraction = op.Div(rest, op.i64(2**mantissa)), op.Mod(rest, op.i64(2**mantissa))
    steps = 2.0 ** (np.maximum(np.arange(top + 1), 1) - float(top // 2 + mantissa))
    steps[top] = np.inf
    denormal = op.Equal(exponent, op.i64(0))
    whole = op.where(denormal, fraction, op.Add(fraction, op.i64(2**mantissa)))
    size = op.Mul(op.cast(whole, ir.DataType.DOUBLE), op.Gather(op.literal(steps), exponent))
    signed = op.cast(op.where(positive, size, op.Neg(size)), wanted)
    invalid = op.And(op.Equal(exponent, op.i64(top)), op.Less(op.i64(0), fraction))
    return op.where(invalid, op.full(float("nan"), wanted), signed)


def _is_whole(dtype: ir.DataType) -> bool:
    return dtype == ir.DataType.BOOL or dtype.is_integer()
