"""Series of Chebyshev polynomials: how special functions without an ONNX operator are computed."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.aten.linalg.products import product_of
from onnxport.translate import Builder, Tensor


def at_least_single(op: Builder, x: Tensor) -> Tensor:
    """Half precision computes in single, as torch does; the others in their own."""
    return op.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def series(op: Builder, t: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The sum of ``coefficients[k]`` times the k-th polynomial at ``t``, which is cos(k acos(t)).

    Outside -1 to 1, where fits mean nothing, the value at the nearer end is given.
    """
    if 0 in t.shape:
        # Runtimes stumble over products of nothing.
        return t
    inside = op.Clip(t, op.like(-1, t), op.like(1, t))
    angles = op.unsqueeze(op.Acos(inside), [t.rank]) * op.const(range(len(coefficients)), t.dtype)
    return product_of(op, op.Cos(angles), op.const(coefficients, t.dtype)).with_shape(t.shape)
