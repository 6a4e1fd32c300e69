"""Models without their weights: exported, saved without them, and given them afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from safetensors.torch import save_file

import onnxport
from onnxport.errors import InputError, OnnxExporterError


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(30, 20)
        self.register_buffer("table", torch.arange(20.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + self.table


def _fake() -> tuple[torch.nn.Module, torch.Tensor]:
    with onnxport.enable_fake_mode():
        return Model().eval(), torch.randn(2, 30)


def _fake_with_real_input() -> tuple[torch.nn.Module, torch.Tensor]:
    with onnxport.enable_fake_mode():
        model = Model().eval()
    return model, torch.randn(2, 30)


def _meta() -> tuple[torch.nn.Module, torch.Tensor]:
    with torch.device("meta"):
        return Model().eval(), torch.randn(2, 30)


def _meta_with_real_input() -> tuple[torch.nn.Module, torch.Tensor]:
    return _meta()[0], torch.randn(2, 30)


WAYS = [_fake, _fake_with_real_input, _meta, _meta_with_real_input]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
def test_weights_are_applied_afterwards(way: Any) -> None:
    model, x = way()
    program = onnxport.export(model, (x,), dynamic_shapes=({0: "n"},))
    real = Model().eval()
    program.apply_weights(real.state_dict())
    x = torch.randn(5, 30)
    torch.testing.assert_close(program(x)[0], real(x))


def test_weights_come_from_mapped_files(tmp_path: Path) -> None:
    real = Model().eval()
    state = real.state_dict()
    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    save_file({"linear.weight": state["linear.weight"]}, files[0])
    save_file({name: state[name] for name in ("linear.bias", "table")}, files[1])
    program = onnxport.export(*_pair(_fake()))
    program.apply_weights(files)
    program.save(tmp_path / "model.onnx")
    x = torch.randn(2, 30)
    torch.testing.assert_close(program(x)[0], real(x))


def _pair(made: tuple[torch.nn.Module, torch.Tensor]) -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return made[0], (made[1],)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"\xff" * 20)
    with pytest.raises(InputError, match="not a safetensors file"):
        onnxport.export(*_pair(_fake())).apply_weights(path)


def test_saving_without_weights(tmp_path: Path) -> None:
    program = onnxport.export(*_pair(_fake()))
    with pytest.raises(OnnxExporterError, match="apply_weights"):
        program.save(tmp_path / "whole.onnx")
    assert not (tmp_path / "whole.onnx").exists()
    program.save(tmp_path / "bare.onnx", include_initializers=False, keep_initializers_as_inputs=True)
    graph = onnx.load(tmp_path / "bare.onnx").graph
    assert [value.name for value in graph.input] == ["x", "linear.weight", "linear.bias", "table"]
