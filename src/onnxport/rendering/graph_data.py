"""What a view of a graph shows: nodes by module, the values between them, and where each comes from."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir

from onnxport.provenance import EnclosingModule, line_of, origin_of
from onnxport.weights.kinds import is_weight

Modules = tuple[EnclosingModule, ...]

# A module with more calls of its own than this is shown in parts.
_MOST_CHILDREN = 240
_PART = 80
_LONGEST_ATTRIBUTE = 80
_MOST_NUMBERS = 8


@dataclass
class _Scope:
    """Where nodes of one graph go: the group of that graph, the modules around it, and what its values are called."""

    group: int
    around: int = 0
    names: dict[ir.Value, int] = field(default_factory=dict)
    moved: Modules | None = None
    """Of a function's body: the modules around the call, for those around the call it was made of."""


class _Data:
    def __init__(self, model: ir.Model, name: str) -> None:
        self.model = model
        self.groups: list[dict[str, object]] = [{"name": name, "kind": "", "parent": -1}]
        self.nodes: list[dict[str, object]] = []
        self.values: list[list[object]] = []
        self.lines: list[str] = []
        self._paths: dict[tuple[int, str], int] = {}
        self._line_numbers: dict[str, int] = {}
        self._children = [0]

    def group(self, name: str, kind: str, parent: int) -> int:
        self.groups.append({"name": name, "kind": kind, "parent": self._place(parent)})
        self._children.append(0)
        return len(self.groups) - 1

    def _place(self, parent: int) -> int:
        """The group itself, or the part of it that is being filled."""
        self._children[parent] += 1
        part = (self._children[parent] - 1) // _PART
        if part < _MOST_CHILDREN // _PART:
            return parent
        key = (parent, f"\0{part}")
        if key not in self._paths:
            self.groups.append({"name": f"calls from {part * _PART + 1}", "kind": "", "parent": parent})
            self._children.append(0)
            self._paths[key] = len(self.groups) - 1
        return self._paths[key]

    def value(self, value: ir.Value, scope: _Scope) -> int:
        number = scope.names.get(value)
        if number is None:
            number = scope.names[value] = len(self.values)
            tensor = value.const_value
            kind = "" if tensor is None else "weight" if is_weight(value) else "constant"
            size = 0 if tensor is None else int(tensor.nbytes)
            self.values.append([value.name, f"{value_type(value)}{_content(value)}", kind, size])
        return number

    def line(self, text: str) -> int:
        if not text:
            return -1
        number = self._line_numbers.setdefault(text, len(self.lines))
        if number == len(self.lines):
            self.lines.append(text)
        return number

    def add(self, op: str, name: str, group: int, inputs: list[int], outputs: list[int], **more: object) -> None:
        self.nodes.append({"op": op, "name": name, "group": self._place(group), "in": inputs, "out": outputs, **more})

    def module_group(self, modules: Modules, scope: _Scope) -> int:
        here = scope.group
        for path, kind in modules[scope.around :]:
            if not path:
                if here == 0 and not self.groups[0]["kind"]:
                    self.groups[0]["kind"] = kind.rsplit(".", 1)[-1]
                continue
            key = (here, path)
            if key not in self._paths:
                self._paths[key] = self.group(path, kind.rsplit(".", 1)[-1], here)
            here = self._paths[key]
        return here

    def graph(self, graph: ir.Graph | ir.Function, scope: _Scope) -> None:
        for node in graph:
            self.node(node, scope)

    def node(self, node: ir.Node, scope: _Scope) -> None:
        modules = _modules(node)
        if scope.moved is not None:
            modules = _moved(modules, scope.moved)
        group = self.module_group(modules, scope)
        inputs = [self.value(value, scope) if value is not None else -1 for value in node.inputs]
        outputs = [self.value(value, scope) for value in node.outputs if value.name]
        op = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        facts = {"attrs": _attributes(node), "line": self.line(line_of(node))}
        function = self.model.functions.get(node.op_identifier())
        inner = [
            (attribute.name, graph)
            for attribute in node.attributes.values()
            if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref()
            for graph in [attribute.as_graph()]
        ]
        if function is not None:
            self._call(node, function, scope, group, modules)
        elif inner:
            whole = self.group(str(node.name), op, group)
            self.add(op, str(node.name), whole, inputs, [], **facts)
            for attribute, body in inner:
                self._body(node, body, scope, self.group(attribute, "", whole), len(modules))
        else:
            self.add(op, str(node.name), group, inputs, outputs, **facts)

    def _call(self, node: ir.Node, function: ir.Function, scope: _Scope, group: int, modules: Modules) -> None:
        here = self.group(str(node.name), f"function {function.name}", group)
        names: dict[ir.Value, int] = {}
        for formal, actual in zip(function.inputs, node.inputs, strict=False):
            if actual is not None:
                names[formal] = self.value(actual, scope)
        for formal, result in zip(function.outputs, node.outputs, strict=False):
            names.setdefault(formal, self.value(result, scope))
        self.graph(function, _Scope(here, len(modules), names, modules))

    def _body(self, node: ir.Node, body: ir.Graph, scope: _Scope, group: int, around: int) -> None:
        """The branch of an If, or the body of a Loop or Scan: what it takes and gives is what the node does."""
        names = scope.names
        taken = () if node.op_type == "If" else zip(body.inputs, node.inputs, strict=False)
        for formal, actual in taken:
            if actual is not None:
                names[formal] = self.value(actual, scope)
        # The first result of a loop's body says whether it goes on.
        given = body.outputs[1:] if node.op_type == "Loop" else body.outputs
        for formal, result in zip(given, node.outputs, strict=False):
            names.setdefault(formal, self.value(result, scope))
        self.graph(body, _Scope(group, around, names, scope.moved))


