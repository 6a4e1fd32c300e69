"""Pools whose windows have a size that varies: torch takes plain numbers there, and would fix it to the example's.

Most are as long as the axis (``avg_pool2d(x, x.shape[2:])``, or a text's features over time): one window, and so a mean
or a maximum over the axis. Any other is gathered from the places that its elements have.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import statically_known_true

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.operators import meta_registrations, nn_bindings

Pool = Callable[..., torch.Tensor]
_Sizes = int | Sequence[int]


def pooled_by_any_size() -> contextlib.AbstractContextManager[None]:
    """While this is open, pools take windows and strides that vary; those of plain numbers are as before."""
    bindings = nn_bindings
    largest = [(torch, f"max_pool{n}d", _largest(getattr(torch, f"max_pool{n}d"), n)) for n in (1, 2, 3)]
    line = _average(torch.avg_pool1d, 1)
    plane, space = _average(bindings.avg_pool2d, 2), _average(bindings.avg_pool3d, 3)
    return attributes_replaced(
        [
            *largest,
            (torch, "avg_pool1d", line),
            (F, "avg_pool1d", line),
            *((place, "avg_pool2d", plane) for place in (F, bindings)),
            *((place, "avg_pool3d", space) for place in (F, bindings)),
            (meta_registrations, "div_rtn", operator.floordiv),
        ]
    )


def _largest(original: Pool, spatial: int) -> Pool:
    def max_pool(
        input: torch.Tensor,
        kernel_size: _Sizes,
        stride: _Sizes | None = None,
        padding: _Sizes = 0,
        dilation: _Sizes = 1,
        ceil_mode: bool = False,
    ) -> torch.Tensor:
        if ceil_mode or not _vary(kernel_size, stride, padding, dilation):
            return original(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)
        lowest = -torch.inf if input.dtype.is_floating_point else torch.iinfo(input.dtype).min
        windows = _each(spatial, kernel_size, stride, padding, dilation)
        return _reduced(input, windows, lowest, torch.amax)

    return max_pool


def _average(original: Pool, spatial: int) -> Pool:
    def avg_pool(
        input: torch.Tensor,
        kernel_size: _Sizes,
        stride: _Sizes | None = None,
        padding: _Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> torch.Tensor:
        others: tuple[Any, ...] = () if spatial == 1 else (divisor_override,)
        counts_the_rest = not count_include_pad and not _is_zero(padding)
        if ceil_mode or counts_the_rest or divisor_override is not None or not _vary(kernel_size, stride, padding):
            stride = () if stride is None else stride
            return original(input, kernel_size, stride, padding, ceil_mode, count_include_pad, *others)
        windows = _each(spatial, kernel_size, stride, padding, 1)
        return _reduced(input, windows, 0.0, mean)

    def mean(x: torch.Tensor, axes: list[int], keepdim: bool) -> torch.Tensor:
        # A mean over all axes is a pool to one element, which has an operator in ONNX.
        return over_all(x, 1) if keepdim and len(axes) == spatial else x.mean(axes, keepdim)

    over_all: Pool = getattr(F, f"adaptive_avg_pool{spatial}d")

    return avg_pool


def _each(
    spatial: int, kernel: _Sizes, stride: _Sizes | None, padding: _Sizes, dilation: _Sizes
) -> list[tuple[int, int, int, int]]:
    """Window, stride, padding and dilation of each axis; without a stride, windows lie side by side."""
    given = (kernel, kernel if stride is None or _numbers(stride) == [] else stride, padding, dilation)
    spread = [numbers * spatial if len(numbers) == 1 else numbers for numbers in map(_numbers, given)]
    return list(zip(*spread, strict=True))


def windows_along(x: torch.Tensor, axis: int, kernel: int, stride: int, dilation: int = 1) -> torch.Tensor:
    """A tensor with two axes in the place of one: its windows, and the elements of each."""
    count = (x.shape[axis] - dilation * (kernel - 1) - 1) // stride + 1
    places = torch.arange(count).unsqueeze(1) * stride + torch.arange(kernel) * dilation
    shape = [*x.shape[:axis], count, kernel, *x.shape[axis + 1 :]]
    return x.index_select(axis, places.reshape(-1)).reshape(shape)


def _reduced(
    x: torch.Tensor,
    windows: list[tuple[int, int, int, int]],
    outside: float,
    reduce: Callable[[torch.Tensor, list[int], bool], torch.Tensor],
) -> torch.Tensor:
    """Reduce the windows of the last axes of a tensor: those that are as long as their axis at once, others in turn."""
    whole = []
    for axis, (kernel, stride, padding, dilation) in zip(range(-len(windows), 0), windows, strict=True):
        if not statically_known_true(padding == 0):
            x = F.pad(x, [0, 0] * (-axis - 1) + [padding, padding], value=outside)
        size = x.shape[axis]
        if statically_known_true(kernel == size) and statically_known_true(dilation == 1):
            whole.append(axis)
        elif not (statically_known_true(kernel == 1) and statically_known_true(stride == 1)):
            at = x.dim() + axis
            x = reduce(windows_along(x, at, kernel, stride, dilation), [at + 1], False)
    return reduce(x, whole, True) if whole else x


def _vary(*given: _Sizes | None) -> bool:
    return any(isinstance(size, torch.SymInt) for sizes in given if sizes is not None for size in _numbers(sizes))


def _is_zero(sizes: _Sizes) -> bool:
    return all(statically_known_true(size == 0) for size in _numbers(sizes))


def _numbers(sizes: _Sizes) -> list[int]:
    return list(sizes) if isinstance(sizes, Sequence) else [sizes]
