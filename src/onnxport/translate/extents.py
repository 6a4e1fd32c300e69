"""Sizes of tensors that are to be made, which are never below 0.

torch takes an axis that varies for one that has elements, so that ``x[1:]`` has ``n - 1`` of them, and says so to
what is computed of it: -1 where ``x`` has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.translate.dims import Dim, DimNames, Int, is_static

if TYPE_CHECKING:
    from onnxport.translate.builder import Builder
    from onnxport.translate.tensor import Tensor


def extent(op: Builder, size: Dim) -> Tensor:
    """A size that is known at run time only, as an int64 vector of length 1 for what makes a tensor of it."""
    vector = op.sizes.vector(size)
    return op.Max(vector, op.const([0], torch.int64)) if _may_be_negative(op.shared.dim_names, size) else vector


def _may_be_negative(names: DimNames, size: Dim) -> bool:
    """Whether a size comes out below 0 where the axes are empty that may be."""
    # A product is below 0 where one of its factors is: the axes of the others need not be empty then.
    return any(_is_negative_where_empty(names, factor) for factor in sympy.Mul.make_args(size.expr))


def _is_negative_where_empty(names: DimNames, expr: sympy.Basic) -> bool:
    if not isinstance(expr, sympy.Add):
        return False
    none = {symbol: sympy.S.Zero for symbol in expr.free_symbols if names.may_be_zero(Dim(symbol))}
    try:
        return bool(expr.xreplace(none).is_negative)
    except ZeroDivisionError:
        return False


def sizes_to_reshape(op: Builder, x: Tensor, shape: Sequence[Int]) -> tuple[list[Int], int | None]:
    """What to ask of Reshape for a shape, and whether a size of 0 is one."""
    wanted, allow_zero = list(shape), 1 if 0 in shape else None
    if len(shape) == 1 and allow_zero is None:
        # All that there is, which may be less than is known: `x[:1]` has nothing where x has nothing.
        return [-1], None
    if allow_zero is None and not is_static(shape):
        before = x.known_shape if x.known_shape is not None else ()
        wanted = [
            0 if isinstance(size, Dim) and axis < len(before) and before[axis] == size else size
            for axis, size in enumerate(shape)
        ]
        moving = [axis for axis, size in enumerate(wanted) if isinstance(size, Dim)]
        others = [size for axis, size in enumerate(shape) if axis not in moving[:1]]
        # Beside a size of 0 there is nothing to infer -1 from, and a computed 0 would mean a size that is kept.
        if moving and op.may_be_empty(others):
            wanted, allow_zero = list(shape), 1
        elif len(moving) == 1:
            wanted[moving[0]] = -1
    return wanted, allow_zero
