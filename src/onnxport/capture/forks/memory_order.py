"""The order of a tensor in memory, where sizes decide it: a transposed matrix of one row is contiguous."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import torch

from onnxport.capture.diagnosis.user_lines import asker, frame_of_caller
from onnxport.capture.forks.expressions import is_for_memory
from onnxport.source_files import TORCH_FOLDER
from onnxport.torch_internals.symbolic_sizes import get_proxy_mode


def orders_of_memory() -> Iterator[tuple[object, str, object]]:
    """The method that answers at once, with what the model's code calls in its place: owner, name, method."""
    yield torch.Tensor, "is_contiguous", _asking(torch.Tensor.is_contiguous)


def _asking(original: Callable[..., bool]) -> Callable[..., bool]:
    def is_contiguous(tensor: torch.Tensor, *args: object, **kwargs: object) -> bool:
        # torch itself asks most often, and is told apart first.
        if args or kwargs or sys._getframe(1).f_code.co_filename.startswith(TORCH_FOLDER):
            return original(tensor, *args, **kwargs)
        varies = any(isinstance(size, torch.SymInt) for size in tensor.shape)
        if not varies or get_proxy_mode() is None or asker() != "user":
            return original(tensor)
        frame = frame_of_caller()
        if frame is not None and is_for_memory(frame):
            return original(tensor)
        return _is_contiguous(tensor)

    return is_contiguous


def _is_contiguous(tensor: torch.Tensor) -> bool:
    """Whether the strides are those of the sizes, whatever they are along axes of one; nothing is contiguous too."""
    expected: int | torch.SymInt = 1
    fits = True
    for size, stride in reversed(list(zip(tensor.shape, tensor.stride(), strict=True))):
        if size == 0:
            return True
        if size != 1:
            fits = fits and bool(stride == expected)
            expected = expected * size
    return fits
