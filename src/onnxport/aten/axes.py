"""Axes: from what users write (negative, absent, repeated) to sorted positions."""

from __future__ import annotations

from collections.abc import Sequence


def axis_of(dim: int, rank: int) -> int:
    """A dimension counted from either end as a position; a 0-d tensor counts as 1-d.

    >>> from onnxport.aten.axes import axis_of
    >>> axis_of(-1, 3)
    2
    """
    return dim % rank if rank else 0


def axes_of(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """Dimensions as sorted positions; none or an empty list means all."""
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return list(range(rank))
    return sorted({axis_of(dim, rank) for dim in ([dims] if isinstance(dims, int) else dims)} if rank else set())
