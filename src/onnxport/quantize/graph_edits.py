"""Edits of the graph that quantizing makes: initializers and nodes added, what nobody reads any more taken out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx_ir as ir

from onnxport.graphs import bodies, graphs
from onnxport.onnx_build.literals import Contents, Literals, initializer, shown_name
from onnxport.onnx_build.names import UniqueNames, names_in
from onnxport.provenance import ALIASES, INPUT_KIND, pass_on

Attributes = dict[str, "int | float | Sequence[int] | ir.TensorProtocol | str"]


class GraphEdits:
    """The edits of one model; every node added is for one that stood there, and has its provenance."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.opset = model.opset_imports[""]
        self._names = UniqueNames(taken=lambda: names_in(graphs(model)))
        self._literals = Literals(self._names, shown_name, model.graph)

    def weight(self, tensor: ir.TensorProtocol, name: str, like: ir.Value) -> ir.Value:
        """An initializer that counts as a weight, as the one whose place it takes."""
        unique = self._names.unique(name)
        tensor.name = unique
        made = initializer(tensor, unique)
        made.metadata_props.update(
            {key: text for key, text in like.metadata_props.items() if key in (INPUT_KIND, ALIASES)}
        )
        self.model.graph.register_initializer(made)
        return made

    def ints(self, numbers: Sequence[int]) -> ir.Value:
        """A list of numbers as a literal."""
        return self._literals.value(Contents(np.array(numbers, np.int64), ir.DataType.INT64))

    def real(self, number: float) -> ir.Value:
        """A number of float32 as a literal."""
        return self._literals.value(Contents(np.array(number, np.float32), ir.DataType.FLOAT))

    def byte(self, number: int) -> ir.Value:
        """A number of 8 bits as a literal."""
        return self._literals.value(Contents(np.array(number, np.uint8), ir.DataType.UINT8))

    def add(
        self,
        before: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Attributes | None = None,
        *,
        name: str,
        dtype: ir.DataType,
        shape: ir.Shape | Sequence[int | ir.SymbolicDim] | None,
        domain: str = "",
    ) -> ir.Value:
        """A node in front of another, and its result."""
        sizes = None if shape is None else ir.Shape(list(shape))
        (result,) = self.add_several(before, op_type, inputs, [name], [(dtype, sizes)], attributes, domain=domain)
        return result

    def add_several(
        self,
        before: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        names: Sequence[str],
        kinds: Sequence[tuple[ir.DataType, ir.Shape | None]],
        attributes: Attributes | None = None,
        *,
        domain: str = "",
    ) -> list[ir.Value]:
        """A node in front of another, and its results, of which names, element types and shapes are given."""
        results = [
            ir.Value(name=self._names.unique(name), type=ir.TensorType(dtype), shape=shape)
            for name, (dtype, shape) in zip(names, kinds, strict=True)
        ]
        made = ir.Node(
            domain,
            op_type,
            inputs,
            ir.convenience.convert_attributes({} if attributes is None else attributes),
            outputs=results,
            name=self._names.unique(f"node_{results[0].name}"),
        )
        pass_on(before, made)
        graph = before.graph
        assert graph is not None
        graph.insert_before(before, made)
        return results

    def typed_as(self, node: ir.Node, value: ir.Value) -> ir.Value:
        """A value in front of a node in the element type of that node's result."""
        wanted = node.outputs[0].dtype
        if wanted is None or wanted == value.dtype:
            return value
        to: Attributes = {"to": int(wanted)}
        name = f"{value.name}_{wanted.name.lower()}"
        return self.add(node, "Cast", [value], to, name=name, dtype=wanted, shape=value.shape)

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """A value in another element type, from right behind where it is computed."""
        to = ir.AttrInt64("to", int(dtype))
        return self.behind(value, "Cast", [], f"{value.name}_{dtype.name.lower()}", dtype, [to])

    def behind(
        self,
        value: ir.Value,
        op_type: str,
        others: Sequence[ir.Value],
        name: str,
        dtype: ir.DataType,
        attributes: Sequence[ir.Attr] = (),
    ) -> ir.Value:
        """The result, of the same shape, of an operator of a value and others, right behind where that is computed."""
        unique = self.free_name(name)
        result = ir.Value(name=unique, type=ir.TensorType(dtype), shape=value.shape)
        node_name = self.free_name(f"node_{unique}")
        made = ir.Node("", op_type, [value, *others], attributes, outputs=[result], name=node_name)
        producer = value.producer()
        if producer is None:
            self.model.graph.insert_before(self.model.graph[0], made)
        else:
            graph = producer.graph
            assert graph is not None
            pass_on(producer, made)
            graph.insert_after(producer, made)
        return result

    def free_name(self, name: str) -> str:
        """A name like this that nothing has yet."""
        return self._names.unique(name)

    def replace(self, node: ir.Node, result: ir.Value) -> None:
        """Let what read a node's first result read another, which takes its name; the node goes."""
        old = node.outputs[0]
        graph = node.graph
        assert graph is not None
        name = old.name
        ir.convenience.replace_all_uses_with(old, result, replace_graph_outputs=True)
        result.shape, result.type = old.shape, old.type
        result.metadata_props.update(old.metadata_props)
        inputs = [value for value in node.inputs if value is not None]
        graph.remove(node, safe=True)
        old.name = None
        result.name = name
        self.drop(inputs)

    def point(self, node: ir.Node, index: int, value: ir.Value) -> None:
        """Let a node read another value; what only that read needed goes."""
        old = node.inputs[index]
        node.replace_input_with(index, value)
        if old is not None:
            self.drop([old])

    def drop(self, values: Iterable[ir.Value]) -> None:
        """Take out nodes and initializers that nothing reads."""
        pending = list(values)
        while pending:
            value = pending.pop()
            if value.uses() or value.is_graph_output() or value.is_graph_input():
                continue
            node = value.producer()
            if node is None:
                if value.is_initializer():
                    self.model.graph.initializers.pop(str(value.name), None)
                continue
            graph = node.graph
            if graph is None or any(output.uses() or output.is_graph_output() for output in node.outputs):
                continue
            pending += [one for one in node.inputs if one is not None]
            pending += _let_go(node)
            graph.remove(node, safe=True)

    def take_name(self, made: ir.Value, name: str) -> None:
        """Give an initializer the name of the weight in whose place it stands, if that is gone."""
        initializers = self.model.graph.initializers
        if name in initializers or made.name not in initializers:
            return
        del initializers[str(made.name)]
        made.name = name
        if made.const_value is not None:
            made.const_value.name = name
        initializers.add(made)


def _let_go(node: ir.Node) -> list[ir.Value]:
    """Let the bodies of a node that goes read nothing any more; what they read."""
    read = []
    for body in bodies(node):
        for inner in body:
            read += [*(value for value in inner.inputs if value is not None), *_let_go(inner)]
            for index in range(len(inner.inputs)):
                inner.replace_input_with(index, None)
    return read
