"""Constructs of the TorchScript language: calls of functions, tuples and dicts, types, exceptions, forks."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator, Sequence

import torch

from onnxport.capture.replay.interpreter import NodeCall, find_function, handles, result_of
from onnxport.capture.replay.values.stand_ins import (
    UNINITIALIZED,
    Number,
    Optionally,
    Plain,
    ReplayValue,
    materialized,
)
from onnxport.errors import CaptureError
from onnxport.torch_graph import Node, Type, graph_of


@handles("prim::CallFunction")
def _call_function(call: NodeCall, kind: Type, *arguments: ReplayValue) -> ReplayValue:
    function = find_function(kind)
    assert function is not None
    return call.run.graph(graph_of(function), arguments, repr(kind).rpartition(".")[2])


@handles("prim::PythonOp", "prim::IgnoredPythonOp")
def _python_op(call: NodeCall, *values: ReplayValue) -> ReplayValue:
    """Call the autograd function itself: what a capture does with such calls, it does with this one too."""
    tensors: Iterator[ReplayValue] = iter(materialized(list(values)))
    scalars = iter(call.node.scalar_args())
    arguments = [next(scalars) if letter == "c" else next(tensors) for letter in call.node.cconv()]
    call.trace()
    result = _function_of(call.node)(*arguments)
    return list(result) if call.node.outputsSize() > 1 else result  # type: ignore[call-overload]


def _function_of(node: Node) -> Callable[..., ReplayValue]:
    """What a node calls in Python; torch wraps methods that scripting ignored, to make a script of their module."""
    function = node.pyobj()
    assert callable(function)
    free = getattr(getattr(function, "__code__", None), "co_freevars", ())
    if "unbound_method" not in free:
        return function
    method: Callable[..., ReplayValue] = vars_of_closure(function)[free.index("unbound_method")]
    return method


def vars_of_closure(function: object) -> list[Callable[..., ReplayValue]]:
    """What the free variables of a function hold."""
    return [cell.cell_contents for cell in getattr(function, "__closure__", ())]


# --- tuples and dicts ------------------------------------------------------------------------------------------------


@handles("prim::TupleConstruct")
def _tuple(call: NodeCall, *items: ReplayValue) -> ReplayValue:
    kind = call.node.output().type()
    text = kind.annotation_str
    if kind.kind() == "TupleType" and not text.startswith("Tuple["):
        return _named_tuple(text.rpartition(".")[2], str(kind), len(items))(*items)
    return items


@functools.cache
def _named_tuple(name: str, schema: str, count: int) -> Callable[..., tuple[ReplayValue, ...]]:
    fields = [part.split(":")[0].strip() for part in schema.partition("(")[2].rstrip(")").split(",")]
    return collections.namedtuple(name, fields if len(fields) == count else [f"field_{i}" for i in range(count)])


@handles("prim::TupleUnpack")
def _tuple_unpack(call: NodeCall, items: Sequence[ReplayValue]) -> ReplayValue:
    return result_of(call.node, list(items))


@handles("prim::TupleIndex")
def _tuple_index(call: NodeCall, items: Sequence[ReplayValue], position: int) -> ReplayValue:
    return items[position]


@handles("prim::TupleSlice")
def _tuple_slice(call: NodeCall, items: Sequence[ReplayValue]) -> ReplayValue:
    return items[call.node.i("beg") : call.node.i("end")]


@handles("prim::DictConstruct")
def _dict(call: NodeCall, *values: ReplayValue) -> dict[ReplayValue, ReplayValue]:
    return dict(zip(values[::2], values[1::2], strict=True))


# --- types -----------------------------------------------------------------------------------------------------------


@handles("prim::NumToTensor")
def _num_to_tensor(call: NodeCall, value: Plain) -> Number:
    return Number.of(value)


@handles("prim::Uninitialized")
def _uninitialized(call: NodeCall) -> ReplayValue:
    return UNINITIALIZED


_CLASSES: dict[str, tuple[type, ...]] = {
    "TensorType": (torch.Tensor, Number),
    "IntType": (int, torch.SymInt),
    "FloatType": (float, torch.SymFloat),
    "BoolType": (bool, torch.SymBool),
    "StringType": (str,),
    "NoneType": (type(None),),
    "ListType": (list,),
    "TupleType": (tuple,),
    "DictType": (dict,),
    "ComplexType": (complex,),
}


def is_of_type(value: ReplayValue, kind: Type) -> bool:
    """Whether a value is of a type, as ``isinstance`` in a script asks."""
    name = kind.kind()
    if name == "IntType" and isinstance(value, bool):
        return False
    if name == "ListType" and isinstance(value, list) and value:
        return is_of_type(value[0], kind.getElementType())
    if name == "OptionalType":
        return value is None or is_of_type(value, kind.getElementType())
    return name in _CLASSES and isinstance(value, _CLASSES[name])


@handles("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional", "prim::fork_value")
def _same(call: NodeCall, value: ReplayValue) -> ReplayValue:
    if value is None and call.node.kind() == "aten::_unwrap_optional":
        raise CaptureError("The model unwraps an optional value that is None for these inputs.")
    return value.tensor if isinstance(value, Optionally) else value


# --- effects ---------------------------------------------------------------------------------------------------------


@handles("prim::RaiseException")
def _raise(call: NodeCall, message: ReplayValue, kind: ReplayValue = None) -> ReplayValue:
    if "annotated to be ignored" in str(message):
        raise CaptureError(
            "The model calls a function that is marked with torch.jit.unused, which has no code in the script. "
            "Mark it with torch.jit.ignore to have it captured as Python, or script it too."
        )
    raise CaptureError(f"The model raises {kind if kind else 'an exception'} for these inputs: {message}")


@handles("prim::Print", "prim::profile", "prim::Store")
def _nothing(call: NodeCall, *values: ReplayValue) -> ReplayValue:
    return values[0] if call.node.outputsSize() == 1 and values else None


@handles("aten::manual_seed", "aten::warn", "aten::backward", "aten::save", "aten::set_grad_enabled")
def _ignored(call: NodeCall, *values: ReplayValue) -> ReplayValue:
    return None


@handles(
    "aten::_get_tracing_state",
    "aten::is_tracing",
    "aten::_has_torch_function",
    "aten::is_autocast_enabled",
    "aten::is_autocast_cpu_enabled",
    "aten::is_grad_enabled",
)
def _no_state(call: NodeCall, *values: ReplayValue) -> bool:
    return False


@handles("aten::is_scripting")
def _is_scripting(call: NodeCall) -> bool:
    return True


# --- forks -----------------------------------------------------------------------------------------------------------


@handles("prim::fork")
def _fork(call: NodeCall, *values: ReplayValue) -> ReplayValue:
    """What TorchScript may run at the same time is run at once."""
    return call.run.graph(call.node.g("Subgraph"), values, call.run.function)


@handles("aten::wait", "prim::awaitable_wait", "prim::rangelist_value")
def _wait(call: NodeCall, value: ReplayValue) -> ReplayValue:
    return value


@handles("prim::rangelist")
def _range_list(call: NodeCall, count: int) -> list[int]:
    return list(range(count))
