"""A weight that is written otherwise than torch holds it: its axes in another order, two elements in a byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxport.weights.dtypes import carrier_dtype
from onnxport.weights.slabs import packed_halves
from onnxport.weights.torch_tensor import TorchTensor

HALF_BYTES: dict[ir.DataType, tuple[int, int]] = {ir.DataType.INT4: (-8, 7), ir.DataType.UINT4: (0, 15)}
"""The element types of which two are in a byte, and what they can hold."""


@dataclass(frozen=True)
class StoredForm:
    """How a weight is written: permuted and reshaped, in this order, and in which element type if not in its own."""

    steps: tuple[tuple[str, tuple[int, ...]], ...] = ()
    dtype: ir.DataType | None = None

    def permuted(self, order: tuple[int, ...]) -> StoredForm:
        """With the axes in another order."""
        return replace(self, steps=(*self.steps, ("permute", order)))

    def reshaped(self, shape: tuple[int, ...]) -> StoredForm:
        """In another shape."""
        return replace(self, steps=(*self.steps, ("reshape", shape)))

    def stored_as(self, dtype: ir.DataType | None) -> StoredForm:
        """In another element type."""
        return replace(self, dtype=dtype)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """A weight in this order and shape, in torch's storage where strides can express it."""
        tensor = tensor.detach()
        for step, numbers in self.steps:
            tensor = tensor.permute(numbers) if step == "permute" else tensor.reshape(numbers)
        return tensor if self.dtype is None else tensor.to(carrier_dtype(int(self.dtype)))


class StoredTensor(TorchTensor):
    """A tensor of the model that refers to a torch tensor and is written as a form of it.

    >>> import torch, onnx_ir as ir
    >>> from onnxport.weights.stored_form import StoredTensor, StoredForm
    >>> transposed = StoredForm().permuted((1, 0)).stored_as(ir.DataType.INT4)
    >>> tensor = StoredTensor(torch.tensor([[1, 2], [-1, 7]], dtype=torch.int8), transposed)
    >>> tensor.dtype.name, tensor.nbytes, tensor.tobytes().hex()
    ('INT4', 2, 'f172')
    """

    def __init__(self, tensor: torch.Tensor, form: StoredForm, name: str | None = None) -> None:
        super().__init__(form.of(tensor), name)
        self.source = tensor
        self.form = form
        if form.dtype is not None:
            self._dtype = form.dtype

    def like(self, tensor: torch.Tensor) -> StoredTensor:
        """Another tensor in the same form."""
        return StoredTensor(tensor, self.form, self.name)

    def in_bytes(self) -> StoredTensor:
        """The same with each element in a byte of its own."""
        kind = ir.DataType.INT8 if self.dtype.is_signed() else ir.DataType.UINT8
        return StoredTensor(self.source, self.form.stored_as(kind), self.name)

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
        for piece in packed_halves(np.frombuffer(slab, np.uint8) for slab in super().slabs()):
            yield piece.data


def in_form(weight: TorchTensor, form: StoredForm, name: str) -> StoredTensor | None:
    """A weight in a form, if its element type can hold what the weight holds."""
    made = StoredTensor(weight.raw, form, name)
    if made.dtype in HALF_BYTES and weight.has_content and weight.raw.numel():
        least, most = (int(bound) for bound in torch.aminmax(weight.raw))
        low, high = HALF_BYTES[made.dtype]
        if least < low or most > high:
            return None
    return made
