"""The command line: what it reads, what it writes, what it says when it can't."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from typer.testing import CliRunner

from onnxport.command_line import app

SOURCE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(x).relu()

def number():
    return 3

CONSTANT = "net"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(SOURCE)
    module = torch.nn.Linear(4, 2)
    torch.jit.trace(module, torch.randn(3, 4)).save(str(tmp_path / "net.pt"))
    torch.export.save(torch.export.export(module, (torch.randn(3, 4),)), tmp_path / "net.pt2")
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


ROWS = [
    ("net.py:Net out.onnx -i x=batch@3,4 --opset 13 --verify", "out.onnx", 13, "batch"),
    ("net.py:Net -i batch@3,4:float32", "net.onnx", 20, "batch"),
    ("net.pt script.onnx -i rows@3,4 --opset 11", "script.onnx", 11, "rows"),
    ("net.pt2 captured.onnx", "captured.onnx", 20, 3),
    ("torch.nn:Identity same.onnx -i 5 --quiet", "same.onnx", 20, 5),
]


@pytest.mark.parametrize(("line", "written", "opset", "first"), ROWS, ids=[row[0].split()[0] for row in ROWS])
def test_export(folder: Path, line: str, written: str, opset: int, first: int | str) -> None:
    result = CliRunner().invoke(app, ["export", *line.split()])
    assert result.exit_code == 0, result.output
    model = onnx.load(folder / written)
    assert model.opset_import[0].version == opset
    size = model.graph.input[0].type.tensor_type.shape.dim[0]
    assert (size.dim_param or size.dim_value) == first
    assert ("--quiet" in line) == (written not in result.stdout)


REFUSALS = [
    ("absent.pt", "There is no file absent.pt"),
    ("absent.py:Net", "There is no file absent.py"),
    ("absent_module:Net", "There is no Python module absent_module"),
    ("net.py:Other", "net.py has no Other"),
    ("net.py:number", "is a int, not a torch.nn.Module"),
    ("net.py:CONSTANT", "is a str, not a torch.nn.Module"),
    ("weights.pt", "is not a TorchScript file"),
    ("net.py:Net -i x=3,four", "'four' is no size"),
    ("net.py:Net -i x=3,4:float33", "torch has no dtype 'float33'"),
    ("net.py:Net -i x=b@3,4 -i 3", "Name all inputs or none"),
    ("net.py:Net -i x=3,4 --opset 99", "99"),
]


@pytest.mark.parametrize(("line", "message"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_refusals(folder: Path, line: str, message: str) -> None:
    result = CliRunner().invoke(app, ["export", *line.split()])
    assert result.exit_code == 1
    assert message in result.output
    assert not list(folder.glob("*.onnx"))
