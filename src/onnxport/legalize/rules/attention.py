"""Attention and rotary embeddings, operators of opset 23, as the products and sums they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxport.legalize.known import constant_array
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.onnx_build.attention import attention_dtype, attention_scale
from onnxport.onnx_build.literals import INT64_MAX
from onnxport.weights.dtypes import from_torch_dtype, to_torch_dtype

_SWAP_HEADS = [0, 2, 1, 3]


@dataclass(frozen=True)
class _Heads:
    """How many heads queries and keys have, and whether they lie in the last of three axes.

    With fewer key than query heads, the queries of a group are stacked along the sequence (a reshape that moves
    nothing) instead of repeating keys and values.
    """

    op: RuleBuilder
    queries: int
    keys: int
    flat: bool

    def apart(self, value: ir.Value, heads: int, perm: list[int]) -> ir.Value:
        """A tensor with an axis for heads."""
        return _split_heads(self.op, value, heads, perm) if self.flat else value

    def stacked(self, value: ir.Value, size: int) -> ir.Value:
        """Queries, or the weights of keys, with those of a group below each other."""
        if self.queries == self.keys:
            return value
        return self.op.Reshape(value, self.op.i64([0, self.keys, -1, size]))

    def spread(self, value: ir.Value) -> ir.Value:
        """What was computed with stacked queries, by the head of each query."""
        return value if self.queries == self.keys else self.op.Reshape(value, self.op.i64([0, self.queries, -1, 0]))

    def joined(self, value: ir.Value) -> ir.Value:
        """A result that lies as the operands did."""
        op = self.op
        return op.Reshape(op.Transpose(value, perm=_SWAP_HEADS), op.i64([0, 0, -1])) if self.flat else value


@lowers("Attention", below=23)
def attention(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Softmax(scale Q Kᵀ + bias) V."""
    heads, query, key, value, turned = _operands(op)
    bias = _bias(op, query, turned)
    scale = _scale(op, query)
    if scale is not None:
        query = op.Mul(query, scale)
    scores = heads.spread(op.MatMul(heads.stacked(query, _static(query, 3)), turned))
    stages = _masked(op, scores, bias)
    weights = _softmax(op, stages[-1])
    rows = None if bias is None else _rows_attending(op, bias)
    mode = op.attr_int("qk_matmul_output_mode", 0)
    if rows is not None and mode == 3 and op.wants(3):
        weights = op.where(rows, weights, op.like(0, weights))
        rows = None
    stages.append(weights)
    result = heads.spread(op.MatMul(heads.stacked(weights, 0), value))
    if rows is not None:
        result = op.where(rows, result, op.like(0, result))
    results = (heads.joined(result), key, value, stages[mode])
    return [op.cast(one, node.outputs[0].dtype) if op.wants(at) else None for at, one in enumerate(results)]


def _operands(op: RuleBuilder) -> tuple[_Heads, ir.Value, ir.Value, ir.Value, ir.Value]:
    """Heads, queries, keys and values with those of the past before them, and the keys turned for the product."""
    query, key, value = (_wide(op, op.needed(at)) for at in range(3))
    flat = op.rank(query) == 3
    heads = _Heads(op, _heads(op, query, "q_num_heads"), _heads(op, key, "kv_num_heads"), flat)
    query = heads.apart(query, heads.queries, _SWAP_HEADS)
    value = heads.apart(value, heads.keys, _SWAP_HEADS)
    past_key, past_value = (None if past is None else _wide(op, past) for past in (op.input(4), op.input(5)))
    whole_key = past_key is not None or op.wants(1)
    key = heads.apart(key, heads.keys, _SWAP_HEADS if whole_key else [0, 2, 3, 1])
    if past_key is not None and past_value is not None:
        key = op.Concat(past_key, key, axis=2)
        value = op.Concat(past_value, value, axis=2)
    return heads, query, key, value, key if flat and not whole_key else _turn(op, key)


def _masked(op: RuleBuilder, scores: ir.Value, bias: ir.Value | None) -> list[ir.Value]:
    """The scores as they are, bounded, and with the mask."""
    stages = [scores]
    softcap = op.attr_float("softcap", 0.0)
    if softcap:
        scores = op.Mul(op.Tanh(op.Div(scores, op.like(softcap, scores))), op.like(softcap, scores))
    stages.append(scores)
    stages.append(scores if bias is None else op.Add(scores, bias))
    return stages


