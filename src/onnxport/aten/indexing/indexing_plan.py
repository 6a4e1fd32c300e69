"""What reading or writing by index tensors comes to: plain Python, no ONNX.

``x[i, :, mask]`` is, for torch, a list with one entry per dimension: an index tensor, a mask, or nothing. A mask of
rank k stands for k index tensors, the coordinates of its true elements. All index tensors broadcast to one shape,
which takes the place of the indexed dimensions in the result where those are adjacent, and goes first where they
are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One index tensor: its rank, and whether it is a mask."""

    rank: int
    is_mask: bool = False


@dataclass(frozen=True)
class IndexingPlan:
    """How to index with all indexed dimensions in front, and how the result then lies.

    ``sources`` says for each indexed dimension, in order, which entry gives its positions, and which row of a
    mask's coordinates. ``order`` puts the indexed dimensions first; what comes out has the broadcast dimensions
    first, and ``result_order`` puts them where torch has them, from dimension ``front`` on.
    """

    axes: tuple[int, ...]
    sources: tuple[tuple[int, int], ...]
    order: tuple[int, ...]
    index_rank: int
    front: int
    result_order: tuple[int, ...]


def plan_indexing(rank: int, entries: Sequence[Entry | None]) -> IndexingPlan:
    """Plan indexing a tensor of some rank by entries, at least one of which is not None; masks have rank 1 or more.

    >>> plan_indexing(3, [None, Entry(1), Entry(1)]).result_order
    (1, 0)
    """
    axes: list[int] = []
    sources: list[tuple[int, int]] = []
    axis = 0
    for position, entry in enumerate(entries):
        if entry is None:
            axis += 1
            continue
        for row in range(entry.rank if entry.is_mask else 1):
            axes.append(axis)
            sources.append((position, row))
            axis += 1
    given = [entry for entry in entries if entry is not None]
    index_rank = max(1 if entry.is_mask else entry.rank for entry in given)
    rest = [other for other in range(rank) if other not in axes]
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    front = axes[0] if adjacent else 0
    before = range(index_rank, index_rank + front)
    after = range(index_rank + front, index_rank + len(rest))
    return IndexingPlan(
        axes=tuple(axes),
        sources=tuple(sources),
        order=(*axes, *rest),
        index_rank=index_rank,
        front=front,
        result_order=(*before, *range(index_rank), *after),
    )


def inverse_permutation(permutation: Sequence[int]) -> list[int]:
    """The permutation that undoes one.

    >>> inverse_permutation([2, 0, 1])
    [1, 2, 0]
    """
    return sorted(range(len(permutation)), key=permutation.__getitem__)
