"""Errors carry their problems as data: what, where, how often, and the operator it is about."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from test_unknown import Model as UnknownModel
from test_unknown import halve

import onnxport
from onnxport import errors, utils
from onnxport.errors import (
    CaptureError,
    DynamicShapeError,
    InputError,
    OnnxExporterError,
    OpsetError,
    Problem,
    SaveError,
    TranslationError,
    UnsupportedOperatorError,
)

X = torch.ones(2, 3)


class Calls(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def with_nonzero(x: torch.Tensor) -> torch.Tensor:
    return x.nonzero() + x.relu().nonzero().sum()


def fixed(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(2, 3)


def in_a_branch(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda y: halve(y) + 1, lambda y: y - 1, (x,))


def failing(x: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("not today")


ROWS: dict[
    str, tuple[type[OnnxExporterError], torch.nn.Module, torch.Tensor, dict[str, Any], list[tuple[str, int]]]
] = {
    # name: the error, a model, its input, options, and the operators with their counts
    "unknown": (TranslationError, UnknownModel(), X, {}, [("onnxport_tests::double", 2), ("onnxport_tests::halve", 1)]),
    "in-a-branch": (TranslationError, Calls(in_a_branch), X, {}, [("onnxport_tests::halve", 1)]),
    "mixed-types": (TranslationError, torch.nn.Linear(3, 2), X.double(), {}, [("aten::linear", 1)]),
    "opset": (OpsetError, Calls(with_nonzero), X, {"opset_version": 8}, [("aten::nonzero", 2)]),
    "dynamic-shapes": (DynamicShapeError, Calls(fixed), X, {"dynamic_shapes": ({"x": {0: "n"}},)}, [("", 1)]),
    "forced-size": (DynamicShapeError, Calls(fixed), X, {"dynamic_shapes": ({0: "n"},)}, [("", 1)]),
    "capture": (CaptureError, Calls(failing), X, {}, [("", 1)]),
}


@pytest.mark.parametrize("name", ROWS)
def test_problems_are_data(name: str) -> None:
    kind, model, x, options, expected = ROWS[name]
    with pytest.raises(kind) as caught:
        onnxport.export(model, (x,), **options)
    error = caught.value
    assert [(problem.operator, problem.count) for problem in error.problems] == expected
    assert all(f"  - {problem}" in str(error) for problem in error.problems)
    if expected[0][0]:
        assert all(".py:" in problem.where or problem.where == "the model, a Linear" for problem in error.problems)


def test_a_model_that_takes_other_inputs() -> None:
    program = onnxport.export(torch.nn.Linear(3, 2), (X,))
    with pytest.raises(InputError) as caught:
        program(X.double(), X)
    assert caught.value.problems


@pytest.mark.parametrize("kind", [OnnxExporterError, CaptureError, InputError, TranslationError, OpsetError, SaveError])
def test_errors_of_all_kinds_list_their_problems(kind: type[OnnxExporterError]) -> None:
    problems = [Problem("one", operator="aten::one"), Problem("two", "model.py:7", "Do that.", 2)]
    error = kind("What happened:", problems, "Do this.")
    text = "What happened:\n  - one\n  - two (2 times)\n    first at model.py:7\n    Do that.\nDo this."
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert str(one) == text and one.problems == tuple(problems)
    assert (str(kind("Alone.")), kind("Alone.").problems) == ("Alone.", ())


def test_an_unsupported_operator_is_named() -> None:
    (problem,) = UnsupportedOperatorError("aten::foo", 9, 11).problems
    assert problem.operator == "aten::foo" and "opset 11" in problem.what


def test_unconvertible_operators_do_not_depend_on_wording(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(g: Any, x: Any) -> Any:
        raise UnsupportedOperatorError("aten::erfinv", 17)

    monkeypatch.setattr(errors, "listing", lambda *_: "Reworded.")
    onnxport.register_custom_op_symbolic("aten::erfinv", refuse, 9)
    try:
        _, names = utils.unconvertible_ops(Calls(lambda x: x.erfinv() + x.relu()), (X,), opset_version=17)
    finally:
        onnxport.unregister_custom_op_symbolic("aten::erfinv", 9)
    assert names == ["aten::erfinv"]
