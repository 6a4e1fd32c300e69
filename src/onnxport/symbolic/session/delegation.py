"""Symbolic functions that call our translations: ``symbolic_opset9.linear(g, input, weight, bias)``.

The call is made a graph of its own, of fake values like those of a capture, and translated as any other: overload,
promotion, decomposition and shapes are as they would be if the model had made it.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from onnxport.errors import TranslationError
from onnxport.events import EventLog
from onnxport.prepare.decompose import decompose
from onnxport.prepare.emit import fake_mode_of, on_fake_values
from onnxport.symbolic.session.given import constant, constant_of
from onnxport.symbolic.session.graph_context import GraphContext
from onnxport.symbolic.session.inference import Result
from onnxport.symbolic.session.scalar_types import JitScalarType
from onnxport.symbolic.session.session import Session
from onnxport.torch_internals.fake_tensors import FakeTensorMode
from onnxport.torch_internals.operators import OpOverload
from onnxport.torch_internals.symbolic_sizes import constrain_range_for_size
from onnxport.torch_internals.torchscript import JitValue, TensorType
from onnxport.translate import REGISTRY, Builder, Dim, Int, Tensor, is_translated
from onnxport.translate.engine import Engine

Value = JitValue

_has_translation = partial(is_translated, REGISTRY.find)


def delegate(g: GraphContext, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Write a call of ``torch.ops.aten.<name>`` with our translation, and return the values of its results."""
    packet = getattr(torch.ops.aten, name)
    reasons = []
    args = [_number_or_value(g.session, arg) for arg in args]
    kwargs = {key: _number_or_value(g.session, arg) for key, arg in kwargs.items()}
    for overload in _candidates(packet, args):
        bound = _bind(overload, args, kwargs)
        if isinstance(bound, str):
            reasons.append(f"{overload}: {bound}")
            continue
        return _Call(g.enter(), overload).write(bound)
    raise TranslationError(f"aten::{name} has no form for the arguments it is given. " + "; ".join(reasons))


def _number_or_value(session: Session, arg: Any) -> Any:
    number = session.number(arg) if isinstance(arg, Value) else None
    return arg if number is None else number


def _candidates(packet: Any, args: Sequence[Any]) -> list[OpOverload]:
    """The overloads, those first whose tensors are where tensors are given."""
    overloads = [getattr(packet, name) for name in packet.overloads() if "out" not in name]
    tensors = [_is_tensor(arg) for arg in args]

    def misplaced(overload: OpOverload) -> int:
        wanted = [str(argument.type) == "Tensor" for argument in overload._schema.arguments]
        return sum(a != b for a, b in zip(tensors, wanted, strict=False))

    return sorted(overloads, key=misplaced)


def _is_tensor(arg: Any) -> bool:
    if isinstance(arg, Value):
        return isinstance(arg.type(), TensorType)
    return isinstance(arg, torch.Tensor)


class _Refused(Exception):
    """An argument is not of the type that an overload has."""


def _bind(overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | str:
    """The arguments of the schema as Python values, and values where they are tensors, or why they do not fit."""
    arguments = overload._schema.arguments
    if len(args) > len(arguments):
        return f"it has {len(arguments)} arguments"
    given = dict(zip((argument.name for argument in arguments), args, strict=False)) | dict(kwargs)
    if unknown := given.keys() - {argument.name for argument in arguments}:
        return f"it has no {', '.join(sorted(unknown))}"
    bound = []
    for argument in arguments:
        if argument.name not in given:
            if not argument.has_default_value():
                return f"`{argument.name}` is missing"
            bound.append(argument.default_value)
            continue
        try:
            bound.append(_converted(given[argument.name], str(argument.type), argument))
        except _Refused as refusal:
            return f"`{argument.name}` {refusal}"
    return bound


def _converted(value: Any, kind: str, argument: Any) -> Any:
    if kind.startswith("Optional["):
        is_none = value is None or (isinstance(value, Value) and value.node().mustBeNone())
        return None if is_none else _converted(value, kind.removeprefix("Optional[").removesuffix("]"), argument)
    if kind == "Tensor":
        return _as_tensor_argument(value)
    if kind.startswith("List["):
        item = kind.removeprefix("List[").removesuffix("]")
        return [_converted(one, item, argument) for one in _items(value, item)]
    content = constant_of(value) if isinstance(value, Value) else value
    if isinstance(content, torch.Tensor):
        content = content.item() if content.numel() == 1 else None
    if content is None:
        if isinstance(value, Value) and kind in ("int", "number") and value.type().dim() == 0:  # type: ignore[attr-defined]
            return value
        raise _Refused(f"must be a constant of type {kind}")
    return _plain(content, kind, argument)


def _as_tensor_argument(value: Any) -> Any:
    if isinstance(value, Value) and not isinstance(value.type(), TensorType):
        raise _Refused("must be a tensor")
    if value is None or isinstance(value, str | list | tuple):
        raise _Refused("must be a tensor")
    return value


def _items(value: Any, item: str) -> Sequence[Any]:
    if isinstance(value, Value):
        if value.node().kind() == "prim::ListConstruct":
            return list(value.node().inputs())
        content = constant_of(value)
        if isinstance(content, torch.Tensor) and item != "Tensor":
            return list(content.reshape(-1).tolist())
        if isinstance(content, list | int | float):
            return content if isinstance(content, list) else [content]
        raise _Refused("must be a list of which the items are known")
    return value if isinstance(value, list | tuple) else [value]


def _plain(content: Any, kind: str, argument: Any) -> Any:
    if argument.name == "dtype" and kind == "int" and isinstance(content, int):
        return JitScalarType(content).dtype()
    types: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "number": (int, float),
        "bool": (bool, int),
        "str": (str,),
    }
    if kind in types and not isinstance(content, types[kind]):
        raise _Refused(f"is {content!r}, not of type {kind}")
    return {"float": float, "bool": bool}.get(kind, lambda one: one)(content)


