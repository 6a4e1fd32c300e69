"""Renaming axes of a model that is exported already."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import onnxport
from comparison import assert_agrees
from onnxport.errors import InputError


class Joined(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], 0).relu()


def exported(**options: Any) -> onnxport.ONNXProgram:
    shapes = ({0: "a", 1: "w"}, {0: "ab", 1: "w"})
    return onnxport.export(Joined(), (torch.ones(2, 3), torch.ones(4, 3)), dynamic_shapes=shapes, **options)


ROWS: dict[str, tuple[dict[str, str], list[str]]] = {
    "one": ({"w": "width"}, ["[a,width]", "[ab,width]", "[a + ab,width]"]),
    "part": ({"a": "past"}, ["[past,w]", "[ab,w]", "[past + ab,w]"]),
    "exchange": ({"a": "ab", "ab": "a"}, ["[ab,w]", "[a,w]", "[ab + a,w]"]),
    "sum": ({"a": "past", "ab": "new", "a + ab": "total"}, ["[past,w]", "[new,w]", "[total,w]"]),
    "nothing": ({}, ["[a,w]", "[ab,w]", "[a + ab,w]"]),
}


@pytest.mark.parametrize("row", ROWS)
def test_names(row: str) -> None:
    mapping, expected = ROWS[row]
    program = exported()
    graph = program.model.graph
    program.rename_axes(mapping)
    assert [str(value.shape) for value in (*graph.inputs, *graph.outputs)] == expected
    assert_agrees(program, Joined(), (torch.randn(3, 2), torch.randn(1, 2)))


def test_a_dimension_stands_for_its_name_and_functions_follow() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2))
    with warnings.catch_warnings(action="ignore"):
        program = onnxport.export(
            model, (torch.ones(2, 3),), dynamic_shapes=({0: "n"},), export_modules_as_functions=True
        )
    shape = program.model.graph.inputs[0].shape
    assert shape is not None
    program.rename_axes({shape[0]: "batch"})  # type: ignore[dict-item]
    (function,) = program.model.functions.values()
    assert [str(value.shape) for value in (function.inputs[0], function.outputs[0])] == ["[batch,3]", "[batch,2]"]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [({"widht": "x", "a": "b"}, "'widht'"), ({"abc": "x"}, "did you mean 'ab'"), ({3: "x"}, "not 3")],
)
def test_what_is_not_there(mapping: Any, message: str) -> None:
    program = exported()
    with pytest.raises(InputError, match=message):
        program.rename_axes(mapping)
    assert str(program.model.graph.inputs[0].shape) == "[a,w]"
