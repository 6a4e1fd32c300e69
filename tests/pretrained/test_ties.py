"""Choices between numbers that are nearly equal: no difference of the file, and said; what differs still does."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from onnxport.errors import OnnxExporterWarning
from onnxport.onnx_build.opsets import DEFAULT_OPSET
from onnxport.pretrained.parts import Part, Tensors, differences, export_part
from onnxport.verification import VerificationInfo


class Chooser(torch.nn.Module):
    """The best of scores that are equal but for rounding, as those of an untrained detector, and what they are of."""

    def __init__(self) -> None:
        super().__init__()
        self.score = torch.nn.Linear(64, 1)

    def choose(self, tensors: Tensors) -> Tensors:
        rows = tensors["rows"]
        # The same numbers in another order: their sums are equal, and differ by how they are rounded.
        scores = self.score(rows)[:, :, 0] * 0 + rows.sum(2)
        best = scores.topk(2).indices
        return {"scores": scores, "best": rows.gather(1, best[:, :, None].expand(-1, -1, 64))}


def _part(module: Chooser) -> Part:
    def made(sizes: object) -> Tensors:
        generator = torch.Generator().manual_seed(0)
        one = torch.randn(64, generator=generator)
        return {"rows": torch.stack([one[torch.randperm(64, generator=generator)] for _ in range(40)])[None]}

    return Part("model", module, module.choose, made, {}, {}, (), ("scores", "best"))


def test_ties_are_said_and_no_difference(tmp_path: Path) -> None:
    part = _part(Chooser().eval())
    # A file that takes the others of what is nearly equal, as a runtime that sums in another order does.
    other = dataclasses.replace(part, forward=lambda tensors: _flipped(part, tensors))
    program = export_part(other, opset_version=DEFAULT_OPSET, target="onnx")
    program.save(tmp_path / part.file)
    with pytest.warns(OnnxExporterWarning, match=r"best of model.onnx can't be compared: .* nearly equal"):
        assert differences(part, tmp_path) == []


def test_what_is_no_tie_differs(tmp_path: Path) -> None:
    part = _part(Chooser().eval())
    wrong = dataclasses.replace(part, forward=lambda tensors: {k: v * 2 for k, v in part.forward(tensors).items()})
    export_part(wrong, opset_version=DEFAULT_OPSET, target="onnx").save(tmp_path / part.file)
    with pytest.warns(OnnxExporterWarning, match="best of model.onnx can't be compared"):
        (problem,) = differences(part, tmp_path)
    assert "scores differs" in problem.what


class Deep(torch.nn.Module):
    """Layers in which roundings add up; the file is that of a model which rounds once, at the end."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32, bias=False) for _ in range(12))

    def deep(self, tensors: Tensors, dtype: torch.dtype = torch.bfloat16) -> Tensors:
        x = tensors["x"].to(dtype)
        for layer in self.layers:
            x = torch.nn.functional.layer_norm(x + torch.tanh(x @ layer.weight.to(dtype) * 3), (32,))
        return {"y": x.to(torch.bfloat16)}


@pytest.mark.filterwarnings("error::onnxport.errors.OnnxExporterWarning")
def test_roundings_to_few_digits_that_add_up_are_no_choice(tmp_path: Path) -> None:
    module, x = Deep().eval(), torch.randn(4, 32, generator=torch.Generator().manual_seed(0))
    part = Part("model", module, module.deep, lambda sizes: {"x": x}, {}, {}, (), ("y",))
    whole = dataclasses.replace(part, forward=lambda tensors: module.deep(tensors, torch.float32))
    export_part(whole, opset_version=DEFAULT_OPSET, target="onnx").save(tmp_path / part.file)
    expected, found = (one.forward({"x": x})["y"] for one in (part, whole))
    assert not VerificationInfo.from_tensors("y", expected, found).matches
    assert differences(part, tmp_path) == []


def _flipped(part: Part, tensors: Tensors) -> Tensors:
    flipped = part.forward({"rows": tensors["rows"].flip(1)})
    return {"scores": flipped["scores"].flip(1), "best": flipped["best"]}
