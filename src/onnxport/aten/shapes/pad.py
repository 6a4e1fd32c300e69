"""Padding, by a constant or by the tensor's own elements."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.errors import TranslationError
from onnxport.translate import Builder, Dim, Int, Number, Tensor, translates
from onnxport.translate.dims import maximum

_REPEATING = {"reflect": "reflect", "replicate": "edge"}
_ENUM = ("reflect", "replicate", "circular", "constant")


@translates("aten::constant_pad_nd", complex="by_parts")
def constant_pad(op: Builder, self: Tensor, pad: Sequence[Int], value: Number) -> Tensor:
    return padded(op, self, pad, "constant", value)


@translates("aten::pad", complex="by_parts")
def pad(op: Builder, self: Tensor, pad: Sequence[Int], mode: str, value: float | None) -> Tensor:
    return padded(op, self, pad, mode, 0 if value is None else value)


@translates("aten::_pad_enum", complex="by_parts")
def pad_enum(op: Builder, self: Tensor, pad: Sequence[Int], mode: int, value: float | None) -> Tensor:
    return padded(op, self, pad, _ENUM[mode], 0 if value is None else value)


@translates("aten::_pad_circular", complex="by_parts")
def pad_circular(op: Builder, self: Tensor, pad: Sequence[Int]) -> Tensor:
    return padded(op, self, pad, "circular")


@translates("aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d", complex="by_parts")
def reflection_pad(op: Builder, self: Tensor, padding: Sequence[Int]) -> Tensor:
    return padded(op, self, padding, "reflect")


@translates("aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d", complex="by_parts")
def replication_pad(op: Builder, self: Tensor, padding: Sequence[Int]) -> Tensor:
    return padded(op, self, padding, "replicate")


def padded(op: Builder, x: Tensor, pad: Sequence[Int], mode: str, value: Number = 0) -> Tensor:
    """``x`` padded by torch's list, which counts from the last axis; what is negative cuts off."""
    if mode not in ("constant", "circular", *_REPEATING):
        raise TranslationError(f"Padding of mode {mode!r} is not known.")
    before: list[Int] = [0] * x.rank
    after: list[Int] = [0] * x.rank
    for position in range(len(pad) // 2):
        axis = x.rank - 1 - position
        before[axis], after[axis] = pad[2 * position], pad[2 * position + 1]
    more_before, more_after = [_more(amount) for amount in before], [_more(amount) for amount in after]
    if mode in _REPEATING:
        # What is cut off may still be what is repeated at the other end.
        wide = _widened(op, x, more_before, more_after, _REPEATING[mode])
        return _cut(op, wide, before, after)
    kept = _cut(op, x, before, after)
    if mode == "circular":
        return _wrapped(op, kept, more_before, more_after)
    # The runtime has no kernel for an empty input: all of the result is the constant.
    if 0 in kept.shape:
        return op.full(value, _sum_sizes(more_before, kept.shape, more_after), x.dtype)
    return _widened(op, kept, more_before, more_after, "constant", value)


def _widened(
    op: Builder, x: Tensor, before: Sequence[Int], after: Sequence[Int], mode: str, value: Number = 0
) -> Tensor:
    if all(amount == 0 for amount in (*before, *after)):
        return x
    fill = op.scalar(value, x.dtype) if value != 0 else None
    # pnnx (ncnn's converter) knows no mode that is not stated.
    result = op.Pad(x, [*before, *after], fill, mode=mode)
    return result.with_shape(_sum_sizes(before, x.shape, after))


def _wrapped(op: Builder, x: Tensor, before: Sequence[Int], after: Sequence[Int]) -> Tensor:
    """Each axis behind its own end and before its own start; Pad's mode "wrap" fails in onnxruntime for many shapes."""
    for axis, (left, right) in enumerate(zip(before, after, strict=True)):
        size = x.shape[axis]
        parts = [op.slice(x, axis, size - left, None)] if left != 0 else []
        parts.append(x)
        if right != 0:
            parts.append(op.slice(x, axis, 0, right))
        if len(parts) > 1:
            shape = [*x.shape[:axis], left + size + right, *x.shape[axis + 1 :]]
            x = op.Concat(*parts, axis=axis).with_shape(shape)
    return x


def _sum_sizes(*shapes: Sequence[Int]) -> list[Int]:
    return [before + size + after for before, size, after in zip(*shapes, strict=True)]


def _cut(op: Builder, x: Tensor, before: Sequence[Int], after: Sequence[Int]) -> Tensor:
    """Slice off what is padded by a negative amount."""
    axes = [axis for axis in range(x.rank) if _may_cut(before[axis]) or _may_cut(after[axis])]
    if not axes:
        return x
    starts = [maximum(0, -before[axis]) for axis in axes]
    ends = [x.shape[axis] - maximum(0, -after[axis]) for axis in axes]
    shape = list(x.shape)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        shape[axis] = end - start
    return op.Slice(x, starts, ends, axes).with_shape(shape)


def _may_cut(amount: Int) -> bool:
    return amount.expr.is_nonnegative is not True if isinstance(amount, Dim) else amount < 0


def _more(amount: Int) -> Int:
    return maximum(0, amount) if _may_cut(amount) else amount
