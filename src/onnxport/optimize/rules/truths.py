"""Truths that became numbers and are asked for again, as Python's ``if`` on a tensor leaves them."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from onnxport.optimize.rules.pattern import Rule, producer_of
from onnxport.optimize.scope import Scope


def _of_a_truth(node: ir.Node, scope: Scope) -> ir.Value | Literal[True] | None:
    """Equal(Cast(truth), 1) is the truth, and Equal(Cast(truth), 0) is Not of it."""
    truth = producer_of(node).inputs[0]
    array = scope.array(node.inputs[1])
    if truth is None or truth.dtype != ir.DataType.BOOL or array is None or array.shape != ():
        return None
    if array == 1:
        return truth
    if array == 0:
        scope.become(node, "Not", [truth], [])
        return True
    return None


def _twice_denied(node: ir.Node, scope: Scope) -> ir.Value | None:
    return producer_of(node).inputs[0]


RULES: list[Rule] = [
    Rule("equal to a truth as a number", "Equal(Cast)", _of_a_truth),
    Rule("not of not", "Not(Not)", _twice_denied),
]
