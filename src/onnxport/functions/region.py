"""One module call as a set of nodes: what goes in and out, and what it is equal to."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxport.functions.modules import Chain
from onnxport.graphs import bodies
from onnxport.provenance import INPUT_KIND
from onnxport.weights.kinds import is_weight
from onnxport.weights.wire import INLINE_BYTES

# What a call of a function can hand to the nodes in it: ONNX refers to attributes of these types by name.
LIFTABLE = frozenset(
    {
        ir.AttributeType.FLOAT,
        ir.AttributeType.INT,
        ir.AttributeType.STRING,
        ir.AttributeType.FLOATS,
        ir.AttributeType.INTS,
        ir.AttributeType.STRINGS,
    }
)


@dataclass
class Region:
    """The nodes of one call in order, and once they are known, its inputs, literals and outputs."""

    chain: Chain
    nodes: list[ir.Node] = field(default_factory=list)
    inputs: list[ir.Value] = field(default_factory=list)
    literals: list[ir.Value] = field(default_factory=list)
    outputs: list[ir.Value] = field(default_factory=list)

    def settle(self) -> None:
        """Find what the nodes read and what is read of them: data before weights, each in the order of its use."""
        produced = {value for node in self.nodes for value in node.outputs}
        inside = {inner for node in self.nodes for inner in with_nested(node)}
        data: dict[ir.Value, None] = {}
        weights: dict[ir.Value, None] = {}
        literals: dict[ir.Value, None] = {}
        for value in read_from_outside(self.nodes, produced):
            if not value.is_initializer():
                data[value] = None
            elif _is_literal(value):
                literals[value] = None
            else:
                weights[value] = None
        self.inputs = [*data, *weights]
        self.literals = list(literals)
        self.outputs = [
            value
            for node in self.nodes
            for value in node.outputs
            if value.is_graph_output() or any(use.node not in inside for use in value.uses())
        ]

    def key(self) -> Hashable:
        """Equal for regions that compute the same from their inputs and from the values of :meth:`liftable`."""
        numbers: dict[ir.Value, Hashable] = {value: index for index, value in enumerate(self.inputs)}
        for value in self.literals:
            assert value.const_value is not None
            numbers[value] = _tensor_key(value.const_value)
        types = tuple(None if value.type is None else str(value.type) for value in self.inputs)
        weights = tuple(is_weight(value) for value in self.inputs)
        nodes = tuple(_node_key(node, numbers, open_values=True) for node in self.nodes)
        return (types, weights, nodes, tuple(numbers[value] for value in self.outputs))

    def liftable(self) -> list[tuple[ir.Node, ir.Attr]]:
        """The attributes that may differ between calls of one function, in an order that equal regions share."""
        return [
            (node, node.attributes[name])
            for node in self.nodes
            for name in sorted(node.attributes)
            if _is_liftable(node.attributes[name])
        ]

    def results(self) -> list[ir.Value]:
        """What each node gives, in an order that equal regions have in common."""
        return [value for node in self.nodes for value in node.outputs]


def with_nested(node: ir.Node) -> Iterator[ir.Node]:
    """A node and all in the graphs it carries."""
    yield node
    for body in bodies(node):
        for inner in body:
            yield from with_nested(inner)


def read_values(node: ir.Node) -> Iterator[ir.Value]:
    """What a node reads, with what the graphs it carries read."""
    for inner in with_nested(node):
        for value in inner.inputs:
            if value is not None:
                yield value


def read_from_outside(nodes: Sequence[ir.Node], produced: set[ir.Value]) -> Iterator[ir.Value]:
    """What nodes read that neither they nor the graphs they carry define."""
    for node in nodes:
        own = {
            value
            for inner in with_nested(node)
            for body in bodies(inner)
            for value in (*body.inputs, *body.initializers.values(), *(out for n in body for out in n.outputs))
        }
        for value in read_values(node):
            if value not in produced and value not in own:
                yield value


def _is_literal(value: ir.Value) -> bool:
    """Whether a function holds its own copy: small constants of the graph, not the user's tensors."""
    tensor = value.const_value
    return INPUT_KIND not in value.metadata_props and tensor is not None and tensor.nbytes <= INLINE_BYTES


def _is_liftable(attribute: ir.Attr) -> bool:
    return attribute.type in LIFTABLE and not attribute.is_ref()


def _node_key(node: ir.Node, numbers: dict[ir.Value, Hashable], *, open_values: bool = False) -> Hashable:
    inputs = tuple(None if value is None else numbers[value] for value in node.inputs)
    attributes = tuple(
        (name, attribute.type if open_values and _is_liftable(attribute) else _attribute_key(attribute, numbers))
        for name, attribute in sorted(node.attributes.items())
    )
    for value in node.outputs:
        numbers[value] = ("value", len(numbers))
    dtypes = tuple(value.dtype for value in node.outputs)
    return (node.domain, node.op_type, node.overload, node.version, inputs, attributes, dtypes)


def _attribute_key(attribute: ir.Attr, numbers: dict[ir.Value, Hashable]) -> Hashable:
    if attribute.is_ref():
        return (attribute.type, "ref", attribute.ref_attr_name)
    match attribute.type:
        case ir.AttributeType.TENSOR:
            return _tensor_key(attribute.as_tensor())
        case ir.AttributeType.TENSORS:
            return tuple(_tensor_key(tensor) for tensor in attribute.as_tensors())
        case ir.AttributeType.GRAPH:
            return _graph_key(attribute.as_graph(), numbers)
        case ir.AttributeType.GRAPHS:
            return tuple(_graph_key(graph, numbers) for graph in attribute.as_graphs())
    # By its digits: 0.0 equals -0.0 and is not the same.
    return (attribute.type, repr(attribute.value))


def _graph_key(graph: ir.Graph, numbers: dict[ir.Value, Hashable]) -> Hashable:
    for value in graph.inputs:
        numbers[value] = ("value", len(numbers))
    for value in graph.initializers.values():
        numbers[value] = None if value.const_value is None else _tensor_key(value.const_value)
    nodes = tuple(_node_key(node, numbers) for node in graph)
    return (len(graph.inputs), nodes, tuple(numbers[value] for value in graph.outputs))


def _tensor_key(tensor: ir.TensorProtocol) -> Hashable:
    return (tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes())
