"""All operators of a model that can't be written, at once: those without a translation, and those the opset lacks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

import onnx_ir as ir
import torch

from onnxport.capture import capture
from onnxport.capture.patches import one_export_at_a_time
from onnxport.capture.replay import as_mirror
from onnxport.errors import TranslationError
from onnxport.events import EventLog
from onnxport.export_types import OperatorExportTypes, TrainingMode
from onnxport.exporter import translations
from onnxport.legacy_call import call_arguments
from onnxport.legalize import check_opset
from onnxport.legalize.rewriter import Rewriter
from onnxport.legalize.validate import form_fault
from onnxport.onnx_build.opsets import CANONICAL_OPSET, DEFAULT_OPSET, ONNX_DOMAINS
from onnxport.onnx_build.schemas import schema_of
from onnxport.options import Options
from onnxport.pipeline import functional_form
from onnxport.prepare import FunctionalProgram
from onnxport.provenance import operator_name, provenance_of
from onnxport.report.analysis import missing_translations
from onnxport.symbolic.api.mode import select_model_mode_for_export
from onnxport.symbolic.session.lookup import kept_for_symbolics
from onnxport.torch_internals.torchscript import JitGraph
from onnxport.translate import Names, translate
from onnxport.translate.registry import Lookup


@one_export_at_a_time
def unconvertible_ops(
    model: torch.nn.Module | Callable[..., object],
    args: object,
    training: TrainingMode = TrainingMode.EVAL,
    opset_version: int | None = None,
) -> tuple[JitGraph, list[str]]:
    """Find every operator of a model that can't be exported to an opset.

    Args:
        model: The model, or a TorchScript module of it.
        args: Example inputs.
        training: The mode the model is traced in.
        opset_version: The opset; the default is that of ``export``.

    Returns:
        The TorchScript graph of the model, and the names of its operators that can't be exported, one for each call.

    >>> import torch, onnxport
    >>> class Model(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.relu(x)
    >>> graph, names = onnxport.utils.unconvertible_ops(Model(), torch.ones(3), opset_version=17)
    >>> "aten::relu" in str(graph), names
    (True, [])
    """
    opset = check_opset(DEFAULT_OPSET if opset_version is None else opset_version)
    options = Options(opset=opset, training=training, follows_example=True)
    events = EventLog()
    # What has no translation passes as it is, to find what else is in the way.
    rest = translations(replace(options, operator_export_type=OperatorExportTypes.ONNX_FALLTHROUGH))
    with select_model_mode_for_export(model, training):
        positional, keywords = call_arguments(model, args, None)
        graph = _torchscript_graph(model, positional, keywords)
        with kept_for_symbolics(options, rest):
            captured = capture(
                as_mirror(model), positional, keywords, follows_example=options.follows_example, events=events
            )
    find = translations(options)
    program = functional_form(captured.program, find, events)
    missing = [
        operator_name(node.target) for nodes in missing_translations(program.graph, find).values() for node in nodes
    ]
    return graph, [*missing, *_refused(program, rest, opset, events)]


def _torchscript_graph(
    model: torch.nn.Module | Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> JitGraph:
    graph: JitGraph
    if isinstance(model, torch.jit.ScriptFunction):
        graph = model.graph
    elif isinstance(model, torch.jit.ScriptModule):
        graph = model.inlined_graph
    else:
        with warnings.catch_warnings():
            # That tracing is deprecated is not news to whoever asks for its graph.
            warnings.simplefilter("ignore", DeprecationWarning)
            traced = torch.jit.trace(model, args, example_kwarg_inputs=kwargs if kwargs else None, check_trace=False)
        graph = traced.inlined_graph
    return graph


def _refused(program: FunctionalProgram, find: Lookup, opset: int, events: EventLog) -> Iterator[str]:
    """The operators whose use can't be translated; if all can, those whose translation the opset can't hold."""
    try:
        model = translate(program, find, Names(), events)
    except TranslationError as error:
        if not error.problems:
            raise
        yield from [problem.operator for problem in error.problems if problem.operator]
        return
    rewriter = Rewriter(model, opset)
    rewriter.run(model.opset_imports.get("", CANONICAL_OPSET))
    refused = [node for node in model.graph.all_nodes() if node in rewriter.refusals or _is_unknown(node, opset)]
    # One for each call that was captured, however many nodes were made for it.
    for call in dict.fromkeys(provenance_of(node) or f"onnx::{node.op_type}" for node in refused):
        yield call if isinstance(call, str) else call.operator


def _is_unknown(node: ir.Node, opset: int) -> bool:
    return node.domain in ONNX_DOMAINS and form_fault(node, schema_of(node.op_type, opset), opset) is not None
