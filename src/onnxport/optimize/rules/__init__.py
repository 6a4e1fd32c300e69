"""The rewrite rules, as rows of (name, pattern, function), and how a row is matched.

A pattern reads like the expression it stands for: ``"Transpose(Transpose)"`` is a Transpose of a Transpose,
``"Cast"`` any Cast. A rule looks at its node and at what feeds it, never at what reads it: walking forwards, the
inputs are in their final form, so each node needs to be looked at once.
"""

from __future__ import annotations

from onnxport.optimize.rules.activations import RULES as ACTIVATIONS
from onnxport.optimize.rules.attention import RULES as ATTENTION
from onnxport.optimize.rules.broadcast import RULES as BROADCAST
from onnxport.optimize.rules.casts import RULES as CASTS
from onnxport.optimize.rules.layout import RULES as LAYOUT
from onnxport.optimize.rules.neutral import RULES as NEUTRAL
from onnxport.optimize.rules.norms import RULES as NORMS
from onnxport.optimize.rules.padding import RULES as PADDING
from onnxport.optimize.rules.pattern import Rule
from onnxport.optimize.rules.quantized import RULES as QUANTIZED
from onnxport.optimize.rules.transposes import RULES as TRANSPOSES
from onnxport.optimize.rules.truths import RULES as TRUTHS

#: Nothing-to-do rules come first: they leave less for the ones that combine two nodes.
RULES: tuple[Rule, ...] = (
    *NEUTRAL, *CASTS, *LAYOUT, *BROADCAST, *NORMS, *ATTENTION, *PADDING, *ACTIVATIONS, *TRANSPOSES, *QUANTIZED, *TRUTHS,
)  # fmt: skip

BY_OPERATOR: dict[str, tuple[Rule, ...]] = {
    op_type: tuple(rule for rule in RULES if rule.op_type == op_type)
    for op_type in dict.fromkeys(rule.op_type for rule in RULES)
}
