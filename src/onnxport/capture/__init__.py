"""Capture: from a model and example inputs to an ExportedProgram, with the user's names for its dynamic dimensions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from onnxport.capture import broadcast_axes, strategies
from onnxport.capture.diagnosis import forced_sizes
from onnxport.capture.diagnosis.changed_attributes import ChangedAttributes
from onnxport.capture.diagnosis.drawn_numbers import DrawnNumbers
from onnxport.capture.diagnosis.empty_axes import limits_of_empty_axes
from onnxport.capture.diagnosis.guards import report_assumptions
from onnxport.capture.diagnosis.kept_values import report_kept_values
from onnxport.capture.exploring import Explored, explore, with_fewer_decisions
from onnxport.capture.forks.choosing import Choosing
from onnxport.capture.forks.paths import Fork
from onnxport.capture.forks.settled import buffers_known
from onnxport.capture.naming import name_axes, user_inputs
from onnxport.capture.patches import one_export_at_a_time
from onnxport.capture.patches.distributed import distributed_weights_local
from onnxport.capture.patches.export_flag import exporting, is_in_onnx_export
from onnxport.capture.patches.fake_quantization import switches_as_numbers
from onnxport.capture.patches.packed_tables import rows_of_packed_tables
from onnxport.capture.patches.weight_attributes import weight_attributes_kept
from onnxport.capture.preserved import preserved
from onnxport.capture.replay import as_mirror, has_packed_weights, script_of, scripts_replayed
from onnxport.capture.request.contexts import check_contexts, note_autocast, outside_of_inference_mode
from onnxport.capture.request.dynamic_shapes import declare
from onnxport.capture.request.fake_mode import enable_fake_mode, on_the_models_device
from onnxport.capture.request.input_names import names_in_file
from onnxport.capture.request.inputs import Inputs, bind, check_model, check_names
from onnxport.capture.request.outputs import check_outputs
from onnxport.capture.rewriting.called import Helpers
from onnxport.capture.rewriting.functions import Rewriting
from onnxport.capture.rewriting.opened_branches import OpenedBranches
from onnxport.capture.strategies import Failure
from onnxport.events import EventLog
from onnxport.options import BRANCH_LIMIT, Branches
from onnxport.quantized_parts import TakingParts, is_quantized, taken_apart
from onnxport.size_limits import SizeLimit

__all__ = ["Captured", "Failure", "capture", "enable_fake_mode", "is_in_onnx_export"]


@dataclass
class Captured:
    """A captured model.

    ``dim_names`` maps a symbol of the program to the name of that dimension, the user's where there is one;
    ``same_dims`` maps a symbol to the one it equals because the user gave both the same name. ``forks`` is
    the tree of all ways through a model whose code decides on sizes or data; ``program`` is then one of them.
    ``size_limits`` are those beyond which the model's code raises, or an axis is empty that was taken to have elements.
    """

    model: object
    program: torch.export.ExportedProgram
    strategy: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    input_names: Sequence[str] = ()
    output_names: Sequence[str] = ()
    dim_names: dict[str, str] = field(default_factory=dict)
    same_dims: dict[str, str] = field(default_factory=dict)
    output_dim_names: dict[str, dict[int, str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    forks: Fork | None = None
    size_limits: Sequence[SizeLimit] = ()


@one_export_at_a_time
def capture(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    follows_example: bool = False,
    branches: Branches = "export",
    branch_limit: int = BRANCH_LIMIT,
    events: EventLog,
) -> Captured:
    """Capture a model as an ExportedProgram. The model and the process are afterwards as they were.

    But for one thing: classes among the inputs and outputs that torch did not know as containers of tensors
    (dataclasses, transformers' caches) stay registered with ``torch.utils._pytree``, because the captured program
    refers to them. Other threads wait until a capture has ended; one within another is refused.

    >>> import torch
    >>> from onnxport.capture import capture
    >>> from onnxport.events import EventLog
    >>> captured = capture(
    ...     torch.nn.Linear(3, 2), torch.ones(4, 3), dynamic_shapes=({0: "batch"},), events=EventLog()
    ... )
    >>> list(captured.dim_names.values())
    ['batch']
    """
    given_model = model
    check_model(model)
    check_contexts(model)
    args, kwargs = on_the_models_device(model, (args, kwargs))
    model, inputs = _call_to_capture(model, args, kwargs, lambda message: events.add("note", "capture", message))
    if is_quantized((args, kwargs)):
        given_model = TakingParts(given_model)
    candidates = strategies.usable(model, follows_example)
    check_names(model, inputs, input_names, output_names)
    declared = declare(
        model,
        inputs,
        dynamic_shapes=dynamic_shapes,
        dynamic_axes=dynamic_axes,
        input_names=input_names,
        output_names=output_names,
    )
    opened = OpenedBranches(choosing := Choosing())
    rewriting = Rewriting(Helpers(choosing, opened), choosing, opened)
    request = strategies.Request(model, inputs, declared, events, rewriting, follows_example)
    recorder = forced_sizes.Recorder()
    tensors = [leaf.value for leaf in inputs.tensors]
    drawn = DrawnNumbers()
    changed = ChangedAttributes(request.kept)
    with _made_ready(model, tensors), drawn.noted(), changed.noted(), rewriting:
        success, explored = _all_ways(request, recorder, candidates, branches, branch_limit, input_names or ())
    program = explored.program
    for way in explored.limited if program is not model else ():
        note_autocast(way.program)
    sizes = forced_sizes.check_placeholders(program, declared.axes, recorder, given=program is model)
    check_outputs(program, events)
    captured = Captured(given_model, program, success.strategy.name, inputs.args, inputs.kwargs)
    captured.failures = success.failures
    captured.forks = explored.tree if isinstance(explored.tree, Fork) else None
    captured.input_names = names_in_file(inputs, user_inputs(program), () if input_names is None else input_names)
    captured.output_names = () if output_names is None else output_names
    captured.output_dim_names = declared.output_dim_names
    axis_names = name_axes(program, sizes, captured.input_names, events)
    captured.dim_names, captured.same_dims = axis_names.dims, axis_names.same
    names = {**captured.dim_names, **explored.names}
    captured.size_limits = [*explored.size_limits, *limits_of_empty_axes(explored.limited, names, events)]
    report_assumptions(explored.guarded, names, captured.same_dims, recorder, explored.followed, events)
    drawn.report(events)
    changed.report(events)
    report_kept_values(request.kept, given_model, inputs.args, inputs.kwargs, events)
    return captured


def _all_ways(
    request: strategies.Request,
    recorder: forced_sizes.Recorder,
    candidates: Sequence[strategies.Strategy],
    branches: Branches,
    branch_limit: int,
    input_names: Sequence[str],
) -> tuple[strategies.Success, Explored]:
    """Capture the first way and the others; again where what was none turned out to be a branch."""
    while True:
        success = broadcast_axes.run_fixing_ones(request, recorder, candidates, forking=branches != "follow")
        if branches == "export":
            success = with_fewer_decisions(success, request, recorder)
        known = _withdrawn(request)
        explored = explore(success, request, recorder, branches, branch_limit, input_names)
        if _withdrawn(request) == known:
            return success, explored


def _withdrawn(request: strategies.Request) -> tuple[int, int]:
    """How many numbers that were chosen, and branches that one run captured, are branches like others by now."""
    return request.rewriting.choosing.withdrawn, request.rewriting.branches.withdrawn


@contextlib.contextmanager
def _made_ready(model: object, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """While the block runs, the model is as it can be captured; afterwards it is as it was."""
    with (
        preserved(model, tensors),
        switches_as_numbers(model),
        distributed_weights_local(model),
        rows_of_packed_tables(model),
        weight_attributes_kept(model),
        buffers_known(model),
        exporting(),
        scripts_replayed(model),
        outside_of_inference_mode(),
    ):
        yield


def _call_to_capture(model: Any, args: Any, kwargs: Any, report: Callable[[str], None]) -> tuple[Any, Inputs]:
    """The module that is captured, and its inputs: scripts are replayed, quantized tensors taken apart."""
    model = as_mirror(model)
    inputs = bind(model, args, kwargs, report)
    quantized = is_quantized((inputs.args, inputs.kwargs))
    if has_packed_weights(model) or quantized:
        model = as_mirror(script_of(model, inputs))
    if quantized:
        inputs = bind(model, taken_apart(inputs.args), taken_apart(inputs.kwargs), report)
    return model, inputs
