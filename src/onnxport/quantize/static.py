"""Products and convolutions of integers with fixed grids: QuantizeLinear and DequantizeLinear around what they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
import torch

from onnxport.quantize.candidates import Candidate
from onnxport.quantize.graph_edits import GraphEdits
from onnxport.quantize.lazy_weight import QuantizedWeight

_D = ir.DataType
Ranges = Mapping[ir.Value, tuple[float, float]]


def takes_static_grids(candidate: Candidate) -> bool:
    """Whether a weight is read by products and convolutions of float32 only."""
    operators = {reader.node.op_type for reader in candidate.readers}
    return operators <= {"MatMul", "Gemm", "Conv"} and "left" not in candidate.uses and candidate.dtype == torch.float32


def observed_values(candidates: Sequence[Candidate], graph: ir.Graph) -> list[ir.Value]:
    """The values whose ranges are needed: what the readers of weights read beside them, and what they give."""
    found: dict[ir.Value, None] = {}
    for candidate in candidates:
        for reader in candidate.readers:
            if takes_static_grids(candidate) and reader.node.graph is graph:
                for value in (reader.node.inputs[0], _given(reader.node)):
                    if value is not None and value.dtype == _D.FLOAT and not value.is_initializer():
                        found[value] = None
    return list(found)


def _given(node: ir.Node) -> ir.Value:
    """The result of a node, or of the activation that alone reads it, which runtimes compute with it."""
    result = node.outputs[0]
    users = [user for user, _ in result.uses()]
    if len(users) == 1 and users[0].op_type in ("Relu", "Clip") and not result.is_graph_output():
        return users[0].outputs[0]
    return result


class StaticGrids:
    """The grids of values, each with the two nodes that round to it, which all readers share."""

    def __init__(self, edits: GraphEdits, ranges: Ranges) -> None:
        self._edits = edits
        self._ranges = ranges
        self._rounded: dict[ir.Value, ir.Value] = {}
        self._scales: dict[ir.Value, float] = {}

    def round(self, candidate: Candidate, weight: QuantizedWeight) -> None:
        """Let the readers of a weight read values on a grid, and give such."""
        for reader in candidate.readers:
            node = reader.node
            given, read = _given(node), node.inputs[0]
            if read is not None and read in self._ranges:
                read = self._round(read)
                node.replace_input_with(0, read)
            if read is None or read not in self._scales:
                continue
            self._round_bias(node, weight, self._scales[read])
            if given in self._ranges and not given.is_graph_output():
                self._round_result(given)

    def _round_result(self, value: ir.Value) -> None:
        rounded = self._round(value)
        own = rounded.producer()
        assert own is not None and own.inputs[0] is not None
        inner = own.inputs[0].producer()
        for user, index in list(value.uses()):
            if user is not inner:
                user.replace_input_with(index, rounded)

    def _round(self, value: ir.Value) -> ir.Value:
        if value not in self._rounded:
            low, high = self._ranges[value]
            scale = (high - low) / 255 if high > low else 1.0
            zero = int(np.clip(np.round(-low / scale), 0, 255))
            parameters = [self._edits.real(scale), self._edits.byte(zero)]
            first = self._edits.behind(value, "QuantizeLinear", parameters, f"{value.name}_quantized", _D.UINT8)
            real = self._edits.behind(first, "DequantizeLinear", parameters, f"{value.name}_rounded", _D.FLOAT)
            self._rounded[value] = real
            self._scales[real] = float(np.float32(scale))
        return self._rounded[value]

    def _round_bias(self, node: ir.Node, weight: QuantizedWeight, scale: float) -> None:
        """A bias as 32-bit integers, in steps of what products of both sides are steps of."""
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        tensor = None if bias is None else bias.const_value
        if bias is None or tensor is None or tensor.shape.rank() != 1 or not bias.is_initializer():
            return
        steps = weight.parameters[0].reshape(-1).double().numpy() * scale
        if len(steps) != tensor.size:
            return
        integers = np.round(tensor.numpy().astype(np.float64) / steps)
        if np.abs(integers).max(initial=0) >= 2**31:
            return
        held = ir.Tensor(integers.astype(np.int32), dtype=_D.INT32, name="")
        factor = ir.Tensor(steps.astype(np.float32), dtype=_D.FLOAT, name="")
        inputs = [
            self._edits.weight(held, f"{bias.name}_quantized", bias),
            self._edits.weight(factor, f"{bias.name}_scale", bias),
        ]
        real = self._edits.add(
            node,
            "DequantizeLinear",
            inputs,
            {"axis": 0},
            name=f"{bias.name}_dequantized",
            dtype=_D.FLOAT,
            shape=bias.shape,
        )
        self._edits.point(node, 2, real)
