"""Symbolic functions that call our translations: ``symbolic_opset9.linear(g, input, weight, bias)``.

The call is made a graph of its own, of fake values like those of a capture, and translated as any other: overload,
promotion, decomposition and shapes are as they would be if the model had made it.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.node import Argument

from onnxport.errors import TranslationError
from onnxport.prepare.emit import fake_mode_of, on_fake_values
from onnxport.symbolic.session.given import add_constant
from onnxport.symbolic.session.graph_context import GraphContext
from onnxport.symbolic.session.inference import InferredType
from onnxport.symbolic.session.inner_graphs import prepare_inner, translate_inner
from onnxport.symbolic.session.overloads import BoundCall, bind_overload
from onnxport.symbolic.session.session import SymbolicSession
from onnxport.torch_internals.fake_tensors import FakeTensorMode
from onnxport.torch_internals.symbolic_sizes import constrain_range_for_size
from onnxport.torch_internals.torchscript import JitType, JitValue, ListType, OptionalType, TensorType
from onnxport.translate import Builder, Dim, Int, Tensor


def delegate(
    g: GraphContext, name: str, args: Sequence[object], kwargs: Mapping[str, object]
) -> JitValue | tuple[JitValue, ...]:
    """Write a call of ``torch.ops.aten.<name>`` with our translation, and return the values of its results."""
    positional = [_number_or_value(g.session, arg) for arg in args]
    named = {key: _number_or_value(g.session, arg) for key, arg in kwargs.items()}
    bound = bind_overload(getattr(torch.ops.aten, name), positional, named)
    return _OneCall(g.enter(), bound).write()


def _number_or_value(session: SymbolicSession, arg: object) -> object:
    number = session.number(arg) if isinstance(arg, JitValue) else None
    return arg if number is None else number


class _OneCall:
    """A call as a graph of its own; ``values`` are what its placeholders stand for."""

    def __init__(self, session: SymbolicSession, bound: BoundCall) -> None:
        self.session = session
        self.bound = bound
        self.graph = torch.fx.Graph()
        self.values: list[JitValue] = []
        near = [] if session.op.call is None else session.op.call.all_input_nodes
        found = fake_mode_of([node.meta.get("val") for node in near])
        self.mode = FakeTensorMode(shape_env=ShapeEnv()) if found is None else found

    def write(self) -> JitValue | tuple[JitValue, ...]:
        """Write the call, to be emitted when its turn comes, and return values for its results."""
        schema = self.bound.overload._schema
        call = self._call(
            [
                self._argument(given, argument.type)
                for given, argument in zip(self.bound.arguments, schema.arguments, strict=True)
            ]
        )
        fakes = call.meta["val"]
        several = isinstance(fakes, list | tuple)
        self.graph.output(tuple(self._parts(call)) if several else (call,))
        owner = prepare_inner(torch.fx.GraphModule({}, self.graph))

        def emit(op: Builder, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
            return translate_inner(op, owner, tensors)

        shape_of = self.session.op.shared.dim_names.shape
        results = [InferredType(fake.dtype, shape_of(fake)) for fake in (fakes if several else [fakes])]
        kind = f"translated::{schema.name.partition('::')[2]}"
        node = self.session.add_call(kind, self.values, results, emit)
        return tuple(node.outputs()) if several else node.output()

    def _call(self, args: Sequence[Argument]) -> torch.fx.Node:
        overload = self.bound.overload
        formal = overload._schema.arguments
        positional = [arg for arg, one in zip(args, formal, strict=True) if not one.kwarg_only]
        named = {one.name: arg for arg, one in zip(args, formal, strict=True) if one.kwarg_only}
        node = self.graph.call_function(overload, tuple(positional), named)
        fake_args, fake_kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
        with on_fake_values(self.mode):
            node.meta["val"] = overload(*fake_args, **fake_kwargs)
        return node

    def _parts(self, call: torch.fx.Node) -> list[torch.fx.Node]:
        parts = []
        for index, value in enumerate(call.meta["val"]):
            part = self.graph.call_function(operator.getitem, (call, index))
            part.meta["val"] = value
            parts.append(part)
        return parts

    def _argument(self, value: object, kind: JitType) -> Argument:
        if isinstance(value, list):
            return [self._argument(item, kind) for item in value]
        if isinstance(value, torch.Tensor):
            return self._placeholder(add_constant(self.session.graph, value))
        if isinstance(value, int | float) and isinstance(kind, TensorType):
            return self._placeholder(add_constant(self.session.graph, torch.tensor(value)))
        if not isinstance(value, JitValue):
            known: Argument = value  # type: ignore[assignment] # as the schema has it
            return known
        if _is_of_tensors(kind):
            return self._placeholder(self.session.settle(value))
        node = self._next(value)
        node.meta["val"] = self._shape_env().create_unbacked_symint()
        return node

    def _next(self, value: JitValue) -> torch.fx.Node:
        self.values.append(value)
        return self.graph.placeholder(f"argument_{len(self.values)}")

    def _placeholder(self, value: JitValue) -> torch.fx.Node:
        sizes, dtype = self.session.shape_of(value), value.type().dtype()
        if sizes is None or dtype is None:
            raise TranslationError(f"the rank of {value.debugName()} is not known; state its type with setType()")
        node = self._next(value)
        with on_fake_values(self.mode):
            node.meta["val"] = torch.empty([self._size(size) for size in sizes], dtype=dtype)
        return node

    def _size(self, size: Int | None) -> int | torch.SymInt:
        if isinstance(size, int):
            return size
        env = self._shape_env()
        if isinstance(size, Dim):
            varying = env.create_symintnode(self.session.op.shared.dim_names.known_to_torch(size.expr), hint=None)
        else:
            varying = env.create_unbacked_symint()
            constrain_range_for_size(varying)
        assert isinstance(varying, int | torch.SymInt)
        return varying

    def _shape_env(self) -> ShapeEnv:
        env = self.mode.shape_env
        if env is None:
            raise TranslationError("the sizes of this call vary, which the capture does not know of")
        return env


def _is_of_tensors(kind: JitType) -> bool:
    """Whether a parameter takes tensors: one, or several, which may be left out."""
    while isinstance(kind, OptionalType | ListType):
        kind = kind.getElementType()
    return isinstance(kind, TensorType)
