"""The account of one export: what each stage handed over, how far it came, and what went wrong."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import onnx_ir as ir
import torch

from onnxport.capture import Captured
from onnxport.capture.strategies import STRATEGIES
from onnxport.errors import CaptureError
from onnxport.events import EventLog
from onnxport.prepare import FunctionalProgram
from onnxport.translate.registry import Lookup
from onnxport.verification import Verification

# What the report says of each step, in this order. Failing at one gives the file its name.
CAPTURES = tuple(strategy.name for strategy in STRATEGIES if strategy.reported == "always")
_LAST_RESORTS = frozenset(strategy.name for strategy in STRATEGIES if strategy.reported == "if tried")
STEPS = {
    "Decompose operators for ONNX compatibility": "decomp",
    "Translate the graph into ONNX": "conversion",
    "Run `onnx.checker` on the ONNX model": "checker",
    "Execute the model with ONNX Runtime": "runtime",
    "Validate model output accuracy": "accuracy",
}
_DECOMPOSE, _TRANSLATE, _CHECK, _RUN, _COMPARE = STEPS
# The report has one line for all that makes the ONNX graph.
_STAGES = {
    "prepare": _DECOMPOSE,
    "translate": _TRANSLATE,
    "join": _TRANSLATE,
    "optimize": _TRANSLATE,
    "legalize": _TRANSLATE,
    "functions": _TRANSLATE,
}


@dataclass
class Account:
    """What an export has done so far. Stages put their result here as they end."""

    events: EventLog
    find: Lookup
    model_name: str = ""
    captured: Captured | None = None
    functional: FunctionalProgram | None = None
    onnx_model: ir.Model | None = None
    verification: Verification | None = None
    error: BaseException | None = None
    profile: str = ""
    samples: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """Stacks seen while it ran, with how often, where a profile was asked for."""
    files: tuple[Path, ...] = ()
    """Where the model was saved, weights included."""

    @property
    def failed_stage(self) -> str:
        """The stage that raised, or ''."""
        failures = self.events.of("failure")
        return failures[-1].stage if self.error is not None and failures else ""

    def status(self) -> dict[str, bool | None]:
        """Each step with whether it succeeded; None when it was not tried."""
        tried = dict.fromkeys((name for name, _ in self.capture_failures()), False)
        if self.captured is not None:
            tried[self.captured.strategy] = True
        others = [name for name in tried if name in _LAST_RESORTS]
        result: dict[str, bool | None] = {name: tried.get(name) for name in (*CAPTURES, *others)}
        result.update(dict.fromkeys(STEPS))
        if self.functional is not None:
            result[_DECOMPOSE] = True
        if self.onnx_model is not None:
            result[_TRANSLATE] = True
        if self.failed_stage in _STAGES:
            result[_STAGES[self.failed_stage]] = False
        if self.verification is not None and self.verification.was_run:
            result[_CHECK] = not self.verification.checker_error
            result[_RUN] = not self.verification.runtime_error
            if not self.verification.runtime_error:
                result[_COMPARE] = all(run.matches for run in self.verification.runs)
        return result

    def outcome(self) -> str:
        """One word for how it ended, as it stands in the names of files."""
        status = self.status()
        if self.captured is None:
            return "pt_export"
        for step, word in STEPS.items():
            if status[step] is False:
                return word
        if self.error is not None:
            return "save" if self.failed_stage == "save" else "failed"
        return "strategies" if False in (status[name] for name in CAPTURES) else "success"

    def capture_failures(self) -> list[tuple[str, Exception]]:
        """The ways to capture that were tried in vain, with their errors."""
        if self.captured is not None:
            return [(failure.strategy, failure.error) for failure in self.captured.failures]
        if isinstance(self.error, CaptureError) and self.error.failures:
            return list(self.error.failures)
        return [(CAPTURES[0], self.error)] if isinstance(self.error, Exception) else []

    def errors(self) -> list[str]:
        """All errors as Python prints them; those before a success as well."""
        texts = [f"{name}\n\n{formatted(error)}" for name, error in self.capture_failures() if error is not self.error]
        if self.error is not None:
            texts.append(formatted(self.error))
        if self.verification is not None:
            texts += [text for text in (self.verification.checker_error, self.verification.runtime_error) if text]
        return texts


def formatted(error: BaseException) -> str:
    """An error with its traceback, as Python prints it."""
    return "".join(traceback.format_exception(error)).rstrip()


def operator_counts(graph: torch.fx.Graph) -> dict[str, int]:
    """How often each operator is called in a graph, in the order in which they first appear."""
    counts: dict[str, int] = {}
    for node in graph.nodes:
        if node.op == "call_function":
            counts[str(node.target)] = counts.get(str(node.target), 0) + 1
    return counts
