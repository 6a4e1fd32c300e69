"""Optimize: an ordered list of linear passes over the ONNX graph, its bodies and its functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

import onnx_ir as ir

from onnxport.events import EventLog
from onnxport.optimize.batch_norm import fold_batch_norms
from onnxport.optimize.dead_code import remove_dead_code, remove_marked_dead, remove_uncalled_functions
from onnxport.optimize.forward import rewrite_forwards
from onnxport.optimize.integer_products import multiply_integers
from onnxport.optimize.packed_weights import store_packed_weights
from onnxport.optimize.quantized_weights import store_quantized_weights
from onnxport.optimize.scope import Scope
from onnxport.optimize.share import share_initializers

__all__ = ["optimize"]

#: Each pass, and why it stands where it does.
PASSES: tuple[tuple[Callable[[Scope], None], str], ...] = (
    (remove_dead_code, "first: nobody should spend time on dead nodes, and the passes below need the count of uses"),
    (share_initializers, "before expressions are compared, so that equal constants are the same value"),
    (rewrite_forwards, "rules, folding and common subexpressions in one walk: each sees final inputs, none repeats"),
    (fold_batch_norms, "only on request; after the walk, which may have removed what stood between the two"),
    (store_packed_weights, "after the walk, which leaves of an unpacking what depends on weights"),
    (multiply_integers, "before weights are stored in the order in which products read them"),
    (store_quantized_weights, "after the walk, which has brought casts and transposes together"),
    (remove_marked_dead, "last: takes out what the others left behind"),
)


def optimize(
    model: ir.Model,
    events: EventLog | None = None,
    *,
    fold_batch_norm: bool = False,
    apart: Callable[[ir.Node], Hashable] | None = None,
    written_opset: int | None = None,
) -> None:
    """Simplify a model in place, in time proportional to its size.

    Graph inputs and outputs keep their names, order and number; weights keep their names and are neither read nor
    copied. ``fold_batch_norm`` also folds BatchNormalization into the convolution before it, after which those
    weights are no longer the state dict's (onnxruntime does the same by itself when it loads a model). Equal nodes are
    merged only where ``apart`` gives the same for both. ``written_opset`` is the one that the model is to have in the
    end, if not its own: some forms are worth it only in newer ones.

    >>> import onnx_ir as ir
    >>> x = ir.val("x", ir.DataType.FLOAT, [2])
    >>> copy = ir.node("Identity", [x])
    >>> relu = ir.node("Relu", copy.outputs)
    >>> model = ir.Model(ir.Graph([x], relu.outputs, nodes=[copy, relu], opset_imports={"": 23}), ir_version=10)
    >>> optimize(model)
    >>> [node.op_type for node in model.graph]
    ['Relu']
    """
    tally = run_passes(model, fold_batch_norm=fold_batch_norm, apart=apart, written_opset=written_opset)
    if events is not None:
        visits = tally.pop("visits", 0)
        hits = ", ".join(f"{name}: {count}" for name, count in sorted(tally.items()))
        events.add("note", "optimize", f"{visits} node visits; {hits or 'nothing to simplify'}")


def run_passes(
    model: ir.Model,
    *,
    fold_batch_norm: bool = False,
    apart: Callable[[ir.Node], Hashable] | None = None,
    written_opset: int | None = None,
) -> Counter[str]:
    """Run every pass over the graph and over each function, and return how often each rule applied."""
    tally: Counter[str] = Counter()
    remove_uncalled_functions(model, tally)
    scopes = [Scope(model.graph, tally, in_function=False, apart=apart, written_opset=written_opset)]
    scopes += [Scope(function.graph, tally, in_function=True) for function in model.functions.values()]
    for scope in scopes:
        for run, _ in PASSES:
            if run is fold_batch_norms and not fold_batch_norm:
                continue
            run(scope)
    return tally
