"""ONNX's Attention as a torch operator, with every option of its definition up to opset 25."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.onnx_build.attention import AttentionFormula, TorchAttention
from onnxport.ops.library import define_with_kernel
from onnxport.weights.dtypes import carrier_dtype

Results = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def attention(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    past_key: torch.Tensor | None = None,
    past_value: torch.Tensor | None = None,
    nonpad_kv_seqlen: torch.Tensor | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    left_window_size: int = -1,
    right_window_size: int = -1,
) -> Results:
    """Softmax(scale Q Kᵀ + mask) V, as ONNX's Attention defines it.

    Args:
        Q: Queries, ``(batch, q_heads, q_length, size)``, or ``(batch, q_length, q_heads * size)`` with the
            numbers of heads stated.
        K: Keys, ``(batch, kv_heads, kv_length, size)`` or 3-D. With fewer heads than Q, each serves a group of queries.
        V: Values, ``(batch, kv_heads, kv_length, value_size)`` or 3-D.
        attn_mask: What broadcasts to ``(batch, q_heads, q_length, length)``: a bool mask, True where a key takes
            part, or a float mask that is added to the scores. A mask that ends early forbids the rest.
        past_key: Keys of earlier steps, ``(batch, kv_heads, past_length, size)``, put before K.
        past_value: Values of earlier steps. Given together with ``past_key``.
        nonpad_kv_seqlen: How many keys of each sample are not padding, ``(batch,)``; for a cache that is kept outside,
            so not together with ``past_key``. Needs opset 24.
        is_causal: Whether query i attends to key j only if j <= i + the number of keys before the first query.
        kv_num_heads: Heads of K and V; needed for 3-D inputs.
        q_num_heads: Heads of Q; needed for 3-D inputs.
        qk_matmul_output_mode: What the fourth result is: 0 the scores, 1 after ``softcap``, 2 after the mask too,
            3 after the softmax.
        scale: The factor of the scores; one over the root of the head size by default.
        softcap: Bounds the scores smoothly to ± this value; 0 leaves them.
        softmax_precision: ONNX's number for the dtype of the softmax; float32 for half precision, else that of Q.
        left_window_size: How many keys before its own a query sees; -1 is all. Needs opset 25.
        right_window_size: How many keys after its own a query sees; -1 is all. Needs opset 25.

    Returns:
        The output, of as many axes as Q; all keys; all values; and what ``qk_matmul_output_mode`` says.
        A query that may attend to nothing gives zeros.

    >>> import torch, onnxport
    >>> q, k = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 5, 8)
    >>> output, keys, values, scores = onnxport.ops.attention(q, k, k)
    >>> output.shape, scores.shape
    (torch.Size([1, 4, 3, 8]), torch.Size([1, 4, 3, 5]))
    """
    results: Results = _operator(
        Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen,
        is_causal=is_causal, kv_num_heads=kv_num_heads, q_num_heads=q_num_heads, scale=scale, softcap=softcap,
        qk_matmul_output_mode=qk_matmul_output_mode, softmax_precision=softmax_precision,
        left_window_size=left_window_size, right_window_size=right_window_size,
    )  # fmt: skip
    return results


@dataclass(frozen=True)
class _Options:
    """The attributes of the operator."""

    is_causal: bool = False
    kv_num_heads: int = 0
    q_num_heads: int = 0
    qk_matmul_output_mode: int = 0
    scale: float | None = None
    softcap: float = 0.0
    softmax_precision: int | None = None
    left_window_size: int = -1
    right_window_size: int = -1


def _kernel(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    past_key: torch.Tensor | None = None,
    past_value: torch.Tensor | None = None,
    nonpad_kv_seqlen: torch.Tensor | None = None,
    **attributes: Any,
) -> Results:
    options = _Options(**attributes)
    _check(past_key, past_value, nonpad_kv_seqlen, options)
    query, key, value = _split(q, options.q_num_heads), _split(k, options.kv_num_heads), _split(v, options.kv_num_heads)
    if past_key is not None and past_value is not None:
        key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
    # An operator's results may be neither its arguments nor each other's memory.
    present_key, present_value = (part.clone(memory_format=torch.contiguous_format) for part in (key, value))
    if query.shape[1] % key.shape[1]:
        raise ValueError(f"The {query.shape[1]} heads of Q can't be shared out among the {key.shape[1]} of K and V.")
    formula = AttentionFormula(
        TorchAttention(carrier_dtype(options.softmax_precision) if options.softmax_precision else None),
        query,
        key,
        mask=None if attn_mask is None else _padded(attn_mask, key.shape[2]),
        allowed=_allowed(query, key, 0 if past_key is None else past_key.shape[2], nonpad_kv_seqlen, options),
        scale=options.scale,
        change=(lambda scores: options.softcap * torch.tanh(scores / options.softcap)) if options.softcap > 0 else None,
    )
    weights = formula.weights()
    output = formula.result(weights, value)
    if q.dim() == 3:
        output = output.transpose(1, 2).flatten(2)
    shown = (formula.scores, formula.changed, formula.masked, weights)[options.qk_matmul_output_mode]
    return output.to(q.dtype).contiguous(), present_key, present_value, shown.to(q.dtype).contiguous()


def _allowed(
    query: torch.Tensor, key: torch.Tensor, past: int, nonpad_kv_seqlen: torch.Tensor | None, options: _Options
) -> torch.Tensor | None:
    """Where a key comes neither too late nor too early for a query, and is not padding; None if that is everywhere."""
    queries, device = query.shape[2], query.device
    # The first position of the queries, counted in keys; by sample where a cache outside says how full it is.
    first: torch.Tensor | int = past
    if nonpad_kv_seqlen is not None:
        first = (nonpad_kv_seqlen - queries).reshape(-1, 1, 1, 1)
    keys = torch.arange(key.shape[2], device=device)
    after = keys - torch.arange(queries, device=device).unsqueeze(1) - first
    conditions = []
    right = 0 if options.is_causal else options.right_window_size
    if right >= 0:
        conditions.append(after <= right)
    if options.left_window_size >= 0:
        conditions.append(-after <= options.left_window_size)
    if nonpad_kv_seqlen is not None:
        conditions.append(keys < nonpad_kv_seqlen.reshape(-1, 1, 1, 1))
    return functools.reduce(torch.logical_and, conditions) if conditions else None


def _check(
    past_key: torch.Tensor | None,
    past_value: torch.Tensor | None,
    nonpad_kv_seqlen: torch.Tensor | None,
    options: _Options,
) -> None:
    if (past_key is None) != (past_value is None):
        raise ValueError("attention takes past_key and past_value together, or neither.")
    if past_key is not None and nonpad_kv_seqlen is not None:
        raise ValueError("attention takes past_key or nonpad_kv_seqlen, not both: the cache is inside or outside.")
    if options.qk_matmul_output_mode not in (0, 1, 2, 3):
        raise ValueError(f"qk_matmul_output_mode is 0, 1, 2 or 3, not {options.qk_matmul_output_mode}.")


def _split(x: torch.Tensor, heads: int) -> torch.Tensor:
    """(batch, heads, sequence, size)."""
    if x.dim() == 4:
        return x
    if x.dim() != 3 or heads == 0:
        raise ValueError(
            "attention takes tensors of 4 axes, or of 3 with q_num_heads and kv_num_heads stated; one is"
            f" {tuple(x.shape)} with {heads} heads."
        )
    split: torch.Tensor = x.unflatten(2, (heads, -1))
    return split.transpose(1, 2)


def _padded(mask: torch.Tensor, length: int) -> torch.Tensor:
    """A mask that ends before the keys do forbids the rest."""
    if not 1 < mask.shape[-1] < length:
        return mask
    forbids = False if mask.dtype == torch.bool else -math.inf
    return torch.nn.functional.pad(mask, (0, length - mask.shape[-1]), value=forbids)


def _fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    past_key: torch.Tensor | None = None,
    past_value: torch.Tensor | None = None,
    nonpad_kv_seqlen: torch.Tensor | None = None,
    **attributes: Any,
) -> Results:
    options = _Options(**attributes)
    _check(past_key, past_value, nonpad_kv_seqlen, options)
    flat = q.dim() == 3
    query, key, value = _split(q, options.q_num_heads), _split(k, options.kv_num_heads), _split(v, options.kv_num_heads)
    length = key.shape[2] if past_key is None else past_key.shape[2] + key.shape[2]
    batch, heads, rows, size = query.shape
    value_size = value.shape[3]
    return (
        q.new_empty((batch, rows, heads * value_size) if flat else (batch, heads, rows, value_size)),
        k.new_empty((key.shape[0], key.shape[1], length, size)),
        v.new_empty((value.shape[0], value.shape[1], length, value_size)),
        q.new_empty((batch, heads, rows, length)),
    )


_operator = define_with_kernel(
    "attention(Tensor q, Tensor k, Tensor v, Tensor? attn_mask=None, Tensor? past_key=None, Tensor? past_value=None,"
    " Tensor? nonpad_kv_seqlen=None, *, bool is_causal=False, int kv_num_heads=0, int q_num_heads=0,"
    " int qk_matmul_output_mode=0, float? scale=None, float softcap=0., int? softmax_precision=None,"
    " int left_window_size=-1, int right_window_size=-1) -> (Tensor, Tensor, Tensor, Tensor)",
    _kernel,
    _fake,
)
