"""Quantized numbers before they had operators, or scales of their own for each channel."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.arithmetic import rounded

_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)


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
