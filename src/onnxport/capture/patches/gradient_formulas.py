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
    """The formulas by operator: torch's decompositions of what only gradients call, and ours."""
    known = {
        operator: formula
        for operator, formula in decomposition_table.items()
        if isinstance(operator, OpOverload) and "backward" in str(operator)
    }
    return {**known, torch.ops.aten.convolution_backward.default: _convolution_backward}


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
        back = _transposed if not transposed else _plain
        into_input = back(grad_output, weight, input.shape[2:], stride, padding, dilation, groups)
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


def _plain(
    gradient: torch.Tensor,
    weight: torch.Tensor,
    sizes: _Numbers,
    stride: _Numbers,
    padding: _Numbers,
    dilation: _Numbers,
    groups: int,
) -> torch.Tensor:
    """The gradient of a transposed convolution is the convolution."""
    return _convolution(gradient, weight, stride, padding, dilation, groups)


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
