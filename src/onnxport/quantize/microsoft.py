"""Quantized weights in operators of onnxruntime: MatMulNBits for products, GatherBlockQuantized for tables."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
import torch

from onnxport.quantize.candidates import Candidate, Reader
from onnxport.quantize.graph_edits import GraphEdits
from onnxport.quantize.lazy_weight import QuantizedWeight
from onnxport.weights.dtypes import from_torch_dtype
from onnxport.weights.lazy_integers import LazyIntegers, LazyParameters

_D = ir.DataType
DOMAIN = "com.microsoft"


class MicrosoftForm:
    """One weight as bytes by outputs and blocks, which both operators read; tied weights are one initializer."""

    def __init__(
        self, edits: GraphEdits, candidate: Candidate, weight: QuantizedWeight, accuracy_level: int | None
    ) -> None:
        self._edits = edits
        self._candidate = candidate
        self._weight = weight
        self._accuracy_level = accuracy_level
        self._real = from_torch_dtype(weight.dtype)
        self._row_bytes = weight.block * weight.bits // 8
        self.initializers: list[ir.Value] = []

    @staticmethod
    def takes(candidate: Candidate) -> bool:
        """Whether each reader can be one of the two operators."""
        return all(_replaceable(reader) for reader in candidate.readers)

    @staticmethod
    def fits(candidate: Candidate, weight: QuantizedWeight) -> bool:
        """Whether the operators have the grid and the blocks of a weight."""
        power = weight.block >= 16 and weight.block & (weight.block - 1) == 0
        whole = "table" not in candidate.uses or weight.inputs % weight.block == 0
        return MicrosoftForm.takes(candidate) and power and whole and not weight.lead and weight.grid.least == 0

    def write(self) -> None:
        """Let all readers read the quantized weight."""
        weight, source, name = self._weight, self._candidate.sources[0], self._candidate.name
        shape: tuple[int, ...] = (weight.outputs, weight.blocks, self._row_bytes)
        if self._candidate.uses == {"table"}:
            shape = (weight.outputs, weight.blocks * self._row_bytes)
        self._blobs = self._edits.weight(LazyIntegers(self._rows, _D.UINT8, shape, ""), f"{name}_quantized", source)
        parameters = (weight.outputs, weight.blocks)
        scale = LazyParameters(lambda: weight.parameters[0], self._real, parameters, "")
        self._scale = self._edits.weight(scale, f"{name}_scale", source)
        self._zero = None
        if not weight.grid.symmetric:
            packed = (weight.outputs, -(-weight.blocks * weight.bits // 8))
            self._zero = self._edits.weight(
                LazyParameters(self._zero_points, _D.UINT8, packed, ""), f"{name}_zero_point", source
            )
        self.initializers = [one for one in (self._blobs, self._scale, self._zero) if one is not None]
        for reader in self._candidate.readers:
            if reader.use == "table":
                self._look_up(reader.node)
            else:
                self._multiply(reader.node)
        self._edits.drop(self._candidate.sources)
        self._edits.take_name(self._blobs, name)
        self._edits.model.opset_imports.setdefault(DOMAIN, 1)

    def _rows(self) -> Iterator[torch.Tensor]:
        weight = self._weight
        short = weight.blocks * weight.block - weight.inputs
        for rows in weight.by_rows():
            yield self._packed(torch.nn.functional.pad(rows, (0, short)))

    def _packed(self, rows: torch.Tensor) -> torch.Tensor:
        return rows if self._weight.bits == 8 else rows[:, 0::2] | (rows[:, 1::2] << 4)

    def _zero_points(self) -> torch.Tensor:
        zeros = self._weight.parameters[1].to(torch.uint8)
        odd = zeros.shape[1] % 2 if self._weight.bits == 4 else 0
        return self._packed(torch.nn.functional.pad(zeros, (0, odd)))

    def _multiply(self, node: ir.Node) -> None:
        weight = self._weight
        attributes: dict[str, int] = {
            "K": weight.inputs,
            "N": weight.outputs,
            "bits": weight.bits,
            "block_size": weight.block,
        }
        if self._accuracy_level is not None:
            attributes["accuracy_level"] = self._accuracy_level
        inputs: list[ir.Value | None] = [node.inputs[0], self._blobs, self._scale, self._zero]
        if len(node.inputs) > 2 and node.inputs[2] is not None:
            inputs += [None, node.inputs[2]]
        elif self._zero is None:
            inputs.pop()
        self._take_place(node, "MatMulNBits", inputs, attributes)

    def _look_up(self, node: ir.Node) -> None:
        weight = self._weight
        data = self._blobs
        if "right" in self._candidate.uses:
            flat = [weight.outputs, weight.blocks * self._row_bytes]
            data = self._edits.add(
                node,
                "Reshape",
                [self._blobs, self._edits.ints(flat)],
                name=f"{self._candidate.name}_table",
                dtype=_D.UINT8,
                shape=flat,
            )
        attributes = {"bits": weight.bits, "block_size": weight.block, "gather_axis": 0, "quantize_axis": 1}
        inputs = [data, node.inputs[1], self._scale, *([] if self._zero is None else [self._zero])]
        self._take_place(node, "GatherBlockQuantized", inputs, attributes)

    def _take_place(
        self, node: ir.Node, op_type: str, inputs: list[ir.Value | None], attributes: dict[str, int]
    ) -> None:
        result = node.outputs[0]
        made = self._edits.add(
            node,
            op_type,
            inputs,
            dict(attributes),
            name=f"{result.name}_{op_type}",
            dtype=self._real,
            shape=result.shape,
            domain=DOMAIN,
        )
        self._edits.replace(node, self._edits.typed_as(node, made))


def _replaceable(reader: Reader) -> bool:
    node = reader.node
    if reader.use == "table":
        return True
    if reader.use != "right":
        return False
    if node.op_type == "MatMul":
        return True
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    plain = node.attributes.get_float("alpha", 1.0) == 1.0 and node.attributes.get_float("beta", 1.0) == 1.0
    return plain and (bias is None or (bias.shape is not None and len(bias.shape) == 1 and bias.shape[0] != 1))
