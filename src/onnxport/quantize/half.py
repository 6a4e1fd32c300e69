"""A model of float32 as one of float16 or bfloat16, with islands of float32 where sixteen bits are too few."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.graphs import bodies
from onnxport.onnx_build.half_products import move_transposes_behind_products
from onnxport.onnx_build.operators import operator_set
from onnxport.onnx_build.opsets import ONNX_DOMAINS
from onnxport.onnx_build.schemas import schema_of
from onnxport.quantize.graph_edits import GraphEdits
from onnxport.weights.converted import ConvertedTensor
from onnxport.weights.torch_tensor import TorchTensor

_FLOAT = ir.DataType.FLOAT

ISLANDS = operator_set(
    "Exp Log Pow Sqrt Reciprocal Softmax LogSoftmax LayerNormalization RMSNormalization GroupNormalization "
    "InstanceNormalization BatchNormalization LpNormalization MeanVarianceNormalization ReduceMean ReduceSum "
    "ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceProd CumSum Range Resize GridSample "
    "NonMaxSuppression RoiAlign SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss RandomNormal RandomUniform "
    "RandomNormalLike RandomUniformLike Multinomial Bernoulli EyeLike OneHot DFT STFT QuantizeLinear DequantizeLinear "
    "DynamicQuantizeLinear LSTM GRU RNN"
)
"""What is computed in float32: sums, squares and exponentials, which leave the range of float16, and random numbers."""


def convert_to_half(model: ir.Model, kind: ir.DataType, islands: frozenset[str] = ISLANDS) -> list[str]:
    """Compute and store in a 16-bit type what float32 is not needed for, in place; the names of the weights stored so.

    Inputs and outputs keep their types. Where a value crosses between the two there is one Cast. Bodies of control
    flow stay as they are.
    """
    return _Conversion(model, kind, islands).run()


class _Conversion:
    def __init__(self, model: ir.Model, kind: ir.DataType, islands: frozenset[str]) -> None:
        self._graph = model.graph
        self._kind = kind
        self._islands = islands
        self._edits = GraphEdits(model)
        self._half: set[ir.Value] = set()
        self._crossed: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}

    def run(self) -> list[str]:
        nodes = list(self._graph)
        inside = [node for node in nodes if not self._is_island(node)]
        for node in inside:
            self._half.update(value for value in node.outputs if value.dtype == _FLOAT)
        stored = self._store_weights(set(inside))
        for node in inside:
            self._adapt_attributes(node)
            self._read(node, self._kind)
        kept = set(inside)
        for node in nodes:
            if node not in kept:
                self._read(node, _FLOAT)
                self._read_inside(node)
        for value in self._half:
            value.type = ir.TensorType(self._kind)
        self._restore_outputs()
        move_transposes_behind_products(self._graph)
        return stored

    def _is_island(self, node: ir.Node) -> bool:
        if node.domain not in ONNX_DOMAINS or node.op_type in self._islands or bodies(node):
            return True
        if node.op_type == "Mul" and node.inputs[0] is node.inputs[1]:
            return True  # a square, as Pow is one
        schema = schema_of(node.op_type, self._edits.opset)
        if schema is None:
            return True
        for position, value in enumerate(node.inputs):
            if value is not None and value.dtype == _FLOAT and self._kind not in schema.input(position)[1]:
                return True
        for position, value in enumerate(node.outputs):
            variable = schema.output(position)
            if value.dtype == _FLOAT and self._kind not in schema.types.get(variable, frozenset()):
                return True
        return False

    def _store_weights(self, inside: set[ir.Node]) -> list[str]:
        """Store initializers in sixteen bits that something inside reads, or nodes that only rearrange them."""
        stored = []
        for name, value in self._graph.initializers.items():
            tensor = value.const_value
            readers = {node for node, _ in value.uses()}
            if value.dtype != _FLOAT or tensor is None or value.is_graph_input() or not readers & inside:
                continue
            if isinstance(tensor, TorchTensor):
                value.const_value = ConvertedTensor(tensor.raw, self._kind, name)
                stored.append(name)
            else:
                array = tensor.numpy().astype(self._kind.numpy())
                value.const_value = ir.Tensor(array, dtype=self._kind, name=name)
            self._half.add(value)
        return stored

    def _adapt_attributes(self, node: ir.Node) -> None:
        if node.op_type == "Cast" and node.attributes.get_int("to") == int(_FLOAT):
            node.attributes["to"] = ir.AttrInt64("to", int(self._kind))
        value = node.attributes.get("value")
        if value is not None and value.type == ir.AttributeType.TENSOR and value.as_tensor().dtype == _FLOAT:
            array = value.as_tensor().numpy().astype(self._kind.numpy())
            node.attributes["value"] = ir.AttrTensor("value", ir.Tensor(array, dtype=self._kind))

    def _read(self, node: ir.Node, wanted: ir.DataType) -> None:
        """Let a node read its inputs in the type that it computes in."""
        for index, value in enumerate(node.inputs):
            if value is not None and (value.dtype == _FLOAT or value in self._half):
                node.replace_input_with(index, self._as(value, wanted))

    def _read_inside(self, node: ir.Node) -> None:
        for body in bodies(node):
            for inner in body:
                for index, value in enumerate(inner.inputs):
                    if value is not None and value in self._half:
                        inner.replace_input_with(index, self._as(value, _FLOAT))
                self._read_inside(inner)
            for index, value in enumerate(body.outputs):
                if value in self._half:
                    body.outputs[index] = self._as(value, _FLOAT)

    def _as(self, value: ir.Value, wanted: ir.DataType) -> ir.Value:
        present = self._kind if value in self._half else _FLOAT
        if present == wanted:
            return value
        if (value, wanted) not in self._crossed:
            self._crossed[value, wanted] = self._edits.cast(value, wanted)
        return self._crossed[value, wanted]

    def _restore_outputs(self) -> None:
        """Let the results of the model have the types that they had, under their names."""
        for index, value in enumerate(self._graph.outputs):
            if value not in self._half:
                continue
            name, producer = str(value.name), value.producer()
            assert producer is not None
            value.name = self._edits.free_name(f"{name}_{self._kind.name.lower()}")
            made = self._crossed.get((value, _FLOAT))
            made = self._edits.cast(value, _FLOAT) if made is None else made
            made.name = name
            made.metadata_props.update(value.metadata_props)
            self._graph.outputs[index] = made
