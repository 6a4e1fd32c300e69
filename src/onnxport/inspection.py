"""What is in an ONNX model, whoever wrote it: inputs, outputs, operators, weights, modules, origins of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.graphs import graphs
from onnxport.onnx_build.opsets import ONNX_DOMAINS
from onnxport.provenance import NAMESPACE, EnclosingModule, line_of, origin_of
from onnxport.weights.kinds import is_weight

_NAMES = {ir.DataType.FLOAT: "float32", ir.DataType.DOUBLE: "float64"}


@dataclass(frozen=True)
class Port:
    """An input or output: its name, its type in words, and its sizes, a name for one that varies."""

    name: str
    type: str
    shape: Sequence[int | str | None] | None


@dataclass(frozen=True)
class Weight:
    """A tensor in the file, and the module that it belongs to."""

    name: str
    type: str
    shape: Sequence[int]
    elements: int
    bytes: int
    module: str


@dataclass(frozen=True)
class ModuleShare:
    """What of a model lies in one of its modules and those inside it."""

    path: str
    kind: str
    nodes: int
    parameters: int


@dataclass(frozen=True)
class NodeOrigin:
    """A node, the innermost module around it, and the line of code that it stands for."""

    name: str
    operator: str
    module: str
    line: str


@dataclass(frozen=True)
class Inspection:
    """All that can be said of a model without running it.

    Attributes:
        ir_version: The version of the file format.
        opsets: The version of each domain; ``ai.onnx`` is ONNX's own.
        producer: Who wrote the file, as it says.
        inputs: What has to be given.
        outputs: What is computed.
        operators: How often each operator stands in it, in functions and in branches too; the most frequent first.
        functions: How many nodes each local function has.
        weights: Its tensors, the largest first.
        modules: The modules that its nodes say they are of, outer ones before inner ones.
        nodes: All nodes, in order.
    """

    ir_version: int
    opsets: dict[str, int]
    producer: str
    inputs: Sequence[Port]
    outputs: Sequence[Port]
    operators: dict[str, int]
    functions: dict[str, int]
    weights: Sequence[Weight]
    modules: Sequence[ModuleShare]
    nodes: Sequence[NodeOrigin]

    @property
    def parameters(self) -> int:
        """How many numbers its tensors hold."""
        return sum(weight.elements for weight in self.weights)


def inspect_model(model: ir.Model) -> Inspection:
    """Look at a model.

    >>> import onnx_ir as ir
    >>> from onnxport.inspection import inspect_model
    >>> model = ir.from_onnx_text(
    ...     '<ir_version: 10, opset_import: ["": 20]> agraph (float[batch, 2] x) => (float[batch, 2] y) { y = Relu(x) }'
    ... )
    >>> found = inspect_model(model)
    >>> found.inputs, found.operators
    ([Port(name='x', type='float32', shape=['batch', 2])], {'Relu': 1})
    """
    inside = list(graphs(model))
    nodes = [node for graph in inside for node in graph]
    stacks = {node: modules_of(node) for node in nodes}
    weights = sorted(_weights(inside, stacks), key=lambda weight: -weight.bytes)
    operators = Counter(_operator(node) for node in nodes)
    return Inspection(
        ir_version=model.ir_version,
        opsets={domain or "ai.onnx": version for domain, version in model.opset_imports.items()},
        producer=" ".join(text for text in (model.producer_name, model.producer_version) if text),
        inputs=[port_of(value) for value in model.graph.inputs if value.name not in model.graph.initializers],
        outputs=[port_of(value) for value in model.graph.outputs],
        operators=dict(operators.most_common()),
        functions={"::".join(key[:2]): len(function) for key, function in model.functions.items()},
        weights=weights,
        modules=_shares(stacks.values(), weights),
        nodes=[
            NodeOrigin(str(node.name or ""), _operator(node), stack[-1].path if stack else "", line_of(node))
            for node, stack in stacks.items()
        ],
    )


def modules_of(node: ir.Node) -> tuple[EnclosingModule, ...]:
    """The modules around a node, the outermost first, as far as its metadata or its name tells.

    >>> import onnx_ir as ir
    >>> from onnxport.inspection import modules_of
    >>> [module.path for module in modules_of(ir.node("Conv", [], name="/layer1/layer1.0/conv1/Conv"))]
    ['layer1', 'layer1.0', 'layer1.0.conv1']
    """
    origin = origin_of(node)
    if origin is not None:
        return tuple(module for module in origin.modules if module.path)
    told = node.metadata_props.get(NAMESPACE, "")
    if told:
        parts = [part.partition(": ") for part in told.split("/")[:-1]]
        return tuple(EnclosingModule(path, kind) for path, colon, kind in parts if colon)
    return tuple(_scopes(str(node.name or "")))


def type_name(kind: ir.TypeProtocol | None) -> str:
    """A type in words: ``float32``, ``sequence of int64``."""
    if isinstance(kind, ir.SequenceType | ir.OptionalType):
        outer = "sequence" if isinstance(kind, ir.SequenceType) else "optional"
        return f"{outer} of {type_name(kind.elem_type)}"
    return "unknown" if kind is None else _NAMES.get(kind.dtype, kind.dtype.name.lower())


def _scopes(name: str) -> Iterator[EnclosingModule]:
    """The modules in a name such as ``/layer1/layer1.0/conv1/Conv``, which the TorchScript exporter writes."""
    path = ""
    for part in name.split("/")[1:-1] if name.startswith("/") else []:
        path = part if not path or part.startswith(f"{path}.") else f"{path}.{part}"
        yield EnclosingModule(path, "")


def _operator(node: ir.Node) -> str:
    return node.op_type if node.domain in ONNX_DOMAINS else f"{node.domain}::{node.op_type}"


def port_of(value: ir.Value) -> Port:
    """What is said of an input or output of a graph."""
    shape = None if value.shape is None else [dim if isinstance(dim, int) else dim.value for dim in value.shape]
    return Port(str(value.name), type_name(value.type), shape)


def _weights(inside: Sequence[ir.Graph], stacks: dict[ir.Node, tuple[EnclosingModule, ...]]) -> Iterator[Weight]:
    for graph in inside:
        for name, value in graph.initializers.items():
            tensor = value.const_value
            if tensor is not None:
                yield _weight(name, tensor, _owner(name, value, stacks))
        for node in graph:
            attribute = node.attributes.get("value") if node.op_type == "Constant" else None
            if attribute is not None and attribute.type is ir.AttributeType.TENSOR and not attribute.is_ref():
                module = stacks[node][-1].path if stacks[node] else ""
                yield _weight(str(node.outputs[0].name), attribute.as_tensor(), module)


def _weight(name: str, tensor: ir.TensorProtocol, module: str) -> Weight:
    kind = _NAMES.get(tensor.dtype, tensor.dtype.name.lower())
    sizes = list(tensor.shape.numpy())
    return Weight(name, kind, sizes, tensor.size, tensor.nbytes, module)


def _owner(name: str, value: ir.Value, stacks: dict[ir.Node, tuple[EnclosingModule, ...]]) -> str:
    """The module of a weight: by its name where it is one of a state dict, else the one that first reads it."""
    if "." in name and (is_weight(value) or ("/" not in name and ":" not in name)):
        return name.rpartition(".")[0]
    for use in value.uses():
        if stacks.get(use.node):
            return stacks[use.node][-1].path
    return ""


def _shares(stacks: Iterable[tuple[EnclosingModule, ...]], weights: Sequence[Weight]) -> list[ModuleShare]:
    nodes: Counter[str] = Counter()
    kinds: dict[str, str] = {}
    for stack in stacks:
        for module in stack:
            nodes[module.path] += 1
            kinds.setdefault(module.path, module.kind.rpartition(".")[2])
    parameters: Counter[str] = Counter()
    for weight in weights:
        for path in _outer_paths(weight.module):
            parameters[path] += weight.elements
            kinds.setdefault(path, "")
    return [ModuleShare(path, kinds[path], nodes[path], parameters[path]) for path in sorted(kinds, key=_in_order)]


def _outer_paths(path: str) -> Iterator[str]:
    parts = path.split(".") if path else []
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _in_order(path: str) -> list[tuple[bool, int, str]]:
    """Modules in the order of a tree, with the numbers of lists as numbers."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in path.split(".")]
