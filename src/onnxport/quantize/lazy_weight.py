"""A weight that is quantized while it is written: scales and zero points are held, integers are made piece by piece."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch

from onnxport.errors import OnnxExporterError
from onnxport.quantize.grid import IntegerGrid
from onnxport.weights.mapped_pages import give_back_pages

# How many numbers are quantized at a time: their copies on the way fit in the cache.
_PIECE = 1 << 18

Bytes = npt.NDArray[np.uint8]


class QuantizedWeight:
    """Matrices whose rows are quantized in blocks; ``load`` gives them, as views of torch's storage where that can be.

    The matrices are ``[..., outputs, inputs]``, ``block`` is how many inputs share a scale, and ``dtype`` is the type
    of the scales, in which the weight is read.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[], torch.Tensor],
        dtype: torch.dtype,
        grid: IntegerGrid,
        block: int | None,
        *,
        refine: bool,
    ) -> None:
        self.name = name
        self.load = load
        self.grid = grid
        self.refine = refine
        rows = load()
        self.dtype = dtype
        self.bytes_before = rows.numel() * rows.dtype.itemsize
        self.lead = tuple(rows.shape[:-2])
        self.outputs, self.inputs = rows.shape[-2:]
        self.block = self.inputs if block is None else block
        self.blocks = -(-self.inputs // self.block)
        self.size = rows.numel()

    @property
    def bits(self) -> int:
        """The bits of an integer."""
        return 4 if self.grid.most - self.grid.least <= 15 else 8

    @property
    def parameter_bytes(self) -> int:
        """The bytes of scales and zero points."""
        count = self.size // self.inputs * self.blocks
        return count * self.dtype.itemsize + (0 if self.grid.symmetric else count * self.bits // 8)

    @property
    def form(self) -> str:
        """The element type, and how many inputs share a scale."""
        kind = f"{'' if self.grid.least else 'u'}int{self.bits}"
        return f"{kind}, by channel" if self.blocks == 1 else f"{kind}, blocks of {self.block}"

    @functools.cached_property
    def parameters(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The scales, in the type of the weight, and the zero points: ``[..., outputs, blocks]`` each."""
        scales, zeros = [], []
        count = max(1, _PIECE // self.inputs)
        for matrix in self._matrices():
            for start in range(0, self.outputs, count):
                piece = matrix[start : start + count].to(torch.float32)
                short = self.blocks * self.block - self.inputs
                blocks = torch.nn.functional.pad(piece, (0, short)).unflatten(-1, (self.blocks, self.block))
                scale, zero = self.grid.fit(blocks)
                if self.refine:
                    scale, zero = self.grid.refined(blocks, scale, zero)
                scales.append(_representable(scale, self.dtype))
                zeros.append(zero[:1, :1] if self.grid.symmetric else zero.to(torch.int16))
        shape = (*self.lead, self.outputs, self.blocks)
        scale = torch.cat(scales).reshape(shape)
        # Of a symmetric grid all zero points are one number, which needs no memory.
        zero = zeros[0].to(torch.int16).expand(shape) if self.grid.symmetric else torch.cat(zeros).reshape(shape)
        if not bool(scale.isfinite().all()):
            raise OnnxExporterError(
                f"The weight {self.name} can't be quantized: it holds infinity or NaN, or numbers that "
                f"{str(self.dtype).removeprefix('torch.')} scales can't span. Exclude it from the quantization."
            )
        return scale, zero

    def by_rows(self) -> Iterator[torch.Tensor]:
        """The integers, some rows at a time: ``[rows, inputs]``."""
        scales, zeros = self.parameters
        count = max(1, _PIECE // self.inputs)
        for matrix, scale, zero in zip(self._matrices(), self._flat(scales), self._flat(zeros), strict=True):
            for start in range(0, self.outputs, count):
                rows = slice(start, start + count)
                yield self._integers(matrix[rows], scale[rows], zero[rows])
            give_back_pages(matrix)

    def by_columns(self) -> Iterator[torch.Tensor]:
        """The integers, some inputs at a time: ``[inputs, outputs]``."""
        scales, zeros = self.parameters
        count = max(1, _PIECE // (self.outputs * self.block))
        for matrix, scale, zero in zip(self._matrices(), self._flat(scales), self._flat(zeros), strict=True):
            for start in range(0, self.blocks, count):
                blocks = slice(start, start + count)
                columns = matrix[:, start * self.block : (start + count) * self.block]
                yield self._integers(columns, scale[:, blocks], zero[:, blocks]).t().contiguous()
            give_back_pages(matrix)

    def error(self) -> float:
        """What rounding loses: the root of the mean square, as a part of that of the weight."""
        lost = total = 0.0
        scales, zeros = self.parameters
        count = max(1, _PIECE // self.inputs)
        for matrix, scale, zero in zip(self._matrices(), self._flat(scales), self._flat(zeros), strict=True):
            for start in range(0, self.outputs, count):
                rows = slice(start, start + count)
                wanted = matrix[rows].to(torch.float64)
                spread, at = self._spread(scale[rows], self.inputs), self._spread(zero[rows], self.inputs)
                found = (self._integers(matrix[rows], scale[rows], zero[rows]) - at) * spread
                lost += float((wanted - found).square().sum())
                total += float(wanted.square().sum())
        return math.sqrt(lost / total) if total else 0.0

    def real(self) -> torch.Tensor:
        """The numbers that the integers stand for, in the shape that ``load`` gives."""
        scales, zeros = (part.reshape(-1, self.blocks) for part in self.parameters)
        integers = torch.cat(list(self.by_rows()))
        spread, at = self._spread(scales, self.inputs), self._spread(zeros, self.inputs)
        return ((integers - at) * spread).reshape(*self.lead, self.outputs, self.inputs)

    def _matrices(self) -> Iterator[torch.Tensor]:
        yield from self._flat(self.load())

    @staticmethod
    def _flat(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        if tensor.dim() == 2:
            yield tensor
            return
        for inner in tensor:
            yield from QuantizedWeight._flat(inner)

    def _integers(self, numbers: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
        width = numbers.shape[1]
        spread, at = self._spread(scale.to(torch.float32), width), self._spread(zero, width)
        kind = torch.int8 if self.grid.least < 0 else torch.uint8
        return self.grid.nearest(numbers.to(torch.float32), spread, at).to(kind)

    def _spread(self, numbers: torch.Tensor, width: int) -> torch.Tensor:
        return numbers if self.blocks == 1 else numbers.repeat_interleave(self.block, 1)[:, :width]


def _representable(scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Scales in the type of the weight; one that is too small for it is the least that it has."""
    return scale.to(dtype).clamp(min=torch.finfo(dtype).smallest_normal)
