"""Shapes that torch remembers for calls that come again, remembered without making each twice.

Fake tensors keep what an operator gave, for the next call on the same shapes. Before torch keeps it, it makes the
result again from what it would keep, and compares which kernels the two are for. Where sizes vary, making a tensor is
much of the work: a third of the capture of a model with windows. The kernels are told by a few facts of the tensor, so
that one comparison holds for all results with these facts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.fake_tensors import FakeTensor, FakeTensorMode, dispatch_keys_of
from onnxport.torch_internals.operators import OpOverload
from onnxport.torch_internals.symbolic_sizes import free_unbacked_symbols


def shapes_remembered_at_once() -> contextlib.AbstractContextManager[None]:
    """While this is open, results are made again and compared once for each kind of tensor."""
    remember: Callable[..., object] = FakeTensorMode._get_output_info_for_cache_entry
    compared: set[Hashable] = set()

    def _get_output_info_for_cache_entry(
        mode: Any,
        state: object,
        key: object,
        func: object,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        output: object,
    ) -> object:
        if (
            not isinstance(output, FakeTensor)
            or not output._has_symbolic_sizes_strides
            or free_unbacked_symbols((*output.shape, *output.stride()))
        ):
            # Of plain sizes it is quick, and of those that data decide it may fail, which torch expects there.
            return remember(mode, state, key, func, args, kwargs, output)
        kind = _kind(func, output)
        if kind not in compared:
            found = remember(mode, state, key, func, args, kwargs, output)
            compared.add(kind)
            return found
        # As torch does, so that no guard is made of it: C++ would ask from the line of the model that comes next.
        with mode.shape_env.suppress_guards():
            output.is_contiguous()
        with attributes_replaced([(mode, "_output_from_cache_entry", lambda *_: output)]):
            return remember(mode, state, key, func, args, kwargs, output)

    return attributes_replaced([(FakeTensorMode, remember.__name__, _get_output_info_for_cache_entry)])


def _kind(func: object, output: torch.Tensor) -> Hashable:
    """What decides which kernels a result that is made again is for."""
    flags = (output.requires_grad, output.is_inference(), output.is_conj(), output.is_neg())
    is_view = isinstance(func, OpOverload) and func.is_view
    return dispatch_keys_of(output), output.dtype, output.layout, output.device, flags, is_view
