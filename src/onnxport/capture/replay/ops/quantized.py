"""Quantized tensors of a script: each is replayed as the real numbers it stands for, rounded where the script rounds.

That is the form of ONNX too: a QuantizeLinear and a DequantizeLinear around operators of real numbers, and weights that
are kept as the integers they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F

from onnxport.capture.replay.interpreter import NodeCall, handles
from onnxport.capture.replay.ops.calls import dtype_of
from onnxport.capture.replay.ops.grids import (
    INTEGERS,
    Grid,
    Grids,
    Layer,
    Scale,
    ZeroPoint,
    grids_of,
    weight_of,
)
from onnxport.capture.replay.values.stand_ins import ReplayValue, materialized, plain_number
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import disable_current_modes

Packed = object
"""The weights of a layer, packed for a kernel: an object of a class in C++."""


@dataclass(frozen=True)
class Prepacked:
    """A layer whose weights the replayed code packs itself."""

    layer: Layer


@handles("aten::quantize_per_tensor")
def _quantize(call: NodeCall, x: ReplayValue, scale: Scale, zero_point: ZeroPoint, dtype: int) -> torch.Tensor:
    call.trace()
    return grids_of(call.run).rounded(materialized(x), Grid(scale, zero_point, dtype_of(dtype)))


@handles("aten::quantize_per_channel")
def _quantize_channels(
    call: NodeCall, x: ReplayValue, scales: torch.Tensor, zero_points: torch.Tensor, axis: int, dtype: int
) -> torch.Tensor:
    call.trace()
    real = materialized(x)
    return grids_of(call.run).rounded(real, Grid(scales, zero_points, dtype_of(dtype), axis % real.dim()))


@handles("aten::dequantize")
def _dequantize(call: NodeCall, x: ReplayValue, *_: ReplayValue) -> ReplayValue:
    """The real numbers are there already; as a tensor of its own, for it has no grid."""
    call.trace()
    grids = grids_of(call.run)
    real: ReplayValue = pytree.tree_map_only(torch.Tensor, lambda tensor: grids.real(tensor).detach(), x)
    return real


@handles("aten::int_repr")
def _integers_of(call: NodeCall, x: torch.Tensor) -> torch.Tensor:
    call.trace()
    return grids_of(call.run).integers_of(x)


@handles("aten::q_scale", "aten::q_zero_point")
def _parameter(call: NodeCall, x: torch.Tensor) -> ReplayValue:
    grid = grids_of(call.run).tensors[id(x)][1]
    return plain_number(grid.scale if call.node.kind() == "aten::q_scale" else grid.zero_point)


# --- layers with packed weights --------------------------------------------------------------------------------------


def _linear(packed: Packed) -> Layer:
    with disable_current_modes():
        weight, bias = torch.ops.quantized.linear_unpack(packed)
        real, offset = weight_of(weight), None if bias is None else bias.detach()
    return lambda x: F.linear(x, real(), offset)


def _convolution(axes: int, transposed: bool) -> Callable[[Packed], Layer]:
    def convolution(packed: Packed) -> Layer:
        prefix = f"conv_transpose{axes}d" if transposed else f"conv{axes}d"
        # What is packed for one axis is that for two, of which the first has one element.
        options = prefix.replace("1d", "2d")

        def option(name: str) -> object:
            found: object = getattr(torch.ops.quantized, f"{options}_{name}")(packed)
            return list(found)[-axes:] if isinstance(found, list | tuple) else found

        with disable_current_modes():
            weight, bias = getattr(torch.ops.quantized, f"{prefix}_unpack")(packed)
            real, offset = weight_of(weight), None if bias is None else bias.detach()
            stride, padding, dilation, groups = (option(n) for n in ("stride", "padding", "dilation", "groups"))
            output_padding = option("output_padding") if transposed else None
        function = getattr(F, prefix)
        if transposed:
            return lambda x: function(x, real(), offset, stride, padding, output_padding, groups, dilation)
        return lambda x: function(x, real(), offset, stride, padding, dilation, groups)

    return convolution


@handles("quantized::linear_prepack")
def _prepack_linear(call: NodeCall, weight: torch.Tensor, bias: torch.Tensor | None = None) -> ReplayValue:
    real = grids_of(call.run).real(weight)
    return cast(ReplayValue, Prepacked(lambda x: F.linear(x, real, bias)))


@handles(*(f"quantized::conv{axes}d_prepack" for axes in (1, 2, 3)))
def _prepack_convolution(
    call: NodeCall,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> ReplayValue:
    real = grids_of(call.run).real(weight)
    function = getattr(F, call.node.kind().removeprefix("quantized::").removesuffix("_prepack"))
    return cast(ReplayValue, Prepacked(lambda x: function(x, real, bias, stride, padding, dilation, groups)))


_LAYERS: dict[str, Callable[[Packed], Layer]] = {
    "quantized::linear": _linear,
    **{f"quantized::conv{axes}d": _convolution(axes, False) for axes in (1, 2, 3)},
    **{f"quantized::conv_transpose{axes}d": _convolution(axes, True) for axes in (1, 2, 3)},
}


def unpacked(grids: Grids, kind: str, packed: Packed) -> Layer:
    """The layer whose weights were packed."""
    if isinstance(packed, Prepacked):
        return packed.layer
    if id(packed) not in grids.layers:
        grids.layers[id(packed)] = (packed, _LAYERS[kind](packed))
    return grids.layers[id(packed)][1]


@handles(*_LAYERS, *(f"{name}_relu" for name in _LAYERS))
def _layer(call: NodeCall, x: torch.Tensor, packed: Packed, *options: float) -> torch.Tensor:
    call.trace()
    kind = call.node.kind()
    scale, zero_point = options[-2:]
    grids = grids_of(call.run)
    y = unpacked(grids, kind.removesuffix("_relu"), packed)(x)
    return grids.rounded(y.relu() if kind.endswith("_relu") else y, grids.like(x, scale, zero_point))  # type: ignore[arg-type]


# --- other operators -------------------------------------------------------------------------------------------------


# With the positions of the scale and the zero point among the arguments.
_FUNCTIONS: dict[str, tuple[Callable[..., torch.Tensor], int]] = {
    "add": (lambda a, b, *_: a + b, 2),
    "add_relu": (lambda a, b, *_: (a + b).relu(), 2),
    "mul": (lambda a, b, *_: a * b, 2),
    "mul_relu": (lambda a, b, *_: (a * b).relu(), 2),
    "matmul": (lambda a, b, *_: a @ b, 2),
    "cat": (lambda items, axis, *_: torch.cat(items, axis), 2),
    "cat_relu": (lambda items, axis, *_: torch.cat(items, axis).relu(), 2),
    "hardswish": (lambda x, *_: F.hardswish(x), 1),
    "sigmoid": (lambda x, *_: x.sigmoid(), 1),
    "softmax": (lambda x, axis, *_: x.softmax(axis), 2),
    "leaky_relu": (lambda x, slope, *_: F.leaky_relu(x, slope), 3),
    "elu": (lambda x, scale, zero_point, alpha, *_: F.elu(x, alpha), 1),
    "layer_norm": (lambda x, shape, weight, bias, eps, *_: F.layer_norm(x, shape, weight, bias, eps), 5),
    "group_norm": (lambda x, groups, weight, bias, eps, *_: F.group_norm(x, groups, weight, bias, eps), 5),
    "instance_norm": (lambda x, weight, bias, eps, *_: F.instance_norm(x, None, None, weight, bias, eps=eps), 4),
}


def _batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    eps: float,
    *_: ReplayValue,
) -> torch.Tensor:
    return F.batch_norm(x, mean, variance, weight, bias, eps=eps)


for _name in ("batch_norm", "batch_norm1d", "batch_norm2d", "batch_norm3d"):
    _FUNCTIONS[_name] = (_batch_norm, 6)
    _FUNCTIONS[f"{_name}_relu"] = (lambda *values: _batch_norm(*values).relu(), 6)


@handles(*(f"quantized::{name}" for name in _FUNCTIONS))
def _function(call: NodeCall, *values: ReplayValue) -> torch.Tensor:
    call.trace()
    function, position = _FUNCTIONS[call.node.kind().partition("::")[2]]
    first = values[0][0] if isinstance(values[0], list) else values[0]
    scale, zero_point = cast(tuple[Scale, ZeroPoint], values[position : position + 2])
    grids = grids_of(call.run)
    return grids.rounded(function(*values), grids.like(first, scale, zero_point))


@handles("quantized::prelu")
def _prelu(call: NodeCall, x: torch.Tensor, slopes: torch.Tensor, scale: Scale, zero_point: ZeroPoint) -> torch.Tensor:
    call.trace()
    grids = grids_of(call.run)
    return grids.rounded(F.prelu(x, grids.real(slopes)), grids.like(x, scale, zero_point))


def _one_grid(call: NodeCall, x: torch.Tensor) -> tuple[Grids, float, int, torch.dtype]:
    """The grids of the run, and that of a tensor which has the same for all of its channels."""
    call.trace()
    grids = grids_of(call.run)
    grid = grids.grid_of(x)
    assert isinstance(grid.scale, float)
    assert isinstance(grid.zero_point, int)
    return grids, grid.scale, grid.zero_point, grid.dtype


@handles("quantized::add_scalar", "quantized::add_scalar_relu")
def _add_number(call: NodeCall, x: torch.Tensor, number: float) -> torch.Tensor:
    """On a grid that is shifted; stretched as well where its zero would lie outside of the integers."""
    grids, scale, zero_point, dtype = _one_grid(call, x)
    _, low, high = INTEGERS[dtype]
    steps = round(number / scale)
    y, zero = x + steps * scale, zero_point - steps
    relu = call.node.kind().endswith("_relu")
    if low <= zero <= high:
        shifted = Grid(scale, zero, dtype)
        return grids.placed(y.relu() if relu else y, shifted)
    reach = high - zero if zero < low else zero - low
    stretched = Grid(reach / (high - low) * scale, low if zero < low else high, dtype)
    return grids.rounded(y.relu() if relu else y, stretched)


@handles("quantized::mul_scalar", "quantized::mul_scalar_relu")
def _multiply_by_number(call: NodeCall, x: torch.Tensor, number: float) -> torch.Tensor:
    """The same integers, in reverse for a negative number, on a grid of that many times the scale."""
    grids, scale, zero_point, dtype = _one_grid(call, x)
    _, low, high = INTEGERS[dtype]
    zero = zero_point if number > 0 else low + high - zero_point
    scaled = Grid(1.0, 0, dtype) if number == 0 else Grid(abs(number) * scale, zero, dtype)
    y = x * number
    return grids.placed(y.relu() if call.node.kind().endswith("_relu") else y, scaled)


# These stay on the grid of their input.
_SAME: dict[str, Callable[..., torch.Tensor]] = {
    "quantized::relu6": lambda x, *_: F.relu6(x),
    "quantized::clamp": torch.clamp,
    "quantized::dropout": lambda x, *_: x,
}


@handles(*_SAME)
def _on_the_same(call: NodeCall, *values: ReplayValue) -> torch.Tensor:
    call.trace()
    grids = grids_of(call.run)
    return grids.rounded(_SAME[call.node.kind()](*values), grids.tensors[id(values[0])][1])