def graph_data(model: ir.Model, name: str = "") -> dict[str, object]:
    """Describe the graph of a model for the view of it, as plain Python values.

    >>> import onnx_ir as ir
    >>> x = ir.val("x", ir.DataType.FLOAT, ["batch"])
    >>> relu = ir.node("Relu", [x])
    >>> graph = ir.Graph([x], relu.outputs, nodes=[relu], opset_imports={"": 20})
    >>> [node["op"] for node in graph_data(ir.Model(graph, ir_version=10))["nodes"]]
    ['input', 'Relu', 'output']
    """
    data = _Data(model, name)
    scope = _Scope(0)
    for value in model.graph.inputs:
        data.add("input", str(value.name), 0, [], [data.value(value, scope)])
    data.graph(model.graph, scope)
    for value in model.graph.outputs:
        data.add("output", str(value.name), 0, [data.value(value, scope)], [])
    return {"groups": data.groups, "nodes": data.nodes, "values": data.values, "lines": data.lines}


def value_type(value: ir.Value) -> str:
    """Element type and shape of a value, as far as they are known: ``FLOAT[batch,16]``.

    >>> value_type(ir.val("x", ir.DataType.FLOAT, ["batch", 16]))
    'FLOAT[batch,16]'
    """
    kind = value.dtype.name if value.dtype is not None else ""
    if isinstance(value.type, ir.SequenceType):
        kind = f"sequence of {kind}"
    if value.shape is None:
        return kind
    sizes = [size if isinstance(size, int) else size.value for size in value.shape]
    return f"{kind}[{','.join('?' if size is None else str(size) for size in sizes)}]"


def _content(value: ir.Value) -> str:
    """The numbers of a small constant."""
    tensor = value.const_value
    if tensor is None or is_weight(value) or tensor.size > _MOST_NUMBERS:
        return ""
    return f" = {tensor.numpy().tolist()}"


def _modules(node: ir.Node) -> Modules:
    origin = origin_of(node)
    return () if origin is None else origin.modules


def _moved(own: Modules, call: Modules) -> Modules:
    """The modules of a node in a function's body, which was made for one module, below those of a call."""
    depth = len(call)
    if len(own) < depth or not call:
        return call
    old, new = own[depth - 1].path, call[-1].path
    return (*call, *(EnclosingModule(new + path.removeprefix(old), kind) for path, kind in own[depth:]))


def _attributes(node: ir.Node) -> str:
    texts = []
    for attribute in node.attributes.values():
        if attribute.is_ref():
            texts.append(f"{attribute.name}=@{attribute.ref_attr_name}")
        elif attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            text = str(attribute.value)
            texts.append(f"{attribute.name}={text[:_LONGEST_ATTRIBUTE]}")
    return ", ".join(texts)
