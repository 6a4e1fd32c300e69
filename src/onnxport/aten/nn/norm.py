"""Normalisation."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.aten.axes import axis_of
from onnxport.aten.reduction.reduce import length_of
from onnxport.translate import Builder, Dim, Int, Tensor, translates
from onnxport.translate.dims import is_static, product


@translates("aten::layer_norm")
def layer_norm(
    op: Builder,
    input: Tensor,
    normalized_shape: Sequence[Int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    cudnn_enable: bool,
) -> Tensor:
    data, scale, shift = _one_dtype(op, input, weight, bias)
    assert data is not None
    if not is_static(normalized_shape):
        # Runtimes refuse to normalise over an axis that is empty when they run.
        mean, deviation = _statistics(op, data, list(range(data.rank - len(normalized_shape), data.rank)), eps)
        result = ((data - mean) * deviation).with_shape(data.shape)
        result = result if scale is None else result * scale
        return result if shift is None else result + shift
    scale = op.full(1, normalized_shape, data.dtype) if scale is None else scale
    # onnxruntime's optimizer fails on sums that are normalised without a bias.
    shift = op.full(0, normalized_shape, data.dtype) if shift is None else shift
    return op.LayerNormalization(data, scale, shift, axis=-len(normalized_shape), epsilon=eps)


@translates("aten::native_layer_norm")
def native_layer_norm(
    op: Builder,
    input: Tensor,
    normalized_shape: Sequence[Int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Sequence[Tensor]:
    result = layer_norm(op, input, normalized_shape, weight, bias, eps, False)
    axes = list(range(input.rank - len(normalized_shape), input.rank))
    return result, *_statistics(op, input, axes, eps)


def _one_dtype(op: Builder, *tensors: Tensor | None) -> list[Tensor | None]:
    """The tensors in the widest of their dtypes: torch lets half-precision data have float32 weights."""
    dtype: torch.dtype | None = None
    for tensor in tensors:
        if tensor is not None:
            dtype = tensor.dtype if dtype is None else torch.promote_types(dtype, tensor.dtype)
    assert dtype is not None
    return [None if tensor is None else op.cast(tensor, dtype) for tensor in tensors]


def _statistics(op: Builder, x: Tensor, axes: Sequence[int], eps: float) -> tuple[Tensor, Tensor]:
    """The mean and the reciprocal of the standard deviation over ``axes``, which stay as 1."""
    mean, variance = _moments(op, x, axes)
    return mean, op.Reciprocal(op.Sqrt(variance + eps))


def _moments(op: Builder, x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    mean = op.ReduceMean(x, list(axes), keepdims=1).with_shape(shape)
    centred = x - mean
    return mean, op.ReduceMean(op.Mul(centred, centred), list(axes), keepdims=1).with_shape(shape)


@translates("aten::rms_norm")
def rms_norm(
    op: Builder, input: Tensor, normalized_shape: Sequence[Int], weight: Tensor | None, eps: float | None
) -> Tensor:
    data, scale = _one_dtype(op, input, weight)
    assert data is not None
    # Half precision is computed in float32, whose epsilon torch then takes.
    computed = torch.float32 if input.dtype in (torch.float16, torch.bfloat16) else input.dtype
    epsilon = torch.finfo(computed).eps if eps is None else eps
    if not is_static(normalized_shape):
        axes = list(range(data.rank - len(normalized_shape), data.rank))
        result = (data / op.Sqrt(op.ReduceMean(data * data, axes, keepdims=1) + epsilon)).with_shape(data.shape)
        return result if scale is None else result * scale
    scale = op.full(1, normalized_shape, data.dtype) if scale is None else scale
    return op.RMSNormalization(data, scale, axis=-len(normalized_shape), epsilon=epsilon)


@translates("aten::_fused_rms_norm")
def fused_rms_norm(
    op: Builder, input: Tensor, normalized_shape: Sequence[Int], weight: Tensor | None, eps: float | None
) -> Sequence[Tensor]:
    result = rms_norm(op, input, normalized_shape, weight, eps)
    wide = op.cast(input, torch.float32) if input.dtype in (torch.float16, torch.bfloat16) else input
    epsilon = torch.finfo(wide.dtype).eps if eps is None else eps
    axes = list(range(input.rank - len(normalized_shape), input.rank))
    mean = op.ReduceMean(op.Mul(wide, wide), axes, keepdims=1)
    return result, op.Reciprocal(op.Sqrt(mean + epsilon))


@translates("aten::batch_norm")
def batch_norm(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    if 0 in input.shape:
        return input
    if training or running_mean is None or running_var is None:
        mean, variance = _batch_moments(op, input)
        return _scaled(op, (input - mean) / op.Sqrt(variance + eps), weight, bias)
    channels = [input.shape[1]]
    weight = op.full(1, channels, running_mean.dtype) if weight is None else weight
    bias = op.full(0, channels, weight.dtype) if bias is None else bias
    return op.BatchNormalization(input, weight, bias, running_mean, running_var, epsilon=eps)


def _batch_moments(op: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    return _moments(op, x, [axis for axis in range(x.rank) if axis != 1])


def _scaled(op: Builder, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Multiplied and shifted by channel."""
    behind = list(range(1, x.rank - 1))
    if weight is not None:
        x = op.Mul(x, op.unsqueeze(op.cast(weight, x.dtype), behind))
    return x if bias is None else op.Add(x, op.unsqueeze(op.cast(bias, x.dtype), behind))


