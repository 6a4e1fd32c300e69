"""``Tensor.data`` and copies of tensors while a model is captured: the tensor without its history, not a constant."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.fake_tensors import FakeTensor, detect_fake_mode
from onnxport.torch_internals.layers import TensorBase
from onnxport.torch_internals.torchscript import get_tracing_state


def data_as_detached() -> contextlib.AbstractContextManager[None]:
    """While the block runs, ``x.data`` is captured as ``x.detach()``, and ``copy.deepcopy(x)`` as a clone of it.

    Neither tracer sees the attribute being read: to them the result is a new tensor of which nothing is known but
    its value for the example. A deep copy is one of the storage, which fake tensors have none of.
    """
    original: Any = TensorBase.data

    def read(tensor: torch.Tensor) -> object:
        if isinstance(tensor, FakeTensor) or get_tracing_state() is not None:
            return tensor.detach()
        return original.__get__(tensor)

    def write(tensor: torch.Tensor, value: torch.Tensor) -> None:
        original.__set__(tensor, value)

    copied: Any = torch.Tensor.__deepcopy__

    def copy(tensor: torch.Tensor, memo: dict[int, object]) -> object:
        captured = isinstance(tensor, FakeTensor) or get_tracing_state() is not None or detect_fake_mode() is not None
        if not captured:
            return copied(tensor, memo)
        return memo.setdefault(id(tensor), tensor.detach().clone())

    return attributes_replaced([(torch.Tensor, "data", property(read, write)), (torch.Tensor, "__deepcopy__", copy)])
