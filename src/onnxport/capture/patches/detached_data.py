"""``Tensor.data`` while a model is captured: the tensor without its history, not a constant."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor


@contextlib.contextmanager
def data_as_detached() -> Iterator[None]:
    """While the block runs, ``x.data`` is captured as ``x.detach()``.

    Neither tracer sees the attribute being read: to them the result is a new tensor of which nothing is known but
    its value for the example.
    """
    original: Any = torch._C.TensorBase.data

    def read(tensor: torch.Tensor) -> Any:
        if isinstance(tensor, FakeTensor) or torch._C._get_tracing_state() is not None:
            return tensor.detach()
        return original.__get__(tensor)

    def write(tensor: torch.Tensor, value: torch.Tensor) -> None:
        original.__set__(tensor, value)

    if "data" in vars(torch.Tensor):
        # An export within an export: the outer one puts the attribute back.
        yield
        return
    torch.Tensor.data = property(read, write)  # type: ignore[assignment]
    try:
        yield
    finally:
        del torch.Tensor.data
