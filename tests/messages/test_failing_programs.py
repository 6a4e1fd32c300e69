"""Programs that fail: each error is short, names the line, and shows no frame but the user's and one."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

import everyday_mistakes
import misused_functions
import pytest
from failing_programs import PROGRAMS

import onnxport
from onnxport.errors import OnnxExporterError

MOST_LINES = 6
SYMBOL = re.compile(r"\b[su]\d+\b")
HERE = __file__
WRITTEN = {
    HERE,
    everyday_mistakes.__file__,
    misused_functions.__file__,
    *(inspect.getsourcefile(program.run) for program in PROGRAMS.values()),
}


def failure(name: str, folder: Path) -> OnnxExporterError:
    with warnings.catch_warnings(action="ignore"), pytest.raises(OnnxExporterError) as caught:
        PROGRAMS[name].run(folder)
    return caught.value


def blamed_line(name: str) -> int | None:
    lines, start = inspect.getsourcelines(PROGRAMS[name].run)
    return next((start + offset for offset, line in enumerate(lines) if line.rstrip().endswith("# here")), None)


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 170


@pytest.mark.parametrize("name", PROGRAMS)
def test_message(name: str, tmp_path: Path) -> None:
    error = failure(name, tmp_path)
    message = str(error)
    assert [piece for piece in PROGRAMS[name].pieces if piece not in message] == [], message
    assert len(message.splitlines()) <= MOST_LINES, message
    assert SYMBOL.search(message.replace(str(tmp_path), "")) is None, message
    shown = "".join(traceback.format_exception(error))
    assert shown.count("Traceback (most recent call last)") == 1
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert len([filename for filename in frames if filename not in WRITTEN]) <= 1, frames
    line, there = blamed_line(name), inspect.getsourcefile(PROGRAMS[name].run)
    assert line is None or f"{there}:{line}" in shown or f'"{there}", line {line},' in shown, shown


def test_everything_is_shown_on_demand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    quiet = failure("a_model_that_raises", tmp_path)
    assert isinstance(quiet.__cause__, ValueError)
    assert "direct cause" not in "".join(traceback.format_exception(quiet))
    monkeypatch.setenv("ONNXPORT_DEBUG", "1")
    loud = failure("a_model_that_raises", tmp_path)
    assert isinstance(loud.__cause__, ValueError)
    assert "torch/export" in "".join(traceback.format_exception(loud))


def test_the_cause_is_kept_and_not_printed(tmp_path: Path) -> None:
    """Whoever prints: the interpreter, traceback and logging; and an error that users chain is printed."""
    script = tmp_path / "export.py"
    script.write_text(CAUGHT_AND_UNCAUGHT)
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert run.stdout.splitlines() == ["ValueError: no rows", "1 of 1", "ValueError: no rows", "2 of 1"], run
    assert run.stderr.count("Traceback (most recent call last)") == 2 and "direct cause" not in run.stderr, run.stderr
    assert "torch/" not in run.stderr


CAUGHT_AND_UNCAUGHT = """
import logging, pickle, traceback
import torch, onnxport

class Refusing(torch.nn.Module):
    def forward(self, x):
        raise ValueError("no rows")

def failing():
    onnxport.export(Refusing(), (torch.ones(2),), None)

def show(error):
    print("ValueError:", error.__cause__)
    print(traceback.format_exc().count("Traceback (most"), "of 1")

try:
    failing()
except onnxport.OnnxExporterError as error:
    show(error)
    logging.exception("caught")
    pickle.dumps(error)
    try:
        raise RuntimeError("the build failed") from error
    except RuntimeError as chained:
        show(chained.__cause__)
failing()
"""


def test_what_is_no_refusal_passes_as_it_is() -> None:
    class Broken(onnxport.ExportableModule):
        def example_arguments(self) -> tuple[tuple[object, ...], dict[str, object] | None]:
            raise LookupError("no example")

    with pytest.raises(LookupError) as caught:
        Broken().to_onnx()
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 2
