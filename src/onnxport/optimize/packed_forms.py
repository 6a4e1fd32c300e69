"""What unpacks a weight, recognised: ``scale * (integers - zero) + shift`` of constants, whatever computes them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import onnx_ir as ir

from onnxport.optimize.constant_values import ConstantValues
from onnxport.weights.kinds import is_weight
from onnxport.weights.torch_tensor import TorchTensor

_D = ir.DataType
MOVES = frozenset({"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Flatten"})
REAL = frozenset({_D.FLOAT, _D.FLOAT16, _D.BFLOAT16})
FLOAT8 = frozenset({_D.FLOAT8E4M3FN, _D.FLOAT8E5M2})
_PACKED = frozenset(kind for kind in _D if kind.is_integer()) | FLOAT8
# Smaller ones are literals of the graph, and not worth the search.
_LEAST_ELEMENTS = 1024
_PLACING = {"Slice": (0,), "Gather": (0,), "Expand": (0,), "Where": (1, 2), "ScatterND": (0, 2), "Pad": (0,)}
_PLACING |= {"ScatterElements": (0, 2), "Split": (0,), "Tile": (0,)}
"""Operators that put numbers in other places, with the inputs that the numbers come from."""
_WHOLE = frozenset({"Add", "Sub", "Mul", "Concat"})
"""Operators that give whole numbers if all that they are given is whole."""


def is_packed(value: ir.Value) -> bool:
    """Whether an initializer is a weight of integers, or of 8-bit floating point, that is worth the search."""
    if value.dtype not in _PACKED:
        return False
    tensor = value.const_value
    return is_weight(value) and isinstance(tensor, TorchTensor) and tensor.size * 8 >= _LEAST_ELEMENTS


@dataclass(frozen=True)
class ScaledIntegers:
    """``product`` is ``scale`` times ``numbers``, where ``difference`` (if any) is ``integers`` less ``zero``.

    ``moved`` is the product where ``shift`` (if any) is added to it, or taken off, which makes ``total``.
    """

    product: ir.Value
    scale: ir.Value
    numbers: ir.Value
    integers: ir.Value
    difference: ir.Value | None = None
    zero: ir.Value | None = None
    moved: ir.Value | None = None
    shift: ir.Value | None = None
    total: ir.Value | None = None
    taken_off: bool = False


def recognised(weight: ir.Value, constants: ConstantValues) -> ScaledIntegers | None:
    """How a weight is computed of packed integers, if it is."""
    # What most weights fail at comes first: each is asked, where a model has any integers.
    last = behind_moves(weight)
    node = last.producer()
    if node is None or node.op_type not in ("Mul", "Add", "Sub"):
        return None
    sources = constants.sources(weight)
    if weight.shape is None or not weight.shape.is_static() or len(weight.shape) != 2 or weight.dtype not in REAL:
        return None
    if sources is None or math.prod(weight.shape.numpy()) < _LEAST_ELEMENTS or not any(map(is_packed, sources)):
        return None
    if node.op_type == "Mul":
        return _product(last, constants)
    places = ((0, 1), (1, 0)) if node.op_type == "Add" else ((0, 1),)
    for one, other in places:
        moved, shift = node.inputs[one], node.inputs[other]
        if moved is None or shift is None:
            continue
        found = _product(behind_moves(moved), constants)
        if found is not None:
            return replace(found, moved=moved, shift=shift, total=last, taken_off=node.op_type == "Sub")
    return None


def _product(product: ir.Value, constants: ConstantValues) -> ScaledIntegers | None:
    node = product.producer()
    if node is None or node.op_type != "Mul":
        return None
    for numbers, scale in (node.inputs, reversed(node.inputs)):
        if numbers is not None and scale is not None:
            found = _with_integers(product, numbers, scale, constants)
            if found is not None:
                return found
    return None


def behind_moves(value: ir.Value) -> ir.Value:
    """What a value is before its elements were moved, or converted between floating-point types."""
    node = value.producer()
    while node is not None and node.domain == "":
        first = node.inputs[0] if node.inputs else None
        converted = node.op_type == "Cast" and first is not None and first.dtype in REAL and value.dtype in REAL
        if first is None or not (node.op_type in MOVES or converted):
            break
        value, node = first, first.producer()
    return value


def _with_integers(
    product: ir.Value, numbers: ir.Value, scale: ir.Value, constants: ConstantValues
) -> ScaledIntegers | None:
    inner = behind_moves(numbers)
    node = inner.producer()
    if node is not None and node.op_type == "Cast":
        integers = node.inputs[0]
        if integers is None or not _from_packed(integers, constants):
            return None
        difference = behind_moves(integers)
        before = difference.producer()
        if before is not None and before.op_type == "Sub" and before.inputs[0] is not None:
            return ScaledIntegers(product, scale, numbers, before.inputs[0], difference, before.inputs[1])
        return ScaledIntegers(product, scale, numbers, integers)
    if node is not None and node.op_type == "Sub" and node.inputs[0] is not None:
        integers = node.inputs[0]
        cast = behind_moves(integers).producer()
        of_integers = cast is not None and cast.op_type == "Cast" and cast.inputs[0] is not None
        given = cast.inputs[0] if of_integers and cast is not None else None
        packed = _from_packed(given, constants) if given is not None else _whole_from_packed(integers, constants)
        return ScaledIntegers(product, scale, numbers, integers, inner, node.inputs[1]) if packed else None
    return ScaledIntegers(product, scale, numbers, inner) if _whole_from_packed(inner, constants) else None


def _from_packed(value: ir.Value, constants: ConstantValues) -> bool:
    sources = constants.sources(value)
    integral = value.dtype is not None and (value.dtype.is_integer() or value.dtype in FLOAT8)
    return integral and sources is not None and any(map(is_packed, sources))


def _whole_from_packed(value: ir.Value, constants: ConstantValues) -> bool:
    """Whether a value of floating point holds integers that were converted before they were put in their places."""
    sources = constants.sources(value)
    return sources is not None and any(map(is_packed, sources)) and _is_whole(value, {})


def _is_whole(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    if value not in known:
        known[value] = _are_all_whole(value, known)
    return known[value]


def _are_all_whole(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    if value.dtype is not None and value.dtype.is_integer():
        return True
    node = value.producer()
    if node is None:
        tensor = value.const_value
        if tensor is None or tensor.size > _LEAST_ELEMENTS or value.dtype not in REAL:
            return False
        return all(float(number).is_integer() for number in tensor.numpy().reshape(-1))
    if node.domain != "":
        return False
    if node.op_type == "Cast" or node.op_type in MOVES:
        read: list[ir.Value | None] = [node.inputs[0]]
    elif node.op_type in _PLACING:
        read = [node.inputs[place] for place in _PLACING[node.op_type]]
    elif node.op_type in _WHOLE:
        read = list(node.inputs)
    elif node.op_type == "ConstantOfShape":
        filled = node.attributes.get("value")
        return filled is None or float(filled.as_tensor().numpy().reshape(-1)[0]).is_integer()
    else:
        return False
    return all(one is not None and _is_whole(one, known) for one in read)
