"""Sizes that are made while a captured program is prepared: numbered by the file, not by how often it was prepared."""

from __future__ import annotations

from pathlib import Path

import pytest
import sympy  # type: ignore[import-untyped]
import torch
from torch._decomp import decomposition_table, register_decomposition

import onnxport
from comparison import assert_close
from onnxport.translate.dims import Dim, DimNames

LIBRARY = torch.library.Library("made_sizes", "DEF")
LIBRARY.define("positives(Tensor x) -> Tensor")
LIBRARY.impl("positives", lambda x: x[x > 0], "CPU")


@torch.library.register_fake("made_sizes::positives", lib=LIBRARY)
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty([torch.library.get_ctx().new_dynamic_size()])


class Both(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        above, below = torch.ops.made_sizes.positives(x), torch.ops.made_sizes.positives(-x)
        return torch.cat([above, below]), above[:, None] + below, torch.cat([below, above]).view(1, -1)


@pytest.fixture
def taken_apart() -> object:
    operator = torch.ops.made_sizes.positives.default
    register_decomposition(operator)(lambda x: x.masked_fill(x < 0, 0)[x > 0])
    yield
    del decomposition_table[operator]


@pytest.mark.usefixtures("taken_apart")
def test_a_program_gives_the_same_file_each_time(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    captured = torch.export.export(Both(), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    files = []
    for opset in (23, 18, 23):
        program = onnxport.export(captured, opset_version=opset, verbose=False)
        program.save(tmp_path / "both.onnx")
        files.append((tmp_path / "both.onnx").read_bytes())
        assert_close(program(x), Both()(x))
    assert files[0] == files[2]


def test_they_are_numbered_in_order_of_appearance() -> None:
    for start in (44, 86):
        first, second = (sympy.Symbol(f"u{start + at}", integer=True) for at in range(2))
        known = sympy.Symbol("u3", integer=True)
        names = DimNames({"u3": "rows", "s1": "size_1"}, {}, {})
        shown = [names.label(Dim(names.own(size))) for size in (first * 2, known, first + second, second)]
        assert shown == ["2*size_0", "rows", "size_0 + size_1_1", "size_1_1"]
