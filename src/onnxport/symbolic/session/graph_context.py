"""``GraphContext``: the ``g`` of symbolic functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

import numpy as np
import torch

from onnxport.symbolic.session import given
from onnxport.symbolic.session.inference import InferredType
from onnxport.symbolic.session.node_attributes import attribute_name, set_attribute
from onnxport.symbolic.session.session import SymbolicSession, session_of
from onnxport.torch_internals.torchscript import JitBlock, JitGraph, JitNode, JitType, JitValue
from onnxport.translate import Builder, Tensor
from onnxport.translate.script import ScriptedFunction, ScriptEvaluator


@dataclass
class SymbolicContext:
    """What a symbolic function is told of the call it writes, if its first parameter is annotated with this class.

    ``cur_node`` is the node of the call as TorchScript has it: inputs, outputs and their types. ``params_dict`` has the
    weights among its inputs, by the names of the values.
    """

    params_dict: dict[str, torch.Tensor] = field(default_factory=dict)
    env: dict[JitValue, JitValue] = field(default_factory=dict)
    cur_node: CallNode | None = None
    onnx_block: JitBlock | None = None


@dataclass(eq=False)
class GraphContext:
    """Where a symbolic function writes: ``g.op`` adds a node, everything else is the TorchScript graph's own.

    ``opset`` is the opset of the file, for which standard operators are written; ``original_node`` is the call.
    ``block`` is where nodes are added, the graph's own block or one of an ``If`` or a ``Loop``:
    ``dataclasses.replace(g, block=node.addBlock())`` writes into another.
    """

    graph: JitGraph
    block: JitBlock
    opset: int
    original_node: CallNode
    params_dict: dict[str, torch.Tensor]
    env: dict[JitValue, JitValue]
    values_in_env: set[JitValue]
    new_nodes: list[JitNode] = field(default_factory=list)

    @property
    def session(self) -> SymbolicSession:
        """The call that is being written."""
        return session_of(self.graph)

    def __getattr__(self, name: str) -> Any:
        if name in ("graph", "block"):
            raise AttributeError(name)
        return getattr(self.graph, name)

    def enter(self) -> SymbolicSession:
        """Let what is written next go to the end of the block."""
        self.graph.setInsertPoint(self.block)
        return self.session

    @overload
    def op(self, opname: str, *raw_args: object, outputs: Literal[1] = 1, **kwargs: object) -> JitValue: ...
    @overload
    def op(self, opname: str, *raw_args: object, outputs: int, **kwargs: object) -> JitValue | tuple[JitValue, ...]: ...
    def op(self, opname: str, *raw_args: object, outputs: int = 1, **kwargs: object) -> JitValue | tuple[JitValue, ...]:
        """Add a node and return its output, or a tuple of its outputs if there are several.

        Args:
            opname: The operator, ``"Relu"`` for ONNX's own, ``"mydomain::MyOp"`` for others.
            raw_args: The inputs: values, constant tensors or numbers, None for one that is left out.
            outputs: The number of outputs.
            kwargs: The attributes, each with its type behind its name: ``axis_i=1``, ``alpha_f=0.5``, ``mode_s="x"``,
                ``value_t=tensor``, ``perm_i=[1, 0]``; those that are None are left out.
        """
        kind = opname if "::" in opname else f"onnx::{opname}"
        domain, _, op_type = kind.partition("::")
        if domain in ("ai.onnx", ""):
            kind = f"onnx::{op_type}"
        session = self.enter()
        node = session.add(kind, [self.as_value(argument) for argument in raw_args], outputs)
        for key, value in sorted(kwargs.items()):
            if value is not None:
                set_attribute(node, key, value)
        session.infer(node)
        self.new_nodes.append(node)
        return node.output() if outputs == 1 else tuple(node.outputs())

    def at(
        self, operator: str, *args: object, overload_name: str = "", outputs: int = 1, **kwargs: object
    ) -> JitValue | tuple[JitValue, ...]:
        """Add a node that stands for an operator of ATen, for runtimes that have them."""
        return self.op(
            "aten::ATen", *args, operator_s=operator, overload_name_s=overload_name, outputs=outputs, **kwargs
        )

    aten_op = at

    def onnxscript_op(
        self, onnx_fn: ScriptedFunction, *raw_args: object, outputs: int = 1, **kwargs: object
    ) -> JitValue | tuple[JitValue, ...]:
        """Add a call of an ONNX Script function, which becomes a function of the model.

        Args:
            onnx_fn: The function, as ``onnxscript.script`` makes it.
            raw_args: Its inputs, as for :meth:`op`.
            outputs: The number of its outputs.
            kwargs: Its attributes, with their types behind their names, as for :meth:`op`.
        """
        session = self.enter()
        attributes = {attribute_name(key): value for key, value in kwargs.items() if value is not None}

        def write(op: Builder, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
            found = ScriptEvaluator(op).eval_function(onnx_fn, tensors, attributes)
            return found if isinstance(found, tuple) else (found,)

        kind = f"{onnx_fn.opset.domain}::{onnx_fn.name}"
        node = session.add_call(
            kind, [self.as_value(argument) for argument in raw_args], [InferredType()] * outputs, write
        )
        self.new_nodes.append(node)
        return node.output() if outputs == 1 else tuple(node.outputs())

    def as_value(self, argument: object) -> JitValue:
        """An input as :meth:`op` takes them, as a value: what is none yet becomes a constant or a list of values."""
        if isinstance(argument, JitValue):
            return argument
        if isinstance(argument, np.ndarray | np.generic):
            argument = torch.from_numpy(np.asarray(argument))
        if isinstance(argument, torch.Tensor):
            return self.op("Constant", value_t=argument)
        if isinstance(argument, Sequence) and not isinstance(argument, str):
            items = [self.as_value(item) for item in argument]
            kind = type(argument[0]) if argument and isinstance(argument[0], int | float) else None
            return given.list_of(self.graph, items, kind)
        return self.session.give(argument)


FUNCTION_KIND = "function::PythonOp"
"""The kind of a node that stands for an autograd function: torch takes a ``prim::PythonOp`` for one it has traced."""


class CallNode:
    """A node of TorchScript that also answers for the Python function it calls, if it is one.

    ``type`` is that of its only output: of a node itself TorchScript knows none.
    """

    def __init__(
        self, node: JitNode, function: type | None = None, scalars: Sequence[object] = (), convention: str = ""
    ) -> None:
        self._node = node
        self._function = function
        self._scalars = list(scalars)
        self._convention = convention

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def __repr__(self) -> str:
        return str(self._node).replace(FUNCTION_KIND, "prim::PythonOp")

    def kind(self) -> str:
        """The operator with its namespace; that of an autograd function is ``prim::PythonOp``."""
        return "prim::PythonOp" if self._function is not None else str(self._node.kind())

    def type(self) -> JitType:
        """The type of the output."""
        return self._node.output().type()

    def pyobj(self) -> object:
        """The ``torch.autograd.Function``'s ``apply``, as in a traced graph."""
        return None if self._function is None else self._function.apply  # type: ignore[attr-defined]

    def pyname(self) -> str:
        """The name of the function."""
        return str(self._node.kind()) if self._function is None else self._function.__name__

    def scalar_args(self) -> list[object]:
        """The arguments that are not tensors."""
        return self._scalars

    def cconv(self) -> str:
        """A letter per argument: ``d`` for a tensor, ``c`` for anything else."""
        return self._convention
