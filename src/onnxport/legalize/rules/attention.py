"""Attention and rotary embeddings, operators of opset 23, as the products and sums they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxport.legalize.known import constant_array
from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import Refusal, RuleBuilder
from onnxport.legalize.rules.counting import axis_length, count_scalar, plus
from onnxport.onnx_build.attention import AttentionFormula, attention_dtype, attention_scale
from onnxport.onnx_build.literals import INT64_MAX
from onnxport.weights.dtypes import from_torch_dtype, to_torch_dtype
from onnxport.weights.kinds import is_weight

_SWAP_HEADS = [0, 2, 1, 3]
_MASKED, _WEIGHTS = 2, 3
"""What an Attention shows of itself: the scores that go into its softmax, or what comes out."""
_SMALL_MASK = 1 << 14
"""Masks of so many elements are literals as what is added to the scores, which takes four times their bytes."""


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


@dataclass(frozen=True)
class _RuleNodes:
    """The terms of a rule; keys are given turned, and what all layers share is written once for all of them."""

    op: RuleBuilder
    heads: _Heads

    def wide(self, operand: ir.Value) -> ir.Value:
        if operand.dtype is None:
            return operand
        return self.op.cast(operand, from_torch_dtype(attention_dtype(to_torch_dtype(operand.dtype))))

    def scale(self, query: ir.Value) -> float | ir.Value:
        size = query.shape[3] if query.shape is not None else None
        if isinstance(size, int):
            return attention_scale(size)
        return self.op.Reciprocal(self.op.Sqrt(self.op.cast(self.op.dim(query, 3), query.dtype)))

    def times(self, query: ir.Value, factor: float | ir.Value) -> ir.Value:
        return self.op.Mul(query, self.op.like(factor, query) if isinstance(factor, float) else factor)

    def scores(self, query: ir.Value, key: ir.Value) -> ir.Value:
        return self.heads.spread(self.op.MatMul(self.heads.stacked(query, _static(query, 3)), key))

    def weighed(self, weights: ir.Value, value: ir.Value) -> ir.Value:
        return self.heads.spread(self.op.MatMul(self.heads.stacked(weights, 0), value))

    def is_bool(self, mask: ir.Value) -> bool:
        return mask.dtype == ir.DataType.BOOL

    def both(self, mask: ir.Value, allowed: ir.Value) -> ir.Value:
        return self.op.shared(("allowed", mask, allowed), lambda: self.op.And(mask, allowed))

    def as_bias(self, allowed: ir.Value, query: ir.Value) -> ir.Value:
        op, known = self.op, _known_mask(allowed)
        if known is not None and query.dtype is not None:
            return op.literal(np.where(known, 0, -math.inf).astype(query.dtype.numpy()))
        return op.shared(
            ("bias", allowed, query.dtype),
            lambda: op.where(allowed, op.like(0, query), op.like(-math.inf, query)),
        )

    def added(self, mask: ir.Value, query: ir.Value) -> ir.Value:
        return self.op.cast(mask, query.dtype)

    def plus(self, one: ir.Value, other: ir.Value) -> ir.Value:
        return self.op.shared(("sum", one, other), lambda: self.op.Add(one, other))

    def softmax(self, scores: ir.Value) -> ir.Value:
        """A type that is asked for is that of the softmax alone, unless it is that of the operands."""
        op = self.op
        precision = ir.DataType(op.attr_int("softmax_precision", 0))
        if precision in (ir.DataType.UNDEFINED, op.needed(0).dtype):
            return op.Softmax(scores, axis=-1)
        return op.cast(op.Softmax(op.cast(scores, precision), axis=-1), scores.dtype)

    def attending(self, bias: ir.Value, mask: ir.Value) -> ir.Value | None:
        op, known = self.op, constant_array(self.op.input(3))
        if known is not None and not op.attr_int("is_causal", 0):
            blocked = np.logical_not(known) if known.dtype == np.bool_ else np.isneginf(known.astype(np.float64))
            if not blocked.all(axis=-1).any():
                return None
        return op.shared(("attending", bias), lambda: _any_above(op, bias))

    def opened(self, mask: ir.Value, allowed: ir.Value | None) -> tuple[ir.Value, ir.Value] | None:
        """A mask by which queries that may attend to nothing see everything, and a 0 for them and a 1 for others.

        None where all queries attend to something. Zeros by a product take half the time of a Where, and onnxruntime
        (1.31) writes a broken file where it quantizes what a Where reads (``QuantFormat.QOperator``).
        """
        op, seen = self.op, mask if allowed is None else self.both(mask, allowed)
        if allowed is None and (known := _known_mask(mask)) is not None and known.any(axis=-1).all():
            return None
        kind = self.wide(op.needed(0)).dtype
        count = op.shared(("count", seen, kind), lambda: op.reduce("ReduceSum", op.cast(seen, kind), [-1]))
        one = op.like(1, count)
        sight = op.shared(("opened", seen), lambda: op.Or(seen, op.Less(count, one)))
        return sight, op.shared(("attends", count), lambda: op.Min(count, one))

    def zero_unless(self, attending: ir.Value, numbers: ir.Value) -> ir.Value:
        return self.op.where(attending, numbers, self.op.like(0, numbers))

    def capped(self, scores: ir.Value) -> ir.Value:
        """The scores, bounded smoothly to ± the attribute of that name."""
        softcap = self.op.like(self.op.attr_float("softcap", 0.0), scores)
        return self.op.Mul(self.op.Tanh(self.op.Div(scores, softcap)), softcap)


@lowers("Attention", below=23)
def attention(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Softmax(scale Q Kᵀ + bias) V."""
    terms, query, key, value, turned = _operands(op)
    mask = _unexpanded(op.input(3))
    mask = None if mask is None else _pad_mask(op, mask, turned)
    if (known := _known_mask(mask)) is not None and known.all():
        mask = None
    allowed = _causal(op, query, turned) if op.attr_int("is_causal", 0) else None
    mode = op.attr_int("qk_matmul_output_mode", 0)
    opened = None
    if mask is not None and terms.is_bool(mask) and not (mode == _MASKED and op.wants(3)):
        opened = terms.opened(mask, allowed)
    if opened is not None:
        mask, allowed = opened[0], None
    formula = AttentionFormula(
        terms,
        query,
        turned,
        mask=mask,
        allowed=allowed,
        scale=op.attr_float("scale", 1.0) if "scale" in node.attributes else None,
        change=terms.capped if op.attr_float("softcap", 0.0) else None,
    )
    weights = formula.weights(safe=opened is None)

    def or_zero(numbers: ir.Value) -> ir.Value:
        return formula.or_zero(numbers) if opened is None else op.Mul(numbers, opened[1])

    # Zeros are put where there are fewer numbers, unless the weights are looked at.
    shown = mode == _WEIGHTS and op.wants(3)
    weights = or_zero(weights) if shown else weights
    result = formula.result(weights, value)
    result = result if shown else or_zero(result)
    results = (
        terms.heads.joined(result),
        key,
        value,
        (formula.scores, formula.changed, formula.masked, weights)[mode],
    )
    return [op.cast(one, node.outputs[0].dtype) if op.wants(at) else None for at, one in enumerate(results)]