@translates("aten::native_batch_norm", "aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit.no_stats")
def native_batch_norm(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
) -> Sequence[Tensor]:
    result = batch_norm(op, input, weight, bias, running_mean, running_var, training, momentum, eps, False)
    if not training:
        nothing = op.full(0, [0], input.dtype)
        return result, nothing, nothing
    mean, deviation = _statistics(op, input, [axis for axis in range(input.rank) if axis != 1], eps)
    return result, op.reshape(mean, [input.shape[1]]), op.reshape(deviation, [input.shape[1]])


@translates("aten::_native_batch_norm_legit_no_training")
def batch_norm_no_training(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Sequence[Tensor]:
    return native_batch_norm(op, input, weight, bias, False, momentum, eps, running_mean, running_var)


@translates("aten::_batch_norm_no_update")
def batch_norm_no_update(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> Sequence[Tensor]:
    three = native_batch_norm(op, input, weight, bias, False, momentum, eps, running_mean, running_var)
    return *three, op.full(0, [0], torch.uint8)


@translates("aten::_native_batch_norm_legit_functional")
def batch_norm_functional(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Sequence[Tensor]:
    three = native_batch_norm(op, input, weight, bias, training, momentum, eps, running_mean, running_var)
    if not training:
        return *three, running_mean, running_var
    return *three, *_updated(op, input, running_mean, running_var, momentum)


@translates("aten::_batch_norm_with_update_functional")
def batch_norm_with_update(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Sequence[Tensor]:
    three = native_batch_norm(op, input, weight, bias, True, momentum, eps, running_mean, running_var)
    return *three, op.full(0, [0], torch.uint8), *_updated(op, input, running_mean, running_var, momentum)


def _updated(op: Builder, x: Tensor, mean: Tensor, variance: Tensor, momentum: float) -> tuple[Tensor, Tensor]:
    """The running statistics after a batch; the variance kept is the unbiased one."""
    channels = x.shape[1]
    new_mean, new_variance = (op.reshape(moment, [channels]) for moment in _batch_moments(op, x))
    count = op.scalar(product(size for axis, size in enumerate(x.shape) if axis != 1), x.dtype)
    unbiased = new_variance * (count / (count - 1))
    return mean * (1 - momentum) + new_mean * momentum, variance * (1 - momentum) + unbiased * momentum


@translates("aten::instance_norm")
def instance_norm(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    if not use_input_stats:
        return batch_norm(op, input, weight, bias, running_mean, running_var, False, momentum, eps, False)
    channels = [input.shape[1]]
    scale = op.full(1, channels, input.dtype) if weight is None else weight
    shift = op.full(0, channels, input.dtype) if bias is None else bias
    data, scale_, shift_ = _one_dtype(op, input, scale, shift)
    assert data is not None and scale_ is not None and shift_ is not None
    return _normalized_instances(op, data, scale_, shift_, eps)


def _normalized_instances(op: Builder, x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    """Each channel normalised by itself. Right behind a convolution of sounds OpenCV 5.0 does that for images only."""
    if x.rank != 3:
        return op.InstanceNormalization(x, scale, shift, epsilon=eps)
    image = op.InstanceNormalization(op.unsqueeze(x, [3]), scale, shift, epsilon=eps)
    return op.squeeze(image.with_shape([*x.shape, 1]), [3])


@translates("aten::group_norm")
def group_norm(
    op: Builder,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    if 0 in input.shape:
        return input
    channels = [input.shape[1]]
    scale = op.full(1, channels, input.dtype) if weight is None else weight
    shift = op.full(0, channels, input.dtype) if bias is None else bias
    data, scale_, shift_ = _one_dtype(op, input, scale, shift)
    assert data is not None and scale_ is not None and shift_ is not None
    if num_groups == channels[0] and data.rank > 2 and data.dtype in (torch.float32, torch.float64):
        return _normalized_instances(op, data, scale_, shift_, eps)
    if op.may_be_empty(input.shape):
        return _scaled(op, _normalized_groups(op, data, num_groups, eps), scale_, shift_)
    return op.GroupNormalization(data, scale_, shift_, num_groups=num_groups, epsilon=eps)


def _normalized_groups(op: Builder, x: Tensor, groups: int, eps: float) -> Tensor:
    """Groups of channels normalised as the channels of instances, which runtimes do for an empty batch too."""
    batch, channels, *spatial = x.shape
    wide = op.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    ones, zeros = op.full(1, [groups], wide.dtype), op.full(0, [groups], wide.dtype)
    length = channels // groups * product(spatial)
    if isinstance(length, Dim) and op.may_be_empty([length]):
        # A batch of groups of nothing ends the process in onnxruntime 1.31: no groups of one each have no elements too.
        longest = op.Max(op.sizes.vector(length), op.const([1], torch.int64))
        grouped = op.Reshape(wide, op.Concat(op.const([-1, groups], torch.int64), longest, axis=0))
        normalized = op.InstanceNormalization(grouped, ones, zeros, epsilon=eps)
    else:
        grouped = op.reshape(wide, [batch, groups, length])
        normalized = op.InstanceNormalization(grouped, ones, zeros, epsilon=eps).with_shape(grouped.shape)
    return op.cast(op.reshape(normalized, x.shape), x.dtype)


@translates("aten::native_group_norm")
def native_group_norm(
    op: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: Int,
    C: Int,
    HxW: Int,
    group: int,
    eps: float,
) -> Sequence[Tensor]:
    result = group_norm(op, input, group, weight, bias, eps, False)
    grouped = op.reshape(input, [N, group, C // group * HxW])
    return result, *(op.squeeze(moment, [2]) for moment in _statistics(op, grouped, [2], eps))


@translates("aten::_weight_norm")
def weight_norm(op: Builder, v: Tensor, g: Tensor, dim: int) -> Tensor:
    return weight_norm_interface(op, v, g, dim)[0]


@translates("aten::_weight_norm_interface")
def weight_norm_interface(op: Builder, v: Tensor, g: Tensor, dim: int) -> Sequence[Tensor]:
    # torch reads a dim of -1 as "over everything" here.
    kept = None if dim == -1 else axis_of(dim, v.rank)
    axes = [axis for axis in range(v.rank) if axis != kept]
    norm = length_of(op, v, axes, kept is not None)
    return op.Mul(v, op.Div(g, norm)), norm
