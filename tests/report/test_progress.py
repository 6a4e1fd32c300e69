"""Progress: a line for each stage where someone can read it, and nothing where nobody asked."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest
import torch
from torch import nn

import onnxport
from onnxport.errors import OnnxExporterError

X = torch.ones(2, 3)


class Stream(io.TextIOWrapper):
    """Standard error with an encoding, on a terminal or not."""

    def __init__(self, encoding: str, terminal: bool) -> None:
        self.bytes = io.BytesIO()
        self.terminal = terminal
        super().__init__(self.bytes, encoding=encoding)

    def isatty(self) -> bool:
        return self.terminal

    def text(self) -> str:
        self.flush()
        return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r", "", self.bytes.getvalue().decode(self.encoding))


class Wrong(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x


def shown(monkeypatch: pytest.MonkeyPatch, verbose: bool | None, stream: Stream, model: Any = None) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    try:
        onnxport.export(nn.Linear(3, 2) if model is None else model, (X,), verbose=verbose, verify=True)
    except OnnxExporterError:
        assert model is not None
    return stream.text()


@pytest.mark.parametrize(
    ("verbose", "terminal", "encoding", "sign"),
    [
        (True, False, "utf-8", "✅"),
        (True, False, "ascii", "ok"),
        (True, False, "latin-1", "ok"),
        (True, True, "utf-8", "✅"),
        (True, True, "ascii", "ok"),
        (None, True, "utf-8", "✅"),
        (None, False, "utf-8", None),
        (False, False, "utf-8", None),
        (False, True, "utf-8", None),
    ],
)
def test_lines(
    verbose: bool | None, terminal: bool, encoding: str, sign: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown(monkeypatch, verbose, Stream(encoding, terminal))
    if sign is None:
        assert text == ""
        return
    for line in (
        r"Capture the model: \d+ nodes, \d+\.\d\d s",
        r"Translate to ONNX: 1 ONNX nodes, \d+\.\d\d s",
        r"Verify with onnxruntime: 2 of 2 comparisons agree, \d+\.\d\d s",
    ):
        assert re.search(f"{sign} {line}", text), text
    assert ("note: " in text) == (verbose is True)


@pytest.mark.parametrize(("encoding", "sign"), [("utf-8", "❌"), ("ascii", "FAILED")])
def test_a_failure(encoding: str, sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, True, Stream(encoding, False), Wrong())
    assert f"{sign} Capture the model: Wrong could not be captured as a graph, " in text
    assert "Translate" not in text


def test_standard_output_is_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    onnxport.export(nn.Linear(3, 2), (X,), verbose=True)
    assert capsys.readouterr().out == ""
