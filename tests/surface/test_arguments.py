"""Arguments that older code passes, and what is said about them; bad input, each with its message."""

from __future__ import annotations

import inspect
import typing
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import onnxport
from comparison import assert_close, exported_and_compared
from onnxport.errors import OnnxExporterWarning, OpsetError, SaveError

X = torch.ones(2, 3)

DEPRECATED: dict[str, tuple[Any, str]] = {
    "training": (onnxport.TrainingMode.PRESERVE, "model.eval"),
    "operator_export_type": (onnxport.OperatorExportTypes.ONNX_ATEN_FALLBACK, "custom_translation_table"),
    "do_constant_folding": (False, "optimize=False"),
    "custom_opsets": ({"mine": 2}, "onnxport.ops.symbolic"),
    "export_modules_as_functions": (True, "kept for models that need functions"),
    "autograd_inlining": (False, "symbolic"),
    "fallback": (True, "tried in order"),
    "example_outputs": (torch.ones(2, 2), "known from its capture"),
}


@pytest.mark.parametrize("name", DEPRECATED)
def test_deprecated_arguments_name_the_replacement(name: str) -> None:
    value, remedy = DEPRECATED[name]
    with pytest.warns(DeprecationWarning, match=rf"`{name}` is deprecated.*{remedy}"):
        onnxport.export(torch.nn.Linear(3, 2), (X,), **{name: value})


def test_defaults_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        warnings.simplefilter("error", OnnxExporterWarning)
        defaults = {"training": torch.onnx.TrainingMode.EVAL, "do_constant_folding": True}
        exported_and_compared(torch.nn.Linear(3, 2), (X,), **defaults)


def test_training_mode_is_a_warning() -> None:
    with pytest.warns(OnnxExporterWarning, match=r"in training mode: Dropout.*model\.eval"):
        onnxport.export(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5)), (X,))


@pytest.mark.parametrize("opset", [6, 0, -1, 99, "20", True, 17.0])
def test_opset_out_of_range(opset: Any) -> None:
    with pytest.raises(OpsetError, match="opset_version"):
        onnxport.export(torch.nn.Linear(3, 2), (X,), opset_version=opset)


def test_unwritable_destination_is_found_before_the_work(tmp_path: Path) -> None:
    class Fails(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("captured although the destination can't be written")

    with pytest.raises(SaveError, match="missing"):
        onnxport.export(Fails(), (X,), tmp_path / "missing" / "model.onnx")


@pytest.mark.parametrize("external", [False, True])
def test_saves_and_returns(tmp_path: Path, external: bool) -> None:
    path = tmp_path / "model.onnx"
    program = exported_and_compared(torch.nn.Linear(30, 20), (torch.rand(2, 30),), f=path, external_data=external)
    x = np.ones((2, 30), np.float32)
    (found,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"input": x})
    assert_close(torch.from_numpy(found), program(torch.from_numpy(x)))
    assert (tmp_path / "model.onnx.data").exists() == external
    assert isinstance(program, onnxport.ONNXProgram)


def test_weights_can_be_left_out(tmp_path: Path) -> None:
    import onnx

    path = tmp_path / "model.onnx"
    onnxport.export(torch.nn.Linear(3, 2), (X,), path, export_params=False)
    assert len(onnx.load(path).graph.initializer) == 0


def test_same_bytes_from_two_exports(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.LayerNorm(4)).eval()
    for name in ("a.onnx", "b.onnx"):
        onnxport.export(model, (X,), tmp_path / name, dynamic_shapes=({0: "n"},), external_data=False)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_type_checkers_have_one_signature_to_speak_of() -> None:
    # Of an overloaded function they list every overload, at forty options each, whatever option is wrong.
    assert typing.get_overloads(onnxport.export) == []
    hints = inspect.signature(onnxport.export)
    assert hints.return_annotation == "ONNXProgram | Any"
