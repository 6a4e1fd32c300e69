"""Attention: one ONNX operator where it has the form for it, else the products and the softmax it stands for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.aten.elementwise.activation import gelu
from onnxport.aten.linalg.products import linear, transposed
from onnxport.aten.nn.norm import layer_norm
from onnxport.aten.random.draws import dropout
from onnxport.aten.reduction.reduce import log_of_sum_of_powers
from onnxport.errors import TranslationError
from onnxport.onnx_build.attention import AttentionFormula, attention_dtype, attention_scale
from onnxport.translate import Builder, Int, Tensor, translates


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
    enable_gqa: bool = False,
) -> Tensor:
    if dropout_p > 0 or not _is_attention(query, key, value, attn_mask):
        formula = _formula(op, query, key, attn_mask, is_causal, scale)
        weights = dropout(op, formula.or_zero(formula.weights()), dropout_p, True)
        return op.cast(formula.result(weights, value), query.dtype)
    if attn_mask is not None:
        attn_mask = _whole(op, _in_dtype_of(op, attn_mask, query), query.shape[2], key.shape[2])
    return op.Attention(query, key, value, attn_mask, is_causal=True if is_causal else None, scale=scale)


def _is_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Whether the operands are as ONNX wants them: batch, heads, sequence and size of a head, none of them empty."""
    if not query.rank == key.rank == value.rank == 4 or (mask is not None and mask.rank > 4):
        return False
    heads, shared = query.shape[1], key.shape[1]
    return (
        isinstance(heads, int)
        and isinstance(shared, int)
        and query.shape[0] == key.shape[0] == value.shape[0]
        and shared == value.shape[1]
        and 0 not in (*query.shape, *key.shape, *value.shape)
        and heads % shared == 0
    )


def _in_dtype_of(op: Builder, mask: Tensor, query: Tensor) -> Tensor:
    return mask if mask.dtype == torch.bool else op.cast(mask, query.dtype)


def _whole(op: Builder, mask: Tensor, rows: Int, columns: Int) -> Tensor:
    """A mask with a size for every query and key: ONNX broadcasts over batch and heads only."""
    have = mask.shape
    sizes = [size if known == 1 else known for known, size in zip(have[-2:], (rows, columns), strict=True)]
    return op.expand(mask, [*have[:-2], *sizes])


