"""ONNX's RotaryEmbedding as a torch operator."""

from __future__ import annotations

import torch

from onnxport.ops.library import define_with_kernel


def rotary_embedding(
    X: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> torch.Tensor:
    """Rotate each head's vector by angles that grow with its position (RoPE), as ONNX's RotaryEmbedding does.

    Args:
        X: ``(batch, heads, sequence, size)``, or ``(batch, sequence, heads * size)`` with ``num_heads`` stated.
        cos_cache: Cosines, ``(positions, rotated / 2)`` to be looked up with ``position_ids``, or
            ``(batch, sequence, rotated / 2)`` without them.
        sin_cache: Sines, of the same shape.
        position_ids: The position of each element of the sequence, ``(batch, sequence)``.
        interleaved: Whether a pair to rotate is two neighbours, rather than an element of each half.
        num_heads: The number of heads; needed for 3-D input.
        rotary_embedding_dim: How many elements of each head to rotate; 0 is all.

    Returns:
        A tensor of the shape of ``X``.

    >>> import torch, onnxport
    >>> quarter_turn = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)
    >>> onnxport.ops.rotary_embedding(torch.tensor([[[[1.0, 0.0]]]]), *quarter_turn).tolist()
    [[[[0.0, 1.0]]]]
    """
    result: torch.Tensor = _operator(
        X,
        cos_cache,
        sin_cache,
        position_ids,
        interleaved=interleaved,
        num_heads=num_heads,
        rotary_embedding_dim=rotary_embedding_dim,
    )
    return result


def _kernel(
    x: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> torch.Tensor:
    _check(x, cos_cache, sin_cache, position_ids, num_heads)
    # (batch, sequence, heads, size), so that the angles of a position serve all heads.
    by_position = x.transpose(1, 2) if x.dim() == 4 else x.unflatten(2, (num_heads, -1))
    turned = by_position.shape[3] if rotary_embedding_dim == 0 else rotary_embedding_dim
    cos, sin = (cache if position_ids is None else cache[position_ids] for cache in (cos_cache, sin_cache))
    if cos.shape[-1] * 2 != turned or sin.shape[-1] * 2 != turned:
        raise ValueError(
            f"To rotate {turned} elements of a head the caches need {turned // 2} columns, but cos_cache is"
            f" {tuple(cos_cache.shape)} and sin_cache {tuple(sin_cache.shape)}."
        )
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    pairs = by_position[..., :turned].unflatten(3, (-1, 2) if interleaved else (2, -1))
    axis = 4 if interleaved else 3
    first, second = pairs.unbind(axis)
    rotated = torch.stack([cos * first - sin * second, sin * first + cos * second], axis).flatten(3)
    result = torch.cat([rotated, by_position[..., turned:]], 3)
    return (result.transpose(1, 2) if x.dim() == 4 else result.flatten(2)).contiguous()


def _check(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, position_ids: torch.Tensor | None, num_heads: int
) -> None:
    if x.dim() not in (3, 4):
        raise ValueError(
            "rotary_embedding takes (batch, heads, sequence, size) or (batch, sequence, heads * size),"
            f" not a tensor of shape {tuple(x.shape)}."
        )
    if x.dim() == 3 and num_heads == 0:
        raise ValueError("rotary_embedding needs num_heads to split the last axis of a 3-D tensor into heads.")
    rank = 3 if position_ids is None else 2
    if cos.dim() != rank or sin.dim() != rank:
        raise ValueError(
            f"{'Without' if position_ids is None else 'With'} position_ids the caches have {rank} axes, but cos_cache"
            f" is {tuple(cos.shape)} and sin_cache {tuple(sin.shape)}."
        )
    positions = cos.shape[:2] if position_ids is None else position_ids.shape
    if tuple(positions) != (x.shape[0], x.shape[-2]):
        what = "cos_cache" if position_ids is None else "position_ids"
        raise ValueError(
            f"{what} has {tuple(positions)} for batch and sequence, which are {(x.shape[0], x.shape[-2])} in a tensor"
            f" of shape {tuple(x.shape)}: its sequence axis is {x.dim() - 2}."
        )


def _fake(
    x: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> torch.Tensor:
    if position_ids is not None:
        torch._check(position_ids.shape[0] == x.shape[0], lambda: "position_ids and X differ in their batch size.")
    return x.new_empty(x.shape)


_operator = define_with_kernel(
    "rotary_embedding(Tensor x, Tensor cos_cache, Tensor sin_cache, Tensor? position_ids=None, *,"
    " bool interleaved=False, int num_heads=0, int rotary_embedding_dim=0) -> Tensor",
    _kernel,
    _fake,
)
