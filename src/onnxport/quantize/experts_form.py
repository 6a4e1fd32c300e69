"""A mixture of quantized experts as one operator of onnxruntime, QMoE, which reads only the experts that are chosen."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
import torch

from onnxport.quantize.experts import Mixture
from onnxport.quantize.graph_edits import GraphEdits
from onnxport.quantize.lazy_weight import QuantizedWeight
from onnxport.quantize.microsoft import DOMAIN
from onnxport.weights.dtypes import from_torch_dtype
from onnxport.weights.lazy_integers import LazyIntegers, LazyParameters

_D = ir.DataType


class ExpertsForm:
    """The two weights of a mixture as bytes by expert, output and input, and the node that reads them."""

    def __init__(
        self, edits: GraphEdits, mixture: Mixture, up: QuantizedWeight, down: QuantizedWeight, level: int | None
    ) -> None:
        self._edits = edits
        self._mixture = mixture
        self._weights = (up, down)
        self._level = level
        self.initializers: tuple[list[ir.Value], list[ir.Value]] = ([], [])

    @staticmethod
    def fits(mixture: Mixture, up: QuantizedWeight, down: QuantizedWeight, level: int | None) -> bool:
        """Whether the operator has the grid and the blocks of both weights, and computes with them as they are."""
        if mixture.x.dtype != _D.FLOAT or up.dtype != torch.float32 or down.dtype != torch.float32:
            return False
        blocked = up.blocks > 1 or down.blocks > 1
        # Its kernel for blocks of 8-bit numbers rounds what they are multiplied with.
        rounds = blocked and up.bits == 8 and level != 4
        whole = all(one.inputs % one.block == 0 and one.inputs * one.bits % 8 == 0 for one in (up, down))
        alike = up.bits == down.bits and (not blocked or up.block == down.block)
        return whole and alike and not rounds and up.grid.least == down.grid.least == 0

    def write(self, sources: tuple[ir.Value, ir.Value]) -> None:
        """Let one node stand for the mixture; ``sources`` are the weights that it had."""
        mixture, (up, down) = self._mixture, self._weights
        node = mixture.result.producer()
        assert node is not None
        gated = mixture.activation == "swiglu"
        first = self._initializers(up, sources[0], 0, gated=gated)
        second = self._initializers(down, sources[1], 1, gated=False)
        selection, shares = self._routing(node)
        inputs = [mixture.x, selection, *first[:2], None, *second[:2], *[None] * 4, first[2], second[2], None, shares]
        attributes: dict[str, int | float | str] = {
            "k": self._each,
            "activation_type": mixture.activation,
            "expert_weight_bits": up.bits,
            "normalize_routing_weights": 0,
        }
        if up.blocks > 1 or down.blocks > 1:
            attributes["block_size"] = up.block
        if gated:
            attributes |= {"swiglu_fusion": 1, "activation_alpha": 1.0, "activation_beta": 0.0}
        if self._level is not None:
            attributes["accuracy_level"] = self._level
        result = mixture.result
        made = self._edits.add(
            node,
            "QMoE",
            inputs,
            dict(attributes),
            name=f"{result.name}_QMoE",
            dtype=_D.FLOAT,
            shape=result.shape,
            domain=DOMAIN,
        )
        self._edits.replace(node, made)
        self._edits.model.opset_imports.setdefault(DOMAIN, 1)

    @property
    def _each(self) -> int:
        """How many experts a row chooses."""
        shape = self._mixture.chosen.shape
        assert shape is not None and isinstance(shape[1], int)
        return shape[1]

    # --- initializers ----------------------------------------------------------------------------------------------

    def _initializers(
        self, weight: QuantizedWeight, source: ir.Value, place: int, *, gated: bool
    ) -> tuple[ir.Value, ir.Value, ir.Value | None]:
        (experts,) = weight.lead
        real, parts = from_torch_dtype(weight.dtype), 2 if gated else 1

        def parameters() -> torch.Tensor:
            scale = _by_turns(weight.parameters[0], parts)
            return scale if blocks else scale.squeeze(-1)

        def zero_points() -> torch.Tensor:
            numbers = _by_turns(weight.parameters[1].to(torch.uint8), parts)
            return _packed(numbers if blocks else numbers.squeeze(-1), weight.bits)

        blocks = () if all(one.blocks == 1 for one in self._weights) else (weight.blocks,)
        bytes_shape = (experts, weight.outputs, weight.inputs * weight.bits // 8)
        integers = LazyIntegers(lambda: _matrices(weight, parts), _D.UINT8, bytes_shape, "")
        held = self._edits.weight(integers, f"{weight.name}_quantized", source)
        shape = (experts, weight.outputs, *blocks)
        scale = self._edits.weight(LazyParameters(parameters, real, shape, ""), f"{weight.name}_scale", source)
        zero = None
        if not weight.grid.symmetric:
            packed = (*shape[:-1], -(-shape[-1] * weight.bits // 8))
            zero = self._edits.weight(
                LazyParameters(zero_points, _D.UINT8, packed, ""), f"{weight.name}_zero_point", source
            )
        self.initializers[place].extend(one for one in (held, scale, zero) if one is not None)
        return held, scale, zero

    # --- routing -----------------------------------------------------------------------------------------------------

    def _routing(self, node: ir.Node) -> tuple[ir.Value, ir.Value]:
        """Which experts each row chose, as ones among zeros, and with which shares: for each row, for all experts."""
        edits, chosen, experts = self._edits, self._mixture.chosen, self._mixture.experts
        name = str(self._mixture.result.name)
        lead = [] if chosen.shape is None else [chosen.shape[0]]
        both = edits.add(node, "Shape", [chosen], name=f"{name}_sizes", dtype=_D.INT64, shape=[2])
        bounds = [edits.ints([0]), edits.ints([1])]
        rows = edits.add(node, "Slice", [both, *bounds], name=f"{name}_rows", dtype=_D.INT64, shape=[1])
        inputs = [rows, edits.ints([experts])]
        sizes = edits.add(node, "Concat", inputs, {"axis": 0}, name=f"{name}_all", dtype=_D.INT64, shape=[2])
        zeros = self._filled(node, sizes, 0.0, [*lead, experts])
        ones = self._filled(node, both, 1.0, chosen.shape)
        selection, shares = (
            edits.add(
                node,
                "ScatterElements",
                [zeros, chosen, value],
                {"axis": 1},
                name=f"{name}_{suffix}",
                dtype=_D.FLOAT,
                shape=[*lead, experts],
            )
            for value, suffix in ((ones, "chosen"), (self._mixture.shares, "shares"))
        )
        return selection, shares

    def _filled(
        self, node: ir.Node, sizes: ir.Value, number: float, shape: ir.Shape | list[int | ir.SymbolicDim] | None
    ) -> ir.Value:
        value = ir.tensor([number], dtype=_D.FLOAT)
        name = f"{self._mixture.result.name}_{int(number)}"
        return self._edits.add(
            node, "ConstantOfShape", [sizes], {"value": value}, name=name, dtype=_D.FLOAT, shape=shape
        )


def _by_turns(rows: torch.Tensor, parts: int) -> torch.Tensor:
    """Rows of both halves of a gated layer in turns, as the operator has them."""
    if parts == 1:
        return rows
    apart = rows.reshape(*rows.shape[:-2], parts, -1, rows.shape[-1])
    return apart.transpose(-3, -2).flatten(-3, -2)


def _matrices(weight: QuantizedWeight, parts: int) -> Iterator[torch.Tensor]:
    """The integers of one expert after the other."""
    rows: list[torch.Tensor] = []
    for piece in weight.by_rows():
        rows.append(piece)
        if sum(len(one) for one in rows) == weight.outputs:
            yield _packed(_by_turns(torch.cat(rows), parts), weight.bits)
            rows = []


def _packed(numbers: torch.Tensor, bits: int) -> torch.Tensor:
    """Two numbers of four bits in a byte, along the last axis."""
    if bits == 8:
        return numbers
    numbers = torch.nn.functional.pad(numbers, (0, numbers.shape[-1] % 2))
    return numbers[..., 0::2] | (numbers[..., 1::2] << 4)
