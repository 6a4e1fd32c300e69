"""The stages from a captured model to an ONNX program, once: prepare, translate, optimize, legalize, functions."""

from __future__ import annotations

from functools import partial
from typing import Protocol

import onnx_ir as ir
import torch

from onnxport import aten  # noqa: F401  (fills the registry)
from onnxport.capture import Captured
from onnxport.capture.forks.paths import Fork, Path, Tree
from onnxport.capture.naming import returned_names, unbacked_names
from onnxport.capture.request.contexts import outside_of_autocast
from onnxport.collection import collection_paused
from onnxport.errors import Problem, listing, warn
from onnxport.events import EventLog
from onnxport.export_types import TrainingMode
from onnxport.functions import function_calls, outline
from onnxport.fusions import fuse
from onnxport.join import Condition, Side, join
from onnxport.legalize import FIRST_IR_WITH_FUNCTIONS, legalize
from onnxport.legalize.first_elements import forget_sizes_of_first_elements
from onnxport.legalize.index_bounds import check_constant_indices
from onnxport.optimize import optimize
from onnxport.optimize.dead_code import remove_unread_initializers
from onnxport.options import Options
from onnxport.prepare import FunctionalProgram, prepare, prepare_body
from onnxport.program import ONNXProgram
from onnxport.program.quantized import quantized
from onnxport.provenance import SIZE_LIMITS, Provenance, name_by_modules, source_line, write_texts
from onnxport.targets import PROFILES, check_fit, narrow_inputs
from onnxport.translate import Names, is_translated, translate, translate_path
from onnxport.translate.registry import Lookup


class Watcher(Protocol):
    """Who wants to see what the stages hand over, also when a later one fails."""

    functional: FunctionalProgram | None
    onnx_model: ir.Model | None


def functional_form(program: torch.export.ExportedProgram, find: Lookup, events: EventLog) -> FunctionalProgram:
    """Prepare a captured program for the translations that ``find`` knows."""
    return prepare(program, partial(is_translated, find), events)


def functional_body(name: str, body: torch.fx.GraphModule, find: Lookup, events: EventLog) -> torch.fx.GraphModule:
    """Prepare a graph that is made while one call is translated, and is to be translated in its place."""
    return prepare_body(name, body, partial(is_translated, find), events)


def convert(
    captured: Captured, find: Lookup, options: Options, events: EventLog, watcher: Watcher | None = None
) -> ONNXProgram:
    """Turn a captured model into an ONNX program of the opset that was asked for.

    >>> import torch
    >>> from onnxport.capture import capture
    >>> from onnxport.events import EventLog
    >>> from onnxport.options import Options
    >>> from onnxport.translate import lookup
    >>> captured = capture(torch.nn.ReLU(), torch.ones(2), events=EventLog())
    >>> program = convert(captured, lookup(None), Options(opset=13), EventLog())
    >>> program.model.opset_imports[""], [node.op_type for node in program.model.graph]
    (13, ['Relu'])
    """
    with collection_paused(), outside_of_autocast():
        with events.stage("prepare"):
            functional = functional_form(captured.program, find, events)
            _warn_of_lost_state(functional, events)
            if watcher is not None:
                watcher.functional = functional
        if captured.forks is None:
            with events.stage("translate"):
                model = translate(functional, find, _names(captured), events)
                if watcher is not None:
                    watcher.onnx_model = model
        else:
            model = _translate_forks(captured, functional, captured.forks, find, events).model
            if watcher is not None:
                watcher.onnx_model = model
        has_functions = options.ir_version is None or options.ir_version >= FIRST_IR_WITH_FUNCTIONS
        calls = None
        if has_functions:
            calls = function_calls(functional.graph, options.functions, options.opset, captured.model)
        apart = None if calls is None else calls.chain
        if options.optimize:
            with events.stage("optimize"):
                optimize(model, events, apart=apart, written_opset=options.opset)
                if options.target.fusions:
                    fuse(model, options.target.fusions, events)
        with events.stage("legalize"):
            check_constant_indices(model)
            legalize(
                model,
                options.opset,
                ir_version=options.ir_version,
                events=events,
                apart=apart,
                rewritten=options.target.rewritten,
            )
            if options.follows_example and not options.optimize:
                remove_unread_initializers(model.graph)
            if options.target != PROFILES["onnx"]:
                check_fit(model, options.target)
            if options.target.int32_inputs:
                narrow_inputs(model)
            forget_sizes_of_first_elements(model)
        quantization = None
        if options.quantize is not None:
            with events.stage("quantize"):
                quantization = quantized(model, options.quantize, options.target, captured.program)
        if calls is not None:
            with events.stage("functions"):
                outline(model, calls, events)
        if options.follows_example:
            name_by_modules(model)
        write_texts(model)
    result = _program(model, captured, options, events)
    result.functional = functional
    result.quantization = quantization
    return result


