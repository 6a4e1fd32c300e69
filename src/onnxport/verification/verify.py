"""Comparing the outputs of the ONNX model with the model's own, on the example and at other sizes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import onnx
import torch
from torch.export import ExportedProgram

from onnxport.capture import Captured
from onnxport.errors import OnnxExporterError, Problem, listing, warn, with_plain_errors
from onnxport.events import EventLog
from onnxport.program import ONNXProgram
from onnxport.program.runtime import unoptimized_session
from onnxport.verification import running
from onnxport.verification.info import Compared, VerificationInfo, VerificationInfos, figures, text_table
from onnxport.verification.nodes import compare_nodes
from onnxport.verification.quantized import (
    coarseness,
    has_integer_products,
    note_movement,
    quantum,
    written_weights,
)
from onnxport.verification.variations import Variation, variations
from onnxport.verification.ways import Ways
from onnxport.weights.saving import to_bytes
from onnxport.weights.wire import Selection, require_content

Reference = Literal["model", "exported program"]


@dataclass(frozen=True)
class Run:
    """One comparison: with what, at which sizes (none: the example's), and how each output came out."""

    reference: Reference
    sizes: Mapping[str, int] = field(default_factory=dict)
    infos: Sequence[VerificationInfo] = ()
    error: str = ""
    drawn: str = ""
    """Of which kind the data is, where it is not the example's."""
    way: str = ""
    """The way through the model that was taken, where there are several: "way 2 of 3"."""
    optimized: Sequence[VerificationInfo] = ()
    """Where only a session without optimizations gives what torch gives: how far one with them is away."""

    @property
    def matches(self) -> bool:
        """Whether the ONNX model ran and every output is right."""
        return not self.error and all(info.matches for info in self.infos)

    @property
    def label(self) -> str:
        """The sizes and the data as one reads them, and the way taken; for the example that way or nothing."""
        at = Variation(self.sizes, (), {}, self.drawn).label
        return f"{at or 'the example'}, {self.way}" if self.way else at


@dataclass
class Verification:
    """What ``export(..., verify=True)`` found out.

    Attributes:
        checker_error: What ``onnx.checker`` objects to; empty when nothing.
        runtime_error: Why onnxruntime could not run the model on the example; empty when it could.
        runs: The comparisons made.
    """

    checker_error: str = ""
    runtime_error: str = ""
    runs: list[Run] = field(default_factory=list)

    @property
    def was_run(self) -> bool:
        """Whether anything was found out: a model without its weights cannot be run."""
        return bool(self.runs) or bool(self.checker_error)

    @property
    def infos(self) -> list[VerificationInfo]:
        """How the outputs compare on the example."""
        return list(self.runs[0].infos) if self.runs else []

    @property
    def matches(self) -> bool:
        """Whether the model is valid and right at every size that was tried."""
        return not self.checker_error and not self.runtime_error and all(run.matches for run in self.runs)

    @property
    def verdict(self) -> str:
        """In one phrase: how many comparisons agree, and how far the furthest is away."""
        if self.checker_error or self.runtime_error:
            return "onnx.checker refuses the model" if self.checker_error else "onnxruntime cannot run the model"
        right = sum(run.matches for run in self.runs)
        furthest = max((info.max_abs_diff for run in self.runs for info in run.infos), default=0.0)
        return f"{right} of {len(self.runs)} comparisons agree, largest difference {furthest:.2g}"

    def __str__(self) -> str:
        if not self.was_run:
            return "Nothing was compared."
        errors = [text for text in (self.checker_error, self.runtime_error) if text]
        rows = [row for run in self.runs for row in _rows(run)]
        return "\n".join([f"{self.verdict}.", *map(_last_line, errors), *text_table(_TITLES, rows)])

    def problems(self) -> list[Problem]:
        """All that is wrong, in sentences."""
        found = []
        if self.checker_error:
            found.append(Problem(f"onnx.checker refuses the model: {_last_line(self.checker_error)}"))
        if self.runtime_error:
            found.append(Problem(f"onnxruntime cannot run the model: {_last_line(self.runtime_error)}"))
        for run in self.runs:
            at = f" at {run.label}" if run.label else ""
            if run.error and run.error != self.runtime_error:
                found.append(Problem(f"onnxruntime cannot run the model{at}: {_last_line(run.error)}"))
            of = f"of the {run.reference}{at}"
            found += [Problem(f"Output {info}, against that {of}.") for info in run.infos if not info.matches]
        return found


_TITLES = ("output", "against", "at", "largest", "relative", "")


def _rows(run: Run) -> Iterator[tuple[str, ...]]:
    where = (run.reference, run.label or "the example")
    if run.error:
        yield ("", *where, _last_line(run.error), "", "not run")
    for info in run.infos:
        yield (info.name, *where, *figures(info))


@with_plain_errors
def verify_onnx_program(
    onnx_program: ONNXProgram,
    args: tuple[object, ...] | None = None,
    kwargs: dict[str, object] | None = None,
    compare_intermediates: bool = False,
    *,
    model: torch.nn.Module | None = None,
) -> VerificationInfos:
    """Compare the results of an ONNX program in onnxruntime with torch's.

    Args:
        onnx_program: The program that ``export`` returned.
        args: Positional arguments of the model; without any, those of the export.
        kwargs: Keyword arguments.
        compare_intermediates: Compare every value that both graphs have, in the order of computation, not just the
            outputs.
        model: Compare outputs with this model instead of the exported program.

    Returns:
        One entry for each value compared; printed, a table.

    >>> import torch, onnxport
    >>> from onnxport.verification import verify_onnx_program
    >>> program = onnxport.export(torch.nn.Linear(3, 2), (torch.randn(4, 3),))
    >>> [(info.name, info.matches) for info in verify_onnx_program(program)]
    [('output', True)]
    """
    running.exported_program(onnx_program)
    args, kwargs = running.example_inputs(onnx_program, args, kwargs)
    if compare_intermediates:
        return VerificationInfos(found.info for found in compare_nodes(onnx_program, args, kwargs))
    if model is not None:
        return VerificationInfos(
            _compare(onnx_program, lambda: running.model_outputs(model, args, kwargs), args, kwargs)
        )
    outputs = onnx_program.model.graph.outputs
    exported = running.taken_path(onnx_program, args, kwargs)
    return VerificationInfos(
        _compare(onnx_program, lambda: running.program_outputs(exported, args, kwargs, outputs), args, kwargs)
    )


def verify(program: ONNXProgram, model: object, captured: Captured, events: EventLog) -> Verification:
    """Check, run and compare a program that was just exported; what is wrong becomes one warning, not an error."""
    result = Verification()
    try:
        require_content(program.model)
    except OnnxExporterError as error:
        message = f"The exported model cannot be verified before it has its weights: {error}"
        events.add("warning", "verify", message)
        warn(message)
        return result
    result.checker_error = _check(program)
    for run in _runs(program, model, captured, events):
        result.runs.append(run)
        if run.error and not run.sizes and not run.drawn:
            result.runtime_error = run.error
            break
    _tell_runtime(result, events)
    if not result.matches:
        problems = result.problems()
        for problem in problems:
            events.add("warning", "verify", problem.what)
        # All of them are in `program.verification`.
        others = [Problem(f"{len(problems) - 1} more comparisons differ")] if len(problems) > 1 else []
        message = listing("The ONNX model does not give what the model gives:", [problems[0], *others])
        remedy = "onnxport.verification.find_mismatch(program) names the first node that departs."
        warn(f"{message}\n{remedy}")
    return result


def _tell_runtime(result: Verification, events: EventLog) -> None:
    """Say once that the runtime departs from a file that is right."""
    departing = [info for run in result.runs for info in run.optimized if not info.matches]
    if not departing:
        return
    furthest = max(departing, key=lambda info: info.max_abs_diff)
    message = (
        f"onnxruntime's optimized kernels depart from the model by up to {furthest.max_abs_diff:.3g} "
        f"(output {furthest.name}); the file is right: without optimizations the results agree. Kernels for 8-bit "
        "integers round at other places than torch's, and on processors without VNNI their sums of products of "
        "unsigned and signed numbers saturate: quantize with reduce_range=True (7 bits) there."
    )
    events.add("warning", "verify", message)
    warn(message)


_QUANTIZED = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"})


def _is_quantized(program: ONNXProgram) -> bool:
    return any(node.op_type in _QUANTIZED and node.domain == "" for node in program.model.graph.all_nodes())


def _check(program: ONNXProgram) -> str:
    # With the weights as inputs the file is small whatever their size; the checker looks at the graph.
    content = to_bytes(program.model, Selection(weights=False, weights_as_inputs=True))
    try:
        if content is not None:
            onnx.checker.check_model(content)
    except onnx.checker.ValidationError as error:
        return _formatted(error)
    return ""


def _runs(program: ONNXProgram, model: object, captured: Captured, events: EventLog) -> Iterator[Run]:
    example = Variation({}, captured.args, captured.kwargs)
    exported = captured.program
    if not captured.args and not captured.kwargs and exported.example_inputs is not None:
        example = Variation({}, tuple(exported.example_inputs[0]), dict(exported.example_inputs[1]))
    others = variations(
        exported,
        example.args,
        example.kwargs,
        captured.dim_names,
        captured.same_dims,
        at_ends=captured.forks is not None,
    )
    sides: list[tuple[Reference, ExportedProgram | torch.nn.Module]] = []
    if isinstance(model, torch.nn.Module):
        sides.append(("model", model))
    if captured.forks is None:
        sides.append(("exported program", exported))
    else:
        # One program is one way; the model itself goes every way, at the sizes that lead there.
        ways = Ways(captured, captured.forks)
        example = ways.noted(example)
        others = [*map(ways.noted, others), *ways.variations()]
        for way, where in ways.never_taken():
            events.add("note", "verify", f"No inputs were found that lead {way}; it was not compared.", where=where)
    attempts = [(side, example) for side in sides] + [(sides[0], other) for other in others]
    for (reference, torch_side), at in attempts:
        try:
            yield _run(program, reference, torch_side, at)
        except _TorchFailed as failed:
            # Not every size that the ranges allow need make sense to the model.
            where = f"at {at.label}" if at.label else "on the example"
            events.add("note", "verify", f"The {reference} itself does not run {where}: {failed.__cause__}")


class _TorchFailed(OnnxExporterError):
    """The torch side raised, so there is nothing to compare with."""


def _run(
    program: ONNXProgram, reference: Reference, torch_side: ExportedProgram | torch.nn.Module, at: Variation
) -> Run:
    def own() -> list[Compared]:
        try:
            if isinstance(torch_side, ExportedProgram):
                return running.program_outputs(torch_side, at.args, at.kwargs, program.model.graph.outputs)
            return running.model_outputs(torch_side, at.args, at.kwargs)
        except Exception as error:
            raise _TorchFailed(f"The {reference} does not run on these inputs: {error}") from error

    def expected() -> list[Compared]:
        with written_weights(program.quantization):
            return own()

    run = Run(reference, at.sizes, drawn=at.drawn, way=at.way)
    try:
        if program.quantization is not None and not at.label:
            note_movement(program, own(), program(*at.args, **at.kwargs))
        infos = _compare(program, expected, at.args, at.kwargs)
        if all(info.matches for info in infos) or not _is_quantized(program):
            return replace(run, infos=infos)
        plain = _without_kernels(program, expected, at)
        return replace(run, infos=infos) if plain is None else replace(run, infos=plain, optimized=infos)
    except _TorchFailed:
        raise
    except Exception as error:  # noqa: BLE001 - onnxruntime has no base class of its own; the error is the result
        return replace(run, error=_formatted(error))


def _without_kernels(
    program: ONNXProgram, expected: Callable[[], list[Compared]], at: Variation
) -> list[VerificationInfo] | None:
    """How a quantized model compares where the runtime's kernels for integers are not used, if it is right there."""
    with program.running_in(unoptimized_session):
        plain = _compare(program, expected, at.args, at.kwargs)
    if all(info.matches for info in plain):
        return plain
    if has_integer_products(program.model):
        plain = _compare(program, expected, at.args, at.kwargs, call=program.call_reference)
    return plain if all(info.matches for info in plain) else None


def _compare(
    program: ONNXProgram,
    expected: Callable[[], list[Compared]],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    call: Callable[..., tuple[object, ...]] | None = None,
) -> list[VerificationInfo]:
    wanted = expected()
    random = [False] * len(wanted)
    if running.is_random(running.exported_program(program)):
        with torch.random.fork_rng(devices=[]):
            # A run puts the generator back, so only another state of it shows what is random.
            torch.rand(1)
            random = [running.differ(one, other) for one, other in zip(wanted, expected(), strict=True)]
    found: list[Compared] = []
    names: list[str] = []
    steps: list[float] = []
    outputs = program(*args, **kwargs) if call is None else call(*args, **kwargs)
    for value, output in zip(program.model.graph.outputs, outputs, strict=True):
        if output is None:
            # An optional value that is not there; nor is it among those that are wanted.
            continue
        items: list[Any] = output if isinstance(output, list) else [output]
        found += items
        steps += [quantum(value)] * len(items)
        names += [f"{value.name}[{n}]" for n in range(len(items))] if items is output else [str(value.name)]
    if len(wanted) != len(found):
        raise OnnxExporterError(f"The model returns {len(wanted)} values, the ONNX model {len(found)}.")
    tolerance = coarseness(program.quantization, program.model)
    # What lies beyond the ranges that were seen in calibration is cut off on purpose.
    cuts = program.quantization is not None and program.quantization.scheme == "static-int8"
    return [
        VerificationInfo.from_tensors(
            name, one, other, is_random=is_random, tolerance=tolerance, quantum=step, on_average=cuts
        )
        for name, one, other, is_random, step in zip(names, wanted, found, random, steps, strict=True)
    ]


def _formatted(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1]
