"""Weights of mapped files that were quantized no longer count as memory in use, and are read again when needed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from onnxport.quantize.grid import IntegerGrid
from onnxport.quantize.lazy_weight import QuantizedWeight
from onnxport.weights.safetensors import mapped_tensors


def mapped_bytes() -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssFile"].split()[0]) * 1024


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system is asked by an advice of Linux")
def test_pages_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"first": torch.randn(2048, 2048), "second": torch.randn(64, 64)}, path)
    tensors = mapped_tensors(path)
    weight = QuantizedWeight(
        "first", lambda: tensors["first"], torch.float32, IntegerGrid(-8, 7, symmetric=True), 32, refine=False
    )
    before = mapped_bytes()
    integers = torch.cat(list(weight.by_rows()))
    assert mapped_bytes() - before < tensors["first"].nbytes // 4
    assert torch.equal(torch.cat(list(weight.by_rows())), integers)


def test_numbers_that_were_written_stay(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"weight": torch.zeros(512, 512)}, path)
    weight = mapped_tensors(path)["weight"]
    weight.fill_(3.0)
    grid = IntegerGrid(-8, 7, symmetric=True)
    list(QuantizedWeight("weight", lambda: weight, torch.float32, grid, 32, refine=False).by_rows())
    assert bool((weight == 3.0).all())