class _Call:
    """One call as a graph of its own."""

    def __init__(self, session: Session, overload: OpOverload) -> None:
        self.session = session
        self.overload = overload
        self.graph = torch.fx.Graph()
        self.arguments: list[Value] = []
        near = [] if session.op.call is None else session.op.call.all_input_nodes
        found = fake_mode_of([node.meta.get("val") for node in near])
        self.mode = FakeTensorMode(shape_env=ShapeEnv()) if found is None else found

    def write(self, bound: Sequence[Any]) -> Any:
        """Emit the call and return values for its results."""
        formal = self.overload._schema.arguments
        args = [self._argument(one, argument) for one, argument in zip(bound, formal, strict=True)]
        call = self._call(args)
        several = isinstance(call.meta["val"], list | tuple)
        self.graph.output(tuple(self._parts(call)) if several else (call,))
        owner = torch.fx.GraphModule({}, self.graph)

        def attach(name: str, value: Any) -> str:
            setattr(owner, name, value)
            return name

        decompose(owner.graph, _has_translation, attach, EventLog())
        fakes = call.meta["val"] if several else [call.meta["val"]]
        results = [Result(fake.dtype, self.session.op.shared.dim_names.shape(fake)) for fake in fakes]
        kind = f"translated::{self.overload._schema.name.partition('::')[2]}"
        node = self.session.add_call(kind, self.arguments, results, partial(_run, owner))
        return tuple(node.outputs()) if several else node.output()

    def _call(self, args: Sequence[Any]) -> torch.fx.Node:
        schema = self.overload._schema
        positional = [arg for arg, one in zip(args, schema.arguments, strict=True) if not one.kwarg_only]
        named = {one.name: arg for arg, one in zip(args, schema.arguments, strict=True) if one.kwarg_only}
        node = self.graph.call_function(self.overload, tuple(positional), named)
        fakes = torch.fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
        with on_fake_values(self.mode):
            node.meta["val"] = self.overload(*fakes[0], **fakes[1])
        return node

    def _parts(self, call: torch.fx.Node) -> list[torch.fx.Node]:
        parts = []
        for index, value in enumerate(call.meta["val"]):
            part = self.graph.call_function(operator.getitem, (call, index))
            part.meta["val"] = value
            parts.append(part)
        return parts

    def _argument(self, value: Any, argument: Any) -> Any:
        if isinstance(value, list):
            return [self._argument(item, argument) for item in value]
        if isinstance(value, torch.Tensor):
            return self._placeholder(constant(self.session.graph, value))
        if isinstance(value, int | float) and str(argument.type) == "Tensor":
            return self._placeholder(constant(self.session.graph, torch.tensor(value)))
        if not isinstance(value, Value):
            return value
        if str(argument.type).endswith("Tensor") or "Tensor]" in str(argument.type):
            return self._placeholder(self.session.settle(value))
        node = self._next(value)
        node.meta["val"] = self._shape_env().create_unbacked_symint()
        return node

    def _next(self, value: Value) -> torch.fx.Node:
        self.arguments.append(value)
        return self.graph.placeholder(f"argument_{len(self.arguments)}")

    def _placeholder(self, value: Value) -> torch.fx.Node:
        sizes, dtype = self.session.shape_of(value), value.type().dtype()
        if sizes is None or dtype is None:
            raise TranslationError(f"the rank of {value.debugName()} is not known; state its type with setType()")
        node = self._next(value)
        with on_fake_values(self.mode):
            node.meta["val"] = torch.empty([self._size(size) for size in sizes], dtype=dtype)
        return node

    def _size(self, size: Int | None) -> Any:
        if isinstance(size, Dim):
            return self._shape_env().create_symintnode(size.expr, hint=None)
        if size is not None:
            return size
        unknown = self._shape_env().create_unbacked_symint()
        constrain_range_for_size(unknown)
        return unknown

    def _shape_env(self) -> ShapeEnv:
        env = self.mode.shape_env
        if env is None:
            raise TranslationError("the sizes of this call vary, which the capture does not know of")
        return env


def _run(owner: torch.fx.GraphModule, op: Builder, arguments: Sequence[Tensor]) -> list[Tensor]:
    """Translate a graph in the place of the call that is being translated, with the built-in translations only."""
    body = op.body
    wanted = [node.meta["val"] for node in owner.graph.find_nodes(op="placeholder")]
    given = [
        op.cast(tensor, fake.dtype) if isinstance(fake, torch.Tensor) else tensor
        for tensor, fake in zip(arguments, wanted, strict=True)
    ]
    try:
        return Engine(op, REGISTRY.find, owner, EventLog()).body(op, owner, given)
    finally:
        op.body = body
