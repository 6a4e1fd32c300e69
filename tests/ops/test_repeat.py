"""Calls that repeat: written from a recipe exactly as the translation would have, and only where that is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from matrix import captured, identity, rows

import onnxport
from cases import Case, R, case
from onnxport.translate import engine
from onnxport.translate.repeat import Recipe
from zoo import ZOO, ZooModel


class Repeated(torch.nn.Module):
    """A function of one set of inputs after the other."""

    def __init__(self, function: Callable[..., Any], inputs: int) -> None:
        super().__init__()
        self.function = function
        self.inputs = inputs

    def forward(self, *inputs: torch.Tensor) -> list[Any]:
        return [self.function(*inputs[at : at + self.inputs]) for at in range(0, len(inputs), self.inputs)]


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets of the calls that are written from a recipe, as they are."""
    targets: list[str] = []
    follow = Recipe.follow

    def noted(recipe: Recipe, op: Any, slots: Any) -> Any:
        targets.append(str(op.translated.target))
        return follow(recipe, op, slots)

    monkeypatch.setattr(Recipe, "follow", noted)
    return targets


def _bytes(program: torch.export.ExportedProgram) -> bytes:
    exported = onnxport.export(program, optimize=False)
    return exported.model_proto.SerializeToString(deterministic=True)


def _assert_same_without_recipes(program: torch.export.ExportedProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    written = _bytes(program)
    monkeypatch.setattr(engine, "record", lambda *_: None)
    assert written == _bytes(program)


# What tells calls apart, and what of a call is not in its description: (function, inputs, is it written again?)
SEEN: dict[str, tuple[Callable[..., Any], tuple[R, ...], bool]] = {
    "shapes alone": (lambda x, w: torch.nn.functional.linear(x, w).relu(), (R("b", 5, 3), R(4, 3)), True),
    "several results": (lambda x: torch.max(x, dim=1), (R("b", 5),), True),
    "an argument returned": (lambda x: torch.nn.functional.dropout(x, training=False) + 1, (R("b", 5),), True),
    "sizes at run time": (lambda x: x.new_zeros(x.shape[0] * x.shape[1], x.shape[0]), (R("b", "n"),), False),
    "a body": (lambda x: torch.cummax(x, 1).values, (R("b", 5),), False),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_is_repeated(name: str, followed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    function, inputs, again = SEEN[name]
    row = case("repeated", Repeated(function, len(inputs)), *inputs * 4)
    cell, program = captured(row, torch.float32, True, 20)
    cell.check(program)
    assert bool(followed) == again
    _assert_same_without_recipes(cell.captured, monkeypatch)


def _told_apart(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    numbers = [x * 1, x * True, x * 1.0, x * 0.0, x * -0.0]
    return [*numbers, x * x, x * y, y * y, x.sum(0), x.sum(1), x.sum([0, 1]), x.clamp(0), x.clamp(None, 0)]


def test_descriptions_differ(followed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal numbers of different types, zeros of different signs, and one tensor twice are not the same call."""
    cell, program = captured(
        case("apart", Repeated(_told_apart, 2), *(R("b", 3), R("b", 3)) * 4), torch.float32, True, 20
    )
    cell.check(program)
    assert followed
    _assert_same_without_recipes(cell.captured, monkeypatch)


class Chain(torch.nn.Module):
    """Five calls of one kind."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = torch.relu(x + 1)
        return x


def test_users_function_is_asked_every_time(followed: list[str]) -> None:
    asked = []

    def counted(op: Any, self: Any) -> Any:
        asked.append(self)
        return op.Relu(self)

    onnxport.export(Chain(), (torch.ones(2),), custom_translation_table={torch.ops.aten.relu.default: counted})
    assert len(asked) == 5
    assert set(followed) == {"aten.add.Tensor"}


def _rows() -> list[Any]:
    """Each tenth row of the operators' tables, but for those that are warned of."""
    return [pytest.param(row, id=identity(row)) for row in rows()[::10] if row.inputs and not (row.xfail or row.warns)]


@pytest.mark.parametrize("row", _rows())
def test_operators(row: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    function = row.function.eval() if isinstance(row.function, torch.nn.Module) else row.function
    repeated = case(row.covers[0], Repeated(function, len(row.inputs)), *row.inputs * 3)
    cell, _ = captured(repeated, row.dtypes[0], row.is_dynamic, 20)
    _assert_same_without_recipes(cell.captured, monkeypatch)


@pytest.mark.parametrize("zoo", ZOO[:4], ids=lambda model: model.name)
def test_models(zoo: ZooModel, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    program = onnxport.export(
        zoo.build().eval(), kwargs=zoo.inputs(*zoo.traced), dynamic_shapes=zoo.dynamic_shapes, optimize=False
    )
    assert program.exported_program is not None
    _assert_same_without_recipes(program.exported_program, monkeypatch)
