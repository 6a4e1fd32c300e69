"""Smaller operators that opsets 23 to 26 brought, as torch operators."""

from __future__ import annotations

import torch

from onnxport.ops.library import define_with_kernel
from onnxport.weights.dtypes import carrier_dtype, from_torch_dtype


def rms_normalization(
    X: torch.Tensor, scale: torch.Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> torch.Tensor:
    """``X`` over the root of the mean of its squares, times ``scale``: ONNX's RMSNormalization (opset 23).

    Args:
        X: The tensor to normalize.
        scale: The factor, which broadcasts to ``X``; the result has its dtype.
        axis: The first of the axes to take the mean over; all behind it are included.
        epsilon: What is added to the mean.
        stash_type: ONNX's number for the dtype to compute in; half-precision numbers are computed in float by default.

    >>> import torch, onnxport
    >>> onnxport.ops.rms_normalization(torch.tensor([3.0, 3.0]), torch.tensor([1.0, 2.0]), epsilon=0.0).tolist()
    [1.0, 2.0]
    """
    result: torch.Tensor = _rms_normalization(X, scale, axis, epsilon, stash_type)
    return result


def swish(X: torch.Tensor, *, alpha: float = 1.0) -> torch.Tensor:
    """``X * sigmoid(alpha * X)``: ONNX's Swish (opset 24).

    >>> import torch, onnxport
    >>> onnxport.ops.swish(torch.tensor([0.0, 100.0])).tolist()
    [0.0, 100.0]
    """
    result: torch.Tensor = _swish(X, alpha)
    return result


def tensor_scatter(
    past_cache: torch.Tensor,
    update: torch.Tensor,
    write_indices: torch.Tensor | None = None,
    *,
    mode: str = "linear",
    axis: int = -2,
) -> torch.Tensor:
    """A cache with new elements written into each sample, from its own index on: ONNX's TensorScatter (opset 24).

    Args:
        past_cache: The cache, ``(batch, …, length, …)``.
        update: What to write; of the cache's shape but along ``axis``, where it is no longer.
        write_indices: Where along ``axis`` to begin in each sample, ``(batch,)``; at 0 by default.
        mode: ``"linear"``, or ``"circular"`` to go on at 0 behind the end.
        axis: The axis of the sequence; not the first, which is the batch.

    >>> import torch, onnxport
    >>> cache, new = torch.zeros(1, 3, 1), torch.tensor([[[1.0], [2.0]]])
    >>> onnxport.ops.tensor_scatter(cache, new, torch.tensor([2]), mode="circular").flatten().tolist()
    [2.0, 0.0, 1.0]
    """
    result: torch.Tensor = _tensor_scatter(past_cache, update, write_indices, mode, axis)
    return result


def cum_prod(x: torch.Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False) -> torch.Tensor:
    """The product of all elements up to each one: ONNX's CumProd (opset 26).

    Args:
        x: The factors.
        axis: The axis to go along.
        exclusive: Whether an element's own factor is left out of its product.
        reverse: Whether to go from the end.

    >>> import torch, onnxport
    >>> onnxport.ops.cum_prod(torch.tensor([2.0, 3.0, 4.0]), 0, exclusive=True).tolist()
    [1.0, 2.0, 6.0]
    """
    result: torch.Tensor = _cum_prod(x, axis, exclusive, reverse)
    return result


def bit_cast(input: torch.Tensor, *, to: torch.dtype | int) -> torch.Tensor:
    """The same bits as numbers of another dtype of the same width: ONNX's BitCast (opset 26).

    >>> import torch, onnxport
    >>> onnxport.ops.bit_cast(torch.tensor([1.0]), to=torch.int32).tolist()
    [1065353216]
    """
    result: torch.Tensor = _bit_cast(input, to if isinstance(to, int) else int(from_torch_dtype(to)))
    return result


def _rms_kernel(
    x: torch.Tensor, scale: torch.Tensor, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> torch.Tensor:
    # A double is never narrowed for the mean.
    wide = x if x.dtype == torch.float64 else x.to(carrier_dtype(stash_type))
    axes = list(range(axis % x.dim(), x.dim()))
    normal = wide / torch.sqrt(wide.square().mean(axes, keepdim=True) + epsilon)
    return (normal.to(scale.dtype) * scale).contiguous()


def _rms_fake(
    x: torch.Tensor, scale: torch.Tensor, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> torch.Tensor:
    return x.new_empty(x.shape, dtype=scale.dtype)


def _swish_kernel(x: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    return (x * torch.sigmoid(alpha * x)).contiguous()


def _like_first(x: torch.Tensor, *_: object) -> torch.Tensor:
    return x.new_empty(x.shape)


def _scatter_kernel(
    past_cache: torch.Tensor,
    update: torch.Tensor,
    write_indices: torch.Tensor | None = None,
    mode: str = "linear",
    axis: int = -2,
) -> torch.Tensor:
    _check_scatter(past_cache, update, mode, axis)
    axis = axis % past_cache.dim()
    places = torch.arange(update.shape[axis], device=update.device)
    if write_indices is not None:
        places = places + write_indices.unsqueeze(1)
    if mode == "circular":
        places = places % past_cache.shape[axis]
    shape = [1] * past_cache.dim()
    shape[0], shape[axis] = places.shape[0] if places.dim() == 2 else 1, update.shape[axis]
    return torch.scatter(past_cache, axis, places.reshape(shape).expand(update.shape), update).contiguous()


def _check_scatter(past_cache: torch.Tensor, update: torch.Tensor, mode: str, axis: int) -> None:
    if mode not in ("linear", "circular"):
        raise ValueError(f'The mode of tensor_scatter is "linear" or "circular", not {mode!r}.')
    if axis % past_cache.dim() == 0:
        raise ValueError("tensor_scatter writes along an axis behind the first, which is the batch.")
    if update.dim() != past_cache.dim():
        raise ValueError(
            f"update has {update.dim()} axes and past_cache {past_cache.dim()}; tensor_scatter needs as many."
        )


def _scatter_fake(
    past_cache: torch.Tensor,
    update: torch.Tensor,
    write_indices: torch.Tensor | None = None,
    mode: str = "linear",
    axis: int = -2,
) -> torch.Tensor:
    _check_scatter(past_cache, update, mode, axis)
    return past_cache.new_empty(past_cache.shape)


def _cum_prod_kernel(x: torch.Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> torch.Tensor:
    if reverse:
        x = x.flip(axis)
    if exclusive:
        length = x.shape[axis]
        x = torch.cat([torch.ones_like(x.narrow(axis, 0, min(length, 1))), x.narrow(axis, 0, max(length - 1, 0))], axis)
    result = torch.cumprod(x, axis, dtype=x.dtype)
    return (result.flip(axis) if reverse else result).contiguous()


def _bit_cast_kernel(x: torch.Tensor, to: int) -> torch.Tensor:
    _check_width(x, to)
    return x.contiguous().view(carrier_dtype(to)).clone()


def _bit_cast_fake(x: torch.Tensor, to: int) -> torch.Tensor:
    _check_width(x, to)
    return x.new_empty(x.shape, dtype=carrier_dtype(to))


def _check_width(x: torch.Tensor, to: int) -> None:
    dtype = carrier_dtype(to)
    if dtype.itemsize != x.dtype.itemsize:
        raise ValueError(
            f"bit_cast keeps the width of an element, but {x.dtype} has {x.dtype.itemsize} bytes and {dtype}"
            f" {dtype.itemsize}."
        )


_rms_normalization = define_with_kernel(
    "rms_normalization(Tensor x, Tensor scale, int axis=-1, float epsilon=1e-05, int stash_type=1) -> Tensor",
    _rms_kernel,
    _rms_fake,
)
_swish = define_with_kernel("swish(Tensor x, float alpha=1.) -> Tensor", _swish_kernel, _like_first)
_tensor_scatter = define_with_kernel(
    "tensor_scatter(Tensor past_cache, Tensor update, Tensor? write_indices=None, str mode='linear', int axis=-2)"
    " -> Tensor",
    _scatter_kernel,
    _scatter_fake,
)
_cum_prod = define_with_kernel(
    "cum_prod(Tensor x, int axis, bool exclusive=False, bool reverse=False) -> Tensor", _cum_prod_kernel, _like_first
)
_bit_cast = define_with_kernel("bit_cast(Tensor x, int to) -> Tensor", _bit_cast_kernel, _bit_cast_fake)
