"""Quantization: pairs of QuantizeLinear and DequantizeLinear where ONNX has the dtype, arithmetic elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.aten.axes import axis_of
from onnxport.aten.literals import number_of
from onnxport.aten.reduction.reduce import amax, amin
from onnxport.translate import Builder, Tensor, translates

Bound = int | Tensor

_LINEAR = {torch.int8: (-128, 127), torch.uint8: (0, 255)}
"""The dtypes that ONNX quantizes to at every opset, and their ranges."""


class _Scheme:
    """Scale and zero point of a tensor, or of each channel along ``axis``."""

    def __init__(
        self, op: Builder, scale: Tensor | float, zero_point: Tensor | int | None, axis: int | None = None
    ) -> None:
        self.op = op
        self.axis = axis
        self.scale = op.cast(self._shaped(scale, torch.float32), torch.float32)
        if zero_point is None:
            zero_point = op.full(0, self.scale.shape, torch.int64)
        self.zero_point = self._shaped(zero_point, torch.int64)

    def _shaped(self, x: Tensor | float, dtype: torch.dtype) -> Tensor:
        if not isinstance(x, Tensor):
            return self.op.const(x, dtype)
        return x if self.axis is not None else self.op.reshape(x, [])

    def broadcast(self, x: Tensor, rank: int) -> Tensor:
        """A parameter, shaped and as float32, to go with a tensor of that rank."""
        x = self.op.cast(x, torch.float32)
        return x if self.axis is None else self.op.unsqueeze(x, list(range(1, rank - self.axis)))

    def quantize(self, x: Tensor, low: Bound, high: Bound, dtype: torch.dtype) -> Tensor:
        op = self.op
        x = op.cast(x, torch.float32)
        if dtype not in _LINEAR:
            value = op.Round(x / self.broadcast(self.scale, x.rank)) + self.broadcast(self.zero_point, x.rank)
            return op.cast(op.Clip(value, _bound(op, low, value.dtype), _bound(op, high, value.dtype)), dtype)
        result = op.QuantizeLinear(x, self.scale, op.cast(self.zero_point, dtype), axis=self.axis)
        if (low, high) == _LINEAR[dtype]:
            return result
        return op.Clip(result, _bound(op, low, dtype), _bound(op, high, dtype)).with_shape(x.shape)

    def dequantize(self, x: Tensor) -> Tensor:
        op = self.op
        if x.dtype in _LINEAR:
            zero_point = op.cast(self.zero_point, x.dtype)
            return op.DequantizeLinear(x, self.scale, zero_point, axis=self.axis, out_dtype=torch.float32)
        if x.dtype == torch.int32 and number_of(self.zero_point) == 0:
            return op.DequantizeLinear(x, self.scale, out_dtype=torch.float32)
        shifted = op.cast(x, torch.float32) - self.broadcast(self.zero_point, x.rank)
        return shifted * self.broadcast(self.scale, x.rank)


def _bound(op: Builder, bound: Bound, dtype: torch.dtype) -> Tensor:
    return op.cast(op.reshape(bound, []), dtype) if isinstance(bound, Tensor) else op.const(bound, dtype)


def _known(bound: Bound) -> Bound:
    number = number_of(bound)
    return bound if number is None else int(number)


@translates(
    "quantized_decomposed::quantize_per_tensor",
    "quantized_decomposed::quantize_per_tensor.tensor",
    "quantized_decomposed::quantize_per_tensor.tensor2",
)
def quantize_per_tensor(
    op: Builder,
    input: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | int,
    quant_min: Tensor | int,
    quant_max: Tensor | int,
    dtype: torch.dtype,
) -> Tensor:
    return _Scheme(op, scale, zero_point).quantize(input, _known(quant_min), _known(quant_max), dtype)


@translates(
    "quantized_decomposed::dequantize_per_tensor",
    "quantized_decomposed::dequantize_per_tensor.tensor",
    "quantized_decomposed::dequantize_per_tensor.tensor2",
)
def dequantize_per_tensor(
    op: Builder,
    input: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | int,
    quant_min: Tensor | int,
    quant_max: Tensor | int,
    dtype: torch.dtype,
    out_dtype: torch.dtype | None,
) -> Tensor:
    return _Scheme(op, scale, zero_point).dequantize(input)


@translates("quantized_decomposed::quantize_per_channel")
def quantize_per_channel(
    op: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Tensor:
    scheme = _Scheme(op, scales, zero_points, axis_of(axis, input.rank))
    return scheme.quantize(input, quant_min, quant_max, dtype)


@translates("quantized_decomposed::dequantize_per_channel")
def dequantize_per_channel(
    op: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    out_dtype: torch.dtype | None,
) -> Tensor:
    return _Scheme(op, scales, zero_points, axis_of(axis, input.rank)).dequantize(input)


# Tokens and groups: a scale for each row


@translates("quantized_decomposed::quantize_per_token")
def quantize_per_token(
    op: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Tensor:
    wide = torch.promote_types(input.dtype, scales.dtype)
    value = op.cast(input, wide) * (1 / op.cast(scales, wide)) + op.cast(zero_points, wide)
    return op.cast(op.Clip(op.Round(value), op.const(quant_min, wide), op.const(quant_max, wide)), dtype)


@translates("quantized_decomposed::dequantize_per_token")
def dequantize_per_token(
    op: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> Tensor:
    return (op.cast(input, scales.dtype) - op.cast(zero_points, scales.dtype)) * scales


@translates("quantized_decomposed::quantize_per_channel_group")
def quantize_per_channel_group(
    op: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int,
) -> Tensor:
    rows, scales, offsets = _grouped(op, input, group_size, scales, zero_points)
    assert offsets is not None
    result = quantize_per_token(op, rows, scales, offsets, quant_min, quant_max, dtype)
    return op.reshape(result, input.shape)


@translates("quantized_decomposed::dequantize_per_channel_group")
def dequantize_per_channel_group(
    op: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int,
    output_dtype: torch.dtype,
) -> Tensor:
    rows, scales, zero_points = _grouped(op, input, group_size, scales, zero_points)
    value = op.cast(rows, scales.dtype)
    if zero_points is not None:
        value = value - op.cast(zero_points, scales.dtype)
    return op.reshape(value * scales, input.shape)


def _grouped(
    op: Builder, x: Tensor, group_size: int, scales: Tensor, zero_points: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    rows, columns = x.shape
    assert isinstance(columns, int), "The size that is divided into groups is a weight's and fixed."
    size = min(group_size, columns)
    count = rows * (columns // size)
    return (
        op.reshape(x, [count, size]),
        op.reshape(scales, [count, 1]),
        None if zero_points is None else op.reshape(zero_points, [count, 1]),
    )


# Parameters from the data


def _extremes(op: Builder, x: Tensor, dim: Sequence[int], keepdim: bool) -> tuple[Tensor, Tensor]:
    """The lowest and the highest value, 0 being one of them."""
    zero = op.like(0, x)
    return op.Min(amin(op, x, dim, keepdim), zero), op.Max(amax(op, x, dim, keepdim), zero)


@translates("quantized_decomposed::choose_qparams.tensor")
def choose_qparams(
    op: Builder, input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    low, high = _extremes(op, op.cast(input, torch.float32), [], False)
    scale = op.Max((high - low) / (quant_max - quant_min), op.like(eps, low))
    zero_point = quant_min - op.Round(low / scale)
    zero_point = op.Clip(zero_point, op.like(quant_min, low), op.like(quant_max, low))
    return _vector(op, scale), op.cast(_vector(op, zero_point), torch.int64)


@translates("quantized_decomposed::choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(
    op: Builder, input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    low, high = _extremes(op, op.cast(input, torch.float32), [], False)
    scale = op.Max(op.Max(-low, high) / ((quant_max - quant_min) / 2), op.like(eps, low))
    return _vector(op, scale), op.const([128 if dtype == torch.uint8 else 0], torch.int64)


def _vector(op: Builder, x: Tensor) -> Tensor:
    return op.reshape(x, [1])


@translates("quantized_decomposed::choose_qparams_per_token")
def choose_qparams_per_token(op: Builder, input: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    largest = amax(op, op.Abs(input), [input.rank - 1], True)
    if largest.dtype == torch.float16:
        largest = op.cast(largest, torch.float32)
    shape = [*input.shape[:-1], 1]
    scale = (op.Max(largest, op.like(1e-5, largest)) / torch.iinfo(dtype).max).with_shape(shape)
    return scale, op.full(0, shape, scale.dtype)


@translates(
    "quantized_decomposed::choose_qparams_per_token_asymmetric",
    "quantized_decomposed::_choose_qparams_per_token_asymmetric_impl",
)
def choose_qparams_per_token_asymmetric(op: Builder, input: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    least, most = _LINEAR[torch.int8]
    low, high = _extremes(op, input, [input.rank - 1], True)
    scale = op.Max((high - low) / (most - least), op.like(torch.finfo(torch.float32).eps, low))
    below, above = low / scale, high / scale
    # Which end to round at: the one that errs less.
    zero_point = op.Where((below + least) + (above + most) > 0, least - below, most - above)
    zero_point = op.Round(op.Clip(zero_point, op.like(least, low), op.like(most, low)))
    return scale, op.cast(zero_point, torch.int64)


@translates("quantized_decomposed::convert_element_type.no_fuse")
def convert_element_type(op: Builder, input: Tensor, dtype: torch.dtype) -> Tensor:
    return op.cast(input, dtype)


# Quantized and back: what is left of a value


def _fake(op: Builder, x: Tensor, scheme: _Scheme, low: int, high: int) -> Tensor:
    fitting = [dtype for dtype, (least, most) in _LINEAR.items() if least <= low and high <= most]
    return scheme.dequantize(scheme.quantize(x, low, high, fitting[0] if fitting else torch.int32))


@translates("aten::fake_quantize_per_tensor_affine", "aten::fake_quantize_per_tensor_affine.tensor_qparams")
def fake_quantize_per_tensor(
    op: Builder, self: Tensor, scale: Tensor | float, zero_point: Tensor | int, quant_min: int, quant_max: int
) -> Tensor:
    return _fake(op, self, _Scheme(op, scale, zero_point), quant_min, quant_max)


@translates("aten::fake_quantize_per_channel_affine")
def fake_quantize_per_channel(
    op: Builder, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    return _fake(op, self, _Scheme(op, scale, zero_point, axis_of(axis, self.rank)), quant_min, quant_max)


@translates("quantized_decomposed::fake_quant_per_channel")
def fake_quant_per_channel(
    op: Builder, input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    return fake_quantize_per_channel(op, input, scales, zero_points, axis, quant_min, quant_max)
