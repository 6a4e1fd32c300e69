"""Element types of results that fake kernels of some versions of torch get wrong."""

from __future__ import annotations

import contextlib

import torch

from onnxport.capture.patches.replacing import items_replaced
from onnxport.torch_internals.fake_tensors import FakeTensor, FakeTensorMode, op_implementations_dict
from onnxport.torch_internals.operators import OpOverload

_BINCOUNT = torch.ops.aten.bincount.default


def types_as_computed() -> contextlib.AbstractContextManager[None]:
    """While this is open, counts are int64 and sums of weights floating-point, as they are with values."""
    told = op_implementations_dict[_BINCOUNT]

    def bincount(
        mode: FakeTensorMode,
        operator: OpOverload,
        inputs: FakeTensor,
        weights: FakeTensor | None = None,
        minlength: int = 0,
    ) -> object:
        result = told(mode, operator, inputs, weights, minlength)
        if weights is None:
            computed = torch.int64
        else:
            computed = torch.float32 if weights.dtype == torch.float32 else torch.float64
        return result if result.dtype == computed else result.new_empty(result.shape, dtype=computed)

    return items_replaced(op_implementations_dict, {_BINCOUNT: bincount})
