"""The functions of ``torch.onnx.operators``: shapes as tensors, for code that traces with sizes that vary."""

from __future__ import annotations

import torch

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    """The shape of a tensor, as a tensor.

    >>> import torch, onnxport
    >>> onnxport.operators.shape_as_tensor(torch.ones(2, 3))
    tensor([2, 3])
    """
    shape: torch.Tensor = torch.ops.aten._shape_as_tensor.default(x)
    return shape


def reshape_from_tensor_shape(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """A tensor in a shape that another tensor holds.

    >>> import torch, onnxport
    >>> onnxport.operators.reshape_from_tensor_shape(torch.ones(2, 3), torch.tensor([3, 2])).shape
    torch.Size([3, 2])
    """
    reshaped: torch.Tensor = torch.ops.aten._reshape_from_tensor.default(x, shape)
    return reshaped
