"""Sizes as numbers to count with, and the numbers counted up to them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize.known import constant_integers, known_rank, static_sizes
from onnxport.legalize.rule_builder import RuleBuilder

Length = int | ir.Value
"""A number of elements: known, or a scalar that only run time knows."""

_FEW = 1024


def axis_length(op: RuleBuilder, value: ir.Value, axis: int) -> Length:
    """The size of an axis."""
    dim = value.shape[axis] if value.shape is not None else None
    return dim if isinstance(dim, int) else op.squeeze(op.dim(value, axis), [0])


def number(op: RuleBuilder, value: ir.Value) -> Length:
    """An integer that a scalar, or a list of one, holds."""
    known = constant_integers(value)
    if known is not None:
        return known[0]
    rank = known_rank(value)
    if rank:
        # Symbolic shape inference follows what is squeezed, not what is reshaped to a scalar.
        return op.cast(op.squeeze(value, list(range(rank))), ir.DataType.INT64)
    return op.cast(value if rank == 0 else op.Reshape(value, op.i64([])), ir.DataType.INT64)


def element(op: RuleBuilder, numbers: ir.Value, position: int) -> Length:
    """One of a list of integers, such as a shape; a plain int also where only others beside it are computed."""
    known = constant_integers(numbers)
    if known is not None:
        return known[position]
    joined, place = numbers.producer(), position
    for part in joined.inputs if joined is not None and joined.op_type == "Concat" else ():
        sizes = None if part is None else static_sizes(part)
        if not sizes:
            break
        if place < sizes[0]:
            known = constant_integers(part)
            if known is not None:
                return known[place]
            break
        place -= sizes[0]
    return number(op, op.slice(numbers, 0, position, position + 1))


def count_scalar(op: RuleBuilder, count: Length) -> ir.Value:
    """A number as a scalar."""
    return op.i64(count) if isinstance(count, int) else count


def vector(op: RuleBuilder, *counts: Length) -> ir.Value:
    """Numbers as a list, such as a shape."""
    known = [count for count in counts if isinstance(count, int)]
    if len(known) == len(counts):
        return op.i64(known)
    parts = [op.i64([count]) if isinstance(count, int) else op.unsqueeze(count, [0]) for count in counts]
    return op.Concat(*parts, axis=0) if len(parts) > 1 else parts[0]


def upto(op: RuleBuilder, count: Length) -> ir.Value:
    """0, 1, 2 … as many as ``count`` says; a literal if they are few."""
    if isinstance(count, int) and (count <= _FEW or op.opset < 11):
        return op.literal(np.arange(count, dtype=np.int64))
    if op.opset >= 11:
        return op.Range(op.i64(0), count_scalar(op, count), op.i64(1))
    return places(op, op.unsqueeze(count_scalar(op, count), [0]))


def places(op: RuleBuilder, count: ir.Value) -> ir.Value:
    """The same for a list of one number where there is no Range: where that many ones are not zero."""
    ones = op.ConstantOfShape(count, value=ir.tensor(np.ones(1, np.int64)))
    return op.squeeze(op.NonZero(ones), [0])


def within(op: RuleBuilder, numbers: ir.Value, last: ir.Value) -> ir.Value:
    """Integers none of which is below zero or above ``last``."""
    zero = op.i64(0)
    numbers = op.where(op.Less(numbers, zero), zero, numbers)
    return op.where(op.Less(last, numbers), last, numbers)


def times(op: RuleBuilder, left: Length, right: Length) -> Length:
    """A product of two numbers."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if right == 1:
        return left
    return right if left == 1 else op.Mul(count_scalar(op, left), count_scalar(op, right))


def plus(op: RuleBuilder, left: Length, right: Length) -> Length:
    """A sum of two numbers."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if right == 0:
        return left
    return right if left == 0 else op.Add(count_scalar(op, left), count_scalar(op, right))


def minus(op: RuleBuilder, left: Length, right: Length) -> Length:
    """A difference of two numbers."""
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    return left if right == 0 else op.Sub(count_scalar(op, left), count_scalar(op, right))


def quotient(op: RuleBuilder, left: Length, right: Length) -> Length:
    """How often one number goes into another, neither negative."""
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    return left if right == 1 else op.Div(count_scalar(op, left), count_scalar(op, right))


def as_type(op: RuleBuilder, count: Length, dtype: ir.DataType) -> ir.Value:
    """A number as a scalar of an element type."""
    return op.full(count, dtype) if isinstance(count, int) else op.cast(count, dtype)