def _softmax(op: RuleBuilder, scores: ir.Value) -> ir.Value:
    """The weights; a type that is asked for is that of the softmax alone, unless it is that of the operands."""
    precision = ir.DataType(op.attr_int("softmax_precision", 0))
    if precision in (ir.DataType.UNDEFINED, op.needed(0).dtype):
        return op.Softmax(scores, axis=-1)
    return op.cast(op.Softmax(op.cast(scores, precision), axis=-1), scores.dtype)


def _wide(op: RuleBuilder, value: ir.Value) -> ir.Value:
    """An operand in the type that attention is computed in."""
    return (
        value if value.dtype is None else op.cast(value, from_torch_dtype(attention_dtype(to_torch_dtype(value.dtype))))
    )


def _heads(op: RuleBuilder, value: ir.Value, name: str) -> int:
    if op.rank(value) == 3:
        return op.attr_int(name, 0)
    if value.shape is None or not isinstance(value.shape[1], int):
        raise Refusal("the number of heads is not known")
    return value.shape[1]


def _static(value: ir.Value, axis: int) -> int:
    """A size for a reshape: the static one, or "as it was"."""
    dim = value.shape[axis] if value.shape is not None else None
    return dim if isinstance(dim, int) else 0


def _split_heads(op: RuleBuilder, value: ir.Value, heads: int, perm: list[int]) -> ir.Value:
    return op.Transpose(op.Reshape(value, op.i64([0, 0, heads, -1])), perm=perm)


def _turn(op: RuleBuilder, key: ir.Value) -> ir.Value:
    """Kᵀ; a transposition that led to K and serves nothing else is taken up in this one."""
    producer = key.producer()
    if (
        producer is not None
        and producer.op_type == "Transpose"
        and len(key.uses()) == 1
        and "perm" in producer.attributes
    ):
        perm = list(producer.attributes["perm"].as_ints())
        if not key.is_graph_output() and producer.graph is op.node.graph and len(perm) == 4:
            return op.Transpose(producer.inputs[0], perm=[perm[0], perm[1], perm[3], perm[2]])
    return op.Transpose(key, perm=[0, 1, 3, 2])


def _scale(op: RuleBuilder, query: ir.Value) -> ir.Value | None:
    if "scale" in op.node.attributes:
        factor = op.attr_float("scale", 1.0)
        return None if factor == 1.0 else op.like(factor, query)
    size = query.shape[3] if query.shape is not None else None
    if isinstance(size, int):
        return op.like(attention_scale(size), query)
    return op.Reciprocal(op.Sqrt(op.cast(op.dim(query, 3), query.dtype)))


def _dim_key(value: ir.Value, axis: int) -> object:
    """What stands for a size when asking whether two nodes could share a mask."""
    dim = value.shape[axis] if value.shape is not None else None
    if isinstance(dim, int):
        return dim
    return dim.value if dim is not None and dim.value is not None else value


def _bias(op: RuleBuilder, query: ir.Value, turned: ir.Value) -> ir.Value | None:
    """What is added to the scores: the mask, with minus infinity where nothing may be attended to.

    All layers usually share one mask, so it is built once for all nodes that are given the same.
    """
    mask = _unexpanded(op.input(3))
    causal = _causal(op, query, turned) if op.attr_int("is_causal", 0) else None
    if mask is not None:
        mask = _pad_mask(op, mask, turned)
    if mask is None:
        return None if causal is None else _as_bias(op, causal, query)
    if mask.dtype == ir.DataType.BOOL:
        if causal is not None:
            given, allowed = mask, causal
            mask = op.shared(("allowed", mask, causal), lambda: op.And(given, allowed))
        return _as_bias(op, mask, query)
    mask = op.cast(mask, query.dtype)
    if causal is None:
        return mask
    given, addend = mask, _as_bias(op, causal, query)
    return op.shared(("bias", mask, addend), lambda: op.Add(given, addend))


def _unexpanded(mask: ir.Value | None) -> ir.Value | None:
    """A mask as it was before it was repeated, which adding it to the scores does anyway."""
    producer = None if mask is None else mask.producer()
    return mask if producer is None or producer.op_type != "Expand" else producer.inputs[0]


def _as_bias(op: RuleBuilder, allowed: ir.Value, query: ir.Value) -> ir.Value:
    return op.shared(
        ("bias", allowed, query.dtype),
        lambda: op.where(allowed, op.like(0, query), op.like(-math.inf, query)),
    )


