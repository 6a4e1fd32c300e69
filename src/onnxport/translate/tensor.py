"""``Tensor``: an ONNX value under construction, as translations see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir
import torch

from onnxport.translate.dims import Dim, Int

if TYPE_CHECKING:
    from onnxport.translate.builder import Builder

Number = int | float | bool | complex


class FreeRankType(ir.TensorType):
    """Of a value whose number of axes only run time knows."""


_HANDLES = (ir.SequenceType, ir.OptionalType, FreeRankType)


class Tensor:
    """A value with its torch dtype and shape, and arithmetic bound to the builder that made it.

    ``shape`` is ``None`` only for intermediates whose shape no one has stated. A complex tensor
    has a complex ``dtype`` and a logical shape; its ``value`` has a trailing dimension of 2. A sequence of
    tensors, and what else torch knows by a handle, has their dtype, and a shape that means nothing.
    """

    __slots__ = ("_shape", "_value", "dtype", "op")

    def __init__(self, op: Builder, value: ir.Value, dtype: torch.dtype, shape: Sequence[Int] | None) -> None:
        self.op = op
        self._value = value
        self.dtype = dtype
        self._shape = None if shape is None else tuple(shape)

    def __repr__(self) -> str:
        return f"Tensor({self._value.name}, {self.dtype}, {self._shape})"

    @property
    def value(self) -> ir.Value:
        """The value itself; a translation that looks at it can't be repeated for others like it."""
        self.op.shared.looked = True
        return self._value

    @property
    def shape(self) -> tuple[Int, ...]:
        """The logical shape; asking for one that was never stated is a bug in a translation."""
        if self._shape is None:
            raise AssertionError(f"The shape of the intermediate {self._value.name!r} is not known here.")
        return self._shape

    @property
    def known_shape(self) -> tuple[Int, ...] | None:
        """The logical shape, or ``None`` where it is not known."""
        return self._shape

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether the dtype is a real floating-point type."""
        return self.dtype.is_floating_point

    @property
    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self.dtype.is_complex

    @property
    def is_integer(self) -> bool:
        """Whether the dtype is an integer type other than bool."""
        return not (self.dtype.is_floating_point or self.dtype.is_complex or self.dtype == torch.bool)

    @property
    def is_handle(self) -> bool:
        """Whether its shape means nothing: a sequence, a tensor that may be None, one of any number of axes."""
        # Not isinstance: behind the types of onnx_ir stands a protocol, and asking it takes as long as making a value.
        return type(self._value.type) in _HANDLES

    @property
    def real(self) -> Tensor:
        """The real part of a complex tensor; a real one itself."""
        return self.op.part(self, 0) if self.is_complex else self

    @property
    def imag(self) -> Tensor:
        """The imaginary part of a complex tensor."""
        return self.op.part(self, 1)

    def with_shape(self, shape: Sequence[Int]) -> Tensor:
        """The same value with its shape stated."""
        if self._value.shape is None and not self.is_handle:
            self._value.shape = self.op.ir_shape((*shape, 2) if self.dtype.is_complex else shape)
        return Tensor(self.op, self._value, self.dtype, shape)

    def __add__(self, other: Operand) -> Tensor:
        return self.op.Add(self, self.op.like(other, self))

    def __radd__(self, other: Operand) -> Tensor:
        return self.op.Add(self.op.like(other, self), self)

    def __sub__(self, other: Operand) -> Tensor:
        return self.op.Sub(self, self.op.like(other, self))

    def __rsub__(self, other: Operand) -> Tensor:
        return self.op.Sub(self.op.like(other, self), self)

    def __mul__(self, other: Operand) -> Tensor:
        return self.op.Mul(self, self.op.like(other, self))

    def __rmul__(self, other: Operand) -> Tensor:
        return self.op.Mul(self.op.like(other, self), self)

    def __truediv__(self, other: Operand) -> Tensor:
        return self.op.Div(self, self.op.like(other, self))

    def __rtruediv__(self, other: Operand) -> Tensor:
        return self.op.Div(self.op.like(other, self), self)

    def __pow__(self, other: Operand) -> Tensor:
        return self.op.Pow(self, self.op.like(other, self))

    def __neg__(self) -> Tensor:
        return self.op.Neg(self)

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.op.MatMul(self, other)

    def __lt__(self, other: Operand) -> Tensor:
        return self.op.Less(self, self.op.like(other, self))

    def __le__(self, other: Operand) -> Tensor:
        return self.op.LessOrEqual(self, self.op.like(other, self))

    def __gt__(self, other: Operand) -> Tensor:
        return self.op.Greater(self, self.op.like(other, self))

    def __ge__(self, other: Operand) -> Tensor:
        return self.op.GreaterOrEqual(self, self.op.like(other, self))

    def __and__(self, other: Tensor) -> Tensor:
        return self.op.And(self, other)

    def __or__(self, other: Tensor) -> Tensor:
        return self.op.Or(self, other)

    def __xor__(self, other: Tensor) -> Tensor:
        return self.op.Xor(self, other)

    def __invert__(self) -> Tensor:
        return self.op.Not(self)

    def __bool__(self) -> bool:
        raise TypeError("A Tensor has no truth value while exporting.")


Operand: TypeAlias = Tensor | Number | Dim
