"""Tensors that are written piece by piece, and two 4-bit numbers in a byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt


@runtime_checkable
class InSlabs(Protocol):
    """A tensor of the model whose bytes come piece by piece, so that it is never in memory twice."""

    def slabs(self) -> Iterator[memoryview]:
        """Yield the elements as bytes in C order."""
        ...


def packed_halves(slabs: Iterator[npt.NDArray[np.uint8]]) -> Iterator[npt.NDArray[np.uint8]]:
    """Two elements in a byte, the first in its lower half, of elements in a byte each.

    >>> import numpy as np
    >>> from onnxport.weights.slabs import packed_halves
    >>> [piece.tolist() for piece in packed_halves(iter([np.array([1, 2, 3], np.uint8), np.array([4, 5], np.uint8)]))]
    [[33], [67], [5]]
    """
    left = np.empty(0, np.uint8)
    for slab in slabs:
        elements = np.concatenate([left, slab]) if len(left) else slab
        even = len(elements) // 2 * 2
        left = elements[even:]
        yield _joined(elements[:even])
    if len(left):
        yield _joined(np.append(left, np.uint8(0)))


def _joined(elements: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    joined: npt.NDArray[np.uint8] = np.bitwise_or(elements[0::2] & np.uint8(0xF), elements[1::2] << np.uint8(4))
    return joined
