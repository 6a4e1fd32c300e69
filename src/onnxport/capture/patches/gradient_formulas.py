"""Formulas of gradients in operators that have translations, where torch's own is one operator."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from onnxport.errors import CaptureError
from onnxport.torch_internals.operators import OpOverload, decomposition_table

_Numbers = Sequence[int]


@functools.cache
def backward_formulas() -> dict[OpOverload, Callable[..., object]]:
    """The formulas by operator: torch's decompositions of what only gradients call, and ours.

    With them are those of functions that hand what they computed on the way to their gradient: of that the gradient of
    the gradient is taken too.
    """
    aten = torch.ops.aten
    with_results = ("native_layer_norm", "native_group_norm", "_native_batch_norm_legit", "log_sigmoid_forward")
    known = {
        operator: formula
        for operator, formula in decomposition_table.items()
        if isinstance(operator, OpOverload)
        and ("backward" in str(operator) or operator._schema.name.removeprefix("aten::") in with_results)
    }
    own: dict[OpOverload, Callable[..., object]] = {
        aten.sgn.default: lambda x: torch.sgn(x) if x.is_complex() else torch.sign(x),
        aten.convolution_backward.default: _convolution_backward,
        aten.avg_pool2d_backward.default: _avg_pool2d_backward,
        aten._adaptive_avg_pool2d_backward.default: _adaptive_avg_pool2d_backward,
        aten._cdist_backward.default: _cdist_backward,
        aten.replication_pad1d_backward.default: _replication_pad_backward,
        aten.replication_pad2d_backward.default: _replication_pad_backward,
        aten.replication_pad3d_backward.default: _replication_pad_backward,
    }
    return {**known, **own}


def _avg_pool2d_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    kernel_size: _Numbers,
    stride: _Numbers,
    padding: _Numbers,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> torch.Tensor:
    """A window gives the same to each of its places."""
    kernel, padding = (list(numbers) * (2 if len(numbers) == 1 else 1) for numbers in (kernel_size, padding))
    steps = list(stride) * (2 if len(stride) == 1 else 1) if stride else kernel
    if ceil_mode or (any(padding) and not count_include_pad and divisor_override is None):
        raise CaptureError(
            "A gradient is taken through an average over windows that end outside of the image, which is not exported."
        )
    count = kernel[0] * kernel[1] if divisor_override is None else divisor_override
    planes = grad_output.reshape(-1, 1, *grad_output.shape[-2:])
    window = grad_output.new_full((1, 1, *kernel), 1.0 / count)
    spread = _transposed(planes, window, input.shape[-2:], steps, padding, [1, 1], 1)
    return spread.reshape(input.shape)


def _adaptive_avg_pool2d_backward(grad_output: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    """Along each axis, the matrix of the shares that places have in windows."""
    rows, columns = (_shares(input, grad_output, axis) for axis in (-2, -1))
    return rows.transpose(0, 1) @ grad_output @ columns


def _shares(input: torch.Tensor, output: torch.Tensor, axis: int) -> torch.Tensor:
    size, windows = input.shape[axis], output.shape[axis]
    window = torch.arange(windows, device=input.device)[:, None]
    place = torch.arange(size, device=input.device)[None]
    first, end = window * size // windows, ((window + 1) * size + windows - 1) // windows
    return ((place >= first) & (place < end)).to(input.dtype) / (end - first).to(input.dtype)


def _cdist_backward(
    grad: torch.Tensor, x1: torch.Tensor, x2: torch.Tensor, p: float, cdist: torch.Tensor
) -> torch.Tensor:
    if p != 2:
        raise CaptureError(f"A gradient is taken through torch.cdist with p={p}; of p=2 alone one is exported.")
    along = torch.where(cdist == 0, torch.zeros_like(grad), grad / cdist)
    return x1 * along.sum(-1, keepdim=True) - along @ x2


def _replication_pad_backward(grad_output: torch.Tensor, input: torch.Tensor, padding: _Numbers) -> torch.Tensor:
    """Each axis gives what was repeated back to where it stood."""
    gradient = grad_output
    for axis in range(1, len(padding) // 2 + 1):
        size = input.shape[-axis]
        place = torch.arange(gradient.shape[-axis], device=gradient.device) - padding[2 * axis - 2]
        sizes = list(gradient.shape)
        sizes[-axis] = size
        gradient = gradient.new_zeros(sizes).index_add(gradient.dim() - axis, place.clamp(0, size - 1), gradient)
    return gradient


def _convolution_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: _Numbers | None,
    stride: _Numbers,
    padding: _Numbers,
    dilation: _Numbers,
    transposed: bool,
    output_padding: _Numbers,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    axes = input.dim() - 2
    stride, padding, dilation = (
        [*numbers] * (axes if len(numbers) == 1 else 1) for numbers in (stride, padding, dilation)
    )
    into_input = into_weight = into_bias = None
    if output_mask[0]:
        into_input = (
            # The gradient of a transposed convolution is the convolution.
            _convolution(grad_output, weight, stride, padding, dilation, groups)
            if transposed
            else _transposed(grad_output, weight, input.shape[2:], stride, padding, dilation, groups)
        )
    if output_mask[1]:
        if groups != 1 or transposed:
            raise CaptureError(
                "A gradient is taken with respect to the weight of a convolution that is transposed or has groups, "
                "which is not exported."
            )
        into_weight = _into_weight(grad_output, input, weight, stride, padding, dilation)
    if output_mask[2]:
        into_bias = grad_output.sum([0, *range(2, axes + 2)])
    return into_input, into_weight, into_bias


def _convolution(
    x: torch.Tensor, weight: torch.Tensor, stride: _Numbers, padding: _Numbers, dilation: _Numbers, groups: int
) -> torch.Tensor:
    zeros = [0] * len(stride)
    return torch.convolution(x, weight, None, stride, padding, dilation, False, zeros, groups)


def _transposed(
    gradient: torch.Tensor,
    weight: torch.Tensor,
    sizes: _Numbers,
    stride: _Numbers,
    padding: _Numbers,
    dilation: _Numbers,
    groups: int,
) -> torch.Tensor:
    """Each place of the output gives to the places that it was computed from; those that none reads get nothing."""
    zeros = [0] * len(stride)
    whole = torch.convolution(gradient, weight, None, stride, zeros, dilation, True, zeros, groups)
    # The last window may end before the input does, by less than a stride.
    unread = [step - 1 for step in stride]
    if any(unread):
        whole = F.pad(whole, [part for after in reversed(unread) for part in (0, after)])
    for axis, (before, size) in enumerate(zip(padding, sizes, strict=True), 2):
        whole = whole.narrow(axis, before, size)
    return whole


def _into_weight(
    gradient: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    stride: _Numbers,
    padding: _Numbers,
    dilation: _Numbers,
) -> torch.Tensor:
    """A convolution over the batch: the input is read with the output's gradient, whose elements are a stride apart."""
    whole = _convolution(input.transpose(0, 1), gradient.transpose(0, 1), dilation, padding, stride, 1).transpose(0, 1)
    for axis, size in enumerate(weight.shape[2:], 2):
        whole = whole.narrow(axis, 0, size)
    return whole
