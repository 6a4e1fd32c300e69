"""What whole numbers can be, as far as the calls they come from tell: how large, and whether they only count."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import torch

from onnxport.translate.tensor import Tensor

EXACT_BITS = 32
"""Numbers of so many bits add up exactly in float64, two million of them."""

_INT32_BITS = 31
_UNKNOWN = 64
_DEPTH = 16
_SIZE_BITS = 27
"""No axis has more elements, with room for sums and differences of positions within 32 bits."""
_WIDTHS = {
    ir.DataType.BOOL: 1,
    ir.DataType.INT8: 7,
    ir.DataType.UINT8: 8,
    ir.DataType.INT16: 15,
    ir.DataType.UINT16: 16,
    ir.DataType.INT32: _INT32_BITS,
    ir.DataType.UINT32: 32,
}
#: Positions and sizes.
_POSITIONS = {"Shape", "Size", "ArgMax", "ArgMin", "NonZero"}
#: Calls whose results are among the elements of their first operand.
_MOVES = {
    *("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather", "Expand", "Tile"),
    *("GatherElements", "GatherND", "Split", "ReduceMax", "ReduceMin", "Compress"),
}
_COMBINED: dict[str, tuple[slice, Callable[[Sequence[int]], int]]] = {
    "Where": (slice(1, None), max),
    "Concat": (slice(None), max),
    "Max": (slice(None), max),
    "Min": (slice(None), max),
    "Neg": (slice(None), lambda bits: bits[0] + 1),
    "Abs": (slice(None), lambda bits: bits[0] + 1),
    "Add": (slice(None), lambda bits: max(bits) + 1),
    "Sub": (slice(None), lambda bits: max(bits) + 1),
    "Mul": (slice(None), lambda bits: sum(bits) + 1),
    "Div": (slice(1), lambda bits: bits[0] + 1),
    "Mod": (slice(1, None), max),
    "Sign": (slice(0), lambda _: 1),
    "Clip": (slice(1, None), lambda bits: max(bits) if len(bits) == 2 else _UNKNOWN),
    "CumSum": (slice(1), lambda bits: bits[0] + _SIZE_BITS),
    "ReduceSum": (slice(1), lambda bits: bits[0] + _SIZE_BITS),
}


def bits_of(x: Tensor) -> int:
    """How many bits hold every element of an int64 tensor beside its sign; 64 where nothing is known."""
    return _bits(x.value, _DEPTH)


def beyond_int32(*tensors: Tensor) -> bool:
    """Whether elements of int64 tensors may lie where runtimes take the larger of two for the smaller.

    onnxruntime 1.31 on x86 compares the lower halves of int64 as signed numbers in Min, Max, Clip, Relu, Sign,
    ReduceMin and ReduceMax: 3 is more than 3,000,000,000 to them. Less, Greater, ArgMin and ArgMax are right.
    """
    return any(x.dtype == torch.int64 and bits_of(x) > _INT32_BITS for x in tensors)


def _bits(value: ir.Value | None, depth: int) -> int:
    if value is None or depth == 0:
        return _UNKNOWN
    if value.dtype is not None and value.dtype in _WIDTHS:
        return _WIDTHS[value.dtype]
    # A weight may be replaced after the export; a literal may not.
    if value.const_value is not None and not value.metadata_props:
        return _bits_of_literal(value.const_value)
    node = value.producer()
    if node is None:
        return _UNKNOWN
    if node.op_type in _POSITIONS or _counts(node):
        return _SIZE_BITS
    if node.op_type == "ConstantOfShape":
        return _bits_of_literal(node.attributes["value"].as_tensor()) if "value" in node.attributes else 0
    if node.op_type == "Range":
        return max(_bits(end, depth - 1) for end in node.inputs[:2])
    if node.op_type in ("Cast", *_MOVES):
        source = node.inputs[0]
        whole = source is not None and (source.dtype is ir.DataType.INT64 or source.dtype in _WIDTHS)
        return _bits(source, depth - 1) if whole else _UNKNOWN
    if node.op_type not in _COMBINED:
        return _UNKNOWN
    which, combined = _COMBINED[node.op_type]
    return combined([_bits(operand, depth - 1) for operand in node.inputs[which]])


def _bits_of_literal(tensor: ir.TensorProtocol) -> int:
    numbers = tensor.numpy()
    return max(int(numbers.max()), ~int(numbers.min())).bit_length() if numbers.size else 0


def _counts(node: ir.Node) -> bool:
    return node.op_type == "Range" and _is_number(node.inputs[0], 0) and _is_number(node.inputs[2], 1)


_KEEPING_ORDER = {"Identity", "Reshape", "Squeeze", "Unsqueeze"}


def counts_from_zero(x: Tensor) -> bool:
    """Whether the elements of a tensor are 0, 1, 2 … in order, as those of ``arange`` are."""
    value: ir.Value | None = x.value
    for _ in range(_DEPTH):
        if value is None:
            return False
        if value.const_value is not None and not value.metadata_props:
            numbers = value.const_value.numpy().reshape(-1)
            return bool(np.array_equal(numbers, np.arange(numbers.size)))
        node = value.producer()
        if node is None:
            return False
        if node.op_type == "Range":
            return _counts(node)
        if node.op_type == "Add" and _is_number(node.inputs[1], 0):
            value = node.inputs[0]
        else:
            value = node.inputs[0] if node.op_type in _KEEPING_ORDER else None
    return False


def is_range_from_zero(x: Tensor) -> bool:
    """Whether a tensor is ``arange(0, end, step)``."""
    node = x.value.producer()
    return node is not None and node.op_type == "Range" and _is_number(node.inputs[0], 0)


def step_from_zero(x: Tensor) -> int | None:
    """The step of ``arange(0, end, step)``, where it is a plain number."""
    node = x.value.producer()
    if node is None or not is_range_from_zero(x):
        return None
    step = node.inputs[2]
    # A weight may be replaced after the export; a literal may not.
    if step is None or step.const_value is None or step.metadata_props:
        return None
    return int(step.const_value.numpy())


def _is_number(value: ir.Value | None, number: int) -> bool:
    if value is None or value.const_value is None or value.metadata_props:
        return False
    held = value.const_value.numpy()
    return bool(held.size == 1 and held.item() == number)
