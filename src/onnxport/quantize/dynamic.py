"""Products of integers: the other side is rounded to 8 bits by its range at run time."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.quantize.candidates import Candidate
from onnxport.quantize.graph_edits import GraphEdits
from onnxport.quantize.lazy_weight import QuantizedWeight
from onnxport.weights.lazy_integers import LazyIntegers, LazyParameters

_D = ir.DataType


class RoundedInputs:
    """The left sides of products as integers, with scale and zero point: once for all products that read one."""

    def __init__(self, edits: GraphEdits) -> None:
        self._edits = edits
        self._known: dict[tuple[ir.Value, ir.Graph], tuple[ir.Value, ir.Value, ir.Value]] = {}

    def of(self, value: ir.Value, node: ir.Node) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Integers, scale and zero point of a value that a node reads."""
        graph = node.graph
        assert graph is not None
        if (value, graph) not in self._known:
            kinds = ((_D.UINT8, value.shape), (_D.FLOAT, ir.Shape([])), (_D.UINT8, ir.Shape([])))
            names = (f"{value.name}_{part}" for part in ("integers", "scale", "zero_point"))
            results = self._edits.add_several(node, "DynamicQuantizeLinear", [value], list(names), kinds)
            self._known[value, graph] = (results[0], results[1], results[2])
        return self._known[value, graph]


class DynamicForm:
    """One weight as 8-bit integers by column, and its products as MatMulInteger, scaled afterwards."""

    def __init__(
        self, edits: GraphEdits, candidate: Candidate, weight: QuantizedWeight, rounded: RoundedInputs
    ) -> None:
        self._edits = edits
        self._candidate = candidate
        self._weight = weight
        self._rounded = rounded
        self.initializers: list[ir.Value] = []

    @staticmethod
    def takes(candidate: Candidate) -> bool:
        """Whether all that read a weight are products of float32 with two axes on the weight's side."""
        return (
            candidate.uses == {"right"}
            and candidate.load().dim() == 2
            and all(
                reader.node.inputs[0] is not None
                and reader.node.inputs[0].dtype == _D.FLOAT
                and reader.node.attributes.get_float("alpha", 1.0) == 1.0
                and reader.node.attributes.get_float("beta", 1.0) == 1.0
                for reader in candidate.readers
            )
        )

    def write(self) -> None:
        """Let all products multiply integers."""
        weight, source, name = self._weight, self._candidate.sources[0], self._candidate.name
        integers = LazyIntegers(weight.by_columns, _D.INT8, (weight.inputs, weight.outputs), "")
        self._integers = self._edits.weight(integers, f"{name}_quantized", source)
        scale = LazyParameters(lambda: weight.parameters[0].reshape(-1), _D.FLOAT, (weight.outputs,), "")
        self._scale = self._edits.weight(scale, f"{name}_scale", source)
        self.initializers = [self._integers, self._scale]
        for reader in self._candidate.readers:
            self._multiply(reader.node)
        self._edits.drop(self._candidate.sources)
        self._edits.take_name(self._integers, name)

    def _multiply(self, node: ir.Node) -> None:
        edits, result = self._edits, node.outputs[0]
        left = node.inputs[0]
        assert left is not None
        integers, scale, zero = self._rounded.of(left, node)
        name, shape = str(result.name), result.shape
        inputs: list[ir.Value | None] = [integers, self._integers, zero]
        sums = edits.add(node, "MatMulInteger", inputs, name=f"{name}_sums", dtype=_D.INT32, shape=shape)
        to = {"to": int(_D.FLOAT)}
        wide = edits.add(node, "Cast", [sums], dict(to), name=f"{name}_wide", dtype=_D.FLOAT, shape=shape)
        both = edits.add(
            node, "Mul", [scale, self._scale], name=f"{name}_scales", dtype=_D.FLOAT, shape=[self._weight.outputs]
        )
        real = edits.add(node, "Mul", [wide, both], name=f"{name}_real", dtype=_D.FLOAT, shape=shape)
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if bias is not None:
            real = edits.add(node, "Add", [real, bias], name=f"{name}_sum", dtype=_D.FLOAT, shape=shape)
        edits.replace(node, real)
