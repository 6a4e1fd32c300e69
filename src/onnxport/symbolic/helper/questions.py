"""What can be asked of a value: what it is, its sizes, its type, its content if it is a constant."""

from __future__ import annotations

import numbers
from collections.abc import Sequence

import torch

from onnxport.errors import SymbolicValueError, TranslationError
from onnxport.symbolic.session.given import constant_content
from onnxport.symbolic.session.node_attributes import get_attribute
from onnxport.symbolic.session.scalar_types import JitScalarType
from onnxport.torch_internals.torchscript import (
    BoolType,
    FloatType,
    IntType,
    JitNode,
    JitType,
    JitValue,
    ListType,
    TensorType,
)

__all__ = [
    "_as_list_type",
    "_get_dim_for_cross",
    "_get_tensor_dim_size",
    "_get_tensor_rank",
    "_get_tensor_sizes",
    "_if_scalar_type_as",
    "_is_bool",
    "_is_constant",
    "_is_fp",
    "_is_list",
    "_is_none",
    "_is_onnx_constant",
    "_is_packed_list",
    "_is_scalar_list",
    "_is_tensor",
    "_is_tensor_list",
    "_is_tuple_construct",
    "_is_value",
    "_node_get",
    "_scalar",
    "_try_get_scalar_type",
    "_type_promote_from_values",
    "_unpack_list",
    "_unpack_quantized_tensor",
    "_unpack_tuple",
    "args_have_same_dtype",
    "is_complex_value",
]
"""What ``torch.onnx.symbolic_helper`` has of this, under its names."""


_CONSTANTS = ("onnx::Constant", "prim::Constant")
_FLOATING = (JitScalarType.FLOAT, JitScalarType.DOUBLE, JitScalarType.HALF, JitScalarType.BFLOAT16)


def _is_value(x: object) -> bool:
    """Whether something is a value of a graph."""
    return isinstance(x, JitValue)


def _is_constant(value: object) -> bool:
    """Whether something is known now: a constant of the graph, or no value at all."""
    return not isinstance(value, JitValue) or value.node().kind() in _CONSTANTS


def _is_onnx_constant(value: JitValue) -> bool:
    """Whether a value is a constant tensor."""
    return value.node().kind() == "onnx::Constant"


def _is_none(x: object) -> bool:
    """Whether something is None, or a value that is."""
    return x is None or (isinstance(x, JitValue) and bool(x.node().mustBeNone()))


def _is_tensor(x: JitValue) -> bool:
    """Whether a value is a tensor."""
    return isinstance(x.type(), TensorType)


def _is_list(x: JitValue) -> bool:
    """Whether a value is a list."""
    return isinstance(x.type(), ListType)


def _as_list_type(jit_type: JitType) -> ListType | None:
    """A type if it is that of a list, else None."""
    return jit_type if isinstance(jit_type, ListType) else None


def _is_tensor_list(x: JitValue) -> bool:
    """Whether a value is a list of tensors."""
    kind = _as_list_type(x.type())
    return kind is not None and isinstance(kind.getElementType(), TensorType)


def _is_scalar_list(x: JitValue) -> bool:
    """Whether a value is a list of numbers."""
    kind = _as_list_type(x.type())
    numeric = (IntType, FloatType, BoolType)
    return kind is not None and isinstance(kind.getElementType(), numeric)


def _is_tuple_construct(x: JitValue) -> bool:
    """Whether a value is a tuple put together in the graph."""
    return x.node().kind() == "prim::TupleConstruct"


def _is_packed_list(list_value: object) -> bool:
    """Whether something is a list put together in the graph, which can be unpacked."""
    return isinstance(list_value, JitValue) and list_value.node().kind() == "prim::ListConstruct"


def _unpack_list(list_value: JitValue) -> list[JitValue]:
    """The items of a list."""
    if not _is_packed_list(list_value):
        raise SymbolicValueError(f"{list_value} is not a list of which the items are known.", list_value)
    return list(list_value.node().inputs())


def _unpack_tuple(tuple_value: JitValue) -> tuple[JitValue, ...]:
    """The items of a tuple."""
    if not _is_tuple_construct(tuple_value):
        raise SymbolicValueError(f"{tuple_value} is not a tuple of which the items are known.", tuple_value)
    return tuple(tuple_value.node().inputs())


# A quantized tensor is a tuple.
_unpack_quantized_tensor = _unpack_tuple


