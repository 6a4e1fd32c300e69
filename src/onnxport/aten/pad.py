"""Padding, by a constant or by the tensor's own elements."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.errors import TranslationError
from onnxport.translate import Builder, Dim, Int, Number, Tensor, translates
from onnxport.translate.dims import maximum

_ONNX_MODE = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
_ENUM = ("constant", "reflect", "replicate", "circular")


@translates("aten::constant_pad_nd")
def constant_pad(op: Builder, self: Tensor, pad: Sequence[Int], value: Number) -> Tensor:
    return padded(op, self, pad, "constant", value)


@translates("aten::pad")
def pad(op: Builder, self: Tensor, pad: Sequence[Int], mode: str, value: float | None) -> Tensor:
    return padded(op, self, pad, mode, 0 if value is None else value)


@translates("aten::_pad_enum")
def pad_enum(op: Builder, self: Tensor, pad: Sequence[Int], mode: int, value: float | None) -> Tensor:
    return padded(op, self, pad, _ENUM[mode], 0 if value is None else value)


@translates("aten::_pad_circular")
def pad_circular(op: Builder, self: Tensor, pad: Sequence[Int]) -> Tensor:
    return padded(op, self, pad, "circular")


@translates("aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d")
def reflection_pad(op: Builder, self: Tensor, padding: Sequence[Int]) -> Tensor:
    return padded(op, self, padding, "reflect")


@translates("aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d")
def replication_pad(op: Builder, self: Tensor, padding: Sequence[Int]) -> Tensor:
    return padded(op, self, padding, "replicate")


def padded(op: Builder, x: Tensor, pad: Sequence[Int], mode: str, value: Number = 0) -> Tensor:
    """``x`` padded by torch's list, which counts from the last axis; what is negative cuts off."""
    if mode not in _ONNX_MODE:
        raise TranslationError(f"Padding of mode {mode!r} is not known.")
    before: list[Int] = [0] * x.rank
    after: list[Int] = [0] * x.rank
    for position in range(len(pad) // 2):
        axis = x.rank - 1 - position
        before[axis], after[axis] = pad[2 * position], pad[2 * position + 1]
    x, before, after = _cut(op, x, before, after, mode)
    if all(amount == 0 for amount in (*before, *after)):
        return x
    # An empty tensor has no elements that could be repeated, and the runtime has no kernel for it: all is the constant.
    if mode == "constant" and 0 in x.shape:
        return op.full(value, [b + size + a for b, size, a in zip(before, x.shape, after, strict=True)], x.dtype)
    fill = op.scalar(value, x.dtype) if mode == "constant" and value != 0 else None
    return op.Pad(x, [*before, *after], fill, mode=None if mode == "constant" else _ONNX_MODE[mode])


def _cut(op: Builder, x: Tensor, before: list[Int], after: list[Int], mode: str) -> tuple[Tensor, list[Int], list[Int]]:
    """Slice off what is padded by a negative amount, so that only the rest is left to pad."""
    axes = [axis for axis in range(x.rank) if _may_cut(before[axis]) or _may_cut(after[axis])]
    if not axes:
        return x, before, after
    starts = [maximum(0, -before[axis]) for axis in axes]
    ends = [x.shape[axis] - maximum(0, -after[axis]) for axis in axes]
    shape = list(x.shape)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        shape[axis] = end - start
    cut = op.Slice(x, starts, ends, axes).with_shape(shape)
    return cut, [maximum(0, amount) for amount in before], [maximum(0, amount) for amount in after]


def _may_cut(amount: Int) -> bool:
    return amount.expr.is_nonnegative is not True if isinstance(amount, Dim) else amount < 0
