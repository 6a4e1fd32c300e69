"""Fourier transforms before they had operators: a product with a table of cosines and sines."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxport.legalize.known import constant_array
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.counting import (
    Length,
    as_type,
    axis_length,
    count_scalar,
    minus,
    number,
    plus,
    quotient,
    times,
    upto,
    vector,
)


@lowers("DFT", below=20)
def transform_axis(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The axis was an attribute, counted from the front, and half a spectrum had no inverse."""
    data = op.needed(0)
    axes = op.integers(2, "the axis")
    axis = op.axis(data, axes[0] if axes else -2)
    if op.attr_int("inverse", 0) and op.attr_int("onesided", 0):
        return _transform(op, data, axis, op.input(1))
    return op.again(data, op.input(1), axis=axis)


@lowers("DFT", below=17)
def fourier_transform(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The product with a table."""
    data = op.needed(0)
    return _transform(op, data, op.axis(data, op.attr_int("axis", 1)), op.input(1))


@lowers("STFT", below=17)
def short_time_transform(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Frames are gathered, weighed and transformed."""
    signal, step, window = op.needed(0), number(op, op.needed(1)), op.input(2)
    size = axis_length(op, signal, 1)
    given = op.input(3)
    if given is not None:
        frame = number(op, given)
    else:
        frame = size if window is None else axis_length(op, window, 0)
    frames = plus(op, quotient(op, minus(op, size, frame), step), 1)
    starts = upto(op, frames)
    if step != 1:
        starts = op.Mul(starts, count_scalar(op, step))
    places = op.Add(op.unsqueeze(starts, [1]), upto(op, frame))
    pieces = op.Gather(signal, places, axis=1)
    if window is not None:
        pieces = op.Mul(pieces, op.unsqueeze(window, [1]))
    one_sided = bool(op.attr_int("onesided", 1))
    return _product(op, pieces, 2, frame, frame, inverse=False, one_sided=one_sided)


_SHORT_FRAME = 1024
"""The samples of a frame up to which onnxruntime (1.31) multiplies by a table, then of 4 MB, sooner than transforms."""
_LONG_FRAME = 2048
"""The same where it transforms slowly, and is off by a hundredth of small numbers: not a power of two."""


def transform_short_frames(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Short frames are transformed by a product where the opset has an operator for it, too.

    Of 400 samples the product takes a seventh of the operator's time in onnxruntime and is off by a sixtieth as much,
    of 512 two thirds, of 1,024 the same. OpenCV has no such operator, OpenVINO none where sizes vary, and onnxruntime's
    symbolic shape inference does not follow it.
    """
    frame, shape = constant_array(op.input(3)), op.needed(0).shape
    if frame is None or frame.size != 1:
        return None
    samples = int(frame.reshape(-1)[0])
    if samples > (_LONG_FRAME if samples & (samples - 1) else _SHORT_FRAME):
        return None
    if op.needed(0).dtype is None or shape is None or not isinstance(shape[-1], int):
        return None
    return short_time_transform(op, node)


def _transform(op: RuleBuilder, data: ir.Value, axis: int, given: ir.Value | None) -> ir.Value:
    inverse, one_sided = bool(op.attr_int("inverse", 0)), bool(op.attr_int("onesided", 0))
    size = axis_length(op, data, axis)
    if given is not None:
        count = number(op, given)
    else:
        count = times(op, minus(op, size, 1), 2) if inverse and one_sided else size
    return _product(op, data, axis, size, count, inverse, one_sided)


def _product(
    op: RuleBuilder, data: ir.Value, axis: int, size: Length, count: Length, inverse: bool, one_sided: bool
) -> ir.Value:
    """The axis moved before the parts, merged with them, and multiplied."""
    rank = op.rank(data)
    parts = data.shape[rank - 1] if data.shape is not None else None
    if not isinstance(parts, int) or data.dtype is None:
        raise Refusal("it is not known whether its input is complex")
    bins = plus(op, quotient(op, count, 2), 1) if one_sided and not inverse else count
    results = 1 if one_sided and inverse else 2
    if isinstance(size, int) and isinstance(count, int):
        known = _table(size, parts, count, inverse, one_sided)
        table = op.literal(known.reshape(size * parts, -1).astype(data.dtype.numpy()), data.dtype)
    else:
        table = _computed_table(op, data.dtype, parts, size, count, bins, inverse, one_sided)
    perm = list(range(rank))
    perm[axis], perm[rank - 2] = perm[rank - 2], perm[axis]
    moved = data if axis == rank - 2 else op.Transpose(data, perm=perm)
    kept = [0] * (rank - 2)
    flat = op.Reshape(moved, vector(op, *kept, times(op, size, parts)))
    result = op.Reshape(op.MatMul(flat, table), vector(op, *kept, bins, results))
    return result if axis == rank - 2 else op.Transpose(result, perm=perm)


def _table(size: int, parts: int, count: int, inverse: bool, one_sided: bool) -> npt.NDArray[np.float64]:
    """What each part of each sample gives to each part of each bin; samples beyond the length give nothing."""
    bins = count // 2 + 1 if one_sided and not inverse else count
    angle = (2 if inverse else -2) * np.pi * np.outer(np.arange(size), np.arange(bins)) / count
    real, imaginary = np.cos(angle), np.sin(angle)
    table = np.stack([np.stack([real, imaginary], -1), np.stack([-imaginary, real], -1)], axis=1)[:, :parts]
    if one_sided and inverse:
        # All but the first bin, and the middle one, stand for two: their own and its mirror image.
        twice = np.where((np.arange(size) == 0) | (2 * np.arange(size) == count), 1.0, 2.0)
        table = table[..., :1] * twice[:, None, None, None]
        count_used = count // 2 + 1
    else:
        count_used = count
    table[count_used:] = 0
    return table / count if inverse else table


def _computed_table(
    op: RuleBuilder,
    dtype: ir.DataType,
    parts: int,
    size: Length,
    count: Length,
    bins: Length,
    inverse: bool,
    one_sided: bool,
) -> ir.Value:
    """The same table, computed in the graph; angles are reduced to one turn while they are still whole numbers."""
    kind = ir.DataType.DOUBLE if dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT
    sample = op.unsqueeze(upto(op, size), [1])
    turns = op.cast(op.Mod(op.Mul(sample, upto(op, bins)), count_scalar(op, count)), kind)
    whole = as_type(op, count, kind)
    angle = op.Div(op.Mul(turns, op.full((2 if inverse else -2) * np.pi, kind)), whole)
    real, imaginary = op.Cos(angle), op.Sin(angle)
    used = plus(op, quotient(op, count, 2), 1) if one_sided and inverse else count
    factor: ir.Value | None = None
    if used is not size:
        factor = op.cast(op.Less(sample, count_scalar(op, used)), kind)
    if one_sided and inverse:
        ends = op.Or(op.Equal(sample, op.i64(0)), op.Equal(op.Mul(sample, op.i64(2)), count_scalar(op, count)))
        weight = op.Sub(op.full(2, kind), op.cast(ends, kind))
        factor = weight if factor is None else op.Mul(factor, weight)
    if inverse:
        factor = op.Div(op.full(1, kind) if factor is None else factor, whole)
    if factor is not None:
        real, imaginary = op.Mul(real, factor), op.Mul(imaginary, factor)
    rows = [[real], [op.Neg(imaginary)]] if one_sided and inverse else [[real, imaginary], [op.Neg(imaginary), real]]
    stacked = [
        op.unsqueeze(op.Concat(*(op.unsqueeze(column, [2]) for column in row), axis=2), [1]) for row in rows[:parts]
    ]
    table = stacked[0] if parts == 1 else op.Concat(*stacked, axis=1)
    flat = vector(op, times(op, size, parts), times(op, bins, len(rows[0])))
    return op.cast(op.Reshape(table, flat), dtype)
