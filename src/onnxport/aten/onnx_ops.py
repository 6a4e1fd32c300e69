"""ONNX's own operators, as ``onnxport.ops`` and ``torch.onnx.ops`` put them into a graph: each is its node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport import ops  # noqa: F401  (defines the operators)
from onnxport.ops.symbolic import decode_attributes
from onnxport.translate import Builder, Int, Tensor, translates


@translates("onnxport::symbolic", "onnxport::symbolic_multi_out")
def symbolic(
    op: Builder,
    inputs: Sequence[Tensor | None],
    domain: str,
    op_type: str,
    dtypes: Sequence[int],
    sizes: Sequence[Int],
    ranks: Sequence[int],
    names: Sequence[str],
    kinds: Sequence[str],
    counts: Sequence[int],
    ints: Sequence[int],
    floats: Sequence[float],
    strings: Sequence[str],
    tensors: Sequence[Tensor],
    props_keys: Sequence[str],
    props_values: Sequence[str],
    version: int | None,
) -> Tensor | tuple[Tensor, ...]:
    shapes = []
    for rank in ranks:
        shapes.append(sizes[:rank])
        sizes = sizes[rank:]
    results = op.custom(
        domain,
        op_type,
        inputs,
        decode_attributes(names, kinds, counts, ints, floats, strings, tensors),
        list(zip(dtypes, shapes, strict=True)),
        version,
        dict(zip(props_keys, props_values, strict=True)),
    )
    assert op.call is not None
    return results if "multi_out" in str(op.call.target) else results[0]


@translates("onnx_symbolic::_symbolic", "onnx_symbolic::_symbolic_multi_out")
def torch_symbolic(
    op: Builder,
    inputs: Sequence[Tensor | None],
    op_type: str,
    attr_keys: Sequence[str],
    attr_types: Sequence[str],
    attr_pos: Sequence[Sequence[int]],
    attr_ints: Sequence[int],
    attr_floats: Sequence[float],
    attr_strs: Sequence[str],
    metadata_props_keys: Sequence[str],
    metadata_props_values: Sequence[str],
    domain: str,
    version: int | None,
    onnx_dtype: int | None = None,
    onnx_dtypes: Sequence[int] = (),
    shape: Sequence[Int] = (),
    shapes: Sequence[Sequence[Int]] = (),
) -> Tensor | tuple[Tensor, ...]:
    """How torch's own operators encode it: an attribute is a range of the list its type has."""
    sources: dict[str, Sequence[Any]] = {"i": attr_ints, "f": attr_floats, "s": attr_strs}
    attributes: dict[str, Any] = {}
    for name, kind, (start, end) in zip(attr_keys, attr_types, attr_pos, strict=True):
        items = list(sources[kind[0]][start:end])
        attributes[name] = items if len(kind) == 2 else items[0]
    metadata = dict(zip(metadata_props_keys, metadata_props_values, strict=True))
    one = onnx_dtype is not None
    outputs = [(onnx_dtype, shape)] if onnx_dtype is not None else list(zip(onnx_dtypes, shapes, strict=True))
    results = op.custom(domain, op_type, inputs, attributes, outputs, version, metadata)
    return results[0] if one else results


@translates("onnxport::rotary_embedding", "onnx::RotaryEmbedding.opset23")
def rotary_embedding(
    op: Builder,
    x: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None,
    interleaved: bool,
    num_heads: int,
    rotary_embedding_dim: int,
) -> Tensor:
    return op.RotaryEmbedding(
        x,
        cos_cache,
        sin_cache,
        position_ids,
        interleaved=_unless(interleaved, False),
        num_heads=_unless(num_heads, 0),
        rotary_embedding_dim=_unless(rotary_embedding_dim, 0),
    ).with_shape(x.shape)


