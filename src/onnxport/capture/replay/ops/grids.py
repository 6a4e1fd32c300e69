"""Which tensors of a replay stand for quantized ones: real numbers, and the grid that they are on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

import torch

from onnxport.capture.replay.interpreter import Interpreter
from onnxport.capture.replay.values.stand_ins import ReplayValue
from onnxport.errors import CaptureError
from onnxport.quantized_parts import QUANTIZED_DTYPES, QuantizedParts
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import disable_current_modes
from onnxport.torch_internals.operators import quantized_decomposed

Layer = Callable[[torch.Tensor], torch.Tensor]
Scale = float | torch.Tensor
ZeroPoint = int | torch.Tensor


@dataclass(frozen=True)
class Grid:
    """The numbers that a quantized tensor can hold."""

    scale: Scale
    zero_point: ZeroPoint
    dtype: torch.dtype
    axis: int | None = None
    """Where each channel has a scale and a zero point, the axis of the channels."""


@dataclass
class Grids:
    """Which tensors of a replay stand for quantized ones, and the layers whose weights were packed.

    Both by identity, with what is identified.
    """

    tensors: dict[int, tuple[torch.Tensor, Grid]] = field(default_factory=dict)
    integers: dict[int, torch.Tensor] = field(default_factory=dict)
    """Those that such a tensor was made of, where there are any."""
    layers: dict[int, tuple[object, Layer]] = field(default_factory=dict)

    def __call__(self, kind: str, values: Sequence[ReplayValue], result: ReplayValue) -> ReplayValue:
        """What an operator that knows nothing of quantization gives of quantized tensors: on their grid again."""
        if not kind.startswith("aten::") or kind in _OWN:
            return result
        leaves = [leaf for leaf in pytree.tree_leaves(list(values)) if isinstance(leaf, torch.Tensor)]
        grid = next((self.tensors[id(leaf)][1] for leaf in leaves if id(leaf) in self.tensors), None)
        if grid is None:
            return result

        def placed(leaf: torch.Tensor) -> torch.Tensor:
            if id(leaf) in self.tensors or not leaf.dtype.is_floating_point:
                return leaf
            if kind not in _MOVING:
                return self.rounded(leaf, _RANGES.get(kind, grid))
            self.tensors[id(leaf)] = (leaf, grid)
            return leaf

        on_grid: ReplayValue = pytree.tree_map_only(torch.Tensor, placed, result)
        return on_grid

    def rounded(self, x: torch.Tensor, grid: Grid) -> torch.Tensor:
        """Real numbers as the nearest that a quantized tensor can hold."""
        integers = integers_on(x, grid)
        real = self.placed(_real(integers, grid), grid)
        self.integers[id(real)] = integers
        return real

    def integers_of(self, real: torch.Tensor) -> torch.Tensor:
        """The integers of a tensor that stands for a quantized one."""
        known = self.integers.get(id(real))
        return integers_on(real, self.grid_of(real)) if known is None else known

    def placed(self, real: torch.Tensor, grid: Grid) -> torch.Tensor:
        """Real numbers that are on a grid already."""
        self.tensors[id(real)] = (real, grid)
        return real

    def grid_of(self, x: ReplayValue) -> Grid:
        """The grid of a tensor that stands for a quantized one."""
        if id(x) not in self.tensors:
            raise CaptureError("An operator for quantized tensors is given one that the replay knows no grid of.")
        return self.tensors[id(x)][1]

    def real(self, x: torch.Tensor) -> torch.Tensor:
        """The real numbers of a tensor, which may be a quantized one that came with the model."""
        if not x.is_quantized:
            return x
        with disable_current_modes():
            make, grid = weight_of(x), _grid(x)
        return self.placed(make(), grid)

    def like(self, x: ReplayValue, scale: Scale, zero_point: ZeroPoint) -> Grid:
        """A grid of the type that a tensor's has."""
        found = self.tensors.get(id(x))
        return Grid(scale, zero_point, torch.quint8 if found is None else found[1].dtype)

    def returned(self, results: ReplayValue) -> ReplayValue:
        """What leaves a model: the parts of quantized tensors, in the types of ONNX's operators."""
        if isinstance(results, list | tuple):
            parts = [self.returned(result) for result in results]
            return parts if isinstance(results, list) else tuple(parts)
        if isinstance(results, dict):
            return {key: self.returned(result) for key, result in results.items()}
        found = self.tensors.get(id(results))
        if found is None:
            return results
        real, grid = found
        kind = INTEGERS[grid.dtype][0]
        parts_of = QuantizedParts(
            self.integers_of(real), _tensor(grid.scale, torch.float32), _tensor(grid.zero_point, kind)
        )
        return cast(ReplayValue, parts_of)


def grids_of(run: Interpreter) -> Grids:
    """The grids of a run, which are kept track of from the first question on."""
    if not isinstance(run.finish, Grids):
        run.finish = Grids()
    return run.finish


