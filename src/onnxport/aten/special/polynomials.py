"""Orthogonal polynomials of a degree that may be a tensor, by their recurrences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from onnxport.aten.literals import number_of
from onnxport.aten.reduction.reduce import flat
from onnxport.translate import Builder, Tensor, translates
from onnxport.translate.loop import emit_loop, inside

Step = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""From the position k (1, 2, ...), x, and the polynomials of degree k - 1 and k to the one of degree k + 1."""

_UNROLLED = 8
"""Up to this degree a polynomial is written out."""


def _chebyshev(k: Tensor, x: Tensor, before: Tensor, last: Tensor) -> Tensor:
    return (x + x) * last - before


def _hermite(k: Tensor, x: Tensor, before: Tensor, last: Tensor) -> Tensor:
    return (x + x) * last - (k + k) * before


def _hermite_e(k: Tensor, x: Tensor, before: Tensor, last: Tensor) -> Tensor:
    return x * last - k * before


def _laguerre(k: Tensor, x: Tensor, before: Tensor, last: Tensor) -> Tensor:
    return ((k + k + 1 - x) * last - k * before) / (k + 1)


def _legendre(k: Tensor, x: Tensor, before: Tensor, last: Tensor) -> Tensor:
    return ((k + k + 1) * x * last - k * before) / (k + 1)


def _by_degree(op: Builder, x: Tensor, n: int, first: Tensor, step: Step) -> Tensor:
    if n <= 0:
        return op.full(1 if n == 0 else 0, op.result_shapes()[0], x.dtype)
    before, last = op.like(1, x), first
    for k in range(1, n):
        before, last = last, step(op.scalar(k, x.dtype), x, before, last)
    return last


def _by_tensor(op: Builder, x: Tensor, n: Tensor, first: Tensor, step: Step) -> Tensor:
    shape = op.result_shapes()[0]
    x, n, first = (op.expand(each, shape) for each in (x, n, first))
    degree = op.cast(n, torch.int64)
    highest = op.ReduceMax(op.Concat(flat(op, degree), op.const([1], torch.int64), axis=0), [0], keepdims=0)

    def body(inner: Builder, iteration: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        before, last = state
        k = iteration + 1
        following = step(inner.cast(k, x.dtype), inside(inner, x), before, last)
        going_on = k < inside(inner, degree)
        return inner.Where(going_on, last, before), inner.Where(going_on, following, last)

    one = op.like(1, x)
    value = emit_loop(op, body, highest - 1, [op.expand(one, shape), first])[1]
    return op.Where(degree > 0, value, op.cast(op.Equal(degree, op.like(0, degree)), x.dtype))


def _register(
    name: str, first: Callable[[Tensor], Tensor], step: Step, shifted: bool = False, highest: bool = False
) -> None:
    """``shifted`` polynomials live on 0 to 1; torch gives some none beyond a ``highest`` degree."""

    @translates(
        f"aten::special_{name}",
        f"aten::special_{name}.x_scalar",
        f"aten::special_{name}.n_scalar",
        promote=("x", "n"),
        to_float=True,
    )
    def polynomial(op: Builder, x: Tensor, n: Tensor) -> Tensor:
        if shifted:
            x = x + x - 1
        limit = 128 if x.dtype == torch.float32 else 512
        degree = number_of(n)
        if degree is not None and degree <= _UNROLLED:
            return _by_degree(op, x, int(degree), first(x), step)
        value = _by_tensor(op, x, n, first(x), step)
        return op.Where(n > limit, op.like(math.nan, x), value) if highest else value


for prefix, shifted in (("", False), ("shifted_", True)):
    _register(f"{prefix}chebyshev_polynomial_t", lambda x: x, _chebyshev, shifted)
    _register(f"{prefix}chebyshev_polynomial_u", lambda x: x + x, _chebyshev, shifted)
    _register(f"{prefix}chebyshev_polynomial_v", lambda x: x + x - 1, _chebyshev, shifted)
    _register(f"{prefix}chebyshev_polynomial_w", lambda x: x + x + 1, _chebyshev, shifted)
_register("hermite_polynomial_h", lambda x: x + x, _hermite, highest=True)
_register("hermite_polynomial_he", lambda x: x, _hermite_e, highest=True)
_register("laguerre_polynomial_l", lambda x: 1 - x, _laguerre)
_register("legendre_polynomial_p", lambda x: x, _legendre)
