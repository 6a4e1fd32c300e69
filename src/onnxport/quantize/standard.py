"""Quantized weights in ONNX's own operators: DequantizeLinear in front of products, and behind look-ups in tables."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
import torch

from onnxport.graphs import bodies
from onnxport.quantize.candidates import Candidate, Reader
from onnxport.quantize.graph_edits import GraphEdits
from onnxport.quantize.lazy_weight import QuantizedWeight
from onnxport.weights.dtypes import from_torch_dtype
from onnxport.weights.lazy_integers import LazyIntegers, LazyParameters

_D = ir.DataType
_KINDS = {(-8, 7): _D.INT4, (0, 15): _D.UINT4, (-128, 127): _D.INT8, (-64, 63): _D.INT8, (0, 255): _D.UINT8}
CHANNELS_SINCE, _BLOCKS_SINCE = 13, 21


class StandardForm:
    """One weight as initializers in the order in which its readers take it, and the nodes that read them."""

    def __init__(self, edits: GraphEdits, candidate: Candidate, weight: QuantizedWeight) -> None:
        self._edits = edits
        self._candidate = candidate
        self._weight = weight
        self._by_columns = bool({"right", "matrices"} & candidate.uses)
        self._halves = candidate.uses in ({"table"}, {"matrices"}) and weight.grid.most - weight.grid.least == 15
        self._real = from_torch_dtype(weight.dtype)
        self._kind = _D.UINT8 if self._halves else _KINDS[weight.grid.least, weight.grid.most]
        self.initializers: list[ir.Value] = []
        self._dequantized: ir.Value | None = None

    def write(self) -> None:
        """Let all readers read the quantized weight."""
        source, name = self._candidate.sources[0], self._candidate.name
        self._integers = self._edits.weight(self._integers_tensor(), f"{name}_quantized", source)
        self._scale = self._edits.weight(self._scale_tensor(), f"{name}_scale", source)
        self._zero = None
        if self._has_zero_points():
            self._zero = self._edits.weight(self._zero_tensor(), f"{name}_zero_point", source)
        self.initializers = [one for one in (self._integers, self._scale, self._zero) if one is not None]
        for reader in self._candidate.readers:
            if reader.use == "table":
                self._look_up(reader)
            elif reader.use == "matrices":
                self._take_matrix(reader.node)
            else:
                self._edits.point(reader.node, reader.index, self._read(reader))
                if reader.use == "right":
                    reader.node.attributes.pop("transB", None)
        self._edits.drop(self._candidate.sources)
        self._edits.take_name(self._integers, name)

    # --- initializers --------------------------------------------------------------------------------------------

    def _has_zero_points(self) -> bool:
        """Whether zero points are written: not where all are zero, nor where nodes can say what all of them are."""
        grid = self._weight.grid
        return not grid.symmetric or (grid.least == 0 and not self._halves)

    def _integers_tensor(self) -> LazyIntegers:
        weight = self._weight
        if self._halves:
            return LazyIntegers(self._half_rows, _D.UINT8, (*weight.lead, self._length, -(-self._width // 2)), "")
        shape = (self._length, self._width)
        if self._candidate.uses == {"channels"}:
            value = self._candidate.readers[0].node.inputs[1]
            assert value is not None and value.shape is not None
            return LazyIntegers(weight.by_rows, self._kind, tuple(value.shape.numpy()), "")
        pieces = weight.by_columns if self._by_columns else weight.by_rows
        return LazyIntegers(pieces, self._kind, (*weight.lead, *shape), "")

    @property
    def _length(self) -> int:
        """How many rows are written."""
        return self._weight.inputs if self._by_columns else self._weight.outputs

    @property
    def _width(self) -> int:
        """How many integers there are in a row."""
        return self._weight.outputs if self._by_columns else self._weight.inputs

    def _half_rows(self) -> Iterator[torch.Tensor]:
        """Two integers in a byte: one of the first half of a row, and one of the second half."""
        half = -(-self._width // 2)
        for rows in self._weight.by_columns() if self._by_columns else self._weight.by_rows():
            high = torch.nn.functional.pad(rows[:, half:], (0, 2 * half - rows.shape[1]))
            yield rows[:, :half] | (high << 4)

    def _parameter_shape(self) -> tuple[int, ...]:
        weight = self._weight
        if self._is_plain():
            return (weight.outputs,)
        if self._has_a_scale_for_each_output():
            return (*weight.lead, weight.outputs)
        shape = (weight.blocks, weight.outputs) if self._by_columns else (weight.outputs, weight.blocks)
        return (*weight.lead, *shape)

    def _is_plain(self) -> bool:
        """Whether there is one scale for each output: what all opsets have."""
        weight = self._weight
        return weight.blocks == 1 and not weight.lead and not self._halves

    def _has_a_scale_for_each_output(self) -> bool:
        """Whether matrices that are taken one at a time have scales for their columns: what all opsets have."""
        return self._weight.blocks == 1 and self._candidate.uses == {"matrices"}

    def _in_order(self, parameters: torch.Tensor) -> torch.Tensor:
        moved = parameters.transpose(-1, -2) if self._by_columns else parameters
        return moved.reshape(self._parameter_shape())

    def _scale_tensor(self) -> LazyParameters:
        weight = self._weight
        return LazyParameters(lambda: self._in_order(weight.parameters[0]), self._real, self._parameter_shape(), "")

    def _zero_tensor(self) -> LazyParameters:
        kind = torch.int8 if self._weight.grid.least < 0 else torch.uint8

        def make() -> torch.Tensor:
            return self._in_order(self._weight.parameters[1]).to(kind)

        return LazyParameters(make, self._kind, self._parameter_shape(), "")

    # --- nodes -----------------------------------------------------------------------------------------------------

    def _read(self, reader: Reader) -> ir.Value:
        """The real numbers of the whole weight as a node reads them."""
        real = self._dequantize()
        if not self._by_columns or reader.use != "left":
            return real
        rank = len(self._weight.lead) + 2
        perm = [*range(rank - 2), rank - 1, rank - 2]
        shape = [_dims(real)[axis] for axis in perm]
        return self._edits.add(
            reader.node, "Transpose", [real], {"perm": perm}, name=f"{real.name}_T", dtype=self._real, shape=shape
        )

    def _dequantize(self) -> ir.Value:
        """The real numbers of the whole weight, once.

        Before a branch or loop that reads them: in a body onnxruntime would look for the weight and not find it.
        """
        if self._dequantized is None:
            attributes: dict[str, int] = {"axis": 1 if self._by_columns else 0}
            if not self._is_plain():
                rank = len(self._weight.lead) + 2
                attributes = {"axis": rank - 2 if self._by_columns else rank - 1, "block_size": self._weight.block}
            self._dequantized = self._edits.add(
                self._first(),
                "DequantizeLinear",
                self._parameters(self._integers, self._scale, self._zero),
                dict(attributes),
                name=f"{self._candidate.name}_dequantized",
                dtype=self._real,
                shape=self._integers.shape,
            )
        return self._dequantized

    def _first(self) -> ir.Node:
        """The first node of the main graph that reads the weight, or has a body that does."""
        graph = self._edits.model.graph
        nodes = {reader.node for reader in self._candidate.readers if reader.use != "table"}
        only = next(iter(nodes))
        return only if len(nodes) == 1 and only.graph is graph else next(one for one in graph if _holds(one, nodes))

    @staticmethod
    def _parameters(data: ir.Value, scale: ir.Value, zero: ir.Value | None) -> list[ir.Value]:
        return [data, scale] if zero is None else [data, scale, zero]

    def _look_up(self, reader: Reader) -> None:
        """Look up integers and their scales, and dequantize only those."""
        node, rank = reader.node, len(_dims(reader.node.outputs[0])) - 1
        axis = 1 if self._by_columns else 0
        integers = self._gathered(node, self._integers, axis, "rows")
        if self._halves:
            integers = self._unpacked(node, integers, rank)
        parameter_axis = 0 if self._is_plain() else axis
        scale = self._gathered(node, self._scale, parameter_axis, "scales")
        zero = None if self._zero is None else self._gathered(node, self._zero, parameter_axis, "zero_points")
        if self._halves and zero is None:
            zero = self._constant_zero(node, scale)
        if self._is_plain():
            real = self._scaled(node, integers, scale, zero, rank)
        else:
            real = self._edits.add(
                node,
                "DequantizeLinear",
                self._parameters(integers, scale, zero),
                {"axis": 0 if self._by_columns else rank, "block_size": self._weight.block},
                name=f"{node.outputs[0].name}_dequantized",
                dtype=self._real,
                shape=integers.shape,
            )
        if self._by_columns:
            perm = [*range(1, rank + 1), 0]
            shape = _dims(node.outputs[0])
            real = self._edits.add(
                node, "Transpose", [real], {"perm": perm}, name=f"{real.name}_T", dtype=self._real, shape=shape
            )
        self._edits.replace(node, self._edits.typed_as(node, real))

    def _take_matrix(self, node: ir.Node) -> None:
        """Take the integers of one matrix and its scales, and dequantize only those."""
        integers = self._gathered(node, self._integers, 0, "matrix")
        if self._halves:
            integers = self._unpacked(node, integers, 1)
        scale = self._gathered(node, self._scale, 0, "scales")
        zero = None if self._zero is None else self._gathered(node, self._zero, 0, "zero_points")
        if self._halves and zero is None:
            zero = self._constant_zero(node, scale)
        each = self._has_a_scale_for_each_output()
        attributes = {"axis": 1} if each else {"axis": 0, "block_size": self._weight.block}
        real = self._edits.add(
            node,
            "DequantizeLinear",
            self._parameters(integers, scale, zero),
            dict(attributes),
            name=f"{node.outputs[0].name}_dequantized",
            dtype=self._real,
            shape=integers.shape,
        )
        self._edits.replace(node, self._edits.typed_as(node, real))

    def _gathered(self, node: ir.Node, table: ir.Value, axis: int, suffix: str) -> ir.Value:
        assert table.dtype is not None and table.shape is not None and node.inputs[1] is not None
        row = len(self._weight.lead) + 1
        indices = _dims(node.outputs[0])[:-row]
        sizes = list(table.shape)
        return self._edits.add(
            node,
            "Gather",
            [table, node.inputs[1]],
            {"axis": axis},
            name=f"{node.outputs[0].name}_{suffix}",
            dtype=table.dtype,
            shape=[*sizes[:axis], *indices, *sizes[axis + 1 :]],
        )

    def _unpacked(self, node: ir.Node, halves: ir.Value, rank: int) -> ir.Value:
        edits, name, shape = self._edits, str(node.outputs[0].name), halves.shape
        low = edits.add(node, "BitwiseAnd", [halves, edits.byte(15)], name=f"{name}_low", dtype=_D.UINT8, shape=shape)
        high = edits.add(
            node,
            "BitShift",
            [halves, edits.byte(4)],
            {"direction": "RIGHT"},
            name=f"{name}_high",
            dtype=_D.UINT8,
            shape=shape,
        )
        width = 2 * -(-self._width // 2)
        lead = _dims(node.outputs[0])[:-1]
        both = edits.add(
            node, "Concat", [low, high], {"axis": rank}, name=f"{name}_both", dtype=_D.UINT8, shape=[*lead, width]
        )
        if width == self._width:
            return both
        bounds = [edits.ints([number]) for number in (0, self._width, rank)]
        return edits.add(node, "Slice", [both, *bounds], name=f"{name}_cut", dtype=_D.UINT8, shape=[*lead, self._width])

    def _constant_zero(self, node: ir.Node, scale: ir.Value) -> ir.Value:
        name, shape = str(node.outputs[0].name), scale.shape
        sizes = self._edits.add(
            node, "Shape", [scale], name=f"{name}_sizes", dtype=_D.INT64, shape=[0 if shape is None else len(shape)]
        )
        filler = ir.tensor([8], dtype=_D.UINT8)
        return self._edits.add(
            node, "ConstantOfShape", [sizes], {"value": filler}, name=f"{name}_zeros", dtype=_D.UINT8, shape=shape
        )

    def _scaled(self, node: ir.Node, integers: ir.Value, scale: ir.Value, zero: ir.Value | None, rank: int) -> ir.Value:
        """``scale * (integers - zero)`` with one scale for each row, which DequantizeLinear has for axes only."""
        edits, name = self._edits, str(node.outputs[0].name)
        attributes = {"to": int(self._real)}

        def along(value: ir.Value, suffix: str) -> ir.Value:
            if self._by_columns:
                return value
            shape = [*_dims(value), 1]
            return edits.add(
                node,
                "Unsqueeze",
                [value, edits.ints([rank])],
                name=f"{name}_{suffix}",
                dtype=_dtype(value),
                shape=shape,
            )

        def real(value: ir.Value, suffix: str) -> ir.Value:
            return edits.add(
                node, "Cast", [value], dict(attributes), name=f"{name}_{suffix}", dtype=self._real, shape=value.shape
            )

        moved = real(integers, "real")
        if zero is not None:
            inputs = [moved, along(real(zero, "real_zero"), "zero")]
            moved = edits.add(node, "Sub", inputs, name=f"{name}_moved", dtype=self._real, shape=moved.shape)
        inputs = [moved, along(scale, "scale")]
        return edits.add(node, "Mul", inputs, name=f"{name}_scaled", dtype=self._real, shape=moved.shape)


def blocks_needed(candidate: Candidate, weight: QuantizedWeight, opset: int) -> bool:
    """Whether a weight can't be written because the opset has no scales for blocks."""
    lead = bool(weight.lead) and candidate.uses != {"matrices"}
    return opset < _BLOCKS_SINCE and (weight.blocks > 1 or lead or "recurrent" in candidate.uses)


def _holds(node: ir.Node, wanted: set[ir.Node]) -> bool:
    """Whether a node is one of some, or one of them is in a body of it."""
    return node in wanted or any(_holds(inner, wanted) for body in bodies(node) for inner in body)


def _dims(value: ir.Value) -> list[int | ir.SymbolicDim]:
    assert value.shape is not None
    return list(value.shape)


def _dtype(value: ir.Value) -> ir.DataType:
    assert value.dtype is not None
    return value.dtype