def on_grids(run: Interpreter, arguments: list[ReplayValue]) -> list[ReplayValue]:
    """The arguments of a model with the parts of quantized tensors as the tensors that stand for them."""

    def placed(value: object) -> object:
        if not isinstance(value, QuantizedParts):
            return value
        grid = Grid(value.scale, value.zero_point, QUANTIZED_DTYPES[value.value.dtype])
        return grids_of(run).placed(_real(value.value, grid), grid)

    if not any(isinstance(value, QuantizedParts | list | tuple | dict) for value in arguments):
        return arguments
    found: list[ReplayValue] = pytree.tree_map(
        placed, arguments, is_leaf=lambda value: isinstance(value, QuantizedParts)
    )
    return found


def _grid(quantized: torch.Tensor) -> Grid:
    if quantized.qscheme() == torch.per_tensor_affine:
        return Grid(quantized.q_scale(), quantized.q_zero_point(), quantized.dtype)
    scales = quantized.q_per_channel_scales().to(torch.float32)
    zero_points = quantized.q_per_channel_zero_points()
    return Grid(scales, zero_points, quantized.dtype, quantized.q_per_channel_axis())


def integers_on(x: torch.Tensor, grid: Grid) -> torch.Tensor:
    """The integers of the nearest numbers on a grid."""
    operators = affine_operators()
    return _called(operators.quantize_per_tensor, operators.quantize_per_channel, x, grid)


def _real(integers: torch.Tensor, grid: Grid) -> torch.Tensor:
    operators = affine_operators()
    return _called(operators.dequantize_per_tensor, operators.dequantize_per_channel, integers, grid)


def _called(per_tensor: _Overloads, per_channel: _Overloads, x: torch.Tensor, grid: Grid) -> torch.Tensor:
    """Quantize or dequantize by the operator, and the overload of it, that takes such a grid."""
    if grid.dtype not in INTEGERS:
        raise CaptureError(f"A tensor is quantized to {grid.dtype}, for which there is no ONNX form; use 8 bits.")
    kind, low, high = INTEGERS[grid.dtype]
    if grid.axis is not None:
        assert isinstance(grid.scale, torch.Tensor)
        return per_channel.default(x, grid.scale.to(torch.float32), grid.zero_point, grid.axis, low, high, kind)
    if isinstance(grid.scale, float) and isinstance(grid.zero_point, int):
        return per_tensor.default(x, grid.scale, grid.zero_point, low, high, kind)
    scale, zero_point = _tensor(grid.scale, torch.float64), _tensor(grid.zero_point, torch.int64)
    return per_tensor.tensor(x, scale, zero_point, low, high, kind)


INTEGERS = {torch.quint8: (torch.uint8, 0, 255), torch.qint8: (torch.int8, -128, 127)}


class _Overloads(Protocol):
    default: Callable[..., torch.Tensor]
    tensor: Callable[..., torch.Tensor]


class AffineOperators(Protocol):
    """The operators of ``torch.ops.quantized_decomposed`` that are used here."""

    quantize_per_tensor: _Overloads
    dequantize_per_tensor: _Overloads
    quantize_per_channel: _Overloads
    dequantize_per_channel: _Overloads
    choose_qparams: _Overloads


def affine_operators() -> AffineOperators:
    """The operators that quantize and dequantize, with types."""
    return cast(AffineOperators, quantized_decomposed())


def _tensor(value: float | torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value.reshape([]).to(dtype) if isinstance(value, torch.Tensor) else torch.scalar_tensor(value, dtype=dtype)


def weight_of(packed: torch.Tensor) -> Callable[[], torch.Tensor]:
    """What makes a weight's real numbers of its integers, in the graph."""
    integers, grid = packed.int_repr(), _grid(packed)
    return lambda: _real(integers, grid)


# Results of these are on a grid of their own, whatever that of the input is.
_RANGES = {
    "aten::sigmoid": Grid(1 / 256, 0, torch.quint8),
    "aten::hardsigmoid": Grid(1 / 256, 0, torch.quint8),
    "aten::tanh": Grid(2 / 256, 128, torch.quint8),
}
# And of these they are items of the input, which need no rounding.
_MOVING_NAMES = (
    "view reshape flatten permute transpose t contiguous slice select squeeze unsqueeze clone detach expand expand_as "
    "narrow chunk split index_select index relu relu_ max_pool1d max_pool2d max_pool3d dropout alias unbind flip roll "
    "pixel_shuffle channel_shuffle adaptive_max_pool2d to __getitem__ repeat"
)
_MOVING = {f"aten::{name}" for name in _MOVING_NAMES.split()}
# These know grids.
_OWN = ("aten::dequantize", "aten::quantize_per_tensor", "aten::quantize_per_channel", "aten::int_repr")
