"""A weight that is written in another floating-point type than torch holds it in, converted piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxport.weights.dtypes import to_torch_dtype
from onnxport.weights.torch_tensor import TorchTensor, copied_slabs


class ConvertedTensor(TorchTensor):
    """A tensor of the model that refers to a torch tensor and is written as another type.

    >>> import torch, onnx_ir as ir
    >>> from onnxport.weights.converted import ConvertedTensor
    >>> tensor = ConvertedTensor(torch.tensor([1.0, -2.0]), ir.DataType.FLOAT16)
    >>> tensor.nbytes, tensor.tobytes().hex(), tensor.raw.dtype
    (4, '003c00c0', torch.float32)
    """

    def __init__(self, tensor: torch.Tensor, dtype: ir.DataType, name: str | None = None) -> None:
        super().__init__(tensor, name)
        self._dtype = dtype

    def like(self, tensor: torch.Tensor) -> ConvertedTensor:
        """Another tensor, written in the same type."""
        return ConvertedTensor(tensor, self.dtype, self.name)

    def numpy(self) -> npt.NDArray[Any]:
        """Return the values as an array, in the type in which they are written."""
        return TorchTensor(self._plain().to(to_torch_dtype(self.dtype))).numpy()

    def slabs(self) -> Iterator[memoryview]:
        """Yield the values as bytes, converted piece by piece."""
        plain = self._plain()
        if plain.dim() == 0:
            plain = plain.reshape(1)
        yield from copied_slabs(plain, to_torch_dtype(self.dtype))
