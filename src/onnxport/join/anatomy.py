"""The anatomy of a node: what it computes apart from what it computes it of, so that nodes of two graphs compare."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.graphs import bodies
from onnxport.onnx_build.literals import attribute_key, literal_key, readable
from onnxport.onnx_build.operators import RANDOM
from onnxport.weights.torch_tensor import TorchTensor

_GRAPH, _GRAPHS = ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS


@dataclass(frozen=True)
class Slot:
    """A place that reads a value of the graph around: an input of a node, or of one inside its regions."""

    node: ir.Node
    index: int

    @property
    def value(self) -> ir.Value | None:
        """What is read there."""
        return self.node.inputs[self.index]

    def read(self, value: ir.Value) -> None:
        """Let another value be read there."""
        self.node.replace_input_with(self.index, value)


@dataclass(frozen=True)
class Anatomy:
    """What a node does (``kind``: operator, attributes and regions, None where it draws numbers), and its slots."""

    kind: Hashable | None
    slots: tuple[Slot, ...]

    @property
    def operands(self) -> tuple[ir.Value | None, ...]:
        """The values read, in the order of the slots."""
        return tuple(slot.value for slot in self.slots)


class Anatomies:
    """The anatomies of nodes, each made once."""

    def __init__(self) -> None:
        self._known: dict[ir.Node, Anatomy] = {}

    def of(self, node: ir.Node) -> Anatomy:
        """The anatomy of a node."""
        found = self._known.get(node)
        if found is None:
            slots: list[Slot] = []
            kind = _kind(node, {}, slots)
            found = self._known[node] = Anatomy(kind, tuple(slots))
        return found


def _kind(node: ir.Node, inner: dict[ir.Value, int], slots: list[Slot]) -> Hashable | None:
    """``inner`` numbers the values of the regions around; what is not among them is read from outside, by a slot."""
    reads: list[Hashable] = []
    for index, value in enumerate(node.inputs):
        if value is None:
            reads.append(None)
        elif value in inner:
            reads.append(inner[value])
        else:
            reads.append("outer")
            slots.append(Slot(node, index))
    attributes = [(name, _attribute(value, inner, slots)) for name, value in sorted(node.attributes.items())]
    if node.op_type in RANDOM or any(part is None for _, part in attributes):
        return None
    return (node.domain, node.op_type, node.overload, node.version, len(node.outputs), *reads, *attributes)


def _attribute(attribute: ir.Attr, inner: dict[ir.Value, int], slots: list[Slot]) -> Hashable | None:
    if attribute.type is _GRAPH and not attribute.is_ref():
        return _region(attribute.as_graph(), inner, slots)
    if attribute.type is _GRAPHS and not attribute.is_ref():
        regions = [_region(graph, inner, slots) for graph in attribute.as_graphs()]
        return None if any(region is None for region in regions) else tuple(regions)
    return attribute_key(attribute)


def _region(graph: ir.Graph, inner: dict[ir.Value, int], slots: list[Slot]) -> Hashable | None:
    numbers = dict(inner)
    for value in graph.inputs:
        numbers[value] = len(numbers)
    kinds: list[Hashable] = [len(graph.inputs)]
    same = True
    for node in graph:
        kind = _kind(node, numbers, slots)
        same = same and kind is not None
        kinds.append(kind)
        for value in node.outputs:
            numbers[value] = len(numbers)
    return (*kinds, tuple(numbers[value] for value in graph.outputs)) if same else None


def same_tensor(one: ir.Value, other: ir.Value) -> bool:
    """Whether two initializers hold the same: one storage of torch's, or equal numbers where they are few."""
    a, b = one.const_value, other.const_value
    if a is None or b is None or a.dtype != b.dtype or tuple(a.shape) != tuple(b.shape):
        return False
    if isinstance(a, TorchTensor) and isinstance(b, TorchTensor) and a.key == b.key:
        return True
    if not readable(a) or not readable(b):
        return False
    return literal_key(a.dtype, a.numpy()) == literal_key(b.dtype, b.numpy())


def values_made(node: ir.Node) -> Iterator[ir.Value]:
    """The values that a node and those in its regions make, and the inputs of the regions."""
    yield from node.outputs
    for graph in bodies(node):
        yield from graph.inputs
        for inner in graph:
            yield from values_made(inner)
