"""Shapes of frequent layers, told at once.

Where sizes vary, torch finds the shape of an activation or a batch norm by running its reference implementation, a
dozen operators long, for every shape it meets: a fifth of the capture of a convolutional network. For tensors in
one of the usual layouts the answer is that of the input. What ``unbind`` gives has an axis less, whatever the sizes.
The reference of ``unfold`` asks on the way whether the example has a single window, and takes the answer for all sizes.
Those of ``roll``, ``cummax`` and others ask whether there is any element, which is not known of as many as data decide.
That of ``item`` makes a plain number of an element, ``rows[i]``, whose place in memory varies.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport.capture.patches.replacing import items_replaced
from onnxport.torch_internals.fake_tensors import (
    FakeTensor,
    FakeTensorMode,
    get_fast_op_impls,
    is_contiguous_for_memory_format_or_false,
)
from onnxport.torch_internals.operators import OpOverload, decomposition_table

_aten = torch.ops.aten
Rule = Callable[..., Any]

#: Elementwise operators of one tensor that keep a floating-point type.
_ACTIVATIONS = (
    _aten.relu.default,
    _aten.gelu.default,
    _aten.silu.default,
    _aten.elu.default,
    _aten.leaky_relu.default,
    _aten.hardtanh.default,
    _aten.hardswish.default,
    _aten.hardsigmoid.default,
)

_NORM = _aten._native_batch_norm_legit_no_training.default


def shapes_told_at_once() -> contextlib.AbstractContextManager[None]:
    """While this is open, fake tensors pass through these operators without their reference implementations."""
    rules: dict[OpOverload, Rule] = {operator: _activation(operator) for operator in _ACTIVATIONS}
    rules[_NORM] = _batch_norm
    rules[_aten.unbind.int] = _unbind
    rules[_aten.im2col.default] = _im2col
    rules[_aten.roll.default] = _roll
    rules |= dict.fromkeys((_aten.cummax.default, _aten.cummin.default), _extremes_so_far)
    rules[_aten.logsumexp.default] = _logsumexp
    rules[_aten.item.default] = _item
    return items_replaced(get_fast_op_impls(), rules)


def _activation(operator: OpOverload) -> Rule:
    def rule(mode: FakeTensorMode, self: FakeTensor, *args: object, **kwargs: object) -> object:
        result = _like(mode, self) if self.dtype.is_floating_point else None
        return _by_reference(mode, operator, self, *args, **kwargs) if result is None else result

    return rule


def _batch_norm(mode: FakeTensorMode, input: FakeTensor, *args: object, **kwargs: object) -> object:
    result = _like(mode, input)
    if result is None:
        return _by_reference(mode, _NORM, input, *args, **kwargs)
    # In inference there are no statistics to keep for a backward pass.
    kept = [FakeTensor(mode, torch.empty(0, dtype=input.dtype, device="meta"), device=input.device) for _ in range(2)]
    return (result, *kept)


def _item(mode: FakeTensorMode, self: FakeTensor) -> object:
    with mode:
        return _aten._local_scalar_dense.default(self)


def _unbind(mode: FakeTensorMode, self: FakeTensor, dim: int = 0) -> object:
    # The reference squeezes slices, and keeps the axis of those whose size it can't simplify to 1.
    with mode:
        return [self.select(dim, index) for index in range(int(self.shape[dim]))]


def _im2col(
    mode: FakeTensorMode,
    input: FakeTensor,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> object:
    if input.dim() not in (3, 4):
        return _by_reference(mode, _aten.im2col.default, input, kernel_size, dilation, padding, stride)
    windows = [
        (size + 2 * added - spread * (length - 1) - 1) // step + 1
        for size, length, spread, added, step in zip(
            input.shape[-2:], kernel_size, dilation, padding, stride, strict=True
        )
    ]
    for count in windows:
        torch._check(count > 0, lambda: f"unfold finds {windows} windows in an input of {list(input.shape)}")
    shape = [*input.shape[:-3], input.shape[-3] * math.prod(kernel_size), math.prod(windows)]
    return _made(mode, input, shape)


def _roll(mode: FakeTensorMode, self: FakeTensor, *_: object) -> FakeTensor:
    return _made(mode, self, self.shape)


def _extremes_so_far(mode: FakeTensorMode, self: FakeTensor, dim: int) -> tuple[FakeTensor, FakeTensor]:
    return _made(mode, self, self.shape), _made(mode, self, self.shape, torch.int64)


def _logsumexp(mode: FakeTensorMode, self: FakeTensor, dim: Sequence[int], keepdim: bool = False) -> FakeTensor:
    gone = {axis % max(self.dim(), 1) for axis in dim} if dim else set(range(self.dim()))
    kept = [1 if axis in gone else size for axis, size in enumerate(self.shape) if keepdim or axis not in gone]
    return _made(mode, self, kept, self.dtype if self.dtype.is_floating_point else torch.get_default_dtype())


def _made(
    mode: FakeTensorMode, like: FakeTensor, shape: Sequence[int | torch.SymInt], dtype: torch.dtype | None = None
) -> FakeTensor:
    empty = torch.empty(shape, dtype=like.dtype if dtype is None else dtype, device="meta")
    return FakeTensor(mode, empty, device=like.device)


def _like(mode: FakeTensorMode, x: FakeTensor) -> FakeTensor | None:
    """A tensor of the same kind, if its layout is one of the usual ones, which an elementwise operator keeps."""
    for layout in (torch.contiguous_format, torch.channels_last):
        if is_contiguous_for_memory_format_or_false(x, memory_format=layout):
            empty = torch.empty(x.shape, dtype=x.dtype, device="meta", memory_format=layout)
            return FakeTensor(mode, empty, device=x.device)
    return None


def _by_reference(mode: FakeTensorMode, operator: OpOverload, *args: object, **kwargs: object) -> object:
    with mode:
        return decomposition_table[operator](*args, **kwargs)
