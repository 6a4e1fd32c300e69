"""A weight that is written otherwise than torch holds it: its axes in another order, two elements in a byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxport.weights.dtypes import from_torch_dtype
from onnxport.weights.torch_tensor import TorchTensor

HALF_BYTES: dict[ir.DataType, tuple[int, int]] = {ir.DataType.INT4: (-8, 7), ir.DataType.UINT4: (0, 15)}
"""The element types of which two are in a byte, and what they can hold."""


@dataclass(frozen=True)
class Arrangement:
    """How a weight is written: permuted and reshaped, in this order, and in which element type if not in its own."""

    steps: tuple[tuple[str, tuple[int, ...]], ...] = ()
    dtype: ir.DataType | None = None

    def permuted(self, order: tuple[int, ...]) -> Arrangement:
        """With the axes in another order."""
        return replace(self, steps=(*self.steps, ("permute", order)))

    def reshaped(self, shape: tuple[int, ...]) -> Arrangement:
        """In another shape."""
        return replace(self, steps=(*self.steps, ("reshape", shape)))

    def stored_as(self, dtype: ir.DataType | None) -> Arrangement:
        """In another element type."""
        return replace(self, dtype=dtype)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """A weight in this order and shape, in torch's storage where strides can express it."""
        tensor = tensor.detach()
        for step, numbers in self.steps:
            tensor = tensor.permute(numbers) if step == "permute" else tensor.reshape(numbers)
        return tensor


class ArrangedTensor(TorchTensor):
    """A tensor of the model that refers to a torch tensor and is written as an arrangement of it.

    >>> import torch, onnx_ir as ir
    >>> from onnxport.weights.arranged import ArrangedTensor, Arrangement
    >>> transposed = Arrangement().permuted((1, 0)).stored_as(ir.DataType.INT4)
    >>> tensor = ArrangedTensor(torch.tensor([[1, 2], [-1, 7]], dtype=torch.int8), transposed)
    >>> tensor.dtype.name, tensor.nbytes, tensor.tobytes().hex()
    ('INT4', 2, 'f172')
    """

    def __init__(self, tensor: torch.Tensor, arrangement: Arrangement, name: str | None = None) -> None:
        super().__init__(arrangement.of(tensor), name)
        self.source = tensor
        self.arrangement = arrangement
        if arrangement.dtype is not None:
            self._dtype = arrangement.dtype

    def like(self, tensor: torch.Tensor) -> ArrangedTensor:
        """Another tensor in the same arrangement."""
        return ArrangedTensor(tensor, self.arrangement, self.name)

    def in_bytes(self) -> ArrangedTensor:
        """The same with each element in a byte of its own."""
        return ArrangedTensor(self.source, self.arrangement.stored_as(None), self.name)

    def numpy(self) -> npt.NDArray[Any]:
        """Return the values as an array."""
        if self.dtype not in HALF_BYTES:
            return super().numpy()
        return self._plain().contiguous().numpy().astype(self.dtype.numpy())

    def slabs(self) -> Iterator[memoryview]:
        """Yield the values as bytes, piece by piece."""
        if self.dtype not in HALF_BYTES:
            yield from super().slabs()
            return
        left = np.empty(0, np.uint8)
        for slab in super().slabs():
            elements = np.concatenate([left, np.frombuffer(slab, np.uint8)])
            even = len(elements) // 2 * 2
            left = elements[even:]
            yield _packed(elements[:even]).data
        if len(left):
            yield _packed(np.append(left, np.uint8(0))).data


def _packed(elements: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Two elements in a byte, the first in its lower half."""
    packed: npt.NDArray[np.uint8] = np.bitwise_or(elements[0::2] & np.uint8(0xF), elements[1::2] << np.uint8(4))
    return packed


def arranged(weight: TorchTensor, arrangement: Arrangement, name: str) -> ArrangedTensor | None:
    """A weight in an arrangement, if its element type can hold what the weight holds."""
    made = ArrangedTensor(weight.raw, arrangement, name)
    if made.dtype in HALF_BYTES and weight.has_content and weight.raw.numel():
        least, most = (int(bound) for bound in torch.aminmax(weight.raw))
        low, high = HALF_BYTES[made.dtype]
        if least < low or most > high:
            return None
    assert made.dtype in HALF_BYTES or made.dtype == from_torch_dtype(weight.raw.dtype)
    return made
