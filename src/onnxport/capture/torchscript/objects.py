"""Modules and objects of a TorchScript graph: their attributes, read and written, and the methods that are called.

What a script writes to an attribute lives as long as the replay: the module that it came from stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from onnxport.capture.torchscript.interpreter import Env, Interpreter, handles
from onnxport.capture.torchscript.mirror import Mirror

# Context managers of torch that concern training or measuring; nothing of them is in the file.
_WITHOUT_EFFECT = re.compile(r"\.(grad_mode|profiler)\.")


class Instance:
    """An object of a class that was compiled to TorchScript."""

    def __init__(self, kind: Any, source: Any = None) -> None:
        self.kind = kind
        self.source = source
        self.fields: dict[str, Any] = {}

    def attribute(self, name: str) -> Any:
        """What the object keeps under a name; one that came with a module is asked when it is first read."""
        if name not in self.fields:
            # A class that is not in this process comes as a ScriptObject, which has a method for it.
            read = getattr(self.source, "getattr", None) if isinstance(self.source, torch.ScriptObject) else None
            self.fields[name] = getattr(self.source, name) if read is None else read(name)
        return self.fields[name]


@handles("prim::GetAttr")
def _get_attribute(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    owner, name = values[0], node.s("name")
    if isinstance(owner, Mirror):
        key = (id(owner), name)
        if key in run.state:
            found = run.state[key]
        else:
            found = owner.attribute(name)
            if not isinstance(found, torch.Tensor | torch.nn.Module):
                found = run.state[key] = wrapped(_copied(found), node.output().type())
    else:
        found = owner.attribute(name)
        if not isinstance(found, torch.Tensor):
            found = owner.fields[name] = wrapped(found, node.output().type())
    return run.substitutes.get(id(found), found) if isinstance(found, torch.Tensor) else found


def _copied(value: Any) -> Any:
    """A container of its own, for a script may write to it."""
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, dict) else value


def wrapped(value: Any, type_: Any) -> Any:
    """A value that came with a module, with the objects in it as those that a replay makes."""
    kind = type_.kind()
    if kind == "ClassType":
        return value if isinstance(value, Instance | Mirror) else Instance(type_, value)
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


@handles("prim::SetAttr")
def _set_attribute(run: Interpreter, node: Any, values: list[Any], env: Env) -> None:
    owner, value = values
    name = node.s("name")
    if not isinstance(owner, Mirror):
        owner.fields[name] = value
        return
    if name in owner._buffers and (id(owner), name) not in run.state:
        held = owner.attribute(name)
        if isinstance(held, torch.Tensor) and isinstance(value, torch.Tensor) and held.shape == value.shape:
            held.copy_(value)
            return
    run.state[id(owner), name] = value


@handles("prim::CallMethod", "onnxport::CallMethod")
def _call_method(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    owner, *arguments = values
    name = node.s("name")
    if isinstance(owner, torch.nn.Module):
        # A module that calls another method of its own stays where it is in the tree.
        entered = name.startswith("forward") and owner is not run.root
        return owner(name, *arguments) if entered else run.method(owner, name, arguments)
    return call(run, owner, name, arguments, [value.type() for value in node.inputs()][1:], node.output().type())


def call(
    run: Interpreter, owner: Instance, name: str, arguments: Sequence[Any], types: Sequence[Any], result: Any
) -> Any:
    """Call a method of an object."""
    if _WITHOUT_EFFECT.search(owner.kind.annotation_str):
        return None
    key = (owner.kind.annotation_str, name, len(arguments))
    graph = run.graphs.get(key)
    if graph is None:
        graph = run.graphs[key] = _body(owner.kind, name, types, result)
    return run.graph(graph, [owner, *arguments], name)


def _body(kind: Any, name: str, types: Sequence[Any], result: Any) -> Any:
    """The graph of a method: there is no way to ask a class for it, but a call of it can be inlined."""
    graph = torch._C.Graph()
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
    torch._C._jit_pass_inline(graph)
    return graph


@handles("prim::CreateObject")
def _create_object(run: Interpreter, node: Any, values: list[Any], env: Env) -> Instance:
    return Instance(node.output().type())


_NONE = torch._C.NoneType.get()


@handles("prim::Enter")
def _enter(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return call(run, values[0], "__enter__", (), (), node.output().type())


@handles("prim::Exit")
def _exit(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    """Leave a context: without an exception, for one ends the replay."""
    return call(run, values[0], "__exit__", (None,) * 3, (_NONE,) * 3, _NONE)


@handles("prim::EnumValue", "prim::EnumName")
def _enum(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return values[0].value if node.kind() == "prim::EnumValue" else values[0].name


@handles("prim::ModuleContainerIndex")
def _module_index(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    container, key = values
    return container._modules[key] if isinstance(key, str) else list(container.children())[key]
