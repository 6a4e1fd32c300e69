"""Index tensors that count through whole dimensions, as those that masks are read by: nothing is looked up."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.translate import Builder, Tensor
from onnxport.translate.dims import broadcast
from onnxport.translate.ranges import counts_from_zero

_SINGLE = -1


def read_in_order(op: Builder, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor | None:
    """``x[arange(n)[:, None, None], arange(m)]`` is ``x`` with its dimensions where those of the indices are.

    Only where each index is 0, 1, … to the end of its dimension, along an axis that no other index varies along, and
    the first dimensions are the ones indexed.
    """
    items = [item for item in indices if item is not None]
    shapes = [item.known_shape for item in items]
    common = broadcast(shapes)
    if len(items) < len(indices) or common is None or x.is_complex:
        return None
    places = [_place(item, x, axis, len(common)) for axis, item in enumerate(items)]
    varying = [place for place in places if place is not None and place >= 0]
    if None in places or len(set(varying)) < len(varying):
        return None
    gone = [axis for axis, place in enumerate(places) if place == _SINGLE]
    x = op.squeeze(x, gone)
    order = sorted(range(len(varying)), key=varying.__getitem__)
    x = op.transpose(x, [*order, *range(len(order), x.rank)])
    return op.unsqueeze(x, [axis for axis in range(len(common)) if axis not in varying])


def _place(item: Tensor, x: Tensor, axis: int, rank: int) -> int | None:
    """The axis of the common shape along which an index counts; ``_SINGLE`` where there is but one position."""
    if item.dtype == torch.bool or not counts_from_zero(item):
        return None
    varying = [place for place, size in enumerate(item.shape) if size != 1]
    size = x.shape[axis]
    if not varying:
        return _SINGLE if size == 1 else None
    if len(varying) > 1 or item.shape[varying[0]] != size:
        return None
    return rank - item.rank + varying[0]
