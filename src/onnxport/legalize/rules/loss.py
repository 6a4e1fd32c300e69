"""Losses and dropout, as the arithmetic they stand for."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.legalize.known import constant_array
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder


@lowers("NegativeLogLikelihoodLoss", below=12)
def negative_log_likelihood(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The logarithms at the targets, weighed, and their mean or sum."""
    return _at_targets(op, node, op.needed(0))


@lowers("SoftmaxCrossEntropyLoss", below=12)
def softmax_cross_entropy(op: RuleBuilder, node: ir.Node) -> Replacement:
    """The same of the logarithm of the softmax, over all axes from the class on as one."""
    data = op.needed(0)
    rank = op.rank(data)
    # Before opset 13 the axis has to be the last.
    perm = list(range(rank))
    perm[1], perm[-1] = perm[-1], perm[1]
    moved = data if rank == 2 else op.Transpose(data, perm=perm)
    logarithms = op.LogSoftmax(moved, axis=rank - 1)
    if rank != 2:
        logarithms = op.Transpose(logarithms, perm=perm)
    return _at_targets(op, node, logarithms), logarithms if op.wants(1) else None


def _at_targets(op: RuleBuilder, node: ir.Node, logarithms: ir.Value) -> ir.Value:
    targets, weights = op.cast(op.needed(1), ir.DataType.INT64), op.input(2)
    counted: ir.Value | None = None
    if "ignore_index" in node.attributes:
        ignored = op.Equal(targets, op.i64(op.attr_int("ignore_index", 0)))
        # Any class will do for targets that are not counted; their index may be none.
        targets = op.where(ignored, op.i64(0), targets)
        counted = op.cast(op.Not(ignored), logarithms.dtype)
    picked = op.squeeze(op.GatherElements(logarithms, op.unsqueeze(targets, [1]), axis=1), [1])
    share = counted
    if weights is not None:
        share = op.Gather(weights, targets, axis=0)
        if counted is not None:
            share = op.Mul(share, counted)
    loss = op.Neg(picked)
    if share is not None:
        # What is not counted gives zero, even where its logarithm is infinite.
        loss = op.Mul(loss, share) if counted is None else op.where(ignored, op.like(0, loss), op.Mul(loss, share))
    reduction = op.attr_string("reduction", "mean")
    if reduction == "none":
        return loss
    axes = list(range(op.rank(targets)))
    if reduction == "mean" and share is None:
        return op.reduce("ReduceMean", loss, axes, keepdims=False)
    total = op.reduce("ReduceSum", loss, axes, keepdims=False)
    if reduction == "sum" or share is None:
        return total
    return op.Div(total, op.reduce("ReduceSum", share, axes, keepdims=False))


@lowers("Dropout", below=12)
def dropout(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Nothing is dropped at inference, which is all that the operator then did; else by random numbers."""
    data, ratio = op.needed(0), op.input(1)
    training = constant_array(op.input(2))
    if not op.has_input(2) or (training is not None and not bool(training.reshape(-1)[0])):
        ones = op.ConstantOfShape(op.Shape(data), value=ir.tensor(np.ones(1, np.int64))) if op.wants(1) else None
        return op.Identity(data), None if ones is None else op.cast(ones, ir.DataType.BOOL)
    if training is None:
        raise Refusal("only run time knows whether it drops elements")
    share = op.like(0.5, data) if ratio is None else op.cast(ratio, data.dtype)
    seed = node.attributes.get("seed")
    drawn = op.RandomUniformLike(data, dtype=int(ir.DataType.FLOAT), seed=seed)
    mask = op.Not(op.Less(drawn, op.cast(share, ir.DataType.FLOAT)))
    kept = op.Sub(op.like(1, data), share)
    # Where all is dropped nothing is left to be made larger.
    result = op.where(mask, op.Div(data, kept), op.like(0, data))
    return result, mask if op.wants(1) else None


@lowers("Bernoulli", below=15)
def bernoulli(op: RuleBuilder, node: ir.Node) -> Replacement:
    """One where a number between zero and one is below the probability."""
    data = op.needed(0)
    kind = ir.DataType(op.attr_int("dtype", int(data.dtype or ir.DataType.FLOAT)))
    drawn = op.RandomUniformLike(data, dtype=int(ir.DataType.FLOAT), seed=node.attributes.get("seed"))
    return op.cast(op.Less(drawn, op.cast(data, ir.DataType.FLOAT)), kind)
