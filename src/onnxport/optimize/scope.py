"""The state one graph (with the bodies nested in it) is optimized under: liveness, literals, and the edits allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.graphs import bodies
from onnxport.onnx_build.literals import initializer, literal_key, readable
from onnxport.onnx_build.names import UniqueNames, names_in
from onnxport.onnx_build.opsets import CANONICAL_OPSET
from onnxport.provenance import pass_on
from onnxport.weights.kinds import is_weight

Array = np.ndarray[Any, np.dtype[Any]]
Dims = tuple[int | ir.SymbolicDim, ...]


def known_dims(value: ir.Value | None) -> Dims | None:
    """The dimensions of a value when each is a number or has a name, so that equality means something."""
    if value is None or value.shape is None:
        return None
    dims = value.shape.dims
    for dim in dims:
        if not isinstance(dim, int) and dim.value is None:
            return None
    return dims


def comparable_dims(value: ir.Value | None) -> Dims | None:
    """The known dimensions of a value, if names in them mean sizes.

    The axes of graph outputs are named by the user, who may well call two different sizes ``length``.
    """
    dims = known_dims(value)
    if dims is None or value is None or not value.is_graph_output():
        return dims
    return dims if all(isinstance(dim, int) for dim in dims) else None


def surely_same_shape(left: ir.Value | None, right: ir.Value | None) -> bool:
    """Whether two values surely have the same shape at run time."""
    dims = comparable_dims(left)
    return dims is not None and dims == comparable_dims(right)


def constant_node_tensor(node: ir.Node) -> ir.TensorProtocol | None:
    """The tensor a ``Constant`` node holds, whichever of its attributes says so."""
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            return None
        match name:
            case "value":
                return attribute.as_tensor()
            case "value_int" | "value_ints":
                return ir.tensor(np.array(attribute.value, dtype=np.int64))
            case "value_float" | "value_floats":
                return ir.tensor(np.array(attribute.value, dtype=np.float32))
            case _:
                return None
    return None


class Scope:
    """One root graph or function body while it is optimized.

    Uses are counted here rather than asked of onnx_ir, whose answer costs a copy of all of them, and a node that is
    no longer needed is only marked: the dead-code pass takes it out. Every edit goes through this class, so the
    counts stay true and the promises about graph outputs are kept in one place.
    """

    def __init__(
        self,
        graph: ir.Graph,
        tally: Counter[str],
        *,
        in_function: bool,
        apart: Callable[[ir.Node], Hashable] | None = None,
        written_opset: int | None = None,
    ) -> None:
        self.graph = graph
        self.opset = graph.opset_imports.get("", CANONICAL_OPSET)
        #: The opset that the model is to have in the end.
        self.written_opset = self.opset if written_opset is None else written_opset
        self.tally = tally
        self.in_function = in_function
        #: Nodes for which this differs are never merged.
        self.apart = apart
        self.counts: dict[ir.Value, int] = {}
        self.dead: set[ir.Node] = set()
        #: All bodies nested in the graph, outer ones before inner ones.
        self.nested: list[ir.Graph] = []
        #: Nodes with outputs that may be left out.
        self.generous: list[ir.Node] = []
        self.pool: dict[Hashable, ir.Value] = {}
        self._arrays: dict[ir.Value, Array | None] = {}
        self._lists: dict[ir.Value, list[int] | None] = {}
        self._names = UniqueNames(taken=lambda: names_in((self.graph, *self.nested)))
        self._output_slots: dict[ir.Graph, dict[ir.Value, list[int]]] = {}

    # --- reading -----------------------------------------------------------------------------------------------

    def literal_tensor(self, value: ir.Value | None) -> ir.TensorProtocol | None:
        """The tensor behind a value that is a constant of the graph: neither a weight nor overridable as an input."""
        if value is None:
            return None
        if value.is_initializer():
            if value.is_graph_input() or is_weight(value):
                return None
            return value.const_value
        producer = value.producer()
        return constant_node_tensor(producer) if producer is not None and producer.op_type == "Constant" else None

    def array(self, value: ir.Value | None) -> Array | None:
        """The content of a small literal, read once."""
        if value is None:
            return None
        if value not in self._arrays:
            tensor = self.literal_tensor(value)
            self._arrays[value] = None if tensor is None or not readable(tensor) else tensor.numpy()
        return self._arrays[value]

    def ints(self, value: ir.Value | None) -> list[int] | None:
        """The content of a literal of integers as a flat list."""
        if value is None:
            return None
        if value not in self._lists:
            array = self.array(value)
            integral = array is not None and array.dtype.kind in "iu"
            self._lists[value] = [int(x) for x in array.reshape(-1)] if array is not None and integral else None
        return self._lists[value]

    # --- editing -----------------------------------------------------------------------------------------------

    def set_input(self, node: ir.Node, index: int, value: ir.Value | None) -> None:
        """Point one input of a node elsewhere; whatever only this input needed is dead from then on."""
        old = node.inputs[index]
        if value is not None:
            self.counts[value] = self.counts.get(value, 0) + 1
        node.replace_input_with(index, value)
        self._release(old)

    def become(
        self,
        node: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value],
        attributes: Sequence[ir.Attr] = (),
        domain: str = "",
    ) -> None:
        """Make a node (one without bodies) another operation under the same name, provenance and outputs."""
        for value in inputs:
            self.counts[value] = self.counts.get(value, 0) + 1
        old = [value for value in node.inputs if value is not None]
        node.op_type = op_type
        node.domain = domain
        node.attributes.clear()
        for attribute in attributes:
            node.attributes.add(attribute)
        node.resize_inputs(len(inputs))
        for index, value in enumerate(inputs):
            node.replace_input_with(index, value)
        for value in old:
            self._release(value)

    def insert_before(
        self,
        node: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value],
        dtype: ir.DataType,
        shape: Sequence[int | ir.SymbolicDim],
        attributes: Sequence[ir.Attr] = (),
    ) -> ir.Value:
        """The result of a new node before another, with that one's provenance; nothing reads it yet."""
        made = ir.Node("", op_type, list(inputs), attributes)
        result = made.outputs[0]
        result.type, result.shape = ir.TensorType(dtype), ir.Shape(shape)
        self.insert_node_before(node, made)
        return result

    def insert_node_before(self, node: ir.Node, made: ir.Node) -> None:
        """Put a new node before another, with that one's provenance; nothing reads its results yet."""
        for value in made.inputs:
            if value is not None:
                self.counts[value] = self.counts.get(value, 0) + 1
        for output in made.outputs:
            output.name = self._names.unique(f"{node.outputs[0].name}_{made.op_type}")
        made.name = f"node_{made.outputs[0].name}"
        pass_on(node, made)
        assert node.graph is not None
        node.graph.insert_before(node, made)

    def free_name(self, name: str) -> str:
        """A name like this that nothing has yet."""
        return self._names.unique(name)

    def replace(self, value: ir.Value, by: ir.Value) -> bool:
        """Let every reader of a node's only needed output read ``by`` instead; whether anything changed.

        A graph output keeps its name. Where ``by`` can itself become the output it takes the name over; where it
        can't (an input, an initializer, another output, a value of an outer graph) an Identity stays between them.
        """
        node = value.producer()
        assert node is not None, "only outputs of nodes are replaced here"
        if not value.is_graph_output():
            self._describe(by, value)
            self._redirect(value, by)
            self.discard(node)
            return True
        graph = value.graph
        assert graph is not None
        source = by.producer()
        if source is not None and source.graph is graph and not by.is_graph_output():
            self._redirect(value, by)
            self._take_over(graph, value, by)
            self.discard(node)
            return True
        changed = self.counts.get(value, 0) > 0
        self._redirect(value, by)
        if node.op_type == "Identity" and node.inputs[0] is by:
            return changed
        if len(node.outputs) > 1:
            return changed
        self.become(node, "Identity", [by])
        return True

    def discard(self, node: ir.Node) -> None:
        """Mark a node dead when nothing reads it, and then whatever only it read."""
        stack = [node]
        while stack:
            node = stack.pop()
            if node in self.dead or any(self.counts.get(out, 0) or out.is_graph_output() for out in node.outputs):
                continue
            self.dead.add(node)
            for value in self.reads(node):
                self.counts[value] -= 1
                producer = value.producer()
                if producer is not None and not self.counts[value]:
                    stack.append(producer)

    def reads(self, node: ir.Node) -> Iterator[ir.Value]:
        """Everything a node reads, once per use, the nodes of its bodies included."""
        for value in node.inputs:
            if value is not None:
                yield value
        for body in bodies(node):
            for inner in body:
                if inner not in self.dead:
                    yield from self.reads(inner)

    def literal(self, array: Array, dtype: ir.DataType, name: str) -> ir.Value:
        """An initializer of the root graph with this content: the one there is, or a new one named ``name``."""
        assert not self.in_function, "functions have no initializers"
        key = literal_key(dtype, array)
        found = self.pool.get(key)
        if found is not None:
            return found
        unique = self._names.unique(name)
        tensor = ir.Tensor(array, dtype=dtype, name=unique)
        made = self.add_initializer(tensor, unique)
        self.pool[key] = made
        self._arrays[made] = array
        return made

    def int64s(self, *numbers: int) -> ir.Value:
        """A literal of these numbers in a row."""
        name = "_".join(["i64", *map(str, numbers)])
        return self.literal(np.array(numbers, dtype=np.int64), ir.DataType.INT64, name)

    def once(self, key: Hashable, make: Callable[[], ir.Value]) -> ir.Value:
        """What several rewrites share, made for the first of them, which must come before the others."""
        if key not in self.pool:
            self.pool[key] = make()
        return self.pool[key]

    def add_initializer(self, tensor: ir.TensorProtocol, name: str) -> ir.Value:
        """Register a tensor in the root graph."""
        value = initializer(tensor, name)
        self.graph.initializers.add(value)
        return value

    def yield_name(self, value: ir.Value) -> str:
        """The name of a value that is about to vanish, free to be given to its replacement; a new one for outputs."""
        name = value.name if value.name is not None else "literal"
        if value.is_graph_output():
            return f"{name}_literal"
        value.name = None
        self._names.release(name)
        return name

    # --- inside ------------------------------------------------------------------------------------------------

    def _redirect(self, value: ir.Value, by: ir.Value) -> None:
        for user, index in value.uses():
            user.replace_input_with(index, by)
        moved = self.counts.pop(value, 0)
        if moved:
            self.counts[by] = self.counts.get(by, 0) + moved

    def _take_over(self, graph: ir.Graph, value: ir.Value, by: ir.Value) -> None:
        slots = self._output_slots.get(graph)
        if slots is None:
            slots = {}
            for index, output in enumerate(graph.outputs):
                slots.setdefault(output, []).append(index)
            self._output_slots[graph] = slots
        slots[by] = slots.pop(value)
        for index in slots[by]:
            graph.outputs[index] = by
        by.name, value.name = value.name, by.name
        by.metadata_props.update(value.metadata_props)
        if value.shape is not None:
            by.shape = value.shape
        if value.type is not None:
            by.type = value.type

    def _describe(self, value: ir.Value, like: ir.Value) -> None:
        if value.producer() is None:
            return
        # A body may know more of sizes than holds around it.
        if value.shape is None and value.graph is like.graph:
            value.shape = like.shape
        if value.type is None:
            value.type = like.type

    def _release(self, value: ir.Value | None) -> None:
        if value is None:
            return
        self.counts[value] -= 1
        producer = value.producer()
        if producer is not None and not self.counts[value]:
            self.discard(producer)
