"""Attention, softmax(scale Q Kᵀ + bias) V: what is the same wherever it is written.

Each stage writes it in its own terms: ``ops/attention.py`` as the kernel of ONNX's operator in torch, ``prepare/``
around the functions of the user that ``flex_attention`` is given, ``aten/nn/`` for operands that ONNX's operator does
not take, ``legalize/rules/`` for opsets that do not have the operator.

Half-precision operands are computed with in float32, and only the result is rounded, as torch does on all its ways
through ``scaled_dot_product_attention``. A softmax in float32 alone (``softmax_precision``) would not do: what costs
is the rounding of the scores that go into it, two to eight times the error of rounding the result. From opset 23 on
ONNX's own operator stands in the file, and the runtime's kernel decides.
"""

from __future__ import annotations

import math

import torch

_COMPUTED_IN = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def attention_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which scores, weights and their sums are computed for operands of a dtype."""
    return _COMPUTED_IN.get(dtype, dtype)


def attention_scale(size: int) -> float:
    """The factor of the scores where none is stated, by the size of a head."""
    return 1 / math.sqrt(size) if size else math.inf
