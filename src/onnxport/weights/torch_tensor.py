"""An ONNX tensor that lives in torch's storage: nothing is copied until it is written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxport.errors import OnnxExporterError
from onnxport.torch_internals.fake_tensors import FakeTensor, disable_current_modes
from onnxport.weights.dtypes import COMPLEX_PARTS, from_torch_dtype

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# A tensor that is not laid out as ONNX wants it is copied in pieces of this size, so that writing it never doubles it.
SLAB_BYTES = 1 << 20
# A transposed matrix is copied in blocks of so many rows and columns at least: what they read stays in the cache.
_BLOCK = 64
_WHOLE_NUMBERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


StorageKey = tuple[object, ...]


def storage_key(tensor: torch.Tensor) -> StorageKey:
    """What is equal for tensors that are the same elements of one storage, and for no others.

    >>> import torch
    >>> from onnxport.weights.torch_tensor import storage_key
    >>> weight = torch.zeros(2, 3)
    >>> storage_key(weight.detach()) == storage_key(weight), storage_key(weight.T) == storage_key(weight)
    (True, False)
    """
    if tensor.layout is not torch.strided:
        return (id(tensor),)
    if tensor.is_meta or isinstance(tensor, FakeTensor):
        if tensor._has_symbolic_sizes_strides:
            return (id(tensor),)
        # The storage object, not an address: all tensors without content say address 0.
        where = (tensor.untyped_storage()._cdata, tensor.storage_offset())
    elif (address := tensor.data_ptr()) != 0:
        where = (address, 0)
    else:
        # No elements, which everything without elements has in common.
        return (id(tensor),)
    dtype = tensor.dtype
    seen_as = (tensor.is_conj(), tensor.is_neg()) if dtype.is_complex or tensor.is_neg() else ()
    return (where, dtype, tuple(tensor.shape), tensor.stride(), seen_as)


class TorchTensor(ir.Tensor[torch.Tensor]):
    """A tensor of the model that refers to a torch tensor.

    A complex tensor appears as its real and imaginary parts in a last dimension of two. ``shape`` is that of the tensor
    as it appears, and ``key`` its :func:`storage_key`, for a caller that has them already. Its values are read as they
    are where a mode makes all new tensors fake, too.

    >>> import torch
    >>> from onnxport.weights.torch_tensor import TorchTensor
    >>> TorchTensor(torch.zeros(2, 3, dtype=torch.bfloat16), name="weight")
    TorchTensor<BFLOAT16,[2,3]>(name='weight')
    """

    def __init__(
        self,
        tensor: torch.Tensor,
        name: str | None = None,
        doc_string: str | None = None,
        *,
        shape: ir.Shape | None = None,
        key: StorageKey | None = None,
    ) -> None:
        part = COMPLEX_PARTS.get(tensor.dtype)
        if shape is None:
            sizes = [int(size) for size in tensor.shape]
            shape = ir.Shape(sizes if part is None else [*sizes, 2])
        dtype = from_torch_dtype(tensor.dtype if part is None else part)
        super().__init__(tensor, dtype=dtype, shape=shape, name=name, doc_string=doc_string)
        self._key = key

    @property
    def key(self) -> StorageKey:
        """The :func:`storage_key` of the torch tensor."""
        if self._key is None:
            self._key = storage_key(self.raw)
        return self._key

    @property
    def has_content(self) -> bool:
        """Whether there are values behind the shape: not so for fake tensors and those on the meta device."""
        return not isinstance(self.raw, FakeTensor) and self.raw.device.type != "meta"

    def numpy(self) -> npt.NDArray[Any]:
        """Return the values as an array, sharing memory with torch where the layout allows it."""
        with disable_current_modes():
            plain = self._plain()
            array: npt.NDArray[Any] = _bytes_view(plain.contiguous()).view(self.dtype.numpy())
            return array.reshape(tuple(plain.shape))

    def tobytes(self) -> bytes:
        """Return the values as bytes in C order."""
        with disable_current_modes():
            return b"".join(self.slabs())

    def tofile(self, file: SupportsWrite[memoryview]) -> None:
        """Write the values to a file, straight from torch's storage when it is contiguous and on the CPU."""
        with disable_current_modes():
            for slab in self.slabs():
                file.write(slab)

    def slabs(self) -> Iterator[memoryview]:
        """Yield the values as bytes: one view of the storage, or consecutive pieces copied one at a time."""
        plain = self._plain()
        if plain.is_contiguous() or plain.dim() == 0:
            yield _bytes_view(plain.contiguous()).data
            return
        yield from copied_slabs(plain)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self.numpy()
        wanted = array.dtype if dtype is None else np.dtype(dtype)
        return array.astype(wanted, copy=bool(copy))

    def __dlpack__(self, *, stream: object = None) -> Any:
        with disable_current_modes():
            return self._plain().contiguous().__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return f"{self._repr_base()}(name={self.name!r})"

    def _plain(self) -> torch.Tensor:
        """Return an ordinary CPU tensor with this tensor's values, dtype and (real) shape."""
        if not self.has_content:
            raise OnnxExporterError(
                f"The weight {self.name!r} ({self.dtype.name}, {self.shape}) has no values: the model was made with "
                "fake or meta tensors. Call ONNXProgram.apply_weights(state_dict) first, or save it with "
                "include_initializers=False."
            )
        tensor = self.raw.detach()
        if tensor.dtype in COMPLEX_PARTS:
            tensor = torch.view_as_real(tensor.resolve_conj())
        return tensor.resolve_neg().cpu()


def _bytes_view(contiguous: torch.Tensor) -> npt.NDArray[np.uint8]:
    # torch hands numpy no bfloat16 and no float8, but any dtype can be seen as bytes once it is flat.
    flat = contiguous.view(-1)
    if flat.stride(0) != 1:
        # One element is contiguous whatever its stride, but can be seen as bytes only with a stride of one.
        flat = flat.clone(memory_format=torch.contiguous_format)
    array: npt.NDArray[np.uint8] = flat.view(torch.uint8).numpy()
    return array


def copied_slabs(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> Iterator[memoryview]:
    """The elements of a tensor as bytes in C order, copied piece by piece, and converted if another type is wanted."""
    row_bytes = tensor.element_size() * math.prod(tensor.shape[1:])
    turns = _is_turned(tensor)
    if row_bytes > SLAB_BYTES and tensor.dim() > 1 and not turns:
        for row in tensor:
            yield from copied_slabs(row, dtype)
        return
    rows = max(_BLOCK if turns else 1, SLAB_BYTES // max(1, row_bytes))
    for start in range(0, tensor.shape[0], rows):
        slab = _in_order(tensor[start : start + rows])
        yield _bytes_view(slab if dtype is None else slab.to(dtype)).data


def _in_order(slab: torch.Tensor) -> torch.Tensor:
    """A slab copied to C order; rows of a transposed matrix block by block, in the cache.

    By numpy, in this thread alone: torch would share a megabyte out among threads and wait for all of them, hundreds of
    times for a model, which takes ten times as long where the cores have other work.
    """
    elements = _WHOLE_NUMBERS.get(slab.element_size())
    if elements is None or not _is_turned(slab):
        return slab.contiguous()
    source = slab.view(elements).numpy()
    turned = np.empty(source.shape, source.dtype)
    for start in range(0, source.shape[1], _BLOCK):
        turned[:, start : start + _BLOCK] = source[:, start : start + _BLOCK]
    return torch.from_numpy(turned).view(slab.dtype)


def _is_turned(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a transposed matrix: what lies side by side in memory belongs to a column of it."""
    return tensor.dim() == 2 and tensor.stride(0) == 1
