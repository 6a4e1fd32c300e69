"""Quantized tensors in symbolic functions: a tuple of integers, scale, zero point and, by channel, an axis."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from onnxport.errors import TranslationError
from onnxport.symbolic.helper.parsing import parse_arg
from onnxport.symbolic.helper.questions import is_none, is_tuple_construct, unpack_tuple
from onnxport.symbolic.session.scalar_types import JitScalarType
from onnxport.torch_internals.torchscript import JitValue

Value = JitValue
F = TypeVar("F", bound=Callable[..., Any])


def _is_quantized(value: Any) -> bool:
    return isinstance(value, Value) and is_tuple_construct(value)


def quantized_args(
    *arg_q_descriptors: bool, scale: float | None = None, zero_point: int | None = None, quantize_output: bool = True
) -> Callable[[F], F]:
    """Let a symbolic function for floats also serve quantized tensors: they come in dequantized, and go out quantized.

    Args:
        arg_q_descriptors: One per argument behind ``g``: whether it may be quantized.
        scale: The scale of the result; that of the first quantized argument if it is not given.
        zero_point: The zero point of the result, likewise.
        quantize_output: Whether the result is quantized.

    >>> import onnxport
    >>> @onnxport.symbolic_helper.quantized_args(True)
    ... def relu(g, x):
    ...     return g.op("Relu", x)
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(g: Any, *args: Any, **kwargs: Any) -> Any:
            flags = [*arg_q_descriptors, *[False] * (len(args) - len(arg_q_descriptors))]
            quantized = [flag and _is_quantized(arg) for flag, arg in zip(flags, args, strict=False)]
            if not any(quantized):
                return function(g, *args, **kwargs)
            own_scale: Any = None if scale is None else g.op("Constant", value_t=torch.tensor(scale))
            own_zero: Any = None if zero_point is None else g.op("Constant", value_t=torch.tensor(zero_point))
            plain = []
            for is_one, arg in zip(quantized, args, strict=True):
                if not is_one:
                    plain.append(arg)
                    continue
                floats, arg_scale, arg_zero, _ = dequantize(g, arg)
                plain.append(floats)
                own_scale = arg_scale if own_scale is None else own_scale
                own_zero = arg_zero if own_zero is None else own_zero
            result = function(g, *plain, **kwargs)
            return quantize(g, result, own_scale, own_zero) if quantize_output else result

        return wrapped  # type: ignore[return-value]

    return decorate


def dequantize(g: Any, qtensor: Any, qdtype: int | None = None) -> tuple[Any, Any, Any, Any]:
    """A quantized tensor as floats, with its scale, zero point and axis."""
    parts = list(unpack_tuple(qtensor))
    if len(parts) not in (3, 4):
        raise TranslationError(f"A quantized tensor is three or four values, not {len(parts)}.")
    tensor, scale, zero_point = parts[:3]
    axis = parts[3] if len(parts) == 4 else None
    kind = int(JitScalarType.from_value(tensor).onnx_type()) if qdtype is None else int(qdtype)
    at = None if is_none(axis) else parse_arg(axis, "i")
    scale = g.op("Cast", scale, to_i=int(JitScalarType.FLOAT.onnx_type()))
    zero_point = g.op("Cast", zero_point, to_i=kind)
    integers = g.op("Cast", tensor, to_i=kind)
    return g.op("DequantizeLinear", integers, scale, zero_point, axis_i=at), scale, zero_point, axis


def quantize(g: Any, tensor: Any, scale: Any, zero_point: Any, axis: Any = None) -> Any:
    """A tensor of floats as a quantized one: the tuple of what makes it."""
    known = JitScalarType.from_value(zero_point, JitScalarType.UNDEFINED)
    if known not in (JitScalarType.UINT8, JitScalarType.INT8, JitScalarType.INT):
        zero_point = g.op("Cast", zero_point, to_i=int(JitScalarType.UINT8.onnx_type()))
    scale = g.op("Cast", scale, to_i=int(JitScalarType.FLOAT.onnx_type()))
    at = None if is_none(axis) else parse_arg(axis, "i")
    integers = g.op("QuantizeLinear", tensor, scale, zero_point, axis_i=at)
    parts = [integers, scale, zero_point, *([] if is_none(axis) else [axis])]
    return g.op("prim::TupleConstruct", *parts)


def requantize_bias(g: Any, bias: Any, input_scale: Any, weight_scale: Any, axis: Any = None) -> Any:
    """A bias as integers of 32 bits, on the scale of the products it is added to."""
    scale = g.op("Mul", weight_scale, input_scale)
    zero = g.op("Constant", value_t=torch.tensor([0], dtype=torch.int32))
    scaled = g.op("Cast", g.op("Round", g.op("Div", bias, scale)), to_i=int(JitScalarType.INT.onnx_type()))
    parts = [scaled, scale, zero, *([] if is_none(axis) else [axis])]
    return g.op("prim::TupleConstruct", *parts)
