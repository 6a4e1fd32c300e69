"""One export from the model to the file: capture, conversion, saving, verification, and the account of all that."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import torch

from onnxport.arguments import Description, described, warn_of_training
from onnxport.artifacts import Artifacts, accounted
from onnxport.capture import capture
from onnxport.capture.patches import one_export_at_a_time
from onnxport.capture.request.callables import as_module
from onnxport.capture.request.inputs import check_model
from onnxport.collection import full_collections_rarer
from onnxport.events import EventLog
from onnxport.export_types import TrainingMode
from onnxport.options import Options
from onnxport.pipeline import convert
from onnxport.program import ONNXProgram
from onnxport.program.feeds import inputs_of_values
from onnxport.symbolic import kept_for_symbolics, log_events, symbolic_lookup
from onnxport.symbolic.session.fallback import keeping_refused, kept_operators
from onnxport.torch_internals.caches import caches_bounded
from onnxport.translate import lookup
from onnxport.translate.registry import Lookup
from onnxport.verification import verify as verify_program
from onnxport.weights.saving import check_destination

Model: TypeAlias = "torch.nn.Module | torch.export.ExportedProgram | Callable[..., Any]"
File: TypeAlias = "str | os.PathLike[str] | IO[bytes]"


@dataclass(frozen=True)
class Destination:
    """Where the model is saved, and in which form.

    ``unread_inputs`` are the names of inputs that stay though no result is computed from their values; None for all.
    """

    file: File
    weights: bool = True
    weights_as_inputs: bool = False
    external_data: bool = True
    unread_inputs: Collection[str] | None = None

    def save(self, program: ONNXProgram) -> None:
        """Write the file, or both."""
        program.save(
            self.file,
            include_initializers=self.weights,
            keep_initializers_as_inputs=self.weights_as_inputs,
            unread_inputs=self.kept_inputs(program),
            # Nothing can be put beside an open file.
            external_data=self.external_data and isinstance(self.file, str | os.PathLike),
        )

    def kept_inputs(self, program: ONNXProgram) -> Collection[str] | None:
        """Of inputs that nothing in the graph reads, those that stay: all, or those whose values count."""
        if self.unread_inputs is None:
            return None
        return {*self.unread_inputs, *inputs_of_values(program.model, program.paths)}

    def files(self) -> tuple[Path, ...]:
        """The files that were written; none where it was an open one."""
        if not isinstance(self.file, str | os.PathLike):
            return ()
        path = Path(self.file)
        return tuple(file for file in (path, Path(f"{path}.data")) if file.exists())


def translations(options: Options) -> Lookup:
    """All translations that an export may use, in the order in which they are asked."""
    return lookup(options.translations, symbolic_lookup(options), kept_operators(options))


@one_export_at_a_time
@caches_bounded()
@full_collections_rarer()
def run_export(
    model: Model,
    given: Description,
    options: Options,
    destination: Destination | None = None,
    *,
    verify: bool = False,
    artifacts: Artifacts | None = None,
) -> ONNXProgram:
    """Export a model as the options say; save it, verify it and write about it where that was asked for.

    One at a time: what is replaced in torch meanwhile belongs to the process, so other threads wait.
    """
    model = as_module(model)
    check_model(model)
    if destination is not None:
        check_destination(destination.file)
    if options.training == TrainingMode.EVAL:
        warn_of_training(model)
    given = described(model, given)
    events = EventLog()
    log_events(events)
    find = keeping_refused(translations(options), options)
    with accounted(Artifacts() if artifacts is None else artifacts, model, find, events) as account:
        is_captured = isinstance(model, torch.export.ExportedProgram)
        kept = contextlib.nullcontext() if is_captured else kept_for_symbolics(options, find)
        with events.stage("capture"), kept:
            account.captured = captured = capture(
                model,
                given.args,
                given.kwargs,
                dynamic_shapes=given.dynamic_shapes,
                dynamic_axes=given.dynamic_axes,
                input_names=given.input_names,
                output_names=given.output_names,
                follows_example=options.follows_example,
                branches=options.branches,
                branch_limit=options.branch_limit,
                events=events,
            )
        program = convert(captured, find, options, events, account)
        if destination is not None:
            destination.save(program)
            account.files = destination.files()
        if verify:
            with events.stage("verify"):
                program.verification = account.verification = verify_program(program, model, captured, events)
    return program