def _program(model: ir.Model, captured: Captured, options: Options, events: EventLog) -> ONNXProgram:
    """The model with what was captured, and what it was asked for that decides how files are written."""
    result = ONNXProgram(model, captured.program, events)
    if captured.forks is not None:
        result.paths = [path.program for path in captured.forks.paths]
    result.size_limits = captured.size_limits
    if captured.size_limits:
        words = (f"{limit.words} (else {limit.otherwise})" for limit in captured.size_limits)
        model.graph.metadata_props[SIZE_LIMITS] = "; ".join(dict.fromkeys(words))
    result.metadata = options.metadata
    result.target = options.target
    evaluates = options.training == TrainingMode.EVAL
    result.fold_batch_norm = options.fold_batch_norm and options.optimize and evaluates
    if options.optimize and evaluates:
        result.computed_weights = "always" if options.follows_example else "where smaller or of a layer"
    return result


# What layers learn in training mode, of which another warning tells.
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def _warn_of_lost_state(functional: FunctionalProgram, events: EventLog) -> None:
    """Warn of buffers that forward writes to: an ONNX model has no state, so each run starts from the saved value."""
    kept = [
        mutation
        for mutation in functional.mutations
        if mutation.kind == "BUFFER_MUTATION" and mutation.target.rpartition(".")[2] not in _STATISTICS
    ]
    remedy = "Take the old value as an input of forward and return the new one."
    problems = [
        Problem(f"The buffer '{mutation.target}'", source_line(mutation.node), remedy)
        for mutation in {mutation.target: mutation for mutation in kept}.values()
    ]
    for problem in problems:
        message = f"{problem.what} is written to, and the file can't keep that."
        events.add("warning", "prepare", message, where=problem.where)
    if problems:
        warn(listing("Each run of the file starts from the saved value of buffers that forward writes to:", problems))


def _translate_forks(
    captured: Captured, functional: FunctionalProgram, tree: Tree, find: Lookup, events: EventLog
) -> Side:
    """Translate all ways through a model, and join them from the last decision to the first.

    ``functional`` is the captured program, which is one of the ways, prepared already.
    """
    if isinstance(tree, Fork):
        sides = [_translate_forks(captured, functional, side, find, events) for side in (tree.if_true, tree.if_false)]
        with events.stage("join"):
            return join(sides[0], sides[1], tree.decision.index)
    if tree.program is not captured.program:
        with events.stage("prepare"):
            functional = functional_form(tree.program, find, events)
    with events.stage("translate"):
        model, asked = translate_path(functional, find, _names(captured, tree), events)
    conditions = {}
    for mark, value in asked.items():
        index = mark.args[1]
        assert isinstance(index, int)
        decision = tree.decisions[index]
        taken = tree.sizes_taken_for_others(decision)
        conditions[index] = Condition(value, Provenance(mark), decision.where, taken)
    return Side(model, conditions)


def _names(captured: Captured, path: Path | None = None) -> Names:
    """The user's names. On one way of several, a symbol that only running gives a value is that way's own."""
    return Names(
        inputs=tuple(captured.input_names),
        outputs=tuple(captured.output_names),
        called=returned_names(captured.program),
        dims={**captured.dim_names, **({} if path is None else _own_symbols(path))},
        same_dims=captured.same_dims,
        output_dims=captured.output_dim_names,
        way="" if path is None else _way(path),
    )


def _own_symbols(path: Path) -> dict[str, str]:
    return {symbol: f"{name}_{_way(path)}" for symbol, name in unbacked_names(path.program).items()}


def _way(path: Path) -> str:
    """The answers that lead there, as letters."""
    return "".join("y" if decision.outcome else "n" for decision in path.decisions)
