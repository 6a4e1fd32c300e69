"""The ways to turn a model into an ExportedProgram, tried in order; each failure is kept with its reason."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

import torch

from onnxport.capture.diagnosis import forced_sizes
from onnxport.capture.diagnosis.draft_assumptions import assumptions
from onnxport.capture.diagnosis.explanations import NOT_RUNNING, RAISED, UNEXPLAINED, explain
from onnxport.capture.diagnosis.forced_sizes import placeholder_sizes
from onnxport.capture.diagnosis.guards import squeezed_sizes
from onnxport.capture.diagnosis.lost_links import check_links
from onnxport.capture.diagnosis.user_lines import (
    line_of_error,
    module_of_error,
    raised_on_purpose,
)
from onnxport.capture.forks.computed_ones import AwayFromOnes
from onnxport.capture.forks.decisions import LoopOnData, PlainNumber, Schedule, deciding
from onnxport.capture.forks.fitting import Fitting
from onnxport.capture.forks.kinds import sizes_as_plain_numbers
from onnxport.capture.forks.paths import completed, violates
from onnxport.capture.naming import name_axes
from onnxport.capture.patches import patched_torch
from onnxport.capture.patches.quiet import torch_kept_quiet
from onnxport.capture.preserved import KeptValue, attributes_preserved, buffers_preserved
from onnxport.capture.replay import Mirror, Recording, replaying, traced
from onnxport.capture.request.dynamic_shapes import Declarations
from onnxport.capture.request.eager_calls import called_eagerly
from onnxport.capture.request.inputs import Inputs, explicit_forward
from onnxport.capture.request.outputs import check_kept, watched
from onnxport.capture.request.resizing import Arguments
from onnxport.capture.request.trees import leaves
from onnxport.capture.rewriting.functions import Rewriting
from onnxport.capture.rewriting.open_keys import open_keys_taken_out
from onnxport.capture.rewriting.open_loops import LoopRefused
from onnxport.errors import CaptureError, InputError, Problem, capture_error_like, warn
from onnxport.events import EventLog
from onnxport.torch_internals.fake_tensors import lazy_graph_modules
from onnxport.undoing import with_interrupts


@dataclass(frozen=True)
class Request:
    """All that a strategy needs.

    ``schedule`` answers what Python asks of sizes and data, in the strategy that runs the code; without one the example
    does. ``rewriting`` holds the functions of the model that were rewritten because they made plain numbers of sizes,
    and ``kept`` what the code left in attributes and variables.
    """

    model: Any
    inputs: Inputs
    declared: Declarations
    events: EventLog
    rewriting: Rewriting
    follows_example: bool = False
    schedule: Schedule | None = None
    fitting: Fitting = field(default_factory=Fitting)
    kept: set[KeptValue] = field(default_factory=set)


@dataclass(frozen=True)
class Failure:
    """A strategy that was tried in vain, and why."""

    strategy: str
    error: Exception


@dataclass(frozen=True)
class Success:
    """The strategy that captured the model, its program, the answers it ran with and the failures before it."""

    strategy: Strategy
    program: torch.export.ExportedProgram
    schedule: Schedule | None
    failures: list[Failure]


Reported = Literal["always", "if tried", "never"]


class Strategy(Protocol):
    """One way to capture a model."""

    @property
    def name(self) -> str:
        """What the report calls it."""

    @property
    def reported(self) -> Reported:
        """When the report has a line for it."""

    @property
    def follows_values(self) -> bool:
        """Whether the values of the example may become part of the graph."""

    def accepts(self, model: object) -> bool:
        """Whether this way can be tried on such a model."""

    def capture(self, request: Request) -> torch.export.ExportedProgram:
        """Capture, or raise."""


def _is_module(model: object) -> bool:
    return isinstance(model, torch.nn.Module) and not isinstance(model, torch.jit.ScriptModule | Mirror)


class AsIs:
    """The user captured the model already."""

    name = "Use the given `torch.export.ExportedProgram`"
    reported: Reported = "never"
    follows_values = False

    def accepts(self, model: object) -> bool:
        return isinstance(model, torch.export.ExportedProgram)

    def capture(self, request: Request) -> torch.export.ExportedProgram:
        program: torch.export.ExportedProgram = request.model
        return program


class Export:
    """``torch.export.export``, running the Python code (strict=False) or tracing its bytecode (strict=True)."""

    reported: Reported = "always"
    follows_values = False

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.name = f"Obtain model graph with `torch.export.export(..., strict={strict})`"

    def accepts(self, model: object) -> bool:
        return _is_module(model)

    def capture(self, request: Request) -> torch.export.ExportedProgram:
        # A forward hook would be traced into the graph by the bytecode tracer.
        watching = contextlib.nullcontext() if self.strict else watched(request.model, _note(request.events))
        schedule = None if self.strict else request.schedule
        plain = contextlib.nullcontext() if self.strict else sizes_as_plain_numbers()
        # What comes of the bytecode is read as only graphs are whose code was written.
        written = lazy_graph_modules(False) if self.strict else contextlib.nullcontext()
        with (
            watching,
            explicit_forward(request.model, request.inputs),
            plain,
            deciding(schedule),
            written,
            open_keys_taken_out(),
        ):
            return torch.export.export(
                request.model,
                request.inputs.args,
                request.inputs.kwargs,
                dynamic_shapes=request.declared.for_torch,
                strict=self.strict,
                # With Dim objects a guard beyond a plain range would be refused; as an assertion it is let through.
                # Without them the guards are not checked anyway, and the graph stays free of assertions.
                prefer_deferred_runtime_asserts_over_guards=request.declared.has_dims,
            )


class DraftExport:
    """``torch.export.draft_export``: runs on real values and fixes what depends on them, with a warning for each."""

    name = "Obtain model graph with `torch.export.draft_export`"
    reported: Reported = "always"
    follows_values = True

    def accepts(self, model: object) -> bool:
        return _is_module(model)

    def capture(self, request: Request) -> torch.export.ExportedProgram:
        with (
            watched(request.model, _note(request.events)),
            explicit_forward(request.model, request.inputs),
            sizes_as_plain_numbers(),
            buffers_preserved(request.model),
        ):
            program = torch.export.draft_export(
                request.model,
                request.inputs.args,
                request.inputs.kwargs,
                dynamic_shapes=request.declared.for_torch,
            )
        names = name_axes(program, placeholder_sizes(program, request.declared.axes), ()).dims
        for problem in assumptions(getattr(program, "_report", None), names):
            request.events.add("warning", "capture", problem.what, where=problem.where)
            warn(str(problem))
        return program


class Replay:
    """Graphs of TorchScript, run node by node by an interpreter that ``torch.export`` captures."""

    name = "Obtain model graph by replaying its TorchScript graph"
    reported: Reported = "if tried"
    follows_values = False

    def accepts(self, model: object) -> bool:
        return isinstance(model, Mirror)

    def capture(self, request: Request) -> torch.export.ExportedProgram:
        return _export(request)


class Tracing:
    """``torch.jit.trace``: one run on the example is recorded, and the recording replayed.

    What Python decides on the way is decided as for the example, with a warning for each such line.
    """

    name = "Obtain model graph by tracing with `torch.jit.trace`"
    reported: Reported = "if tried"
    follows_values = True

    def accepts(self, model: object) -> bool:
        return _is_module(model)

    def capture(self, request: Request) -> torch.export.ExportedProgram:
        facts: list[Problem] = []
        with watched(request.model, _note(request.events)), buffers_preserved(request.model):
            recording = traced(request.model, request.inputs, facts.append)
            _check_nothing_lost(request, recording)
        with replaying(recording), explicit_forward(request.model, request.inputs):
            program = _export(request)
        for fact in facts:
            request.events.add("warning", "capture", fact.what, where=fact.where)
            warn(str(fact))
        return program


def _check_nothing_lost(request: Request, recording: Recording) -> None:
    """Refuse a recording that lacks outputs: models leave out what a trace can't return, a cache for instance.

    Only a model that asks whether it is being traced can do so, and only such a one is run once more.
    """
    if not recording.asks:
        return
    returned = called_eagerly(request.model, request.inputs.args, request.inputs.kwargs)
    expected = [leaf.path for leaf in leaves(returned, "output", ()) if isinstance(leaf.value, torch.Tensor)]
    if len(expected) == recording.tensors:
        return
    raise CaptureError(
        f"{type(request.model).__name__} returns {len(expected)} tensors ({', '.join(expected)}) and, while it is "
        f"traced, {recording.tensors}: it asks whether it is being traced, and returns others then. Have it return "
        "tensors only (for a language model, use_cache=False), or mend what keeps torch.export from capturing it."
    )


def _export(request: Request) -> torch.export.ExportedProgram:
    return torch.export.export(
        request.model,
        request.inputs.args,
        request.inputs.kwargs,
        dynamic_shapes=request.declared.for_torch,
        strict=False,
        prefer_deferred_runtime_asserts_over_guards=request.declared.has_dims,
    )


_RUNNING = Export(strict=False)
_STRICT = Export(strict=True)
STRATEGIES: Sequence[Strategy] = (
    AsIs(),
    Replay(),
    _RUNNING,
    _STRICT,
    DraftExport(),
    Tracing(),
)


def _note(events: EventLog) -> Any:
    return lambda message: events.add("note", "capture", message)


def usable(model: object, follows_example: bool = False) -> list[Strategy]:
    """Return the strategies that can be tried on a model, in order."""
    accepting = [strategy for strategy in STRATEGIES if strategy.accepts(model)]
    if not follows_example:
        return accepting
    # Tracing bytecode takes long, and what it refuses is what the one before refuses.
    return sorted(
        (strategy for strategy in accepting if strategy is not _STRICT),
        key=lambda strategy: isinstance(strategy, DraftExport),
    )


def run(
    request: Request, recorder: forced_sizes.Recorder, candidates: Sequence[Strategy], *, forking: bool = False
) -> Success:
    """Try strategies in order; return what the first made that worked, and the failures before it.

    With ``forking`` the strategy that runs the code notes what Python decides, instead of guarding it.
    """
    request.rewriting.make_identities_plain(request.model)
    failures: list[Failure] = []
    second_best: Success | None = None
    for strategy in candidates:
        recorder.clear()
        try:
            if forking and strategy is _RUNNING:
                program, schedule = _first_path(strategy, request, recorder)
            else:
                program, schedule = _attempt(strategy, request, recorder), None
            check_kept(program)
            if request.follows_example and strategy is _RUNNING and _squeezes(program, schedule):
                second_best = Success(strategy, program, schedule, list(failures))
                raise CaptureError("An axis that varies is squeezed, which a traced graph has as a branch.")
        except InputError:
            raise
        except Exception as error:
            if isinstance(error, LoopOnData) and not request.follows_example:
                raise request.rewriting.explained(error) from error
            if forced_sizes.is_violation(error):
                forced = forced_sizes.forced_size_error(error, request.declared.axes, recorder)
                raise request.rewriting.explained(forced) from error
            failures.append(Failure(strategy.name, error))
            continue
        if strategy.follows_values:
            lines = [event.where for event in request.events.of("warning") if event.where]
            check_links(program, request.model, request.inputs, lines, each_output=not request.follows_example)
        if failures:
            reasons = "; ".join(f"{failure.strategy}: {_short(failure.error)}" for failure in failures)
            request.events.add("note", "capture", f"{strategy.name} succeeded after others failed ({reasons})")
        return Success(strategy, program, schedule, failures)
    if second_best is not None:
        return second_best
    refusal = _all_failed(request, failures)
    refusal.failures = [(failure.strategy, failure.error) for failure in failures]
    raise refusal from _most_useful(failures).error


def _first_path(
    strategy: Strategy, request: Request, recorder: forced_sizes.Recorder
) -> tuple[torch.export.ExportedProgram, Schedule]:
    """Capture the way that the example leads; where rewritten functions can't be captured, as they were."""
    run = partial(run_path, strategy, request, recorder)
    example = (request.inputs.args, request.inputs.kwargs)
    recorder.clear()
    try:
        return completed(run, (), example)
    except Exception as error:
        again = partial(_first_path, strategy, request, recorder)
        if isinstance(error, LoopOnData) and (opened := request.rewriting.with_branches_opened(again)) is not None:
            return opened
        if isinstance(error, InputError) or not request.rewriting.in_force:
            raise
        if request.rewriting.choosing.withdraw():
            return _first_path(strategy, request, recorder)
        request.rewriting.refusals += _refused_loops(error)
        message = f"Functions that keep sizes open could not be captured ({_short(error)}); they are run as they are."
        request.events.add("note", "capture", message, where=line_of_error(error))
        request.rewriting.undo()
    return _first_path(strategy, request, recorder)


