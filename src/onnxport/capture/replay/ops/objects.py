"""Modules and objects of a TorchScript graph: their attributes, read and written, and the methods that are called.

What a script writes to an attribute lives as long as the replay: the module that it came from stays as it is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from onnxport.capture.replay.calls import dtype_of
from onnxport.capture.replay.interpreter import Env, Interpreter, handles
from onnxport.capture.replay.interpreter import call as call_operator
from onnxport.capture.replay.mirror import Method, Mirror
from onnxport.capture.replay.values.kinds import Truth
from onnxport.torch_internals import pytree
from onnxport.torch_internals.torchscript import BoolType, JitGraph, NoneType, interpret_graph, pass_inline

# Context managers of torch that concern training or measuring; nothing of them is in the file.
_WITHOUT_EFFECT = re.compile(r"\.(grad_mode|profiler)\.")


class Instance:
    """An object of a class that was compiled to TorchScript."""

    def __init__(self, kind: Any, source: Any = None) -> None:
        self.kind = kind
        self.source = source

    def attribute(self, name: str) -> Any:
        """What an object in Python keeps under a name."""
        return getattr(self.source, name)


class Stored:
    """The way from a module to an object in it, whose class may not be in this process: only a script can follow it."""

    def __init__(self, module: Any, steps: tuple[tuple[str, Any], ...]) -> None:
        self.module = module
        self.steps = steps

    def value(self) -> Any:
        """What is at the end of the way."""
        graph = JitGraph()
        value = graph.addInput()
        value.setType(self.module._type())
        for name, kind in self.steps:
            node = graph.create("prim::GetAttr", [value], 1)
            node.s_("name", name)
            graph.appendNode(node)
            value = node.output()
            value.setType(kind)
        graph.registerOutput(value)
        return interpret_graph(graph, (self.module,))


@handles("prim::GetAttr")
def _get_attribute(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    owner, name = values[0], node.s("name")
    found = _held(run, owner, name)
    if found is _MISSING:
        found = _original(owner, name, node.output().type())
        if not isinstance(found, torch.Tensor | torch.nn.Module):
            run.originals[id(owner), name] = (owner, found)
    return substituted(found, run.substitutes) if run.substitutes else found


def _original(owner: Any, name: str, kind: Any) -> Any:
    """What an attribute holds in the model."""
    is_object = kind.kind() == "ClassType" and _IN_CPP not in kind.annotation_str
    if isinstance(owner, Instance) and isinstance(owner.source, Stored):
        way = Stored(owner.source.module, (*owner.source.steps, (name, kind)))
        return Instance(kind, way) if is_object else wrapped(way.value(), kind)
    if is_object and isinstance(owner, Mirror) and name not in owner._modules:
        return Instance(kind, Stored(owner.core, ((name, kind),)))
    found = owner.attribute(name)
    return found if isinstance(found, torch.Tensor | torch.nn.Module) else wrapped(_copied(found), kind)


# Objects of classes in C++ are for operators that take them.
_IN_CPP = ".torch.classes."
_MISSING = object()


def _held(run: Interpreter, owner: Any, name: str) -> Any:
    key = (id(owner), name)
    return run.state.get(key, run.originals.get(key, (owner, _MISSING)))[1]


@handles("prim::SetAttr")
def _set_attribute(run: Interpreter, node: Any, values: list[Any], env: Env) -> None:
    write(run, values[0], node.s("name"), values[1])


def write(run: Interpreter, owner: Any, name: str, value: Any) -> None:
    """Keep a value under the name of an attribute."""
    run.state[id(owner), name] = (owner, value)


def read(run: Interpreter, owner: Any, name: str) -> Any:
    """What an attribute holds now."""
    found = _held(run, owner, name)
    return substituted(owner.attribute(name) if found is _MISSING else found, run.substitutes)


def held_by(run: Interpreter, owners: Sequence[Any]) -> Iterator[torch.Tensor | torch.SymInt]:
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
        owned = value.modules() if isinstance(value, torch.nn.Module) else [value]
        waiting += [_held(run, one, name) for one in owned for name in names.get(id(one), ())]
        if isinstance(value, list | tuple | dict):
            waiting += list(value.values() if isinstance(value, dict) else value)
        value = value.tensor if isinstance(value, Truth) else value
        if isinstance(value, torch.Tensor | torch.SymInt):
            yield value


def substituted(value: Any, table: Mapping[int, Any]) -> Any:
    """A value with what a branch or a loop body knows by another name in its place."""
    if isinstance(value, Truth):
        return Truth(table[id(value.tensor)]) if id(value.tensor) in table else value
    if isinstance(value, list | dict) and not any(id(leaf) in table for leaf in pytree.tree_leaves(value)):
        # A container stays the one that it is, for it may be written to.
        return value
    if isinstance(value, list | tuple | dict):
        return pytree.tree_map(lambda leaf: table.get(id(leaf), leaf), value)
    return table.get(id(value), value)


def _copied(value: Any) -> Any:
    """A container of its own, for a script may write to it."""
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, dict) else value


def wrapped(value: Any, type_: Any) -> Any:
    """A value that came with a module, with the objects in it as those that a replay makes."""
    kind = type_.kind()
    if kind == "ClassType":
        whole = isinstance(value, Instance | Mirror) or _IN_CPP in type_.annotation_str
        return value if whole else Instance(type_, value)
    inner = type_.containedTypes()
    if value is None or not any(_holds_objects(part) for part in inner):
        return value
    if kind == "OptionalType":
        return wrapped(value, type_.getElementType())
    if kind == "DictType":
        return {key: wrapped(item, inner[1]) for key, item in value.items()}
    if kind == "ListType":
        return [wrapped(item, inner[0]) for item in value]
    return tuple(wrapped(item, part) for item, part in zip(value, inner, strict=True)) if kind == "TupleType" else value


def _holds_objects(type_: Any) -> bool:
    return type_.kind() == "ClassType" or any(_holds_objects(part) for part in type_.containedTypes())


@handles("prim::CallMethod", "onnxport::CallMethod")
def _call_method(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    owner, *arguments = values
    name = node.s("name")
    if isinstance(owner, torch.nn.Module):
        # A module that calls another method of its own stays where it is in the tree.
        entered = name.startswith("forward") and owner is not run.root
        return owner(Method(name), *arguments) if entered else run.method(owner, name, arguments)
    return call(run, owner, name, arguments, [value.type() for value in node.inputs()][1:], node.output().type())


def call(
    run: Interpreter, owner: Instance, name: str, arguments: Sequence[Any], types: Sequence[Any], result: Any
) -> Any:
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


def _autocast(owner: Instance, name: str, arguments: Sequence[Any]) -> Any:
    """What a script says of automatic types is said to torch."""
    if name == "__init__":
        device, dtype, *options = arguments
        owner.source = torch.autocast(device, None if dtype is None else dtype_of(dtype), *options)
        return None
    return getattr(owner.source, name)(*arguments)


def _body(kind: Any, name: str, types: Sequence[Any], result: Any) -> Any:
    """The graph of a method: there is no way to ask a class for it, but a call of it can be inlined."""
    graph = JitGraph()
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
def _create_object(run: Interpreter, node: Any, values: list[Any], env: Env) -> Instance:
    return Instance(node.output().type())


_NONE = NoneType.get()


@handles("prim::Enter")
def _enter(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return call(run, values[0], "__enter__", (), (), node.output().type())


@handles("prim::Exit")
def _exit(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    """Leave a context: without an exception, for one ends the replay."""
    return call(run, values[0], "__exit__", (None,) * 3, (_NONE,) * 3, _NONE)


@handles("aten::sort", "aten::sorted")
def _sort(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    """Sort objects by their own comparison; anything else as it is sorted."""
    items = values[0]
    if not isinstance(items, list) or not items or not isinstance(items[0], Instance):
        run.trace()
        return call_operator(node, node.kind(), values)
    kind, truth = items[0].kind, BoolType.get()

    def compared(a: Instance, b: Instance) -> int:
        return -1 if call(run, a, "__lt__", [b], [kind], truth) else int(call(run, b, "__lt__", [a], [kind], truth))

    ordered = sorted(items, key=functools.cmp_to_key(compared), reverse=len(values) > 1 and bool(values[1]))
    if node.kind() == "aten::sorted":
        return ordered
    items[:] = ordered
    return None


@handles("prim::EnumValue", "prim::EnumName")
def _enum(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return values[0].value if node.kind() == "prim::EnumValue" else values[0].name


@handles("prim::ModuleContainerIndex")
def _module_index(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    container, key = values
    return container._modules[key] if isinstance(key, str) else list(container.children())[key]
