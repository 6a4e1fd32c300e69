"""Numbers that are read from tensors, and tensors that are made of such numbers.

``torch.zeros(lengths[0], 4)`` and ``torch.as_tensor([x.size(0), y.size(0)])`` go through bindings that want plain
numbers. While capturing, sizes that are tensors are read as the numbers they hold, and numbers that vary are stacked. A
list of a tensor's numbers is made when it is first looked at: one that only becomes a tensor again is that tensor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.fake_tensors import FakeTensor, FunctionalTensor

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_TRACED = (FakeTensor, FunctionalTensor)
_MADE = ("zeros", "ones", "empty", "full")


def numbers_in_and_out_of_tensors() -> contextlib.AbstractContextManager[None]:
    """While this is open, these functions take and give numbers that vary."""
    return attributes_replaced(
        [
            *((torch, name, _of_any_size(getattr(torch, name))) for name in _MADE),
            *((torch, name, _of_any_numbers(getattr(torch, name))) for name in ("tensor", "as_tensor")),
            (FakeTensor, "tolist", _listing(FakeTensor.tolist)),
        ]
    )


class ListedTensor(Sequence[Any]):
    """The numbers of a tensor of which there are as many as run time says; looking at one fixes how many."""

    def __init__(self, tensor: FakeTensor, listed: Callable[[FakeTensor], list[Any]]) -> None:
        self.tensor = tensor
        self._listed = listed
        self._numbers: list[Any] | None = None

    @property
    def numbers(self) -> list[Any]:
        """The numbers themselves."""
        if self._numbers is None:
            self._numbers = self._listed(self.tensor)
        return self._numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        return self.numbers[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.numbers)


def _listing(original: Callable[[FakeTensor], Any]) -> Callable[[FakeTensor], Any]:
    def tolist(self: FakeTensor) -> Any:
        if self.dim() == 1 and isinstance(self.shape[0], torch.SymInt):
            return ListedTensor(self, original)
        return original(self)

    return tolist


def _of_any_size(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    full = torch.full

    def made(*args: Any, **kwargs: Any) -> torch.Tensor:
        sizes = args[:1] if original is full else args
        return original(*(_read(size) for size in sizes), *args[len(sizes) :], **kwargs)

    return made


def _read(size: Any) -> Any:
    """Sizes with numbers in the place of tensors."""
    if isinstance(size, _TRACED):
        return size.item() if size.dim() == 0 and not size.dtype.is_floating_point else size
    if type(size) in (list, tuple) and any(isinstance(one, _TRACED) for one in size):
        return [_read(one) for one in size]
    return size


def _of_any_numbers(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def tensor(data: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        if isinstance(data, ListedTensor):
            return _converted(data.tensor, *args, **kwargs)
        if not _varies(data):
            return original(data, *args, **kwargs)
        return _stacked(data, kwargs.get("dtype", args[0] if args else None), kwargs.get("device"))

    return tensor


def _converted(
    tensor: torch.Tensor, dtype: torch.dtype | None = None, device: torch.device | str | None = None, **_: Any
) -> torch.Tensor:
    if dtype is None:
        # A list of numbers that are not whole says nothing of their precision.
        dtype = torch.get_default_dtype() if tensor.dtype.is_floating_point else _dtype_of_numbers(tensor.dtype)
    return tensor.to(device=device, dtype=dtype)


def _dtype_of_numbers(dtype: torch.dtype) -> torch.dtype:
    return torch.bool if dtype == torch.bool else torch.int64


def _varies(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return any(isinstance(one, _TRACED) or _varies(one) for one in data)
    return isinstance(data, _SYMBOLIC)


def _stacked(data: Any, dtype: torch.dtype | None, device: torch.device | None) -> torch.Tensor:
    if isinstance(data, list | tuple):
        parts = [_stacked(one, dtype, device) for one in data]
        common = parts[0].dtype
        for part in parts[1:]:
            common = torch.promote_types(common, part.dtype)
        return torch.stack([part.to(common) for part in parts])
    if isinstance(data, torch.Tensor):
        return data if dtype is None else data.to(dtype)
    if dtype is None:
        dtype = _dtype_of(data)
    return torch.full((), data, dtype=dtype, device=device)


def _dtype_of(number: Any) -> torch.dtype:
    if isinstance(number, bool | torch.SymBool):
        return torch.bool
    return torch.int64 if isinstance(number, int | torch.SymInt) else torch.get_default_dtype()
