"""Attributes of nodes, from what translations pass for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch

from onnxport.errors import TranslationError
from onnxport.translate.tensor import Tensor
from onnxport.weights.dtypes import from_torch_dtype

_CONVERSIONS: dict[ir.AttributeType, Callable[[Any], object]] = {
    ir.AttributeType.INT: int,
    ir.AttributeType.FLOAT: float,
    ir.AttributeType.INTS: lambda items: [int(item) for item in items],
    ir.AttributeType.FLOATS: lambda items: [float(item) for item in items],
}


def attribute(name: str, value: object, kind: ir.AttributeType) -> ir.Attr:
    """An attribute of a type that the schema states."""
    if isinstance(value, torch.dtype):
        value = int(from_torch_dtype(value))
    convert = _CONVERSIONS.get(kind)
    return ir.Attr(name, kind, value if convert is None else convert(value))


def free_attribute(name: str, value: object) -> ir.Attr:
    """An attribute by the type of its value; a tensor must be known now, not only when the model runs."""
    if isinstance(value, ir.Attr):
        return value
    if isinstance(value, list | tuple):
        if any(isinstance(item, Tensor) for item in value):
            return ir.AttrTensors(name, [_known_tensor(name, item) for item in value])
        if any(isinstance(item, float) for item in value):
            return ir.AttrFloat32s(name, [float(item) for item in value])
        if any(isinstance(item, str) for item in value):
            return ir.AttrStrings(name, [str(item) for item in value])
        return ir.AttrInt64s(name, [_fixed(name, item) for item in value])
    if isinstance(value, Tensor | ir.TensorProtocol):
        return ir.AttrTensor(name, _known_tensor(name, value))
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, torch.dtype):
        return ir.AttrInt64(name, int(from_torch_dtype(value)))
    return ir.AttrInt64(name, _fixed(name, value))


def _fixed(name: str, value: object) -> int:
    if not isinstance(value, int):
        raise TranslationError(f"the attribute `{name}` must be a fixed number, text or tensor, but is {value!r}")
    return int(value)


def _known_tensor(name: str, tensor: Tensor | ir.TensorProtocol) -> ir.TensorProtocol:
    content: ir.TensorProtocol | None = tensor.value.const_value if isinstance(tensor, Tensor) else tensor
    if content is None:
        raise TranslationError(f"the attribute `{name}` is a tensor that is computed at run time; pass it as an input")
    return content
