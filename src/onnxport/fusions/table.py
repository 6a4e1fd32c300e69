"""The fusions that there are, what each writes and what it gains, and the walk that applies those of a target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.errors import InputError
from onnxport.events import EventLog
from onnxport.fusions.cache import attend_with_cache, free_caches
from onnxport.fusions.heads import attend_by_heads
from onnxport.fusions.pooling import pool_whole_images, scale_whole_images
from onnxport.fusions.residual import keep_sum_apart
from onnxport.fusions.rotary import rotate_by_heads
from onnxport.fusions.written_attention import attend_as_written
from onnxport.graphs import bodies
from onnxport.onnx_build.opsets import CONTRIBUTED_DOMAIN
from onnxport.optimize.dead_code import remove_dead_code, remove_marked_dead
from onnxport.optimize.scope import Scope


@dataclass(frozen=True)
class Fusion:
    """One row of the table.

    Attributes:
        name: What a target asks for it by.
        starts_at: The operator of the canonical opset that it looks for.
        writes: What stands in the file afterwards.
        requires: What must be so for the values to be the same.
        gain: The time of what it replaces that is left, as measured.
        rewrite: Rewrites a node if all that holds; whether it did.
        finish: Does what is left to do once all nodes are rewritten, if any was.
    """

    name: str
    starts_at: str
    writes: str
    requires: str
    gain: str
    rewrite: Callable[[ir.Node, Scope], bool]
    finish: Callable[[ir.Model, Scope], None] | None = None


FUSIONS: dict[str, Fusion] = {
    fusion.name: fusion
    for fusion in (
        Fusion(
            "residual",
            starts_at="LayerNormalization",
            writes="Sum, LayerNormalization",
            requires="a sum of two tensors that nothing else reads",
            gain="0.14 (0.28 with two threads) of the SkipLayerNormalization that onnxruntime makes of Add, whose "
            "kernel for CPUs is slower than the two that it replaces",
            rewrite=keep_sum_apart,
        ),
        Fusion(
            "heads",
            starts_at="Attention",
            writes="com.microsoft.MultiHeadAttention",
            requires="float32, as many heads of keys as of queries, no mask, no past, heads taken apart just before, "
            "those of queries, keys and values also from one product",
            gain="0.90 to 0.98 of the products, softmax and transpositions: it never holds all weights of keys at once",
            rewrite=attend_by_heads,
        ),
        Fusion(
            "written heads",
            starts_at="Softmax",
            writes="com.microsoft.MultiHeadAttention",
            requires="the same, of attention that a model writes out as products and a softmax",
            gain="0.91 (512 positions) to 0.98 (197) of an attention with the products around it; 1.00 of 64 positions",
            rewrite=attend_as_written,
        ),
        Fusion(
            "pool",
            starts_at="ReduceMean",
            writes="GlobalAveragePool",
            requires="float32, the mean over both axes of images whose size is known, behind a convolution",
            gain="0.97 to 0.98 of a MobileNetV3, whose convolutions need not leave their layout for it; elsewhere 2",
            rewrite=pool_whole_images,
        ),
        Fusion(
            "scale",
            starts_at="Mul",
            writes="Resize, Mul",
            requires="float32, images whose size is known and a factor for each of their channels, a multiple of 8, "
            "both behind convolutions",
            gain="0.96 of a MobileNetV3, whose images need not leave the layout of its convolutions to be multiplied",
            rewrite=scale_whole_images,
        ),
        Fusion(
            "rotary",
            starts_at="Add",
            writes="com.microsoft.RotaryEmbedding",
            requires="float32 or float16, halves of whole heads turned by the same cosines and sines, heads taken "
            "apart just before",
            gain="0.55 of Mul, Slice, Neg, Concat, Mul, Add",
            rewrite=rotate_by_heads,
        ),
        Fusion(
            "cache",
            starts_at="Attention",
            writes="com.microsoft.GroupQueryAttention",
            requires="float32 or float16, keys and values of earlier calls that are inputs, a mask that forbids later "
            "positions by how it is computed, and an input as long as all positions. Several new positions behind "
            "earlier ones are for one row only: onnxruntime refuses more. It turns heads itself where all rows are "
            "turned by the same angles and heads are a multiple of 16",
            gain="0.3 of Concat, products and softmax with 1,024 positions and two threads, where one buffer is past "
            "and present; heads turned by it, of one product with all weights: 0.93 of a step whose weights are cached",
            rewrite=attend_with_cache,
            finish=free_caches,
        ),
    )
}
"""In onnxruntime on CPUs, 64 elements a head. docs/performance.md says what was measured and not taken up."""


def check_fusions(names: Sequence[str]) -> None:
    """Raise if a target asks for a fusion that there is not.

    >>> from onnxport.fusions.table import check_fusions
    >>> check_fusions(["heads"])
    """
    unknown = [name for name in names if name not in FUSIONS]
    if unknown:
        known = ", ".join(map(repr, FUSIONS))
        raise InputError(f"There is no fusion {', '.join(map(repr, unknown))}; known are {known}.")


def fuse(model: ir.Model, names: Sequence[str], events: EventLog | None = None) -> None:
    """Write a model in the form that a reader runs faster, in place, by the fusions of these names.

    >>> import onnx_ir as ir
    >>> from onnxport.fusions import fuse
    >>> model = ir.from_onnx_text(
    ...     '<ir_version: 10, opset_import: ["": 23]> '
    ...     'g (float[2,4] x, float[2,4] z, float[4] w) => (float[2,4] y) <float[2,4] s> '
    ...     '{ s = Add(x, z) y = LayerNormalization(s, w) }'
    ... )
    >>> fuse(model, ["residual"])
    >>> [node.op_type for node in model.graph]
    ['Sum', 'LayerNormalization']
    """
    check_fusions(names)
    by_operator: dict[str, list[Fusion]] = {}
    for name in names:
        by_operator.setdefault(FUSIONS[name].starts_at, []).append(FUSIONS[name])
    tally: Counter[str] = Counter()
    scope = Scope(model.graph, tally, in_function=False)
    remove_dead_code(scope)
    applied: Counter[str] = Counter()
    _walk(model.graph, scope, by_operator, applied)
    for name in applied:
        finish = FUSIONS[name].finish
        if finish is not None:
            finish(model, scope)
    remove_marked_dead(scope)
    if any(node.domain == CONTRIBUTED_DOMAIN for graph in (model.graph, *scope.nested) for node in graph):
        model.opset_imports.setdefault(CONTRIBUTED_DOMAIN, 1)
    if events is not None and applied:
        counts = ", ".join(f"{name}: {count}" for name, count in sorted(applied.items()))
        events.add("note", "fuse", f"written for the target: {counts}")


def _walk(graph: ir.Graph, scope: Scope, by_operator: dict[str, list[Fusion]], applied: Counter[str]) -> None:
    for node in graph:
        for body in bodies(node):
            _walk(body, scope, by_operator, applied)
        if node.domain != "" or node in scope.dead:
            continue
        for fusion in by_operator.get(node.op_type, ()):
            if fusion.rewrite(node, scope):
                applied[fusion.name] += 1
                break
