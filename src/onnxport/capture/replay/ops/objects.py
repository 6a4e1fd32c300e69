"""Modules and objects of a TorchScript graph: their attributes, read and written, and the methods that are called.

What a script writes to an attribute lives as long as the replay: the module that it came from stays as it is.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, cast

import torch

from onnxport.capture.replay.interpreter import Core, Interpreter, NodeCall, Scripted, handles
from onnxport.capture.replay.mirror import Method, Mirror
from onnxport.capture.replay.ops.calls import call_operator, dtype_of
from onnxport.capture.replay.values.stand_ins import ReplayValue, Truth, parts_of
from onnxport.torch_graph import Graph, Type, inputs_of, new_graph
from onnxport.torch_internals import pytree
from onnxport.torch_internals.torchscript import BoolType, NoneType, interpret_graph, pass_inline

# Context managers of torch that concern training or measuring; nothing of them is in the file.
_WITHOUT_EFFECT = re.compile(r"\.(grad_mode|profiler)\.")


class Owner(Protocol):
    """What has attributes that a script reads: a mirror or an object."""

    def attribute(self, name: str) -> object:
        """What it keeps under a name."""
        ...


class Instance:
    """An object of a class that was compiled to TorchScript."""

    def __init__(self, kind: Type, source: object = None) -> None:
        self.kind = kind
        self.source = source

    def attribute(self, name: str) -> object:
        """What an object in Python keeps under a name."""
        found: object = getattr(self.source, name)
        return found


class Stored:
    """The way from a module to an object in it, whose class may not be in this process: only a script can follow it."""

    def __init__(self, module: Core, steps: tuple[tuple[str, Type], ...]) -> None:
        self.module = module
        self.steps = steps

    def value(self) -> ReplayValue:
        """What is at the end of the way."""
        graph = new_graph()
        value = graph.addInput()
        value.setType(self.module._type())
        for name, kind in self.steps:
            node = graph.create("prim::GetAttr", [value], 1)
            node.s_("name", name)
            graph.appendNode(node)
            value = node.output()
            value.setType(kind)
        graph.registerOutput(value)
        found: ReplayValue = interpret_graph(graph, (self.module,))
        return found


@handles("prim::GetAttr")
def _get_attribute(call: NodeCall, owner: Owner) -> ReplayValue:
    run, name = call.run, call.node.s("name")
    found = _held(run, owner, name)
    if found is _MISSING:
        found = _original(owner, name, call.node.output().type())
        if not isinstance(found, torch.Tensor | torch.nn.Module):
            run.originals[id(owner), name] = (owner, found)
    return substituted(found, run.substitutes) if run.substitutes else found


def _original(owner: Owner, name: str, kind: Type) -> ReplayValue:
    """What an attribute holds in the model."""
    is_object = kind.kind() == "ClassType" and _IN_CPP not in kind.annotation_str
    if isinstance(owner, Instance) and isinstance(owner.source, Stored):
        way = Stored(owner.source.module, (*owner.source.steps, (name, kind)))
        return Instance(kind, way) if is_object else wrapped(way.value(), kind)
    if is_object and isinstance(owner, Mirror) and name not in owner._modules:
        return Instance(kind, Stored(owner.core, ((name, kind),)))
    found = owner.attribute(name)
    return found if isinstance(found, torch.Tensor | torch.nn.Module) else wrapped(_with_own_lists(found), kind)


# Objects of classes in C++ are for operators that take them.
_IN_CPP = ".torch.classes."
_MISSING = object()


def _held(run: Interpreter, owner: object, name: str) -> ReplayValue:
    key = (id(owner), name)
    return run.state.get(key, run.originals.get(key, (owner, _MISSING)))[1]


@handles("prim::SetAttr")
def _set_attribute(call: NodeCall, owner: Owner, value: ReplayValue) -> ReplayValue:
    write_attribute(call.run, owner, call.node.s("name"), value)
    return None


def write_attribute(run: Interpreter, owner: object, name: str, value: ReplayValue) -> None:
    """Keep a value under the name of an attribute."""
    run.state[id(owner), name] = (owner, value)


def read_attribute(run: Interpreter, owner: object, name: str) -> ReplayValue:
    """What an attribute holds now."""
    found = _held(run, owner, name)
    return substituted(cast(Owner, owner).attribute(name) if found is _MISSING else found, run.substitutes)


def held_by(run: Interpreter, owners: Sequence[object]) -> Iterator[torch.Tensor | torch.SymInt]:
    """The tensors and sizes that modules and objects hold, also in what their attributes hold."""
    seen: set[int] = set()
    names: dict[int, list[str]] = {}
    for key, name in {**run.originals, **run.state}:
        names.setdefault(key, []).append(name)
    waiting = list(owners)
    while waiting:
        value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            yield from (*value.parameters(), *value.buffers())
        owned: Iterable[object] = value.modules() if isinstance(value, torch.nn.Module) else [value]
        waiting += [_held(run, one, name) for one in owned for name in names.get(id(one), ())]
        if isinstance(value, list | tuple | dict):
            waiting += parts_of(value)
        value = value.tensor if isinstance(value, Truth) else value
        if isinstance(value, torch.Tensor | torch.SymInt):
            yield value


def substituted(value: ReplayValue, table: Mapping[int, ReplayValue]) -> ReplayValue:
    """A value with what a branch or a loop body knows by another name in its place."""
    if isinstance(value, Truth):
        tensor = table.get(id(value.tensor))
        return Truth(tensor) if isinstance(tensor, torch.Tensor) else value
    if isinstance(value, list | dict) and not any(id(leaf) in table for leaf in pytree.tree_leaves(value)):
        # A container stays the one that it is, for it may be written to.
        return value
    if isinstance(value, list | tuple | dict):
        other: ReplayValue = pytree.tree_map(lambda leaf: table.get(id(leaf), leaf), value)
        return other
    return table.get(id(value), value)


def _with_own_lists(value: ReplayValue) -> ReplayValue:
    """A container of its own, for a script may write to it."""
    if isinstance(value, list):
        return [_with_own_lists(item) for item in value]
    return {key: _with_own_lists(item) for key, item in value.items()} if isinstance(value, dict) else value


def wrapped(value: ReplayValue, type_: Type) -> ReplayValue:
    """A value that came with a module, with the objects in it as those that a replay makes."""
    kind = type_.kind()
    if kind == "ClassType":
        is_whole = isinstance(value, Instance | Mirror) or _IN_CPP in type_.annotation_str
        return value if is_whole else Instance(type_, value)
    inner = type_.containedTypes()
    if value is None or not any(_holds_objects(part) for part in inner):
        return value
    if kind == "OptionalType":
        return wrapped(value, type_.getElementType())
    if isinstance(value, dict):
        return {key: wrapped(item, inner[1]) for key, item in value.items()}
    if isinstance(value, list):
        return [wrapped(item, inner[0]) for item in value]
    if isinstance(value, tuple):
        return tuple(wrapped(item, part) for item, part in zip(value, inner, strict=True))
    return value


def _holds_objects(type_: Type) -> bool:
    return type_.kind() == "ClassType" or any(_holds_objects(part) for part in type_.containedTypes())


@handles("prim::CallMethod", "onnxport::CallMethod")
def _call_method(call: NodeCall, owner: Scripted | Instance, *arguments: ReplayValue) -> ReplayValue:
    run, node = call.run, call.node
    name = node.s("name")
    if isinstance(owner, Scripted):
        # A module that calls another method of its own stays where it is in the tree.
        entered = name.startswith("forward") and owner is not run.root
        return owner(Method(name), *arguments) if entered else run.method(owner, name, arguments)
    types = [value.type() for value in inputs_of(node)][1:]
    return call_method(run, owner, name, arguments, types, node.output().type())


def call_method(
    run: Interpreter,
    owner: Instance,
    name: str,
    arguments: Sequence[ReplayValue],
    types: Sequence[Type],
    result: Type,
) -> ReplayValue:
    """Call a method of an object."""
    if _WITHOUT_EFFECT.search(owner.kind.annotation_str):
        return None
    if ".autocast_mode." in owner.kind.annotation_str:
        return _autocast(owner, name, arguments)
    key = (owner.kind.annotation_str, name, len(arguments))
    graph = run.graphs.get(key)
    if graph is None:
        graph = run.graphs[key] = _body(owner.kind, name, types, result)
    return run.graph(graph, [owner, *arguments], name)


def _autocast(owner: Instance, name: str, arguments: Sequence[ReplayValue]) -> ReplayValue:
    """What a script says of automatic types is said to torch."""
    if name == "__init__":
        owner.source = _autocast_of(*arguments)
        return None
    result: ReplayValue = getattr(owner.source, name)(*arguments)
    return result


def _autocast_of(device: ReplayValue, dtype: ReplayValue, *options: ReplayValue) -> torch.autocast:
    context: Callable[..., torch.autocast] = torch.autocast
    return context(device, None if dtype is None else dtype_of(dtype), *options)


def _body(kind: Type, name: str, types: Sequence[Type], result: Type) -> Graph:
    """The graph of a method: there is no way to ask a class for it, but a call of it can be inlined."""
    graph = new_graph()
    inputs = []
    for type_ in (kind, *types):
        value = graph.addInput()
        value.setType(type_)
        inputs.append(value)
    node = graph.create("prim::CallMethod", inputs, 1)
    node.s_("name", name)
    node.output().setType(result)
    graph.appendNode(node)
    graph.registerOutput(node.output())
    pass_inline(graph)
    return graph


@handles("prim::CreateObject")
def _create_object(call: NodeCall) -> Instance:
    return Instance(call.node.output().type())


_NONE = cast(Type, NoneType.get())
_BOOL = cast(Type, BoolType.get())


@handles("prim::Enter")
def _enter(call: NodeCall, context: Instance) -> ReplayValue:
    return call_method(call.run, context, "__enter__", (), (), call.node.output().type())


@handles("prim::Exit")
def _exit(call: NodeCall, context: Instance, *_: ReplayValue) -> ReplayValue:
    """Leave a context: without an exception, for one ends the replay."""
    return call_method(call.run, context, "__exit__", (None,) * 3, (_NONE,) * 3, _NONE)


def sort_items(call: NodeCall, items: ReplayValue, *options: ReplayValue) -> ReplayValue:
    """Sort objects by their own comparison; anything else as it is sorted."""
    if not isinstance(items, list) or not items or not isinstance(items[0], Instance):
        call.trace()
        return call_operator(call.node, [items, *options])
    kind = items[0].kind

    def is_less(a: Instance, b: Instance) -> ReplayValue:
        return call_method(call.run, a, "__lt__", [b], [kind], _BOOL)

    def compared(a: Instance, b: Instance) -> int:
        return -1 if is_less(a, b) else int(bool(is_less(b, a)))

    ordered = sorted(items, key=functools.cmp_to_key(compared), reverse=bool(options and options[0]))
    if call.node.kind() == "aten::sorted":
        return ordered
    items[:] = ordered
    return None


@handles("prim::EnumValue", "prim::EnumName")
def _enum(call: NodeCall, member: enum.Enum) -> ReplayValue:
    return member.value if call.node.kind() == "prim::EnumValue" else member.name


@handles("prim::ModuleContainerIndex")
def _module_index(call: NodeCall, container: torch.nn.Module, key: str | int) -> ReplayValue:
    return container._modules[key] if isinstance(key, str) else list(container.children())[key]
