"""A warning points at the line that called the exporter, however deep inside its cause was found."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

import onnxport
from onnxport.errors import OnnxExporterWarning


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x - 1


class Parity(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] % 2 else x - 1


class Absent(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        return x * 2, None


def _dropout() -> torch.nn.Module:
    return torch.nn.Dropout().train()


CAUSES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "draft export": (Branches, {"branches": "follow"}, "depends on the data"),
    "a trace": (Branches, {"dynamo": False, "branches": "follow"}, "x.sum"),
    "an assumption": (Parity, {"dynamic_shapes": ({0: "rows"},), "branches": "follow"}, "right only where"),
    "an output": (Absent, {}, "returns None"),
    "training mode": (_dropout, {}, "training mode"),
    "a newer opset": (Parity, {"dynamo": False, "opset_version": 21}, "newer than what"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_place(cause: str) -> None:
    make, options, text = CAUSES[cause]
    model = make()
    with pytest.warns(OnnxExporterWarning) as caught:
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        onnxport.export(model, (torch.ones(3, 2),), **options)
    told = next(one for one in caught if text in str(one.message))
    assert (told.filename, told.lineno) == (__file__, line)


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)  # written
        return x + self.count


def test_state_that_a_file_can_not_keep() -> None:
    told = r"saved value of buffers.*: The buffer 'count' \(.*# written\)\. Take the old value as an input"
    with pytest.warns(OnnxExporterWarning, match=told):
        onnxport.export(Counts(), (torch.ones(2),), verbose=False)


@pytest.mark.filterwarnings("error::onnxport.errors.OnnxExporterWarning")
def test_statistics_of_training_are_not_told_of_twice() -> None:
    normed = torch.nn.Sequential(torch.nn.BatchNorm1d(3)).eval()
    onnxport.export(normed, (torch.ones(2, 3),), verbose=False)
