"""Tensor subclasses that wrap other tensors, as quantized weights and distributed tensors do."""

from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

__all__ = ["access_inner_tensor", "plain_tensors", "wraps_tensors"]

access_inner_tensor = torch.ops.export.access_subclass_inner_tensor.default


def wraps_tensors(tensor: torch.Tensor) -> bool:
    """Whether a tensor is made of tensors inside it, and can be taken apart and put together."""
    return type(tensor) is not torch.Tensor and is_traceable_wrapper_subclass(tensor)


def plain_tensors(tensor: torch.Tensor, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that a wrapper consists of, wrappers in it taken apart, by dotted names; of another tensor itself."""
    if not wraps_tensors(tensor):
        yield name, tensor
        return
    for attribute in tensor.__tensor_flatten__()[0]:  # type: ignore[attr-defined]
        yield from plain_tensors(getattr(tensor, attribute), f"{name}.{attribute}")