def _causal(op: RuleBuilder, query: ir.Value, turned: ir.Value) -> ir.Value:
    """Where key j is not after query i, counting the queries after the keys that were cached."""
    past = op.input(4)
    offset = 0 if past is None else _dim_key(past, 2)

    def make() -> ir.Value:
        rows, columns = _length(op, query, 2), _length(op, turned, 3)
        first = op.i64(1)
        if past is not None:
            first = op.Add(_length(op, past, 2), op.i64(1))
        ends = op.Range(first, op.Add(rows, first), op.i64(1))
        keys = op.Range(op.i64(0), columns, op.i64(1))
        return op.Less(keys, op.unsqueeze(ends, [1]))

    return op.shared(("causal", _dim_key(query, 2), _dim_key(turned, 3), offset), make)


def _length(op: RuleBuilder, value: ir.Value, axis: int) -> ir.Value:
    dim = value.shape[axis] if value.shape is not None else None
    return op.i64(dim) if isinstance(dim, int) else op.squeeze(op.dim(value, axis), [0])


def _pad_mask(op: RuleBuilder, mask: ir.Value, turned: ir.Value) -> ir.Value:
    """A mask that ends before the keys do forbids the rest."""
    have = mask.shape[-1] if mask.shape is not None and len(mask.shape) else None
    want = turned.shape[3] if turned.shape is not None else None
    if not isinstance(have, int) or not isinstance(want, int) or have in (1, want):
        return mask
    pads = op.i64([0] * (2 * op.rank(mask) - 1) + [want - have])
    boolean = mask.dtype == ir.DataType.BOOL
    return op.Pad(mask, pads, op.like(False if boolean else -math.inf, mask))


def _rows_attending(op: RuleBuilder, bias: ir.Value) -> ir.Value | None:
    """Which queries attend to anything; the result of the others is zero where Softmax would give NaN."""
    if op.input(3) is None:
        return None
    known = constant_array(op.input(3))
    if known is not None and not op.attr_int("is_causal", 0):
        blocked = np.logical_not(known) if known.dtype == np.bool_ else np.isneginf(known.astype(np.float64))
        if not blocked.all(axis=-1).any():
            return None
    return op.shared(
        ("attending", bias),
        lambda: op.Greater(op.reduce("ReduceMax", bias, [-1]), op.like(-math.inf, bias)),
    )


@lowers("RotaryEmbedding", below=23)
def rotary_embedding(op: RuleBuilder, node: ir.Node) -> Replacement:
    """(a cos - b sin, a sin + b cos) on the two halves of each head, or on its even and odd elements."""
    data, cos, sin = op.needed(0), op.needed(1), op.needed(2)
    positions = op.input(3)
    flat = op.rank(data) == 3
    # Work on (batch, sequence, heads, size) or (batch, heads, sequence, size), whichever needs no transposition.
    if flat:
        data = op.Reshape(data, op.i64([0, 0, op.attr_int("num_heads", 0), -1]))
    if positions is not None:
        cos, sin = op.Gather(cos, positions, axis=0), op.Gather(sin, positions, axis=0)
    heads = 2 if flat else 1
    cos, sin = op.unsqueeze(cos, [heads]), op.unsqueeze(sin, [heads])
    size = data.shape[3] if data.shape is not None else None
    turned = op.attr_int("rotary_embedding_dim", 0)
    rest = None
    if turned and turned != size:
        rest = op.slice(data, 3, turned, INT64_MAX)
        data = op.slice(data, 3, 0, turned)
        size = turned
    half = cos.shape[3] if cos.shape is not None else None
    half = size // 2 if isinstance(size, int) else half
    if not isinstance(half, int):
        raise Refusal("the size of a head is not known")
    paired = bool(op.attr_int("interleaved", 0))
    if paired:
        data = op.Reshape(data, op.i64([0, 0, -1, half, 2] if flat else [0, _static(data, 1), -1, half, 2]))
        first, second = op.Gather(data, op.i64(0), axis=4), op.Gather(data, op.i64(1), axis=4)
    else:
        first, second = op.slice(data, 3, 0, half), op.slice(data, 3, half, 2 * half)
    real = op.Sub(op.Mul(first, cos), op.Mul(second, sin))
    imaginary = op.Add(op.Mul(first, sin), op.Mul(second, cos))
    if paired:
        pair = op.Concat(op.unsqueeze(real, [4]), op.unsqueeze(imaginary, [4]), axis=4)
        result = op.Reshape(pair, op.i64([0, 0, 0, 2 * half]))
    else:
        result = op.Concat(real, imaginary, axis=3)
    if rest is not None:
        result = op.Concat(result, rest, axis=3)
    return op.Reshape(result, op.i64([0, 0, -1])) if flat else result
