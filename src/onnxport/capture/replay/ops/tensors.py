"""What a script asks of a tensor and what makes or converts one, where calling torch's operator would not do.

A number that a trace keeps in a tensor (``Number``) answers as that tensor would.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TypeAlias

import torch

from onnxport.capture.replay.interpreter import NodeCall, handles
from onnxport.capture.replay.ops.calls import call_operator, dtype_code, dtype_of
from onnxport.capture.replay.values.items import has_run_time_length, numbers_in
from onnxport.capture.replay.values.stand_ins import Number, ReplayValue, materialized, plain_number
from onnxport.torch_internals.operators import parse_schema

TensorLike: TypeAlias = torch.Tensor | Number


@handles("prim::dtype")
def _dtype(call: NodeCall, x: TensorLike) -> int:
    return dtype_code(x.dtype)


@handles("prim::device")
def _device(call: NodeCall, x: TensorLike) -> torch.device:
    return torch.device("cpu") if isinstance(x, Number) else x.device


@handles("prim::layout")
def _layout(call: NodeCall, x: TensorLike) -> int:
    return 0


@handles("prim::data")
def _data(call: NodeCall, x: TensorLike) -> TensorLike:
    """A tensor without its history; the values are the same."""
    return x if isinstance(x, Number) else x.detach()


@handles("prim::type", "prim::index")
def _device_part(call: NodeCall, device: torch.device) -> ReplayValue:
    part: ReplayValue = getattr(device, call.node.kind().partition("::")[2])
    return part


_FLAGS = (
    "is_cuda is_quantized is_sparse is_mkldnn is_meta is_cpu requires_grad is_xpu is_mps is_nested is_ort is_vulkan "
    "itemsize name"
)
_PROPERTIES = {f"prim::{name}": name for name in _FLAGS.split()}


@handles(*_PROPERTIES)
def _property(call: NodeCall, x: TensorLike) -> ReplayValue:
    found: ReplayValue = getattr(materialized(x), _PROPERTIES[call.node.kind()], False)
    return found


@handles("aten::size", "prim::shape")
def _size(call: NodeCall, x: TensorLike, axis: ReplayValue = None) -> ReplayValue:
    call.trace()
    shape: Sequence[ReplayValue] = () if isinstance(x, Number) else x.shape
    if call.node.inputsSize() == 1:
        return list(shape)
    size: ReplayValue = shape[plain_number(axis)]
    return size


@handles("aten::dim")
def _dim(call: NodeCall, x: TensorLike) -> int:
    return 0 if isinstance(x, Number) else int(x.dim())


@handles("aten::numel")
def _numel(call: NodeCall, x: TensorLike) -> ReplayValue:
    return 1 if isinstance(x, Number) else x.numel()


@handles("aten::is_floating_point", "aten::is_complex")
def _is_floating_point(call: NodeCall, x: TensorLike) -> bool:
    return x.dtype.is_complex if call.node.kind().endswith("complex") else x.dtype.is_floating_point


@handles("aten::cpu", "aten::cuda")
def _same_device(call: NodeCall, x: ReplayValue, *_: ReplayValue) -> ReplayValue:
    return x


@handles("aten::tensor", "aten::as_tensor")
def _tensor(call: NodeCall, data: ReplayValue, dtype: int | None, *_: ReplayValue) -> torch.Tensor:
    """A tensor of numbers or lists of them; numbers that vary are stacked."""
    call.trace()
    target = None if dtype is None else dtype_of(dtype)
    if isinstance(data, torch.Tensor):
        return data if target is None else data.to(target)
    if has_run_time_length(data):
        numbers = numbers_in(data)
        if target is None and numbers.dtype == torch.float64:
            target = torch.get_default_dtype()
        return numbers if target is None else numbers.to(target)
    if _varies(data):
        return _stacked(data, target)
    return torch.tensor(_plain_numbers(data), dtype=target)


def _plain_numbers(data: ReplayValue) -> ReplayValue:
    return [_plain_numbers(item) for item in data] if isinstance(data, list | tuple) else plain_number(data)


def _varies(data: ReplayValue) -> bool:
    if isinstance(data, list | tuple):
        return any(_varies(item) for item in data)
    return not isinstance(plain_number(data) if isinstance(data, Number) else data, int | float | bool | complex)


def _stacked(data: ReplayValue, dtype: torch.dtype | None) -> torch.Tensor:
    if isinstance(data, list | tuple):
        return torch.stack([_stacked(item, dtype) for item in data])
    if not isinstance(data, torch.Tensor):
        number = data if isinstance(data, Number) else Number.of(data)  # type: ignore[arg-type]
        if dtype is None and number.dtype == torch.float64:
            dtype = torch.get_default_dtype()
        data = number.tensor()
    return data if dtype is None else data.to(dtype)


@handles("aten::__interpolate")
def _interpolate(call: NodeCall, x: TensorLike, size: list[int], scale: list[float], *options: str) -> torch.Tensor:
    """What torch.onnx leaves of a call of interpolate in the graphs of a module that it has exported."""
    call.trace()
    resized: torch.Tensor = torch.nn.functional.interpolate(materialized(x), size, scale, *options)  # type: ignore[arg-type]
    return resized


@handles("aten::einsum")
def _einsum(call: NodeCall, equation: str, operands: list[TensorLike], *_: ReplayValue) -> torch.Tensor:
    call.trace()
    return torch.einsum(equation, *materialized(operands))


@handles("aten::arange")
def _arange(call: NodeCall, *values: ReplayValue) -> ReplayValue:
    call.trace()
    if _argument_names(call.node.schema())[-1] != "out":
        return call_operator(call.node, values)
    *bounds, out = materialized(list(values))
    return torch.arange(*(bound for bound in bounds if bound is not None), out=out)


@handles("aten::index_put", "aten::index_put_", "aten::where")
def with_masks(call: NodeCall, *values: ReplayValue) -> ReplayValue:
    """Call an operator that takes masks; old code has bytes for them."""
    call.trace()
    if call.node.kind() == "aten::where":
        return call_operator(call.node, [_as_mask(values[0]), *values[1:]])
    places = values[1]
    masks = [_as_mask(place) for place in places] if isinstance(places, list) else places
    return call_operator(call.node, [values[0], masks, *values[2:]])


def _as_mask(value: ReplayValue) -> ReplayValue:
    return value.ne(0) if isinstance(value, torch.Tensor) and value.dtype == torch.uint8 else value


@functools.cache
def _argument_names(schema: str) -> tuple[str, ...]:
    return tuple(argument.name for argument in parse_schema(schema).arguments)


@handles("aten::to")
def _to(call: NodeCall, x: TensorLike, *options: ReplayValue) -> ReplayValue:
    """Conversions; where the tensor goes to another device nothing changes, there is only one in the file."""
    call.trace()
    names = _argument_names(call.node.schema())[1:]
    other = next((item for item in options if isinstance(item, torch.Tensor)), None)
    if other is not None:
        return materialized(x).to(other.dtype)
    codes = [item for name, item in zip(names, options, strict=False) if name == "dtype" and item is not None]
    if not codes:
        return x
    target = dtype_of(codes[0])
    if isinstance(x, Number):
        return _converted(x, target)
    return torch.ops.aten.to.dtype(x, target)


def _converted(number: Number, dtype: torch.dtype) -> TensorLike:
    symbolic = isinstance(number.value, torch.SymInt | torch.SymFloat | torch.SymBool)
    if dtype == number.dtype:
        return number
    if dtype == torch.int64 and not symbolic:
        return Number(int(number.value), dtype)  # type: ignore[arg-type]
    if dtype == torch.float64 and not symbolic:
        return Number(float(number.value), dtype)  # type: ignore[arg-type]
    return number.tensor().to(dtype)