def _operands(op: RuleBuilder) -> tuple[_RuleNodes, ir.Value, ir.Value, ir.Value, ir.Value]:
    """Terms, queries, keys and values with those of the past before them, and the keys turned for the product."""
    first, second = op.needed(0), op.needed(1)
    heads = _Heads(op, _heads(op, first, "q_num_heads"), _heads(op, second, "kv_num_heads"), op.rank(first) == 3)
    terms = _RuleNodes(op, heads)
    query, key, value = (terms.wide(op.needed(at)) for at in range(3))
    query = heads.apart(query, heads.queries, _SWAP_HEADS)
    value = heads.apart(value, heads.keys, _SWAP_HEADS)
    past_key, past_value = (None if past is None else terms.wide(past) for past in (op.input(4), op.input(5)))
    whole_key = past_key is not None or op.wants(1)
    key = heads.apart(key, heads.keys, _SWAP_HEADS if whole_key else [0, 2, 3, 1])
    if past_key is not None and past_value is not None:
        key = op.Concat(past_key, key, axis=2)
        value = op.Concat(past_value, value, axis=2)
    return terms, query, key, value, key if heads.flat and not whole_key else _turn(op, key)


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


def _dim_key(value: ir.Value, axis: int) -> object:
    """What stands for a size when asking whether two nodes could share a mask."""
    dim = value.shape[axis] if value.shape is not None else None
    if isinstance(dim, int):
        return dim
    return dim.value if dim is not None and dim.value is not None else value


def _known_mask(mask: ir.Value | None) -> npt.NDArray[np.generic] | None:
    """A mask of the graph's own; one that is a weight may be replaced, and a large one stays as it is."""
    if mask is None or is_weight(mask):
        return None
    known = constant_array(mask)
    return known if known is not None and known.dtype == np.bool_ and known.size <= _SMALL_MASK else None


def _unexpanded(mask: ir.Value | None) -> ir.Value | None:
    """A mask as it was before it was repeated, which adding it to the scores does anyway."""
    producer = None if mask is None else mask.producer()
    return mask if producer is None or producer.op_type != "Expand" else producer.inputs[0]


def _causal(op: RuleBuilder, query: ir.Value, turned: ir.Value) -> ir.Value:
    """Where key j is not after query i, counting the queries after the keys that were cached."""
    past = op.input(4)
    offset = 0 if past is None else _dim_key(past, 2)

    def make() -> ir.Value:
        rows, columns = axis_length(op, query, 2), axis_length(op, turned, 3)
        first = plus(op, 0 if past is None else axis_length(op, past, 2), 1)
        ends = op.Range(count_scalar(op, first), count_scalar(op, plus(op, rows, first)), op.i64(1))
        keys = op.Range(op.i64(0), count_scalar(op, columns), op.i64(1))
        return op.Less(keys, op.unsqueeze(ends, [1]))

    return op.shared(("causal", _dim_key(query, 2), _dim_key(turned, 3), offset), make)


def _pad_mask(op: RuleBuilder, mask: ir.Value, turned: ir.Value) -> ir.Value:
    """A mask that ends before the keys do forbids the rest."""
    have = mask.shape[-1] if mask.shape is not None and len(mask.shape) else None
    want = turned.shape[3] if turned.shape is not None else None
    if not isinstance(have, int) or not isinstance(want, int) or have in (1, want):
        return mask
    pads = op.i64([0] * (2 * op.rank(mask) - 1) + [want - have])
    boolean = mask.dtype == ir.DataType.BOOL
    return op.Pad(mask, pads, op.like(False if boolean else -math.inf, mask))


def _any_above(op: RuleBuilder, bias: ir.Value) -> ir.Value:
    """Which rows have an element above -∞; counted, since onnxruntime's shape inference follows sums of any opset."""
    unmasked = op.cast(op.Greater(bias, op.like(-math.inf, bias)), ir.DataType.FLOAT)
    count = op.reduce("ReduceSum", unmasked, [-1])
    return op.Greater(count, op.like(0, count))


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
