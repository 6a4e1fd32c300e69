"""Which overload of an operator the arguments of a call fit, and those arguments as its schema has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from onnxport.errors import TranslationError
from onnxport.symbolic.session.given import constant_content
from onnxport.symbolic.session.scalar_types import JitScalarType
from onnxport.torch_internals.operators import OpOverload, OpOverloadPacket
from onnxport.torch_internals.torchscript import (
    BoolType,
    FloatType,
    IntType,
    JitType,
    JitValue,
    ListType,
    NumberType,
    OptionalType,
    StringType,
    TensorType,
)

_PLAIN: tuple[tuple[type[JitType], str, tuple[type, ...]], ...] = (
    (IntType, "int", (int,)),
    (FloatType, "float", (int, float)),
    (NumberType, "number", (int, float)),
    (BoolType, "bool", (bool, int)),
    (StringType, "str", (str,)),
)


@dataclass(frozen=True)
class BoundCall:
    """A call of an overload: an argument for each of its schema, as a Python value where it is known, else a value."""

    overload: OpOverload
    arguments: Sequence[object]


class _Refused(Exception):
    """An argument is not of the type that an overload has."""


def bind_overload(packet: OpOverloadPacket, args: Sequence[object], kwargs: Mapping[str, object]) -> BoundCall:
    """The first overload that takes the arguments; of the others, none has its tensors better where they are given."""
    reasons = []
    for overload in _candidates(packet, args):
        try:
            return BoundCall(overload, _bound(overload, args, kwargs))
        except _Refused as refusal:
            reasons.append(f"{overload}: {refusal}")
    raise TranslationError(f"aten::{packet.__name__} has no form for the arguments it is given. " + "; ".join(reasons))


def _candidates(packet: OpOverloadPacket, args: Sequence[object]) -> list[OpOverload]:
    """The overloads, those first whose tensors are where tensors are given."""
    overloads = [getattr(packet, name) for name in packet.overloads() if "out" not in name]
    tensors = [_is_tensor(arg) for arg in args]

    def misplaced(overload: OpOverload) -> int:
        wanted = [isinstance(argument.type, TensorType) for argument in overload._schema.arguments]
        return sum(a != b for a, b in zip(tensors, wanted, strict=False))

    return sorted(overloads, key=misplaced)


def _is_tensor(arg: object) -> bool:
    if isinstance(arg, JitValue):
        return isinstance(arg.type(), TensorType)
    return isinstance(arg, torch.Tensor)


def _bound(overload: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
    """The arguments of the schema as Python values, and values where they are tensors."""
    arguments = overload._schema.arguments
    if len(args) > len(arguments):
        raise _Refused(f"it has {len(arguments)} arguments")
    given = dict(zip((argument.name for argument in arguments), args, strict=False)) | dict(kwargs)
    if unknown := given.keys() - {argument.name for argument in arguments}:
        raise _Refused(f"it has no {', '.join(sorted(unknown))}")
    bound = []
    for argument in arguments:
        if argument.name not in given:
            if not argument.has_default_value():
                raise _Refused(f"`{argument.name}` is missing")
            bound.append(argument.default_value)
            continue
        try:
            bound.append(_converted(given[argument.name], argument.type, argument.name))
        except _Refused as refusal:
            raise _Refused(f"`{argument.name}` {refusal}") from refusal
    return bound


def _converted(value: object, kind: JitType, name: str) -> object:
    if isinstance(kind, OptionalType):
        is_none = value is None or (isinstance(value, JitValue) and value.node().mustBeNone())
        return None if is_none else _converted(value, kind.getElementType(), name)
    if isinstance(kind, TensorType):
        return _as_tensor_argument(value)
    if isinstance(kind, ListType):
        item = kind.getElementType()
        return [_converted(one, item, name) for one in _items(value, item)]
    content = constant_content(value) if isinstance(value, JitValue) else value
    if isinstance(content, torch.Tensor):
        content = content.item() if content.numel() == 1 else None
    if content is not None:
        return _plain(content, kind, name)
    if isinstance(value, JitValue) and isinstance(kind, IntType | NumberType):
        computed = value.type()
        if isinstance(computed, TensorType) and computed.dim() == 0:
            return value
    raise _Refused(f"must be a constant of type {kind}")


def _as_tensor_argument(value: object) -> object:
    if isinstance(value, JitValue) and not isinstance(value.type(), TensorType):
        raise _Refused("must be a tensor")
    if value is None or isinstance(value, str | list | tuple):
        raise _Refused("must be a tensor")
    return value


def _items(value: object, item: JitType) -> Sequence[object]:
    if isinstance(value, JitValue):
        if value.node().kind() == "prim::ListConstruct":
            return list(value.node().inputs())
        content = constant_content(value)
        if isinstance(content, torch.Tensor) and not isinstance(item, TensorType):
            return list(content.reshape(-1).tolist())
        if isinstance(content, list | int | float):
            return content if isinstance(content, list) else [content]
        raise _Refused("must be a list of which the items are known")
    return value if isinstance(value, list | tuple) else [value]


def _plain(content: object, kind: JitType, name: str) -> object:
    # In schemas a dtype is the number that TorchScript has for it.
    if name == "dtype" and isinstance(kind, IntType) and isinstance(content, int):
        return JitScalarType(content).dtype()
    for known, said, types in _PLAIN:
        if isinstance(kind, known) and not isinstance(content, types):
            raise _Refused(f"is {content!r}, not of type {said}")
    if isinstance(kind, FloatType) and isinstance(content, int | float):
        return float(content)
    return bool(content) if isinstance(kind, BoolType) else content
