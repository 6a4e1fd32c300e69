"""The strategies, in order: which one succeeds, what is kept of those that failed, and the error when all do."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from onnxport.capture import capture
from onnxport.capture.patches.quiet import torch_kept_quiet
from onnxport.errors import CaptureError, OnnxExporterWarning
from onnxport.events import EventLog


class OnlyStrict(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_dynamo_compiling():
            raise RuntimeError("only bytecode tracing can do this")
        return x + 1


class DataDependent(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:  # here
            return x + 1
        return x - 1


class Impossible(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(7, 2)  # here


def line(marked: str) -> str:
    with open(__file__) as file:
        return f"{__file__}:{next(i for i, text in enumerate(file, 1) if marked in text)} in forward"


def test_plain_execution_comes_first() -> None:
    events = EventLog()
    captured = capture(nn.Linear(4, 2), torch.ones(3, 4), events=events)
    assert captured.strategy == "Obtain model graph with `torch.export.export(..., strict=False)`"
    assert captured.failures == []
    assert events.events == []


def test_an_exported_program_is_used_as_it_is() -> None:
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(nn.Linear(4, 2), (torch.ones(3, 4),), dynamic_shapes=shapes)
    captured = capture(program, dynamic_shapes=({0: "batch"},), events=EventLog())
    assert captured.program is program
    assert list(captured.dim_names.values()) == ["batch"]
    assert torch.equal(captured.args[0], torch.ones(3, 4))


def test_bytecode_tracing_comes_second() -> None:
    events = EventLog()
    captured = capture(OnlyStrict(), torch.ones(3, 4), dynamic_shapes=({0: "n"},), events=events)
    assert captured.strategy == "Obtain model graph with `torch.export.export(..., strict=True)`"
    assert [failure.strategy for failure in captured.failures] == [
        "Obtain model graph with `torch.export.export(..., strict=False)`"
    ]
    assert str(captured.failures[0].error) == "only bytecode tracing can do this"
    assert "strict=True)` succeeded after others failed" in events.of("note")[0].message
    assert "only bytecode tracing can do this" in events.of("note")[0].message
    assert list(captured.dim_names.values()) == ["n"]


class Records(logging.Handler):
    """Whatever is logged as a warning or worse while this is open; torch's loggers don't hand on to the root."""

    LOGGERS = (logging.getLogger(), logging.getLogger("torch"))

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def __enter__(self) -> Records:
        for logger in self.LOGGERS:
            logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        for logger in self.LOGGERS:
            logger.removeHandler(self)


def test_draft_export_comes_last_and_warns(capsys: pytest.CaptureFixture[str]) -> None:
    events = EventLog()
    with (
        pytest.warns(
            OnnxExporterWarning, match=r"The condition `x\.sum\(\) > 0` depends on the data; the export goes"
        ) as caught,
        Records() as logged,
    ):
        captured = capture(DataDependent(), torch.ones(3, 4), branches="follow", events=events)
    assert captured.strategy == "Obtain model graph with `torch.export.draft_export`"
    assert len(captured.failures) == 2
    assert line("if x.sum() > 0:  # here") in str(caught[-1].message)
    assert line("if x.sum() > 0:  # here") in events.of("warning")[0].where
    assert capsys.readouterr().err == ""
    assert logged.records == []
    assert not logging.getLogger("torch.export._trace").disabled


def test_all_fail() -> None:
    with pytest.raises(CaptureError) as caught:
        capture(Impossible(), torch.ones(3, 4), events=EventLog())
    first, *_ = str(caught.value).split("\n  - ")[1:]
    assert str(caught.value).startswith("Impossible could not be captured as a graph:")
    assert "a and b must have same reduction dim" in first
    assert line("torch.ones(7, 2)  # here") in first
    assert "Check that the model runs with these inputs in eager mode" in first
    for (name, _), strategy in zip(
        caught.value.failures, ("strict=False", "strict=True", "draft_export"), strict=False
    ):
        assert strategy in name
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("dims", [None, ({0: "n"},)])
def test_the_graph_has_no_assertions_of_ours(dims: Any) -> None:
    captured = capture(nn.Linear(4, 2), torch.ones(3, 4), dynamic_shapes=dims, events=EventLog())
    assert [n.target for n in captured.program.graph.nodes if n.op == "call_function"] == [
        torch.ops.aten.linear.default
    ]


class LeavesOutWhileTraced(nn.Module):
    """What transformers' models do: a trace has no place for a cache, so they return none."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if torch.compiler.is_exporting():
            raise RuntimeError("only tracing can do this")
        return {"y": x + 1} if torch.jit.is_tracing() else {"y": x + 1, "cache": x * 2}


def test_an_output_that_tracing_loses_is_an_error() -> None:
    with pytest.raises(CaptureError) as caught:
        capture(LeavesOutWhileTraced(), torch.ones(3, 4), events=EventLog())
    assert "returns 2 tensors (output['y'], output['cache']) and, while it is traced, 1" in str(caught.value)


RUNS: list[int] = []


class OnlyTraced(nn.Module):
    """Notes each run, other than those of the strategies before."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            raise RuntimeError("only tracing can do this")
        RUNS.append(x.dim())
        return x + 1


def test_a_model_that_does_not_ask_is_not_run_besides_the_trace() -> None:
    RUNS.clear()
    capture(OnlyTraced(), torch.ones(3, 4), follows_example=True, events=EventLog())
    assert len(RUNS) == 1


def test_what_the_bytecode_tracer_meets_of_this_package_is_not_told(recwarn: pytest.WarningsRecorder) -> None:
    with torch_kept_quiet():
        warnings.warn("Dynamo does not know how to trace the builtin `sys._getframe.`", stacklevel=1)
    assert not recwarn
