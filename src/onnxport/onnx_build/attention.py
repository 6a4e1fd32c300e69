"""Attention, softmax(scale Q Kᵀ + bias) V, written once.

Four stages write it, each in its own terms: ``aten/nn/`` as nodes for operands that ONNX's operator does not take,
``legalize/rules/`` as nodes for opsets that do not have the operator, ``ops/attention.py`` and ``prepare/`` (around the
functions of the user that ``flex_attention`` is given) as calls of torch.

Half-precision operands are computed with in float32, and only the result is rounded, as torch does on all its ways
through ``scaled_dot_product_attention``. A softmax in float32 alone (``softmax_precision``) would not do: what costs
is the rounding of the scores that go into it, two to eight times the error of rounding the result. From opset 23 on
ONNX's own operator stands in the file, and the runtime's kernel decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch

T = TypeVar("T")

_COMPUTED_IN = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def attention_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which scores, weights and their sums are computed for operands of a dtype."""
    return _COMPUTED_IN.get(dtype, dtype)


def attention_scale(size: int) -> float:
    """The factor of the scores where none is stated, by the size of a head."""
    return 1 / math.sqrt(size) if size else math.inf


class AttentionTerms(Protocol[T]):
    """What the formula is written in."""

    def wide(self, operand: T) -> T:
        """An operand in the dtype that attention is computed in."""

    def scale(self, query: T) -> float | T:
        """One over the root of the size of a head."""

    def times(self, query: T, factor: float | T) -> T:
        """The product with one number."""

    def scores(self, query: T, key: T) -> T:
        """Q Kᵀ; a head of keys may serve several heads of queries."""

    def weighed(self, weights: T, value: T) -> T:
        """The sums of values by weights; a head of values may serve several heads of weights."""

    def is_bool(self, mask: T) -> bool:
        """Whether a mask says what is allowed, and is not added."""

    def both(self, mask: T, allowed: T) -> T:
        """What two bool masks allow."""

    def as_bias(self, allowed: T, query: T) -> T:
        """Zero where something is allowed, else minus infinity, in the dtype of the queries."""

    def added(self, mask: T, query: T) -> T:
        """A mask that is added, in the dtype of the queries."""

    def plus(self, one: T, other: T) -> T:
        """The sum."""

    def softmax(self, scores: T) -> T:
        """The weights of the keys, whose sum is one."""

    def attending(self, bias: T, mask: T) -> T | None:
        """Which queries may attend to anything; None where all do, or the softmax is zero for those that don't."""

    def zero_unless(self, attending: T, numbers: T) -> T:
        """The numbers of the queries that attend to something, zero for the others."""


class AttentionFormula(Generic[T]):
    """The formula up to the masked scores; weights and result follow when they are asked for.

    ``mask`` is what the caller was given, bool or added; ``allowed`` is what it forbids besides, which must leave each
    query a key unless the softmax copes. ``change`` is done to the scores before they are masked.
    """

    def __init__(
        self,
        terms: AttentionTerms[T],
        query: T,
        key: T,
        *,
        mask: T | None = None,
        allowed: T | None = None,
        scale: float | None = None,
        change: Callable[[T], T] | None = None,
    ) -> None:
        self.terms, self._mask = terms, mask
        query, key = terms.wide(query), terms.wide(key)
        self.bias = self._bias(query, allowed)
        factor = terms.scale(query) if scale is None else scale
        scaled = query if isinstance(factor, float) and factor == 1 else terms.times(query, factor)
        self.scores = terms.scores(scaled, key)
        self.changed = self.scores if change is None else change(self.scores)
        self.masked = self.changed if self.bias is None else terms.plus(self.changed, self.bias)
        self._attending: T | None = None

    def _bias(self, query: T, allowed: T | None) -> T | None:
        terms, mask = self.terms, self._mask
        if mask is None:
            return None if allowed is None else terms.as_bias(allowed, query)
        if terms.is_bool(mask):
            return terms.as_bias(mask if allowed is None else terms.both(mask, allowed), query)
        added = terms.added(mask, query)
        return added if allowed is None else terms.plus(added, terms.as_bias(allowed, query))

    def weights(self, *, safe: bool = True) -> T:
        """The softmax; a query that may attend to nothing has 0/0, and a safe one knows which to make zero."""
        weights = self.terms.softmax(self.masked)
        if safe and self.bias is not None and self._mask is not None:
            self._attending = self.terms.attending(self.bias, self._mask)
        return weights

    def or_zero(self, numbers: T) -> T:
        """Weights, or the result, with zeros for queries that may attend to nothing."""
        return numbers if self._attending is None else self.terms.zero_unless(self._attending, numbers)

    def result(self, weights: T, value: T) -> T:
        """The values by their weights, in the dtype that they were computed in."""
        return self.terms.weighed(weights, self.terms.wide(value))


@dataclass(frozen=True)
class TorchAttention:
    """The terms of torch, for operands of (batch, heads, sequence, size); the softmax may be of another dtype."""

    softmax_dtype: torch.dtype | None = None

    def wide(self, operand: torch.Tensor) -> torch.Tensor:
        """See :class:`AttentionTerms`, as for all of these."""
        return operand.to(attention_dtype(operand.dtype))

    def scale(self, query: torch.Tensor) -> float | torch.Tensor:
        """One over the root of the last size."""
        return attention_scale(query.shape[3])

    def times(self, query: torch.Tensor, factor: float | torch.Tensor) -> torch.Tensor:
        """The product."""
        return query * factor

    def scores(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """The product with the keys of each head."""
        return query @ _repeated(key, query.shape[1]).transpose(2, 3)

    def weighed(self, weights: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """The product with the values of each head."""
        return weights @ _repeated(value, weights.shape[1])

    def is_bool(self, mask: torch.Tensor) -> bool:
        """Whether its dtype is bool."""
        return mask.dtype == torch.bool

    def both(self, mask: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        """Their conjunction."""
        return mask & allowed

    def as_bias(self, allowed: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        """Zeros and infinities."""
        return query.new_zeros(allowed.shape).masked_fill(~allowed, -math.inf)

    def added(self, mask: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        """The mask, cast."""
        return mask.to(query.dtype)

    def plus(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """The sum."""
        return one + other

    def softmax(self, scores: torch.Tensor) -> torch.Tensor:
        """Torch has a softmax that is zero where all scores are minus infinity."""
        dtype = scores.dtype if self.softmax_dtype is None else self.softmax_dtype
        weights: torch.Tensor = torch.ops.aten._safe_softmax.default(scores.to(dtype), -1)
        return weights.to(scores.dtype)

    def attending(self, bias: torch.Tensor, mask: torch.Tensor) -> torch.Tensor | None:
        """Nothing is left to be made zero."""
        return None

    def zero_unless(self, attending: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """The numbers or zeros."""
        return torch.where(attending, numbers, 0)


def _repeated(operand: torch.Tensor, heads: int) -> torch.Tensor:
    """Keys or values with a head for each of the queries'."""
    groups = heads // operand.shape[1]
    return operand.repeat_interleave(groups, 1) if groups > 1 else operand
