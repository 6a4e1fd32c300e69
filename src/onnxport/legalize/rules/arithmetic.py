"""Arithmetic, comparisons and logic."""

from __future__ import annotations

import functools
import math

import numpy as np
import onnx_ir as ir

from onnxport.legalize.known import constant_array
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder

_BITS = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor"}


def _integer(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_integer() and value.dtype != ir.DataType.BOOL


@lowers("LessOrEqual", "GreaterOrEqual", below=12)
def or_equal(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Not the opposite for integers; with floats a NaN is neither, so both halves are asked for."""
    left, right = op.needed(0), op.needed(1)
    strict, opposite = ("Less", "Greater") if node.op_type == "LessOrEqual" else ("Greater", "Less")
    if _integer(left):
        return op.Not(op.emit(opposite, left, right))
    return op.Or(op.emit(strict, left, right), op.Equal(left, right))


@lowers("Equal", below=11)
def equal(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Only bool and signed integers could be compared for equality."""
    left, right = op.needed(0), op.needed(1)
    if left.dtype in (ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64, None):
        return None
    if _integer(left) and left.dtype not in (ir.DataType.UINT32, ir.DataType.UINT64):
        return op.Equal(op.cast(left, ir.DataType.INT32), op.cast(right, ir.DataType.INT32))
    same = op.Not(op.Or(op.Less(left, right), op.Greater(left, right)))
    if _integer(left):
        return same
    return op.And(same, op.Not(op.Or(op.IsNaN(left), op.IsNaN(right))))


@lowers("IsInf", below=10)
def is_infinite(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Beyond the largest finite number."""
    data = op.needed(0)
    if data.dtype is None:
        raise Refusal("the element type of its input is not known")
    largest = float(np.finfo(data.dtype.numpy()).max)
    above, below = op.attr_int("detect_positive", 1), op.attr_int("detect_negative", 1)
    if above and below:
        return op.Greater(op.Abs(data), op.like(largest, data))
    if above:
        return op.Greater(data, op.like(largest, data))
    return op.Less(data, op.like(-largest, data)) if below else op.Less(data, data)


@lowers("IsNaN", below=9)
def is_nan(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Every other number is below one or above zero."""
    data = op.needed(0)
    return op.Not(op.Or(op.Less(data, op.like(1, data)), op.Greater(data, op.like(0, data))))


@lowers("Max", "Min", below=12)
def integer_extreme(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Integers had neither; pairwise choices instead."""
    values = [op.needed(position) for position in range(len(node.inputs))]
    if not _integer(values[0]):
        return None
    compare = "Less" if node.op_type == "Max" else "Greater"
    return functools.reduce(lambda one, other: op.where(op.emit(compare, one, other), other, one), values)


@lowers("Clip", below=12)
def integer_clip(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Integers had none; choices instead."""
    data, low, high = op.needed(0), op.input(1), op.input(2)
    if not _integer(data):
        return None
    result = data
    if low is not None:
        result = op.where(op.Less(result, low), low, result)
    if high is not None:
        result = op.where(op.Greater(result, high), high, result)
    return result


@lowers("Clip", below=11)
def clip_attributes(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Bounds were attributes; those computed at run time are a maximum and a minimum."""
    data, low, high = op.needed(0), op.input(1), op.input(2)
    floor, ceiling = constant_array(low), constant_array(high)
    if (low is None or floor is not None) and (high is None or ceiling is not None):
        # Left out, a bound was the largest finite number, which infinity would become.
        least = -math.inf if floor is None else float(floor.reshape(-1)[0])
        most = math.inf if ceiling is None else float(ceiling.reshape(-1)[0])
        # onnxruntime refuses bounds that cross, where all become the upper one.
        if least <= most:
            return op.Clip(data, min=least, max=most)
    result = data if low is None else op.Max(data, low)
    return result if high is None else op.Min(result, high)


@lowers("Max", "Min", below=8)
def extremes_of_equal_shapes(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Nothing was broadcast: a constant is a bound to clip at, the rest is expanded where the shape is known."""
    shapes = [None if value is None or value.shape is None else value.shape.dims for value in node.inputs]
    if len(set(shapes)) == 1 and shapes[0] is not None:
        return None
    if len(node.inputs) == 2:
        for data, bound in ((op.needed(0), op.needed(1)), (op.needed(1), op.needed(0))):
            known = constant_array(bound)
            if known is not None and known.size == 1 and len(bound.shape or ()) <= op.rank(data):
                limit = float(known.reshape(-1)[0])
                bounds = (limit, math.inf) if node.op_type == "Max" else (-math.inf, limit)
                return op.Clip(data, min=bounds[0], max=bounds[1])
    wanted = node.outputs[0].shape
    if wanted is None or not wanted.is_static():
        raise Refusal("its inputs have different shapes, of sizes known only at run time")
    ones = op.full(1, node.outputs[0].dtype, wanted.numpy())
    return op.emit(node.op_type, *(op.Mul(op.needed(index), ones) for index in range(len(node.inputs))))


@lowers("Pow", below=12)
def power(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Base and exponent had one type, and that a float."""
    base, exponent = op.needed(0), op.needed(1)
    if not _integer(base):
        return None if exponent.dtype == base.dtype else op.Pow(base, op.cast(exponent, base.dtype))
    known = constant_array(exponent)
    if known is None or known.size != 1 or not 1 <= float(known.reshape(-1)[0]) <= 64:
        raise Refusal("it raises an integer to a power that is not a small constant")
    return functools.reduce(lambda product, _: op.Mul(product, base), range(int(known.reshape(-1)[0]) - 1), base)


@lowers("Mod", below=10)
def remainder(op: RuleBuilder, node: ir.Node) -> Replacement:
    """What the truncated quotient leaves, moved to the sign of the divisor."""
    left, right = op.needed(0), op.needed(1)
    if not _integer(left):
        return _float_remainder(op, left, right)
    rest = op.Sub(left, op.Mul(op.Div(left, right), right))
    if op.attr_int("fmod", 0):
        return rest
    zero = op.like(0, left)
    moved = op.And(op.Not(op.Equal(rest, zero)), op.Xor(op.Less(rest, zero), op.Less(right, zero)))
    return op.where(moved, op.Add(rest, right), rest)


# Exponents of two that lie this far apart at most leave quotients that double precision holds.
_QUOTIENT_BITS = 28


def _float_remainder(op: RuleBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    """In double precision, by multiples of the divisor from the largest that may fit: each step is exact."""
    if left.dtype is None or left.dtype == ir.DataType.DOUBLE:
        raise Refusal("it takes the remainder of doubles")
    kind, info = ir.DataType.DOUBLE, np.finfo(np.float16 if left.dtype == ir.DataType.FLOAT16 else np.float32)
    one, other = op.cast(left, kind), op.cast(right, kind)
    # By their size: the sign of a remainder is that of what was divided.
    size, by = op.Abs(one), op.Abs(other)
    rest = size
    widest = info.maxexp - info.minexp + info.nmant
    for bits in range(widest // _QUOTIENT_BITS * _QUOTIENT_BITS, -1, -_QUOTIENT_BITS):
        many = op.Mul(by, op.full(2.0**bits, kind)) if bits else by
        rest = op.Sub(rest, op.Mul(op.Floor(op.Div(rest, many)), many))
    # An infinity leaves all of a number.
    largest = op.full(float(info.max), kind)
    rest = op.where(op.And(op.Greater(by, largest), op.Not(op.Greater(size, largest))), size, rest)
    return op.cast(op.where(op.Less(one, op.full(0, kind)), op.Neg(rest), rest), left.dtype)


@lowers("BitShift", below=11)
def bit_shift(op: RuleBuilder, node: ir.Node) -> Replacement:
    """A product with, or quotient by, a power of two; all bits gone is zero."""
    data, amount = op.needed(0), op.needed(1)
    if data.dtype is None:
        raise Refusal("the element type of its input is not known")
    kind, bits = ir.DataType.DOUBLE, data.dtype.bitwidth
    places = op.cast(amount, kind)
    most = op.full(bits - 1, kind)
    power = op.cast(op.Pow(op.full(2, kind), op.Min(places, most)), data.dtype)
    shifted = op.Mul(data, power) if op.attr_string("direction", "LEFT") == "LEFT" else op.Div(data, power)
    return op.where(op.Greater(places, most), op.like(0, data), shifted)


@lowers("Round", below=11)
def round_half_even(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The floor or the next, and of two equally near the even one."""
    return rounded(op, op.needed(0))


def rounded(op: RuleBuilder, data: ir.Value) -> ir.Value:
    """Round where it does not exist."""
    half, one = op.like(0.5, data), op.like(1, data)
    floor = op.Floor(data)
    rest = op.Sub(data, floor)
    halved = op.Mul(floor, half)
    odd = op.Greater(op.Sub(halved, op.Floor(halved)), op.like(0, data))
    up = op.Or(op.Greater(rest, half), op.And(op.Not(op.Less(rest, half)), odd))
    # An infinity leaves NaN as its rest, which is not below a half: it is kept by adding one to it at most.
    return op.where(up, op.Add(floor, one), floor)


@lowers("Sign", below=9)
def sign(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Above zero less below zero."""
    data = op.needed(0)
    zero = op.like(0, data)
    above, below = op.cast(op.Greater(data, zero), data.dtype), op.cast(op.Less(data, zero), data.dtype)
    return op.Sub(above, below)


@lowers("Gemm", below=11)
def gemm_with_addend(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The addend was not optional."""
    if op.has_input(2):
        return None
    left, right = op.needed(0), op.needed(1)
    return op.again(left, right, op.full(0, left.dtype, [1]))


@lowers("CastLike", below=15)
def cast_like(op: RuleBuilder, node: ir.Node) -> Replacement:
    """A cast to the type that the other input has."""
    like = op.needed(1).dtype
    if like is None:
        raise Refusal("the element type of its second input is not known")
    return op.Cast(op.needed(0), to=int(like))


@lowers("Cast", below=19)
def cast_saturating(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Saturation concerns eight-bit floats, which came with it."""
    node.attributes.pop("saturate", None)
    return None


@lowers("BitwiseNot", below=18)
def bitwise_not(op: RuleBuilder, node: ir.Node) -> Replacement:
    """In two's complement, -1 - x; without a sign, the largest less x."""
    data = op.needed(0)
    if data.dtype is None:
        raise Refusal("the element type of its input is not known")
    ones = int(np.iinfo(data.dtype.numpy()).max) if not data.dtype.is_signed() else -1
    return op.Sub(op.literal(np.asarray(ones, data.dtype.numpy()), data.dtype), data)


@lowers("BitwiseAnd", "BitwiseOr", "BitwiseXor", below=18)
def bitwise(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Bit by bit, along a new last axis, on signed 64-bit integers."""
    left, right = op.needed(0), op.needed(1)
    kind = left.dtype
    if kind is None or kind == ir.DataType.UINT64:
        raise Refusal("it works on the bits of unsigned 64-bit integers")
    bits = kind.bitwidth - 1 if kind.is_signed() else kind.bitwidth
    logic = _BITS[node.op_type]
    # Runtimes may add integers up as doubles: halves of 32 bits stay exact in them.
    halves = [[1 << bit for bit in part] for part in (range(min(bits, 32)), range(32, bits)) if len(part)]
    parts = [_combined(op, logic, left, right, op.i64(weights)) for weights in halves]
    if kind.is_signed():
        signs = op.emit(logic, _negative(op, left), _negative(op, right))
        parts.append(op.Mul(op.cast(signs, ir.DataType.INT64), op.i64(-(1 << bits))))
    return op.cast(functools.reduce(op.Add, parts), kind)


def _combined(op: RuleBuilder, logic: str, left: ir.Value, right: ir.Value, weights: ir.Value) -> ir.Value:
    bits = op.emit(logic, _bits(op, left, weights), _bits(op, right, weights))
    # Counted from the front: onnxruntime keeps an axis counted from the end where there are no elements.
    last = max(op.rank(left), op.rank(right))
    return op.reduce("ReduceSum", op.Mul(op.cast(bits, ir.DataType.INT64), weights), [last], keepdims=False)


def _negative(op: RuleBuilder, value: ir.Value) -> ir.Value:
    return op.Less(op.cast(value, ir.DataType.INT64), op.i64(0))


def _bits(op: RuleBuilder, value: ir.Value, weights: ir.Value) -> ir.Value:
    wide = op.unsqueeze(op.cast(value, ir.DataType.INT64), [op.rank(value)])
    # Taking the remainder off first makes the quotient round down, as the bits of a negative number need it.
    quotient = op.Div(op.Sub(wide, op.Mod(wide, weights)), weights)
    return op.Equal(op.Mod(quotient, op.i64(2)), op.i64(1))
