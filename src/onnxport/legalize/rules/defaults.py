"""Attributes that came later and may be left out while they hold what was meant before."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement, RuleFunction, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder

# Operators, the opset that brought the attributes, and the value older opsets imply.
_LATER: tuple[tuple[str, int, dict[str, object]], ...] = (
    ("AveragePool", 19, {"dilations": 1}),
    ("Cast CastLike", 24, {"round_mode": "up"}),
    ("SpaceToDepth", 28, {"mode": "DCR"}),
    ("DequantizeLinear", 23, {"output_dtype": 0}),
    ("GRU LSTM RNN", 14, {"layout": 0}),
    ("LpPool", 18, {"ceil_mode": 0, "dilations": 1}),
    ("QuantizeLinear", 23, {"precision": 0}),
    ("QuantizeLinear", 21, {"block_size": 0, "output_dtype": 0}),
    ("QuantizeLinear", 19, {"saturate": 1}),
    ("Range", 27, {"stash_type": 1}),
)


def _leave_out(implied: dict[str, object]) -> RuleFunction:
    def rule(op: RuleBuilder, node: ir.Node) -> Replacement:
        for name, default in implied.items():
            attribute = node.attributes.get(name)
            if attribute is None:
                continue
            held = attribute.value
            same = all(item == default for item in held) if isinstance(held, (list, tuple)) else held == default
            if not same:
                raise Refusal(f"its {name} is {held}")
            node.attributes.pop(name)
        return None

    return rule


for _names, _since, _implied in _LATER:
    lowers(*_names.split(), below=_since)(_leave_out(_implied))