def is_complex_value(x: JitValue) -> bool:
    """Whether a value is a complex tensor."""
    complexes = (JitScalarType.COMPLEX32, JitScalarType.COMPLEX64, JitScalarType.COMPLEX128)
    return JitScalarType.from_value(x, JitScalarType.UNDEFINED) in complexes


def _is_fp(value: object) -> bool:
    """Whether something is of a floating-point type."""
    return JitScalarType.from_value(value, JitScalarType.UNDEFINED) in _FLOATING


def _is_bool(value: object) -> bool:
    """Whether something is of type bool."""
    return JitScalarType.from_value(value, JitScalarType.UNDEFINED) is JitScalarType.BOOL


def _get_tensor_rank(x: JitValue) -> int | None:
    """The number of dimensions of a tensor, None if it is not known.

    >>> import torch, onnxport
    >>> graph = torch._C.Graph()
    >>> value = graph.addInput()
    >>> _ = value.setType(torch._C.TensorType.create_from_tensor(torch.ones(2, 3)))
    >>> _get_tensor_rank(value), _get_tensor_dim_size(value, -1)
    (2, 3)
    """
    kind = x.type()
    return kind.dim() if isinstance(kind, TensorType) else None


def _get_tensor_sizes(x: JitValue, allow_nonstatic: bool = True) -> Sequence[int | None] | None:
    """The sizes of a tensor; one that varies is None, or makes all of them None if it is not allowed."""
    kind = x.type()
    if not isinstance(kind, TensorType):
        return None
    return kind.varyingSizes() if allow_nonstatic else kind.sizes()


def _get_tensor_dim_size(x: JitValue, dim: int) -> int | None:
    """One size of a tensor, None if it is not known."""
    sizes = _get_tensor_sizes(x)
    return None if sizes is None else sizes[dim]


def _get_dim_for_cross(x: JitValue, dim: int | None) -> int | None:
    """The axis of a cross product: the one given, or the first of size 3."""
    if dim == -1:
        rank = _get_tensor_rank(x)
        return None if rank is None else dim + rank
    if dim is None:
        sizes = _get_tensor_sizes(x)
        return next((axis for axis, size in enumerate(sizes if sizes is not None else ()) if size == 3), None)
    return dim


def _scalar(x: object) -> object:
    """A number out of a number, a tensor of one element, or a constant; None out of anything else.

    >>> import torch
    >>> _scalar(torch.tensor(3)), _scalar(0.5)
    (3, 0.5)
    """
    if isinstance(x, JitValue):
        x = constant_content(x)
    if isinstance(x, numbers.Number):
        return x
    return x.item() if isinstance(x, torch.Tensor) else None


def _node_get(node: JitNode, key: str) -> object:
    """An attribute of a node, whatever its type."""
    return get_attribute(node, key)


def _try_get_scalar_type(*args: object) -> JitScalarType | None:
    """The scalar type of the first argument that has one."""
    for arg in args:
        found = JitScalarType.from_value(arg, JitScalarType.UNDEFINED)
        if found is not JitScalarType.UNDEFINED:
            return found
    return None


def _type_promote_from_values(*args: object) -> JitScalarType:
    """The scalar type in which torch would compute with these."""
    known = [JitScalarType.from_value(arg, JitScalarType.UNDEFINED) for arg in args]
    found = [kind.dtype() for kind in known if kind is not JitScalarType.UNDEFINED]
    if not found:
        raise TranslationError("None of the values has a scalar type that is known.")
    result = found[0]
    for dtype in found[1:]:
        result = torch.promote_types(result, dtype)
    return JitScalarType.from_dtype(result)


def args_have_same_dtype(args: Sequence[object]) -> bool:
    """Whether all have the same scalar type."""
    kinds = [JitScalarType.from_value(arg, JitScalarType.UNDEFINED) for arg in args]
    return bool(kinds) and all(kind is kinds[0] for kind in kinds)


def _if_scalar_type_as(*args: object) -> object:
    """A number as a tensor of the dtype that the last argument has; values pass.

    Called with ``(self, tensor)``, or as in older code with ``(g, self, tensor)``.
    """
    value, like = args[-2:]
    if isinstance(value, JitValue):
        return value
    kind = JitScalarType.from_value(like, JitScalarType.UNDEFINED)
    if kind is JitScalarType.UNDEFINED:
        return value
    return torch.tensor(value, dtype=kind.dtype())
