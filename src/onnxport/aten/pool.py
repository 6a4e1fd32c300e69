"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.aten.conv import per_axis
from onnxport.errors import TranslationError
from onnxport.translate import Builder, Int, Tensor, translates


@translates("aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d")
def max_pool(
    op: Builder,
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Tensor:
    spatial = len(kernel_size)
    kernel = per_axis(kernel_size, spatial)
    return op.MaxPool(
        self,
        kernel_shape=kernel,
        strides=per_axis(stride, spatial) if len(stride) else kernel,
        pads=per_axis(padding, spatial) * 2,
        dilations=per_axis(dilation, spatial),
        ceil_mode=ceil_mode,
    )


@translates("aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d")
def adaptive_avg_pool(op: Builder, self: Tensor, output_size: Sequence[Int]) -> Tensor:
    spatial = len(output_size)
    if all(size == 1 for size in output_size):
        return op.ReduceMean(self, list(range(self.rank - spatial, self.rank)), keepdims=1)
    sizes = self.shape[-spatial:]
    kernel = []
    for size, wanted in zip(sizes, output_size, strict=True):
        if not isinstance(size, int) or not isinstance(wanted, int) or size % wanted:
            raise TranslationError(f"Adaptive pooling from {size} to {wanted} needs windows of different sizes.")
        kernel.append(size // wanted)
    return op.AveragePool(self, kernel_shape=kernel, strides=kernel)
