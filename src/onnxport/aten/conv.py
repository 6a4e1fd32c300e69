"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.translate import Builder, Tensor, translates


@translates("aten::conv1d", "aten::conv2d", "aten::conv3d")
def conv(
    op: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    spatial = weight.rank - 2
    unbatched = input.rank == weight.rank - 1
    result = op.Conv(
        op.unsqueeze(input, [0]) if unbatched else input,
        weight,
        bias,
        strides=per_axis(stride, spatial),
        pads=per_axis(padding, spatial) * 2,
        dilations=per_axis(dilation, spatial),
        group=groups,
    )
    return op.Squeeze(result, [0]) if unbatched else result


def per_axis(values: Sequence[int], count: int) -> list[int]:
    """One value for each spatial axis; a single one stands for all."""
    return list(values) * count if len(values) == 1 else list(values)
