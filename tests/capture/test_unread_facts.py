"""What torch works out of captured calls and nobody reads is left out, and there for who asks for it."""

from __future__ import annotations

import copy
import gc
import io

import pytest
import torch

import onnxport
from onnxport.capture import capture
from onnxport.events import EventLog


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu() * x.shape[0]


def captured() -> torch.export.ExportedProgram:
    return capture(Scaled(), torch.ones(2, 3, 8, 8), dynamic_shapes=({0: "n"},), events=EventLog()).program


def test_a_capture_writes_code_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    python_code = torch.fx.Graph.python_code

    def noted(*args: object, **kwargs: object) -> object:
        written.append(args)
        return python_code(*args, **kwargs)

    monkeypatch.setattr(torch.fx.Graph, "python_code", noted)
    program = captured()
    # Of the graph that the program holds, which is of torch's usual class.
    assert len(written) == 1
    assert "conv2d" in program.graph_module.code


def test_a_captured_program_runs_and_is_saved() -> None:
    program = captured()
    x = torch.randn(5, 3, 9, 9)[..., :8, :8].contiguous()
    expected = program.module()(x)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for other in (copy.deepcopy(program), torch.export.load(file)):
        torch.testing.assert_close(other.module()(x), expected)
    values = [node.meta["tensor_meta"] for node in program.graph.nodes if "tensor_meta" in node.meta]
    assert values and values[0].dtype == torch.float32


def test_full_collections_are_rarer_only_during_an_export() -> None:
    seen = []

    class Watching(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(gc.get_threshold())
            return x + 1

    usual = gc.get_threshold()
    onnxport.export(Watching(), (torch.ones(2),))
    assert any(during[2] > usual[2] for during in seen)
    assert gc.get_threshold() == usual
