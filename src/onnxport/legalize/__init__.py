"""From the canonical opset to the one that was asked for, node by node, and nothing written that does not fit it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import onnx_ir as ir
import onnx_ir.passes.common as common_passes

from onnxport.events import EventLog
from onnxport.legalize import rules as rules
from onnxport.legalize.empty_products import between_other_axes
from onnxport.legalize.rewriter import Rewriter
from onnxport.legalize.rules.fourier import transform_short_frames
from onnxport.legalize.validate import Validator
from onnxport.legalize.versions import (
    FIRST_IR_WITH_FUNCTIONS,
    check_ir_version,
    check_opset,
    chosen_ir_version,
    ir_version_for,
    place_initializers,
)
from onnxport.onnx_build.half_products import cast_before_transposes, move_transposes_behind_products
from onnxport.onnx_build.opsets import CANONICAL_OPSET, ONNX_DOMAINS
from onnxport.provenance import passed_to_copies

__all__ = ["FIRST_IR_WITH_FUNCTIONS", "check_ir_version", "check_opset", "legalize"]


def legalize(
    model: ir.Model,
    opset: int,
    *,
    ir_version: int | None = None,
    events: EventLog | None = None,
    kernels: bool = True,
    apart: Callable[[ir.Node], Hashable] | None = None,
    rewritten: frozenset[str] = frozenset(),
) -> None:
    """Rewrite ``model`` in place so that it is a valid model of exactly ``opset``.

    Operators that do not exist there, or read differently, are replaced by what computes the same; element types the
    target does not take are cast to wider ones and back. What cannot be expressed is an :class:`OpsetError` that
    names every such operator, where it comes from, and the nearest opset that has it. The IR version is the one
    that matches the opset, unless ``ir_version`` says another.

    With ``kernels``, what onnxruntime has no implementation for in some element type is computed in another one;
    other runtimes may not need those casts. Operators that ``rewritten`` names are replaced whether the opset has them
    or not, as far as there is a rule for it. What replaces two nodes has parts in common only where ``apart`` gives the
    same for both.

    >>> import onnx_ir as ir
    >>> from onnxport.legalize import legalize
    >>> model = ir.from_onnx_text(
    ...     '<ir_version: 10, opset_import: ["": 23]> agraph (float[2] x) => (float[2] y) { y = Gelu(x) }'
    ... )
    >>> legalize(model, 13)
    >>> model.opset_imports[""], model.ir_version, any(node.op_type == "Erf" for node in model.graph)
    (13, 7, True)
    """
    check_opset(opset)
    check_ir_version(ir_version)
    least = ir_version_for(opset) if ir_version is None else ir_version
    source = model.opset_imports.get("", CANONICAL_OPSET)
    if model.functions:
        none_at_all = least < FIRST_IR_WITH_FUNCTIONS
        inlined = set(model.functions) if none_at_all else _too_general(model.clone(), opset, source)
        if inlined:
            _inline(model, source, inlined)
    rewriter = Rewriter(model, opset, apart, rewritten)
    rewriter.run(source)
    rewriter.run_at_target("STFT", transform_short_frames)
    if kernels:
        rewriter.run_at_target("MatMul", between_other_axes)
    validator = Validator(rewriter.names, rewriter.literals, opset, source, rewriter.refusals, events, kernels)
    validator.check(model.graph)
    for function in model.functions.values():
        rewriter.run_function(function, function.opset_imports.get("", source))
        validator.check(function)
        function.opset_imports[""] = opset
    validator.raise_problems()
    for graph in validator.graphs:
        if kernels and not isinstance(graph, ir.Function):
            cast_before_transposes(graph)
            move_transposes_behind_products(graph)
        if "" in graph.opset_imports:
            graph.opset_imports[""] = opset
    model.opset_imports[""] = opset
    model.ir_version = chosen_ir_version(validator.graphs, validator.kinds, opset, ir_version)
    if model.ir_version < 4:
        place_initializers(model)


def _too_general(trial: ir.Model, opset: int, source: int) -> set[ir.OperatorIdentifier]:
    """Functions that cannot be rewritten for whatever they are called with: types and ranks are known at a call."""
    rewriter = Rewriter(trial, opset)
    found: set[ir.OperatorIdentifier] = set()
    for name, function in trial.functions.items():
        refused = len(rewriter.refusals)
        rewriter.run_function(function, function.opset_imports.get("", source))
        if len(rewriter.refusals) > refused:
            found.add(name)
    return found


def _inline(model: ir.Model, source: int, names: set[ir.OperatorIdentifier]) -> None:
    """Put the bodies of functions where they are called; their nodes remember the opset they were written for."""
    for function in model.functions.values():
        written_for = function.opset_imports.get("", source)
        for node in function.all_nodes():
            if node.domain in ONNX_DOMAINS and node.version is None:
                node.version = written_for
        function.opset_imports[""] = source
    with passed_to_copies(model):
        common_passes.InlinePass(criteria=lambda function: function.identifier() in names)(model)