class _Nodes:
    """The terms of a translation; any number of leading axes, which broadcast."""

    def __init__(self, op: Builder, query: Tensor) -> None:
        self.op = op
        self.heads = _heads(query)

    def wide(self, operand: Tensor) -> Tensor:
        return self.op.cast(operand, attention_dtype(operand.dtype))

    def scale(self, query: Tensor) -> float | Tensor:
        size = query.shape[-1]
        if isinstance(size, int):
            return attention_scale(size)
        return self.op.Reciprocal(self.op.Sqrt(self.op.scalar(size, query.dtype)))

    def times(self, query: Tensor, factor: float | Tensor) -> Tensor:
        return query * factor

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ transposed(self.op, self.repeated(key))

    def weighed(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ self.op.cast(self.repeated(value), weights.dtype)

    def repeated(self, x: Tensor) -> Tensor:
        """Keys or values with a head for each of the queries': each one serves as many in a row."""
        have = _heads(x)
        if not isinstance(have, int) or not isinstance(self.heads, int) or have == 1 or have >= self.heads:
            return x
        *batch, heads, length, size = x.shape
        times = self.heads // have
        several = self.op.expand(self.op.unsqueeze(x, [x.rank - 2]), [*batch, heads, times, length, size])
        return self.op.reshape(several, [*batch, self.heads, length, size])

    def is_bool(self, mask: Tensor) -> bool:
        return mask.dtype == torch.bool

    def both(self, mask: Tensor, allowed: Tensor) -> Tensor:
        return self.op.And(mask, allowed)

    def as_bias(self, allowed: Tensor, query: Tensor) -> Tensor:
        return self.op.Where(allowed, self.op.like(0, query), self.op.like(-math.inf, query))

    def added(self, mask: Tensor, query: Tensor) -> Tensor:
        return self.op.cast(mask, query.dtype)

    def plus(self, one: Tensor, other: Tensor) -> Tensor:
        return one + other

    def softmax(self, scores: Tensor) -> Tensor:
        return self.op.Softmax(scores, axis=-1)

    def attending(self, bias: Tensor, mask: Tensor) -> Tensor | None:
        return _attending(self.op, bias, -1)

    def zero_unless(self, attending: Tensor, numbers: Tensor) -> Tensor:
        return self.op.Where(attending, numbers, self.op.like(0, numbers))


def _heads(x: Tensor) -> Int:
    return x.shape[-3] if x.rank > 2 else 1


def _formula(
    op: Builder, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None
) -> AttentionFormula[Tensor]:
    allowed = _causal(op, query.shape[-2], key.shape[-2]) if is_causal else None
    return AttentionFormula(_Nodes(op, query), query, key, mask=mask, allowed=allowed, scale=scale)


def _causal(op: Builder, rows: Int, columns: Int) -> Tensor:
    """Where a key is not after the query, both counted from the first."""
    start, step = op.scalar(0, torch.int64), op.scalar(1, torch.int64)
    queries = op.Range(start, op.scalar(rows, torch.int64), step).with_shape([rows])
    keys = op.Range(start, op.scalar(columns, torch.int64), step).with_shape([columns])
    return keys <= op.unsqueeze(queries, [1])


def _attending(op: Builder, scores: Tensor, dim: int) -> Tensor:
    """Where not everything along a dimension is masked out; counted, since shape inference follows sums everywhere."""
    return op.ReduceSum(op.cast(scores > -math.inf, torch.float32), [dim]) > 0


@translates("aten::_safe_softmax")
def safe_softmax(op: Builder, self: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
    self = self if dtype is None else op.cast(self, dtype)
    if self.rank == 0:
        return op.Where(op.Equal(self, op.like(-math.inf, self)), op.like(0, self), op.like(1, self))
    # What is masked out altogether is 0/0 in a softmax; torch makes it 0.
    attends = _attending(op, self, dim)
    return op.Where(attends, op.Softmax(self, axis=dim), op.like(0, self))


@translates("aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_attention_math_for_mps")
def attention_math(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    dropout_mask: Tensor | None,
    scale: float | None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor]:
    # Here a mask is added, whatever its dtype.
    bias = None if attn_mask is None else op.cast(attn_mask, query.dtype)
    formula = _formula(op, query, key, bias, is_causal, scale)
    weights = formula.or_zero(formula.weights())
    if dropout_mask is not None:
        weights = op.Where(dropout_mask, weights / (1 - dropout_p), op.like(0, weights))
    else:
        weights = dropout(op, weights, dropout_p, True)
    return op.cast(formula.result(weights, value), query.dtype), weights


@translates(
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_fused_attention_overrideable",
)
def fused_attention(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    attn_mask: Tensor | None = None,
    attn_bias: Tensor | None = None,
    compute_log_sumexp: bool = True,
    return_debug_mask: bool = False,
) -> Sequence[Tensor | None]:
    mask = attn_bias if attn_mask is None else attn_mask
    result = scaled_dot_product_attention(op, query, key, value, mask, dropout_p, is_causal, scale)
    used = _used_results(op)
    if used - {0, 1}:
        raise TranslationError("only the result of this kernel and its logsumexp can be exported")
    logsumexp = None
    if 1 in used:
        scores = _formula(op, query, key, mask, is_causal, scale).masked
        scores = scores.with_shape([*query.shape[:-1], key.shape[-2]])
        logsumexp = log_of_sum_of_powers(op, scores, [scores.rank - 1], False)
    assert op.call is not None
    return [result, logsumexp, *[None] * (len(op.call.meta["val"]) - 2)]


def _used_results(op: Builder) -> set[int]:
    """Which of the results of the call being translated are read."""
    assert op.call is not None
    return {index for user in op.call.users for index in user.args[1:] if isinstance(index, int) and user.users}


@translates("aten::_native_multi_head_attention")
def native_multi_head_attention(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None,
    need_weights: bool,
    average_attn_weights: bool,
    mask_type: int | None,
) -> tuple[Tensor, Tensor | None]:
    q, k, v = _projected(op, [query, key, value], embed_dim, num_head, qkv_weight, qkv_bias)
    weights = None
    if need_weights or mask is not None:
        allowed = None if mask is None else _allowed(op, mask, mask_type)
        formula = _formula(op, q, k, allowed, False, None)
        weights = formula.weights(safe=False)
        result = op.cast(formula.result(weights, v), q.dtype)
    else:
        result = scaled_dot_product_attention(op, q, k, v, None, 0.0, False, None)
    joined = op.reshape(op.transpose(result.with_shape(q.shape), [0, 2, 1, 3]), query.shape)
    if weights is not None and average_attn_weights:
        weights = op.ReduceMean(weights, [1], keepdims=0)
    return linear(op, joined, proj_weight, proj_bias), weights if need_weights else None


def _projected(
    op: Builder, inputs: Sequence[Tensor], embed_dim: int, heads: int, weight: Tensor, bias: Tensor
) -> list[Tensor]:
    """Queries, keys and values by head; of one input they are one product."""
    if all(x.value is inputs[0].value for x in inputs):
        whole = linear(op, inputs[0], weight, bias)
        parts = list(op.multi("Split", whole, axis=-1, num_outputs=3, outputs=3))
    else:
        weights = op.multi("Split", weight, axis=0, num_outputs=3, outputs=3)
        biases = op.multi("Split", bias, axis=0, num_outputs=3, outputs=3)
        parts = [
            linear(op, x, w.with_shape([embed_dim, embed_dim]), b.with_shape([embed_dim]))
            for x, w, b in zip(inputs, weights, biases, strict=True)
        ]
    split = [
        op.reshape(part.with_shape(x.shape), [*x.shape[:2], heads, embed_dim // heads])
        for x, part in zip(inputs, parts, strict=True)
    ]
    return [op.transpose(part, [0, 2, 1, 3]) for part in split]


def _allowed(op: Builder, mask: Tensor, mask_type: int | None) -> Tensor:
    """Where to attend: the fused operators take what is not 0 for masked out, of keys where the mask is of type 1."""
    allowed = op.Not(op.cast(mask, torch.bool)).with_shape(mask.shape)
    return op.unsqueeze(allowed, [1, 2]) if mask_type == 1 else allowed


@translates("aten::_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    op: Builder,
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None,
    mask_type: int | None,
) -> Tensor:
    shape = src.shape

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return layer_norm(op, x.with_shape(shape), [embed_dim], weight, bias, eps, False).with_shape(shape)

    def attention(x: Tensor) -> Tensor:
        return native_multi_head_attention(
            op,
            x,
            x,
            x,
            embed_dim,
            num_heads,
            qkv_weight,
            qkv_bias,
            proj_weight,
            proj_bias,
            mask,
            False,
            False,
            mask_type,
        )[0]

    def feed_forward(x: Tensor) -> Tensor:
        inner = linear(op, x, ffn_weight_1, ffn_bias_1).with_shape([*shape[:2], ffn_weight_1.shape[0]])
        return linear(op, gelu(op, inner, "none") if use_gelu else op.Relu(inner), ffn_weight_2, ffn_bias_2)

    if norm_first:
        src = src + attention(norm(src, norm_weight_1, norm_bias_1))
        return src + feed_forward(norm(src, norm_weight_2, norm_bias_2))
    src = norm(src + attention(src), norm_weight_1, norm_bias_1)
    return norm(src + feed_forward(src), norm_weight_2, norm_bias_2)
