"""Bits of whole numbers."""

from __future__ import annotations

import torch

from onnxport.aten.literals import number_of
from onnxport.translate import Builder, Tensor, translates

_UNSIGNED = {
    torch.int64: torch.uint64,
    torch.int32: torch.uint32,
    torch.int16: torch.uint32,
    torch.int8: torch.uint32,
    torch.uint8: torch.uint8,
}
"""The dtype in which ONNX shifts the bits of another one."""


def _bitwise(op_type: str, name: str) -> None:
    @translates(
        f"aten::bitwise_{name}.Tensor",
        f"aten::bitwise_{name}.Scalar",
        f"aten::bitwise_{name}.Scalar_Tensor",
        f"aten::__{name}__.Tensor",
        f"aten::__{name}__.Scalar",
        promote=("self", "other"),
    )
    def bitwise(op: Builder, self: Tensor, other: Tensor) -> Tensor:
        prefix = "" if self.dtype == torch.bool else "Bitwise"
        return getattr(op, prefix + op_type)(self, other)  # type: ignore[no-any-return]


for op_type, name in {"And": "and", "Or": "or", "Xor": "xor"}.items():
    _bitwise(op_type, name)


@translates("aten::bitwise_not")
def bitwise_not(op: Builder, self: Tensor) -> Tensor:
    return ~self if self.dtype == torch.bool else op.BitwiseNot(self)


def _shifted(op: Builder, x: Tensor, by: Tensor, direction: str) -> Tensor:
    dtype = _UNSIGNED.get(x.dtype, x.dtype)
    return op.cast(op.BitShift(op.cast(x, dtype), op.cast(by, dtype), direction=direction), x.dtype)


def _bits(x: Tensor) -> int:
    return torch.iinfo(x.dtype).bits


@translates(
    "aten::bitwise_left_shift.Tensor",
    "aten::bitwise_left_shift.Tensor_Scalar",
    "aten::bitwise_left_shift.Scalar_Tensor",
    "aten::__lshift__.Tensor",
    "aten::__lshift__.Scalar",
    promote=("self", "other"),
)
def left_shift(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    number = number_of(other)
    zero = op.like(0, self)
    if number is not None:
        # Multiplication wraps around, which is what falls off the end.
        return self * (1 << int(number)) if 0 <= number < _bits(self) - 1 else _far_left(op, self, int(number))
    inside = (other >= 0) & (other < _bits(self))
    return op.Where(inside, _shifted(op, self, op.Where(inside, other, zero), "LEFT"), zero)


def _far_left(op: Builder, x: Tensor, by: int) -> Tensor:
    if by == _bits(x) - 1:
        return _shifted(op, x, op.like(by, x), "LEFT")
    return op.full(0, x.shape, x.dtype)


@translates(
    "aten::bitwise_right_shift.Tensor",
    "aten::bitwise_right_shift.Tensor_Scalar",
    "aten::bitwise_right_shift.Scalar_Tensor",
    "aten::__rshift__.Tensor",
    "aten::__rshift__.Scalar",
    promote=("self", "other"),
)
def right_shift(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    number, last = number_of(other), _bits(self) - 1
    zero = op.like(0, self)
    if not self.dtype.is_signed:
        inside = (other >= 0) & (other <= last)
        return op.Where(inside, _shifted(op, self, op.Where(inside, other, zero), "RIGHT"), zero)
    if number is not None and 0 <= number < last:
        # Rounds down, as the sign bit coming in from the left does.
        divisor = op.like(1 << int(number), self)
        return (self - op.Mod(self, divisor)) / divisor
    # ONNX shifts unsigned numbers only: flip the bits of negative ones, shift, and flip them back.
    sign = op.Where(self < 0, op.like(-1, self), zero)
    # Beyond the last bit, or by a negative number, nothing but the sign is left.
    places = op.Where((other < 0) | (other > last), op.like(last, self), other)
    return op.BitwiseXor(_shifted(op, op.BitwiseXor(self, sign), places, "RIGHT"), sign)
