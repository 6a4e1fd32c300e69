"""Attention."""

from __future__ import annotations

import torch

from onnxport.translate import Builder, Tensor, translates


@translates("aten::scaled_dot_product_attention")
def scaled_dot_product_attention(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    return op.Attention(query, key, value, attn_mask, is_causal=is_causal, scale=scale)


@translates("aten::_safe_softmax")
def safe_softmax(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    self = self if dtype is None else op.cast(self, dtype)
    weights = op.Softmax(self, axis=dim)
    # A row that is masked out altogether is 0/0 in a softmax; torch makes it 0.
    return op.Where(op.IsNaN(weights), op.scalar(0, self.dtype), weights)
