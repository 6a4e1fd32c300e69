"""Activation functions."""

from __future__ import annotations

import torch

from onnxport.translate import Builder, Tensor, one_node, translates

one_node("Relu", "aten::relu")


@translates("aten::gelu")
def gelu(op: Builder, self: Tensor, approximate: str) -> Tensor:
    return op.Gelu(self, approximate=approximate)


@translates("aten::silu")
def silu(op: Builder, self: Tensor) -> Tensor:
    return self * op.Sigmoid(self)


@translates("aten::softmax.int", "aten::_softmax")
def softmax(
    op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None = None, half_to_float: bool = False
) -> Tensor:
    if half_to_float:
        dtype = torch.float32
    self = self if dtype is None else op.cast(self, dtype)
    return op.Softmax(self, axis=dim) if self.rank else op.full(1, [], self.dtype)