def _refused_loops(error: BaseException | None) -> Sequence[Problem]:
    """Why a loop could not be captured, if that is behind an error: what torch checks at the end may hide it."""
    while error is not None and not isinstance(error, LoopRefused):
        error = error.__context__
    return () if error is None else error.problems


def _squeezes(program: torch.export.ExportedProgram, schedule: Schedule | None) -> bool:
    """Whether an axis that varies is squeezed, in a model whose code decides nothing else."""
    return (schedule is None or not schedule.decisions) and any(squeezed_sizes([program]))


def run_path(
    strategy: Strategy,
    request: Request,
    recorder: forced_sizes.Recorder,
    schedule: Schedule,
    arguments: Arguments,
) -> torch.export.ExportedProgram:
    """Capture one way through the model, with certain answers to what its code asks, where no computed size is 1."""
    run, sizes = partial(_run_path, strategy, request, recorder), partial(placeholder_sizes, axes=request.declared.axes)
    return AwayFromOnes(run, sizes, request.rewriting.keep, request.events)(schedule, arguments)


def _run_path(
    strategy: Strategy,
    request: Request,
    recorder: forced_sizes.Recorder,
    schedule: Schedule,
    arguments: Arguments,
) -> torch.export.ExportedProgram:
    """Capture one way through the model: with certain answers to what its code asks, at the sizes of these arguments.

    A branch for certain sizes may hold for no others; there the axes are fixed, and another branch has to vary them. A
    function that makes a plain number of a size is rewritten, and the model run again.
    """
    args, kwargs = arguments
    schedule.rewritten, schedule.fitting = request.rewriting, request.fitting
    path = replace(request, inputs=replace(request.inputs, args=args, kwargs=kwargs), schedule=schedule)
    while True:
        try:
            program = _attempt(strategy, path, recorder)
            rewriting = request.rewriting
            if all(part.stands(program) for part in (request.fitting, rewriting.choosing, rewriting.branches)):
                return program
        except Exception as error:
            if request.rewriting.branches.starts_again:
                request.rewriting.branches.starts_again = False
            elif isinstance(schedule.refusal, PlainNumber):
                number = schedule.refusal
                rewriting = request.rewriting
                (rewriting.rewrite_in_loop if number.in_loop else rewriting.rewrite)(number.code)
            elif isinstance(error, TypeError) and "SymBool" in str(error) and not request.rewriting.asks_at_once:
                request.rewriting.asks_at_once = True
            elif violates(error, schedule) and path.declared is request.declared:
                declared = replace(request.declared)
                declared.allow_static()
                path = replace(path, declared=declared)
            elif not request.rewriting.choosing.withdraw_after(error):
                raise
        schedule.start_again()