@translates("onnxport::attention")
def attention(
    op: Builder,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    nonpad_kv_seqlen: Tensor | None,
    is_causal: bool,
    kv_num_heads: int,
    q_num_heads: int,
    qk_matmul_output_mode: int,
    scale: float | None,
    softcap: float,
    softmax_precision: int | None,
    left_window_size: int,
    right_window_size: int,
) -> list[Tensor | None]:
    windowed = left_window_size >= 0 or right_window_size >= 0
    inputs = [q, k, v, attn_mask, past_key, past_value, nonpad_kv_seqlen]
    while inputs[-1] is None:
        inputs.pop()
    assert op.call is not None
    used = {user.args[1] for user in op.call.users if user.users}
    count = max(index + 1 for index in range(4) if index in used or index == 0)
    results = op.custom(
        "",
        "Attention",
        inputs,
        {
            "is_causal": _unless(int(is_causal), 0),
            "kv_num_heads": _unless(kv_num_heads, 0),
            "q_num_heads": _unless(q_num_heads, 0),
            "qk_matmul_output_mode": _unless(qk_matmul_output_mode, 0),
            "scale": scale,
            "softcap": _unless(softcap, 0.0),
            "softmax_precision": softmax_precision,
            "left_window_size": _unless(left_window_size, -1),
            "right_window_size": _unless(right_window_size, -1),
        },
        [(x.dtype, shape) for x, shape in zip((q, k, v, q), op.result_shapes()[:count], strict=False)],
        version=25 if windowed else 24 if nonpad_kv_seqlen is not None else None,
    )
    return [results[index] if index < count and (index in used or index == 0) else None for index in range(4)]


@translates("onnx::Attention.opset23")
def torch_attention(
    op: Builder,
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    attn_mask: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    is_causal: bool,
    kv_num_heads: int,
    q_num_heads: int,
    qk_matmul_output_mode: int,
    scale: float | None,
    softcap: float,
    softmax_precision: int | None,
) -> list[Tensor | None]:
    return attention(
        op,
        Q,
        K,
        V,
        attn_mask,
        past_key,
        past_value,
        None,
        is_causal,
        kv_num_heads,
        q_num_heads,
        qk_matmul_output_mode,
        scale,
        softcap,
        softmax_precision,
        -1,
        -1,
    )


@translates("onnxport::rms_normalization")
def rms_normalization(op: Builder, x: Tensor, scale: Tensor, axis: int, epsilon: float, stash_type: int) -> Tensor:
    return op.RMSNormalization(
        x,
        scale,
        axis=_unless(axis, -1),
        epsilon=_unless(epsilon, 1e-5),
        stash_type=_unless(stash_type, 1),
        out_dtype=scale.dtype,
    )


@translates("onnxport::swish")
def swish(op: Builder, x: Tensor, alpha: float) -> Tensor:
    return op.custom("", "Swish", [x], {"alpha": _unless(alpha, 1.0)}, [(x.dtype, x.shape)], version=24)[0]


@translates("onnxport::tensor_scatter")
def tensor_scatter(
    op: Builder, past_cache: Tensor, update: Tensor, write_indices: Tensor | None, mode: str, axis: int
) -> Tensor:
    inputs = [past_cache, update] if write_indices is None else [past_cache, update, write_indices]
    attributes = {"mode": _unless(mode, "linear"), "axis": _unless(axis, -2)}
    output = (past_cache.dtype, past_cache.shape)
    return op.custom("", "TensorScatter", inputs, attributes, [output], version=24)[0]


@translates("onnxport::cum_prod")
def cum_prod(op: Builder, x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    attributes = {"exclusive": _unless(int(exclusive), 0), "reverse": _unless(int(reverse), 0)}
    inputs = [x, op.scalar(axis, torch.int64)]
    return op.custom("", "CumProd", inputs, attributes, [(x.dtype, x.shape)], version=26)[0]


@translates("onnxport::bit_cast")
def bit_cast(op: Builder, x: Tensor, to: int) -> Tensor:
    return op.custom("", "BitCast", [x], {"to": to}, [(to, x.shape)], version=26)[0]


def _unless(value: object, default: object) -> Any:
    """An attribute, left out where it has its default."""
    return None if value == default else value
