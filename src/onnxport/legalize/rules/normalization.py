"""Normalizations, as the statistics and the scaling they stand for."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import RuleBuilder

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def _stash(op: RuleBuilder, value: ir.Value) -> ir.Value:
    """The input in the precision of the statistics; a double is never narrowed for them."""
    return op.cast(value, ir.DataType.FLOAT) if value.dtype in _HALF and op.attr_int("stash_type", 1) == 1 else value


@lowers("RMSNormalization", below=23)
def rms_normalization(op: RuleBuilder, node: ir.Node) -> Replacement:
    """x / sqrt(mean(x²) + ε) · scale, in the order that runtimes recognise as one operator."""
    given, scale = op.needed(0), op.needed(1)
    data = _stash(op, given)
    axes = list(range(op.axis(data, op.attr_int("axis", -1)), op.rank(data)))
    squares = op.Pow(data, op.like(2.0, data))
    mean = op.reduce("ReduceMean", squares, [axis - op.rank(data) for axis in axes])
    root = op.Sqrt(op.Add(mean, op.like(op.attr_float("epsilon", 1e-5), data)))
    return op.Mul(op.cast(op.Div(data, root), scale.dtype), scale)


@lowers("LayerNormalization", below=17)
def layer_normalization(op: RuleBuilder, node: ir.Node) -> Replacement:
    """(x - mean) / sqrt(var + ε) · scale + bias, in the order that runtimes recognise as one operator."""
    given, scale, bias = op.needed(0), op.needed(1), op.input(2)
    data = _stash(op, given)
    rank = op.rank(data)
    axes = [axis - rank for axis in range(op.axis(data, op.attr_int("axis", -1)), rank)]
    mean = op.reduce("ReduceMean", data, axes)
    centred = op.Sub(data, mean)
    variance = op.reduce("ReduceMean", op.Pow(centred, op.like(2.0, data)), axes)
    deviation = op.Sqrt(op.Add(variance, op.like(op.attr_float("epsilon", 1e-5), data)))
    result = op.Mul(op.cast(op.Div(centred, deviation), given.dtype), scale)
    if bias is not None:
        result = op.Add(result, bias)
    return result, mean if op.wants(1) else None, op.Reciprocal(deviation) if op.wants(2) else None


@lowers("GroupNormalization", below=21)
def group_normalization(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Instance normalization of the groups, then scale and bias by channel.

    The operator of opset 18 scaled by group, was deprecated for it, and is passed over.
    """
    given, scale, bias = op.needed(0), op.needed(1), op.needed(2)
    data = _stash(op, given)
    groups = op.attr_int("num_groups", 1)
    ones, zeros = op.full(1, data.dtype, [groups]), op.full(0, data.dtype, [groups])
    grouped = op.Reshape(data, op.i64([0, groups, -1]))
    normalized = op.InstanceNormalization(grouped, ones, zeros, epsilon=op.attr_float("epsilon", 1e-5))
    result = op.cast(op.Reshape(normalized, op.sizes(given)), given.dtype)
    spatial = list(range(1, op.rank(given) - 1))
    if spatial:
        scale, bias = op.unsqueeze(scale, spatial), op.unsqueeze(bias, spatial)
    return op.Add(op.Mul(result, scale), bias)


@lowers("BatchNormalization", below=15)
def batch_normalization_types(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Scale and statistics must have the type of the input before opset 15."""
    data = op.needed(0)
    rest = [op.needed(position) for position in range(1, 5)]
    if all(value.dtype == data.dtype for value in rest) or len(node.outputs) > 1:
        return None
    return op.again(data, *(op.cast(value, data.dtype) for value in rest))


@lowers("BatchNormalization", below=14)
def batch_normalization_mode(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Before opset 14 the number of outputs told training from inference; statistics are computed beside it."""
    if not op.attr_int("training_mode", 0):
        node.attributes.pop("training_mode", None)
        return None
    data, scale, bias, mean, variance = (op.needed(position) for position in range(5))
    rank = op.rank(data)
    axes = [axis for axis in range(rank) if axis != 1]
    own_mean = op.reduce("ReduceMean", data, axes)
    centred = op.Sub(data, own_mean)
    own_variance = op.squeeze(op.reduce("ReduceMean", op.Mul(centred, centred), axes), axes)
    own_mean = op.squeeze(own_mean, axes)
    result = op.BatchNormalization(data, scale, bias, own_mean, own_variance, epsilon=op.attr_float("epsilon", 1e-5))
    momentum = op.attr_float("momentum", 0.9)

    def moved(kept: ir.Value, new: ir.Value) -> ir.Value:
        return op.Add(op.Mul(kept, op.like(momentum, kept)), op.Mul(new, op.like(1 - momentum, kept)))

    return (
        result,
        moved(mean, own_mean) if op.wants(1) else None,
        moved(variance, own_variance) if op.wants(2) else None,
    )
