"""What layers over spatial axes have in common: a number for each axis, and a batch."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.translate import Builder, Tensor


def per_axis(values: Sequence[int], count: int) -> list[int]:
    """One value for each spatial axis; a single one stands for all."""
    return list(values) * count if len(values) == 1 else list(values)


def with_batch(op: Builder, x: Tensor, rank: int) -> Tensor:
    """An unbatched input as a batch of one; a batched one as it is."""
    return op.unsqueeze(x, [0]) if x.rank == rank - 1 else x


def averages(op: Builder, x: Tensor, kernel: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Averages of windows in what is not padded, which is stated: MNN 3.6 ends at pools of three axes otherwise."""
    return op.AveragePool(x, kernel_shape=list(kernel), strides=list(strides), pads=[0, 0] * len(kernel))
