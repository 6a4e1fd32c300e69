"""Run-time sizes: every expression torch makes of them has the value that Python gives it, at sizes not traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxport
from comparison import exported_and_compared

EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "symbol": lambda n, m: n,
    "sum": lambda n, m: n + m + 3,
    "difference": lambda n, m: n * 3 - m + 20,
    "product": lambda n, m: n * m * 2,
    "floor_division": lambda n, m: (n + 5) // 2,
    "floor_of_negative": lambda n, m: (m - n * 4) // 3 + 40,
    "floor_of_less": lambda n, m: ((n // 2 - 3) // 2 - 5) // 3 + m,
    "ceiling": lambda n, m: (n * m + m - 1) // m,
    "modulo": lambda n, m: (n * 7 + m) % 5 + 1,
    "square": lambda n, m: n**2,
    "maximum": lambda n, m: torch.sym_max(n, m),
    "minimum": lambda n, m: torch.sym_min(n + 1, m),
    "true_division": lambda n, m: torch.sym_int((n * 3 + m) / 2),
    "square_root": lambda n, m: torch.sym_int(torch._sym_sqrt(n * 16)),
}


class Sized(torch.nn.Module):
    def __init__(self, expression: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.expression = expression

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.new_ones(self.expression(x.shape[0], x.shape[1]))


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expression(name: str) -> None:
    module = Sized(EXPRESSIONS[name])
    examples = [(torch.zeros(sizes),) for sizes in ((5, 6), (7, 4), (3, 11))]
    exported_and_compared(module, *examples, axes=[{0: "n", 1: "m"}])


def test_sizes_behind_strides_are_plain_divisions() -> None:
    """Symbolic shape inference has no Mod."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.new_ones(((x.shape[0] // 2) - 1) // 2 + 1, x.shape[0])

    examples = [(torch.zeros(size),) for size in (6, 1, 2, 3, 13)]
    program = exported_and_compared(Model(), *examples, axes=[{0: "n"}])
    assert [node.op_type for node in program.model.graph if node.op_type in ("Mod", "Sub", "Div")] == ["Div", "Div"]


def test_a_size_is_computed_once() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            n = x.shape[0]
            return x.new_zeros(n * 2 + 1), x.new_ones(n * 2 + 1, n), x.new_ones(n * 2 + 1, 3)

    program = exported_and_compared(Model(), (torch.zeros(5),), (torch.zeros(2),), axes=[{0: "n"}], optimize=False)
    counts = [node.op_type for node in program.model.graph]
    assert counts.count("Shape") == counts.count("Mul") == counts.count("Add") == 1


def test_axes_named_alike_are_one_size() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.new_zeros(x.shape[0]), y.new_ones(y.shape[0])

    examples = [(torch.zeros(size), torch.zeros(size)) for size in (5, 2)]
    program = exported_and_compared(Model(), *examples, axes=[{0: "n"}, {0: "n"}])
    assert [str(value.shape[0]) for value in program.model.graph.outputs] == ["n", "n"]
    assert [node.op_type for node in program.model.graph].count("Shape") == 1


def test_expressions_of_sizes_are_shown_with_the_users_names() -> None:
    program = onnxport.export(
        Sized(lambda n, m: n * 2 + m), (torch.zeros(5, 6),), dynamic_shapes=({0: "rows", 1: "columns"},)
    )
    assert str(program.model.graph.outputs[0].shape[0]) == "columns + 2*rows"


def test_sizes_that_are_known_among_others_stay_known() -> None:
    """Below opset 20 nothing of the grid of an image of known size depends on the batch."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.affine_grid(x, [x.shape[0], 3, 4, 5], align_corners=False)

    program = exported_and_compared(
        Model(), (torch.rand(2, 2, 3),), (torch.rand(4, 2, 3),), axes=[{0: "n"}], opset_version=17
    )
    assert {node.op_type for node in program.model.graph}.isdisjoint({"Range", "Slice"})
