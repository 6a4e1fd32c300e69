"""Activations that have an operator of their own only in newer opsets."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement, lowers, raises
from onnxport.legalize.rule_builder import RuleBuilder


@lowers("Gelu", below=20)
def gelu(op: RuleBuilder, node: ir.Node) -> Replacement:
    """x Φ(x), exactly or by tanh, in the order that runtimes recognise as one operator."""
    data = op.needed(0)
    if op.attr_string("approximate", "none") == "tanh":
        # (1 + tanh z) / 2 is sigmoid(2 z), which saves three passes over the tensor.
        twice = 2 * math.sqrt(2 / math.pi)
        factor = op.Add(op.Mul(op.Mul(data, data), op.like(twice * 0.044715, data)), op.like(twice, data))
        # In this order: onnxruntime's tool for transformers expects a number in what comes second in the other.
        return op.Mul(op.Sigmoid(op.Mul(data, factor)), data)
    half, one = op.like(0.5, data), op.like(1.0, data)
    error = op.Erf(op.Div(data, op.like(math.sqrt(2), data)))
    return op.Mul(op.Mul(data, op.Add(error, one)), half)


@lowers("Swish", below=24)
def swish(op: RuleBuilder, node: ir.Node) -> Replacement:
    """x sigmoid(α x)."""
    data, alpha = op.needed(0), op.attr_float("alpha", 1.0)
    return op.Mul(data, op.Sigmoid(data if alpha == 1.0 else op.Mul(data, op.like(alpha, data))))


@raises("Swish", since=25)
def unfolded_swish(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The formula itself: onnxruntime 1.31 has no kernel for Swish in models of opset 25 and 26."""
    return swish(op, node)


@lowers("Mish", below=18)
def mish(op: RuleBuilder, node: ir.Node) -> Replacement:
    """x tanh(softplus(x))."""
    return op.Mul(op.needed(0), op.Tanh(op.Softplus(op.needed(0))))


@lowers("HardSwish", below=14)
def hard_swish(op: RuleBuilder, node: ir.Node) -> Replacement:
    """x max(0, min(1, x/6 + 1/2))."""
    return op.Mul(op.needed(0), op.HardSigmoid(op.needed(0), alpha=1 / 6))


@lowers("Relu", below=14)
def relu(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Integers had no Relu before opset 14."""
    data = op.needed(0)
    return op.Max(data, op.like(0, data)) if data.dtype is not None and data.dtype.is_integer() else None


@lowers("Celu", below=12)
def celu(op: RuleBuilder, node: ir.Node) -> Replacement:
    """max(0, x) + min(0, α (exp(x/α) - 1))."""
    data = op.needed(0)
    alpha, zero = op.like(op.attr_float("alpha", 1.0), data), op.like(0, data)
    below = op.Mul(alpha, op.Sub(op.Exp(op.Div(data, alpha)), op.like(1, data)))
    return op.Add(op.Relu(data), op.Min(zero, below))


@lowers("ThresholdedRelu", below=10)
def thresholded_relu(op: RuleBuilder, node: ir.Node) -> Replacement:
    """x where it exceeds α, else 0."""
    data = op.needed(0)
    return op.where(op.Greater(data, op.like(op.attr_float("alpha", 1.0), data)), data, op.like(0, data))


@lowers("Softmax", "LogSoftmax", "Hardmax", below=13)
def softmax(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Before opset 13 all axes from the given one on were taken as one, so the axis has to be the last."""
    data = op.needed(0)
    axis = op.attr_int("axis", -1)
    rank = op.rank(data)
    axis %= max(rank, 1)
    if rank <= 1 or axis == rank - 1:
        node.attributes["axis"] = ir.AttrInt64("axis", axis)
        return None
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    return op.Transpose(op.again(op.Transpose(data, perm=perm), axis=rank - 1), perm=perm)
