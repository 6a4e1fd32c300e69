"""Integers, scales and zero points of quantized weights that are computed when they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxport.weights.slabs import packed_halves


class LazyIntegers(ir.LazyTensor):
    """The integers of a quantized weight as a tensor of the model, in whatever order ``pieces`` gives them.

    ``pieces`` makes tensors of 8-bit elements, whatever the type that they are written in.
    """

    def __init__(
        self, pieces: Callable[[], Iterator[torch.Tensor]], dtype: ir.DataType, shape: tuple[int, ...], name: str
    ) -> None:
        super().__init__(self._evaluated, dtype=dtype, shape=ir.Shape(shape), name=name)
        self._make = pieces

    def pieces(self) -> Iterator[torch.Tensor]:
        """Make the integers, some at a time."""
        return self._make()

    def in_bytes(self) -> LazyIntegers:
        """The same with each integer in a byte of its own."""
        kind = ir.DataType.INT8 if self.dtype.is_signed() else ir.DataType.UINT8
        return LazyIntegers(self._make, kind, tuple(self.shape.numpy()), "" if self.name is None else self.name)

    def slabs(self) -> Iterator[memoryview]:
        """Yield the integers as bytes, piece by piece, two of them in a byte where the type has four bits."""
        pieces = (piece.reshape(-1).view(torch.uint8).numpy() for piece in self._make())
        for piece in packed_halves(pieces) if self.dtype.bitwidth == 4 else pieces:
            yield np.ascontiguousarray(piece).data

    def tobytes(self) -> bytes:
        """Return the integers as bytes."""
        return b"".join(self.slabs())

    def _evaluated(self) -> ir.Tensor[npt.NDArray[Any]]:
        content = np.concatenate([piece.reshape(-1).view(torch.uint8).numpy() for piece in self._make()])
        if self.dtype.bitwidth == 4:
            content = content.view(np.int8) if self.dtype.is_signed() else content
            array = content.astype(self.dtype.numpy()).reshape(self.shape.numpy())
        else:
            array = content.view(self.dtype.numpy()).reshape(self.shape.numpy())
        return ir.Tensor(array, dtype=self.dtype, name=self.name)


class LazyParameters(ir.LazyTensor):
    """Scales or zero points of a quantized weight as a tensor of the model."""

    def __init__(self, make: Callable[[], torch.Tensor], dtype: ir.DataType, shape: tuple[int, ...], name: str) -> None:
        super().__init__(self._evaluated, dtype=dtype, shape=ir.Shape(shape), name=name)
        self._make = make

    def numbers(self) -> torch.Tensor:
        """Make the numbers."""
        return self._make()

    def in_bytes(self) -> LazyParameters:
        """The same with each number in a byte of its own."""
        kind = ir.DataType.INT8 if self.dtype.is_signed() else ir.DataType.UINT8
        return LazyParameters(self._make, kind, tuple(self.shape.numpy()), "" if self.name is None else self.name)

    def slabs(self) -> Iterator[memoryview]:
        """Yield the numbers as bytes."""
        content = self._make().contiguous().reshape(-1).view(torch.uint8).numpy()
        for piece in packed_halves(iter([content])) if self.dtype.bitwidth == 4 else [content]:
            yield piece.data

    def tobytes(self) -> bytes:
        """Return the numbers as bytes."""
        return b"".join(self.slabs())

    def _evaluated(self) -> ir.Tensor[npt.NDArray[Any]]:
        made = self._make().contiguous()
        content = made.reshape(-1).view(torch.uint8).numpy() if made.dtype == torch.bfloat16 else made.numpy()
        kind = self.dtype.numpy()
        array = content.view(kind) if made.dtype == torch.bfloat16 else content.astype(kind)
        return ir.Tensor(array.reshape(self.shape.numpy()), dtype=self.dtype, name=self.name)
