"""Patterns of models from many libraries, each at its least: exported once, equal to eager at other sizes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnxport
from cases import Wrapped

Sizes = list[tuple[int, ...]]
SIZES: Sizes = [(2, 5), (3, 8), (1, 1)]


def _grid(x: torch.Tensor) -> torch.Tensor:
    """Coordinates of every pixel, as warps and positional encodings make them."""
    height, width = x.shape
    rows = torch.linspace(0, height - 1, height, dtype=x.dtype)
    columns = torch.linspace(0, width - 1, width, dtype=x.dtype)
    return torch.stack(torch.meshgrid(rows, columns, indexing="ij")) + x


PATTERNS: dict[str, Callable[[torch.Tensor], Any]] = {
    "linspace": lambda x: x + torch.linspace(-1.0, 1.0, steps=x.shape[1]),
    "linspace-of-tensors": lambda x: torch.linspace(x.min(), x.max(), x.shape[1]),
    "linspace-of-whole-numbers": lambda x: torch.linspace(0, 10, x.shape[1], dtype=torch.int64),
    "linspace-of-doubles": lambda x: torch.linspace(-3, 2, 2 * x.shape[1], dtype=torch.float64),
    "linspace-plain": lambda x: x.sum() + torch.linspace(-1, 1, 4),
    "linspace-grid": _grid,
    "one-hot": lambda x: F.one_hot(x.argmax(1), x.shape[1]),
    "one-hot-named": lambda x: torch.nn.functional.one_hot(x.argmax(1), num_classes=x.shape[1] + 1),
    "pairs-above": lambda x: x[:, torch.triu_indices(x.shape[1], x.shape[1], offset=1)],
    "pairs-below": lambda x: x[:, torch.tril_indices(x.shape[1], x.shape[1])],
    "pairs-oblong": lambda x: torch.triu_indices(x.shape[0], x.shape[1], -1, dtype=torch.int32),
    "pairs-plain": lambda x: x.sum() + torch.tril_indices(3, 4, 1),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_counts_that_vary(name: str) -> None:
    _check(PATTERNS[name], SIZES)


def _check(function: Callable[..., Any], sizes: Sizes) -> onnxport.ONNXProgram:
    torch.manual_seed(0)
    program = onnxport.export(Wrapped(function), (torch.randn(sizes[0]),), dynamic_shapes=({0: "rows", 1: "columns"},))
    shape = program.model.graph.inputs[0].shape
    assert shape is not None and [str(size) for size in shape] == ["rows", "columns"]
    for size in sizes:
        x = torch.randn(size)
        torch.testing.assert_close(program(x)[0], function(x))
    return program


def test_contractions_ordered_by_a_package_that_reads_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[tuple[int, ...]]] = []

    def contract_path(equation: str, *shapes: Any, **options: Any) -> Any:
        given = shapes if options.get("shapes") else [operand.shape for operand in shapes]
        asked.append([tuple(int(size) for size in shape) for shape in given])
        return [(1, 2), (0, 1)], None

    package = torch.backends.opt_einsum.m  # type: ignore[attr-defined]
    monkeypatch.setattr(package, "is_available", lambda: True)
    monkeypatch.setattr(package, "get_opt_einsum", lambda: SimpleNamespace(contract_path=contract_path))
    monkeypatch.setattr(package, "enabled", True)
    monkeypatch.setattr(package, "strategy", "auto", raising=False)
    _check(lambda x: torch.einsum("ij,kj,kl->il", x, x, x), SIZES)
    assert asked[0] == [(2, 5)] * 3
    assert "get_opt_einsum" not in vars(torch.backends.opt_einsum)
