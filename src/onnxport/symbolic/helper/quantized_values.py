"""Quantized tensors in symbolic functions: a tuple of integers, scale, zero point and, by channel, an axis."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeGuard, TypeVar

import torch

from onnxport.errors import TranslationError
from onnxport.symbolic.helper.parsing import _parse_arg
from onnxport.symbolic.helper.questions import _is_none, _is_tuple_construct, _unpack_tuple
from onnxport.symbolic.session.graph_context import GraphContext
from onnxport.symbolic.session.registration import Symbolic
from onnxport.symbolic.session.scalar_types import JitScalarType
from onnxport.torch_internals.torchscript import JitValue

__all__ = [
    "dequantize_helper",
    "quantize_helper",
    "quantized_args",
    "requantize_bias_helper",
]
"""What ``torch.onnx.symbolic_helper`` has of this, under its names."""

F = TypeVar("F", bound=Symbolic)


def _is_quantized(value: object) -> TypeGuard[JitValue]:
    return isinstance(value, JitValue) and _is_tuple_construct(value)


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
        def wrapped(g: GraphContext, *args: object, **kwargs: object) -> object:
            flags = [*arg_q_descriptors, *[False] * (len(args) - len(arg_q_descriptors))]
            if not any(may_be and _is_quantized(arg) for may_be, arg in zip(flags, args, strict=False)):
                return function(g, *args, **kwargs)
            own_scale = None if scale is None else g.op("Constant", value_t=torch.tensor(scale))
            own_zero = None if zero_point is None else g.op("Constant", value_t=torch.tensor(zero_point))
            floats: list[object] = []
            for may_be, arg in zip(flags, args, strict=False):
                if not (may_be and _is_quantized(arg)):
                    floats.append(arg)
                    continue
                one, arg_scale, arg_zero, _ = dequantize_helper(g, arg)
                floats.append(one)
                own_scale = arg_scale if own_scale is None else own_scale
                own_zero = arg_zero if own_zero is None else own_zero
            result = function(g, *floats, **kwargs)
            if not quantize_output:
                return result
            assert isinstance(result, JitValue) and own_scale is not None and own_zero is not None
            return quantize_helper(g, result, own_scale, own_zero)

        return wrapped  # type: ignore[return-value]

    return decorate


def dequantize_helper(
    g: GraphContext, qtensor: JitValue, qdtype: int | None = None
) -> tuple[JitValue, JitValue, JitValue, JitValue | None]:
    """A quantized tensor as floats, with its scale, zero point and axis."""
    parts = list(_unpack_tuple(qtensor))
    if len(parts) not in (3, 4):
        raise TranslationError(f"A quantized tensor is three or four values, not {len(parts)}.")
    tensor, scale, zero_point = parts[:3]
    axis = parts[3] if len(parts) == 4 else None
    kind = int(JitScalarType.from_value(tensor).onnx_type()) if qdtype is None else int(qdtype)
    at = None if _is_none(axis) else _parse_arg(axis, "i")
    scale = g.op("Cast", scale, to_i=int(JitScalarType.FLOAT.onnx_type()))
    zero_point = g.op("Cast", zero_point, to_i=kind)
    integers = g.op("Cast", tensor, to_i=kind)
    return g.op("DequantizeLinear", integers, scale, zero_point, axis_i=at), scale, zero_point, axis


def quantize_helper(
    g: GraphContext, tensor: JitValue, scale: JitValue, zero_point: JitValue, axis: JitValue | None = None
) -> JitValue:
    """A tensor of floats as a quantized one: the tuple of what makes it."""
    known = JitScalarType.from_value(zero_point, JitScalarType.UNDEFINED)
    if known not in (JitScalarType.UINT8, JitScalarType.INT8, JitScalarType.INT):
        zero_point = g.op("Cast", zero_point, to_i=int(JitScalarType.UINT8.onnx_type()))
    scale = g.op("Cast", scale, to_i=int(JitScalarType.FLOAT.onnx_type()))
    at = None if _is_none(axis) else _parse_arg(axis, "i")
    integers = g.op("QuantizeLinear", tensor, scale, zero_point, axis_i=at)
    parts = [integers, scale, zero_point, *([] if _is_none(axis) else [axis])]
    return g.op("prim::TupleConstruct", *parts)


def requantize_bias_helper(
    g: GraphContext, bias: JitValue, input_scale: JitValue, weight_scale: JitValue, axis: JitValue | None = None
) -> JitValue:
    """A bias as integers of 32 bits, on the scale of the products it is added to."""
    scale = g.op("Mul", weight_scale, input_scale)
    zero = g.op("Constant", value_t=torch.tensor([0], dtype=torch.int32))
    scaled = g.op("Cast", g.op("Round", g.op("Div", bias, scale)), to_i=int(JitScalarType.INT.onnx_type()))
    parts = [scaled, scale, zero, *([] if _is_none(axis) else [axis])]
    return g.op("prim::TupleConstruct", *parts)