def _attempt(strategy: Strategy, request: Request, recorder: forced_sizes.Recorder) -> torch.export.ExportedProgram:
    with recorder.listening(), patched_torch(), torch_kept_quiet(), attributes_preserved(request.model, request.kept):
        try:
            return with_interrupts(strategy.capture, request)
        except Exception as error:
            forks = request.schedule is not None and violates(error, request.schedule)
            if forks or not request.follows_example or not forced_sizes.is_violation(error):
                raise
        asked = list(request.declared.axes)
        request.declared.allow_static()
        if request.schedule is not None:
            request.schedule.start_again()
        program = with_interrupts(strategy.capture, request)
    for axis, (_, size) in zip(
        asked, forced_sizes.check_placeholders(program, request.declared.axes, recorder), strict=True
    ):
        fixed = forced_sizes.fixed_value(size)
        if axis.must_vary and fixed is not None:
            problem = forced_sizes.problem(axis, fixed, recorder.line(axis, fixed))
            request.events.add("warning", "capture", problem.what, where=problem.where)
            warn(str(problem))
    return program


def _short(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."


def _most_useful(failures: Sequence[Failure]) -> Failure:
    """Return the first failure that points at a line of the user's: plain Python execution comes first in the list."""
    return next((failure for failure in failures if line_of_error(failure.error)), failures[0])


def _all_failed(request: Request, failures: list[Failure]) -> CaptureError:
    """Say once why: in the model's own words if no strategy got beyond, else of the first that is understood."""
    first = _most_useful(failures)
    line = line_of_error(first.error)
    where = line or module_of_error(first.error, request.model)
    own = raised_on_purpose(first.error) and not any(isinstance(failure.error, CaptureError) for failure in failures)
    what, remedy = _short(first.error), RAISED if own else UNEXPLAINED if line else NOT_RUNNING
    for failure in [first] if own else [first, *failures]:
        explained = explain(failure.error, line_of_error(failure.error) or where)
        if explained is None and isinstance(failure.error, CaptureError):
            # What a replay refuses, it refuses with its reason and what to do.
            explained = str(failure.error), ""
        if explained is not None:
            what, remedy = explained
            break
    ones = [str(axis) for axis in request.declared.of_size_one]
    if ones:
        remedy += f" The example has size 1 at {', '.join(ones)}: if the model broadcasts there, use a larger example."
    kind = capture_error_like(type(first.error)) if own else CaptureError
    error = kind(f"{type(request.model).__name__} could not be captured as a graph:", [Problem(what, where, remedy)])
    if kind is not CaptureError:
        # Who catches it by that kind reads the attributes that it has there.
        vars(error).update({**vars(first.error), **vars(error)})
    return error
