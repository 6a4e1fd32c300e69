"""Rows for aten/attention.py."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from cases import B, Case, R, case

ATTEND = "aten::scaled_dot_product_attention"
HALVES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
Q, K, V = R("b", 4, "n", 8), R("b", 4, "m", 8), R("b", 4, "m", 6)


def attend(name: str, *inputs: R, dtypes: tuple[torch.dtype, ...] = (torch.float32,), **options: Any) -> Case:
    """Queries, keys, values and maybe a mask."""

    def function(*tensors: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(*tensors, **options)

    return case(ATTEND, function, *inputs, name=name, dtypes=dtypes)


def masked(name: str, *inputs: R) -> Case:
    """A mask in which the first row allows nothing and the others allow the first key."""

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if mask.dtype == torch.bool:
            allowed = mask
        else:
            allowed, mask = mask > 0, torch.where(mask > 0, mask, -torch.inf)
        first = torch.arange(q.shape[-2]).unsqueeze(1) == 0
        dead = mask.new_zeros([]) if mask.dtype == torch.bool else mask.new_full([], -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, torch.where(first, dead, torch.where(allowed, mask, dead)))

    return case(ATTEND, function, *inputs, name=name)


def lowered(covers: str, name: str, *inputs: R, **options: Any) -> Case:
    operator = getattr(torch.ops.aten, covers.removeprefix("aten::"))
    return case(covers, lambda *tensors: operator(*tensors, **options), *inputs, name=name)


class Attends(nn.Module):
    """Multi-head attention with options, on one, two or three inputs."""

    def __init__(self, inputs: int = 1, mask: str = "", causal: bool = False, weights: bool = False, **options: Any):
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=options.pop("batch_first", True), **options)
        self.inputs, self.mask, self.causal, self.weights = inputs, mask, causal, weights

    def forward(self, *tensors: torch.Tensor) -> Any:
        q, k, v = (tensors[min(at, self.inputs - 1)] for at in range(3))
        given = {self.mask: tensors[-1]} if self.mask else {}
        if self.causal:
            length = q.shape[1 if self.attention.batch_first else 0]
            given["attn_mask"] = nn.Transformer.generate_square_subsequent_mask(length)
        result, weights = self.attention(q, k, v, need_weights=self.weights, is_causal=self.causal, **given)
        return (result, weights) if self.weights else result


class Layer(nn.Module):
    """An encoder or a decoder, seeded."""

    def __init__(self, kind: str, **options: Any):
        super().__init__()
        torch.manual_seed(0)
        decoder = kind.startswith("decoder")
        one = (nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer)(
            8, 2, 16, batch_first=True, **options
        )
        self.kind = kind
        if kind == "encoder":
            self.layer: nn.Module = nn.TransformerEncoder(one, 2, enable_nested_tensor=False)
        elif kind == "whole":
            self.layer = nn.Transformer(8, 2, 1, 1, 16, batch_first=True, **options)
        else:
            self.layer = one

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        if self.kind == "encoder" and len(tensors) == 2:
            return self.layer(tensors[0], src_key_padding_mask=tensors[1])
        return self.layer(*tensors)


def fused(function: Any) -> Any:
    """A function of an input (and a mask) and the parameters of an encoder layer."""

    class Fused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def forward(self, *tensors: torch.Tensor) -> Any:
            return function(self.layer, *tensors)

    return Fused()


def native_attention(
    layer: nn.TransformerEncoderLayer, *tensors: torch.Tensor, mask: torch.Tensor | None = None, **options: Any
) -> Any:
    x = [*tensors, *tensors, *tensors][:3]
    own = layer.self_attn
    return torch.ops.aten._native_multi_head_attention(
        *x, 8, 2, own.in_proj_weight, own.in_proj_bias, own.out_proj.weight, own.out_proj.bias, mask, **options
    )


def encoder_layer(
    layer: nn.TransformerEncoderLayer,
    x: torch.Tensor,
    mask: torch.Tensor | None = None,
    gelu: bool = False,
    norm_first: bool = False,
    mask_type: int | None = None,
) -> torch.Tensor:
    own = layer.self_attn
    return torch._transformer_encoder_layer_fwd(
        x, 8, 2, own.in_proj_weight, own.in_proj_bias, own.out_proj.weight, own.out_proj.bias,
        gelu, norm_first, 1e-5,
        layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias,
        layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias,
        mask, mask_type,
    )  # fmt: skip


X = R("b", "n", 8)
MATH = "aten::_scaled_dot_product_attention_math"
NATIVE, ENCODER = "aten::_native_multi_head_attention", "aten::_transformer_encoder_layer_fwd"

CASES = [
    attend("plain", Q, K, V, dtypes=HALVES),
    attend("scale", Q, K, V, scale=0.3),
    attend("causal-wide", R("b", 4, 3, 8), R("b", 4, "m", 8), R("b", 4, "m", 6), is_causal=True),
    attend("causal-tall", R("b", 4, "m", 8), R("b", 4, 3, 8), R("b", 4, 3, 6), is_causal=True),
    attend("causal", Q, R("b", 4, "n", 8), R("b", 4, "n", 8), is_causal=True, dtypes=HALVES),
    attend("float-mask", Q, K, V, R("n", "m"), dtypes=HALVES),
    attend("bool-mask", Q, K, V, B("b", 1, "n", "m"), dtypes=HALVES),
    attend("mask-by-head", Q, K, V, R(4, "n", "m")),
    attend("mask-of-keys", Q, K, V, B("b", 1, 1, "m")),
    attend("mask-of-queries", Q, K, V, R("n", 1)),
    attend("mask-in-full", Q, K, V, R("b", 4, "n", "m")),
    masked("dead-row-bool", Q, K, V, B("b", 1, "n", "m")),
    masked("dead-row-float", Q, K, V, R("n", "m")),
    masked("dead-row-rank-3", R("b", "n", 8), R("b", "m", 8), R("b", "m", 6), B("n", "m")),
    attend("gqa", Q, R("b", 2, "m", 8), R("b", 2, "m", 8), enable_gqa=True, dtypes=HALVES),
    attend("gqa-masked", Q, R("b", 2, "m", 8), R("b", 2, "m", 6), B("n", "m"), enable_gqa=True),
    attend("gqa-causal", Q, R("b", 1, "n", 8), R("b", 1, "n", 6), enable_gqa=True, is_causal=True),
    attend("rank-2", R("n", 8), R("m", 8), R("m", 6)),
    attend("rank-3", R("b", "n", 8), R("b", "m", 8), R("b", "m", 6), R("n", "m")),
    attend("rank-3-causal", R("b", "n", 8), R("b", "m", 8), R("b", "m", 6), is_causal=True),
    attend("rank-5", R(2, "b", 4, "n", 8), R(2, "b", 4, "m", 8), R(2, "b", 4, "m", 6), B("b", 1, "n", "m")),
    attend("rank-5-gqa", R(2, "b", 4, "n", 8), R(2, "b", 2, "m", 8), R(2, "b", 2, "m", 6), enable_gqa=True),
    attend("broadcast-batch", R("b", 4, "n", 8), R(1, 4, "m", 8), R(1, 4, "m", 6)),
    attend("no-keys", R(2, 4, 3, 8), R(2, 4, 0, 8), R(2, 4, 0, 6)),
    case(
        ATTEND,
        lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5),
        Q,
        name="dropout",
        exact_values=False,
    ),
    case(ATTEND, Attends(), X, name="multihead"),
    case(ATTEND, Attends(weights=True), X, name="multihead-weights"),
    case(ATTEND, Attends(3, kdim=6, vdim=5), X, R("b", "m", 6), R("b", "m", 5), name="multihead-sizes"),
    case(ATTEND, Attends(2, weights=True), X, R("b", "m", 8), name="multihead-cross-weights"),
    case(ATTEND, Attends(mask="key_padding_mask"), X, B("b", "n"), name="multihead-padding"),
    case(ATTEND, Attends(mask="attn_mask", weights=True), X, R("n", "n"), name="multihead-mask-weights"),
    case(ATTEND, Attends(causal=True), X, name="multihead-causal"),
    case(ATTEND, Attends(add_zero_attn=True, add_bias_kv=True), X, name="multihead-extra-keys"),
    case(ATTEND, Attends(batch_first=False, bias=False), R("n", "b", 8), name="multihead-length-first"),
    case(ATTEND, Attends(batch_first=False), R("n", 8), name="multihead-unbatched"),
    case(ATTEND, Layer("encoder"), X, name="encoder"),
    case(ATTEND, Layer("encoder", norm_first=True, activation="gelu"), X, B("b", "n"), name="encoder-padding"),
    case(ATTEND, Layer("decoder"), X, R("b", "m", 8), name="decoder"),
    case(ATTEND, Layer("whole"), X, R("b", "m", 8), name="transformer"),
    case(
        "aten::_safe_softmax",
        lambda x, m: torch._safe_softmax(x.masked_fill(m, -torch.inf), 1),
        R("b", 3, "n"),
        B("b", 1, "n"),
    ),
    case("aten::_safe_softmax", lambda x: torch._safe_softmax(x, -1, dtype=torch.float64), R("n"), name="dtype"),
    lowered(MATH, "bool-mask", Q, K, V, B("n", "m")),
    lowered(MATH, "float-mask", Q, K, V, R("n", "m")),
    lowered(MATH, "gqa", Q, R("b", 2, "m", 8), R("b", 2, "m", 6), enable_gqa=True),
    lowered("aten::_scaled_dot_product_flash_attention_for_cpu", "causal", Q, Q, Q, is_causal=True),
    case(
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        lambda q, k, m: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, k, attn_mask=m),
        Q,
        K,
        R("n", "m"),
        name="masked",
    ),
    case(NATIVE, fused(lambda layer, x: native_attention(layer, x)), X, name="weights"),
    case(NATIVE, fused(lambda layer, x: native_attention(layer, x, need_weights=False)[0]), X, name="result"),
    case(NATIVE, fused(lambda layer, x: native_attention(layer, x, average_attn_weights=False)), X, name="by-head"),
    case(
        NATIVE,
        fused(lambda layer, x, m: native_attention(layer, x, mask=m, mask_type=1, need_weights=False)[0]),
        X,
        B("b", "n"),
        name="padding",
    ),
    case(
        NATIVE,
        fused(lambda layer, x, m: native_attention(layer, x, mask=m | True, mask_type=1)),
        X,
        B("b", "n"),
        name="nothing-to-attend-to",
    ),
    case(NATIVE, fused(lambda layer, x, y: native_attention(layer, x, y, y)), X, R("b", "n", 8), name="cross"),
    case(ENCODER, fused(encoder_layer), X),
    case(ENCODER, fused(lambda layer, x: encoder_layer(layer, x, None, True, True)), X, name="gelu-norm-first"),
    case(ENCODER, fused(lambda layer, x, m: encoder_layer(layer, x, m, mask_type=0)), X, B("n", "n"), name="mask"),
]  # fmt: skip
