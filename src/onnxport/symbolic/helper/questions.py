"""What can be asked of a value: what it is, its sizes, its type, its content if it is a constant."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import torch

from onnxport.errors import SymbolicValueError, TranslationError
from onnxport.symbolic.session.attributes import get_attribute
from onnxport.symbolic.session.given import constant_of
from onnxport.symbolic.session.scalar_types import JitScalarType
from onnxport.torch_internals.torchscript import BoolType, FloatType, IntType, JitValue, ListType, TensorType

Value = JitValue

_CONSTANTS = ("onnx::Constant", "prim::Constant")
_FLOATING = (JitScalarType.FLOAT, JitScalarType.DOUBLE, JitScalarType.HALF, JitScalarType.BFLOAT16)


def is_value(x: Any) -> bool:
    """Whether something is a value of a graph."""
    return isinstance(x, Value)


def is_constant(value: Any) -> bool:
    """Whether something is known now: a constant of the graph, or no value at all."""
    return not isinstance(value, Value) or value.node().kind() in _CONSTANTS


def is_onnx_constant(value: Value) -> bool:
    """Whether a value is a constant tensor."""
    return value.node().kind() == "onnx::Constant"


def is_none(x: Any) -> bool:
    """Whether something is None, or a value that is."""
    return x is None or (isinstance(x, Value) and bool(x.node().mustBeNone()))


def is_tensor(x: Value) -> bool:
    """Whether a value is a tensor."""
    return isinstance(x.type(), TensorType)


def is_list(x: Value) -> bool:
    """Whether a value is a list."""
    return isinstance(x.type(), ListType)


def as_list_type(kind: Any) -> Any:
    """A type if it is that of a list, else None."""
    return kind if isinstance(kind, ListType) else None


def is_tensor_list(x: Value) -> bool:
    """Whether a value is a list of tensors."""
    kind = as_list_type(x.type())
    return kind is not None and isinstance(kind.getElementType(), TensorType)


def is_scalar_list(x: Value) -> bool:
    """Whether a value is a list of numbers."""
    kind = as_list_type(x.type())
    numeric = (IntType, FloatType, BoolType)
    return kind is not None and isinstance(kind.getElementType(), numeric)


def is_tuple_construct(x: Value) -> bool:
    """Whether a value is a tuple put together in the graph."""
    return x.node().kind() == "prim::TupleConstruct"


def is_packed_list(value: Any) -> bool:
    """Whether something is a list put together in the graph, which can be unpacked."""
    return isinstance(value, Value) and value.node().kind() == "prim::ListConstruct"


def unpack_list(value: Value) -> list[Value]:
    """The items of a list."""
    if not is_packed_list(value):
        raise SymbolicValueError(f"{value} is not a list of which the items are known.", value)
    return list(value.node().inputs())


def unpack_tuple(value: Value) -> tuple[Value, ...]:
    """The items of a tuple."""
    if not is_tuple_construct(value):
        raise SymbolicValueError(f"{value} is not a tuple of which the items are known.", value)
    return tuple(value.node().inputs())


def is_complex_value(x: Value) -> bool:
    """Whether a value is a complex tensor."""
    complexes = (JitScalarType.COMPLEX32, JitScalarType.COMPLEX64, JitScalarType.COMPLEX128)
    return JitScalarType.from_value(x, JitScalarType.UNDEFINED) in complexes


def is_fp(value: Any) -> bool:
    """Whether something is of a floating-point type."""
    return JitScalarType.from_value(value, JitScalarType.UNDEFINED) in _FLOATING


def is_bool(value: Any) -> bool:
    """Whether something is of type bool."""
    return JitScalarType.from_value(value, JitScalarType.UNDEFINED) is JitScalarType.BOOL


def get_tensor_rank(x: Value) -> int | None:
    """The number of dimensions of a tensor, None if it is not known.

    >>> import torch, onnxport
    >>> graph = torch._C.Graph()
    >>> value = graph.addInput()
    >>> _ = value.setType(torch._C.TensorType.create_from_tensor(torch.ones(2, 3)))
    >>> get_tensor_rank(value), get_tensor_dim_size(value, -1)
    (2, 3)
    """
    if not is_tensor(x):
        return None
    kind: Any = x.type()
    rank: int | None = kind.dim()
    return rank


def get_tensor_sizes(x: Value, allow_nonstatic: bool = True) -> Sequence[int | None] | None:
    """The sizes of a tensor; one that varies is None, or makes all of them None if it is not allowed."""
    if not is_tensor(x):
        return None
    kind: Any = x.type()
    sizes: Sequence[int | None] | None = kind.varyingSizes() if allow_nonstatic else kind.sizes()
    return sizes


def get_tensor_dim_size(x: Value, dim: int) -> int | None:
    """One size of a tensor, None if it is not known."""
    sizes = get_tensor_sizes(x)
    return None if sizes is None else sizes[dim]


def get_dim_for_cross(x: Value, dim: int | None) -> int | None:
    """The axis of a cross product: the one given, or the first of size 3."""
    if dim == -1:
        rank = get_tensor_rank(x)
        return None if rank is None else dim + rank
    if dim is None:
        sizes = get_tensor_sizes(x)
        return next((axis for axis, size in enumerate(sizes if sizes is not None else ()) if size == 3), None)
    return dim


def scalar(x: Any) -> Any:
    """A number out of a number, a tensor of one element, or a constant; None out of anything else.

    >>> import torch
    >>> scalar(torch.tensor(3)), scalar(0.5)
    (3, 0.5)
    """
    if isinstance(x, Value):
        x = constant_of(x)
    if isinstance(x, numbers.Number):
        return x
    return x.item() if isinstance(x, torch.Tensor) else None


def node_get(node: Any, key: str) -> Any:
    """An attribute of a node, whatever its type."""
    return get_attribute(node, key)


def try_get_scalar_type(*args: Any) -> JitScalarType | None:
    """The scalar type of the first argument that has one."""
    for arg in args:
        found = JitScalarType.from_value(arg, JitScalarType.UNDEFINED)
        if found is not JitScalarType.UNDEFINED:
            return found
    return None


def type_promote_from_values(*args: Any) -> JitScalarType:
    """The scalar type in which torch would compute with these."""
    known = [JitScalarType.from_value(arg, JitScalarType.UNDEFINED) for arg in args]
    found = [kind.dtype() for kind in known if kind is not JitScalarType.UNDEFINED]
    if not found:
        raise TranslationError("None of the values has a scalar type that is known.")
    result = found[0]
    for dtype in found[1:]:
        result = torch.promote_types(result, dtype)
    return JitScalarType.from_dtype(result)


def args_have_same_dtype(args: Sequence[Any]) -> bool:
    """Whether all have the same scalar type."""
    kinds = [JitScalarType.from_value(arg, JitScalarType.UNDEFINED) for arg in args]
    return bool(kinds) and all(kind is kinds[0] for kind in kinds)


def if_scalar_type_as(*args: Any) -> Any:
    """A number as a tensor of the dtype that the last argument has; values pass.

    Called with ``(self, tensor)``, or as in older code with ``(g, self, tensor)``.
    """
    value, like = args[-2:]
    if isinstance(value, Value):
        return value
    kind = JitScalarType.from_value(like, JitScalarType.UNDEFINED)
    if kind is JitScalarType.UNDEFINED:
        return value
    return torch.tensor(value, dtype=kind.dtype())
