"""Padding in a form that optimizers of readers keep apart from what follows it.

onnxruntime (seen in 1.31) and onnxsim move zeros of a Pad into the ``pads`` of a MaxPool, which stand for minus
infinity: wherever all of a window is negative, its maximum is no longer 0. They look for the zero by its bits, so a
negative zero, which is as large, is left alone.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from onnxport.optimize.rules.pattern import Rule, producer_of
from onnxport.optimize.scope import Scope

_TYPES = {ir.DataType.FLOAT: np.float32, ir.DataType.DOUBLE: np.float64, ir.DataType.FLOAT16: np.float16}


def _negative_zero(node: ir.Node, scope: Scope) -> Literal[True] | None:
    pad = producer_of(node)
    dtype = pad.outputs[0].dtype
    # Functions have no literals, and before opset 11 the value is an attribute.
    if dtype not in _TYPES or scope.in_function or "pads" in pad.attributes:
        return None
    if pad.attributes.get_string("mode", "constant") != "constant":
        return None
    given = pad.inputs[2] if len(pad.inputs) > 2 else None
    value = scope.array(given)
    if given is not None and (value is None or value.any() or np.signbit(value).any()):
        return None
    if len(pad.inputs) < 3:
        pad.resize_inputs(3)
    zero = np.array(-0.0, dtype=_TYPES[dtype])
    scope.set_input(pad, 2, scope.literal(zero, dtype, f"{pad.outputs[0].name}_value"))
    return True


RULES: tuple[Rule, ...] = (Rule("zeros before a maximum", "MaxPool(Pad)", _negative_zero),)
