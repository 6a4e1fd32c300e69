"""Quantized numbers before they had operators, or scales of their own for each channel."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.arithmetic import rounded
from onnxport.weights.kinds import is_weight
from onnxport.weights.lazy_integers import LazyIntegers, LazyParameters
from onnxport.weights.stored_form import HALF_BYTES, StoredTensor

_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)


@lowers("DequantizeLinear", below=21)
def dequantize_blocks(op: RuleBuilder, node: ir.Node) -> Replacement:
    """One scale for each of the blocks along an axis: each block as a channel of its own, and 8 bits for 4."""
    for index, value in enumerate(node.inputs):
        if value is not None and value.dtype in HALF_BYTES:
            node.replace_input_with(index, _in_bytes(op, value))
            if value.graph is not None and value.is_initializer() and not value.uses() and not is_weight(value):
                value.graph.initializers.pop(str(value.name), None)
    attribute = node.attributes.pop("block_size", None)
    size = 0 if attribute is None else attribute.as_int()
    if size == 0:
        return None
    data, scale, zero = op.needed(0), op.needed(1), op.input(2)
    axis = op.axis(data, node.attributes.get_int("axis", 1))
    if data.shape is None or not data.shape.is_static() or scale.dtype is None:
        raise Refusal("its blocks are those of a tensor of which not all sizes are known")
    shape = [int(dim) for dim in data.shape.numpy()]
    order = [*(place for place in range(len(shape)) if place != axis), axis]
    parameters = [_rows(op, value, order, [-1]) for value in (scale, zero) if value is not None]
    real = op.DequantizeLinear(_rows(op, data, order, [-1, size]), *parameters, axis=0)
    real.dtype = scale.dtype
    moved = op.Reshape(real, op.i64([shape[place] for place in order]))
    return (
        moved
        if order == sorted(order)
        else op.Transpose(moved, perm=[order.index(place) for place in range(len(shape))])
    )


def _rows(op: RuleBuilder, value: ir.Value, order: list[int], shape: list[int]) -> ir.Value:
    """A value with its axes in another order, in another shape: of a weight that nobody else reads as it is stored."""
    tensor = value.const_value
    if isinstance(tensor, StoredTensor) and len(value.uses()) == 1:
        form = tensor.form.permuted(tuple(order)).reshaped(tuple(shape))
        value.const_value = StoredTensor(tensor.source, form, tensor.name)
        value.shape = ir.Shape(list(value.const_value.shape.numpy()))
        return value
    moved = value if order == sorted(order) else op.Transpose(value, perm=order)
    return op.Reshape(moved, op.i64(shape))


def _in_bytes(op: RuleBuilder, value: ir.Value) -> ir.Value:
    """A value whose elements are not in four bits: before the weight was stored or converted so."""
    assert value.dtype is not None
    if isinstance(value.const_value, StoredTensor | LazyIntegers | LazyParameters):
        value.const_value = value.const_value.in_bytes()
        value.dtype = value.const_value.dtype
        return value
    if value.const_value is not None and value.is_initializer():
        return op.literal(value.const_value.numpy().astype(np.int8 if value.dtype.is_signed() else np.uint8))
    producer = value.producer()
    before = producer.inputs[0] if producer is not None and producer.op_type == "Cast" else None
    if before is None:
        raise Refusal("it is given 4-bit numbers")
    return before


@lowers("QuantizeLinear", "DequantizeLinear", below=13)
def scales_by_channel(op: RuleBuilder, node: ir.Node) -> Replacement:
    """There was one scale for the whole tensor."""
    scale = op.needed(1)
    axis = node.attributes.pop("axis", None)
    if op.rank(scale) == 0:
        return None
    if scale.shape is not None and scale.shape.dims == (1,):
        zero = op.input(2)
        return op.again(op.needed(0), op.squeeze(scale, [0]), None if zero is None else op.squeeze(zero, [0]))
    place = 1 if axis is None else axis.as_int()
    return _quantized(op, place) if node.op_type == "QuantizeLinear" else _dequantized(op, place)


@lowers("QuantizeLinear", below=10)
def quantize(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The quotient rounded to even and moved by the zero point, within the range of the type."""
    return _quantized(op, 0)


@lowers("DequantizeLinear", below=10)
def dequantize(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The difference to the zero point, times the scale."""
    return _dequantized(op, 0)


def _along(op: RuleBuilder, value: ir.Value, axis: int) -> ir.Value:
    """One number for each element of an axis, in a shape that goes with the data."""
    if op.rank(value) == 0:
        return value
    data = op.needed(0)
    behind = op.rank(data) - 1 - op.axis(data, axis)
    return op.unsqueeze(value, list(range(1, behind + 1))) if behind else value


def _quantized(op: RuleBuilder, axis: int) -> ir.Value:
    data, zero = op.needed(0), op.input(2)
    kind = ir.DataType.UINT8 if zero is None else zero.dtype
    if kind is None or kind not in _BYTES:
        raise Refusal("it quantizes to another type than 8-bit integers")
    scale = _along(op, op.needed(1), axis)
    wide = op.cast(data, ir.DataType.FLOAT)
    steps = op.Div(wide, op.cast(scale, ir.DataType.FLOAT))
    result = op.Round(steps) if op.opset >= 11 else rounded(op, steps)
    if zero is not None:
        result = op.Add(result, op.cast(_along(op, zero, axis), ir.DataType.FLOAT))
    least, most = (float(bound) for bound in (np.iinfo(kind.numpy()).min, np.iinfo(kind.numpy()).max))
    least_value, most_value = op.full(least, ir.DataType.FLOAT), op.full(most, ir.DataType.FLOAT)
    return op.cast(op.Min(op.Max(result, least_value), most_value), kind)


def _dequantized(op: RuleBuilder, axis: int) -> ir.Value:
    data, scale, zero = op.needed(0), op.needed(1), op.input(2)
    wide = op.cast(data, ir.DataType.INT32)
    if zero is not None:
        wide = op.Sub(wide, op.cast(_along(op, zero, axis), ir.DataType.INT32))
    return op.Mul(op.cast(wide, scale.dtype), _along(op, scale, axis))


@lowers("MatMulInteger", below=10)
def integer_product(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The product of the differences to the zero points, in 32 bits."""
    sides = []
    for position in (0, 1):
        value, zero = op.cast(op.needed(position), ir.DataType.INT32), op.input(position + 2)
        if zero is not None:
            moved = op.cast(zero, ir.DataType.INT32)
            if position == 0 and op.rank(zero) == 1:
                moved = op.unsqueeze(moved, [1])
            value = op.Sub(value, moved)
        sides.append(value)
    return op.MatMul(*sides)
