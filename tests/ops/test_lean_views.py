"""Views, indexing, writes with run-time sizes and norms come out as the few nodes a reader expects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from cases import I, R
from comparison import exported_and_compared

Function = Callable[..., Any]


def _write_slice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    written = x.clone()
    written[:, 1:3] = y
    return written


ROWS: list[tuple[str, Function, tuple[R, ...]]] = [
    ("Expand", lambda x: x.expand(4, -1, -1), (R("b", 3),)),
    ("Expand", lambda x: x.expand(-1, 5, -1), (R("b", 1, "n"),)),
    ("Unsqueeze Expand Reshape", lambda x: x.repeat_interleave(2, 1), (R("b", 4, 3),)),
    # An axis of 1 has one chunk, which a Split into two would refuse.
    ("Shape Add Div Slice Slice", lambda x: x.chunk(2, 1), (R("b", "m"),)),
    ("Slice", lambda x: x[:, 1:3], (R("b", "n"),)),
    ("", lambda x: x[:, :], (R("b", "n"),)),
    ("Slice", lambda x: x.flip(0, 1), (R("b", "n"),)),
    ("Gather", lambda x, i: x[:, i], (R("b", 5), I("n"))),
    ("Reshape Slice", lambda x: x.diagonal(dim1=1, dim2=2), (R("b", 3, 4),)),
    ("NonZero Transpose", lambda x: x.nonzero(), (R("b", "n"),)),
    ("Slice Slice Concat", _write_slice, (R("b", 5), R("b", 2))),
    ("Unsqueeze Where", lambda x, y: x.select_scatter(y, 1, 2), (R("b", 4), R("b"))),
    # ReduceL2 before a Div is a normalization to OpenCV, and symbolic shape inference reads the axes of sums only.
    ("Mul ReduceSum Sqrt", lambda x: x.norm(dim=1), (R("b", 5),)),
    ("ReduceMean Sub Mul ReduceSum Div Sqrt", lambda x: x.std(1), (R("b", 5),)),
    ("Mul ReduceSum Sqrt Div Mul", lambda v, g: torch._weight_norm(v, g, 0), (R(3, 5, "n"), R(3, 1, 1))),
    ("GlobalAveragePool", lambda x: F.adaptive_avg_pool2d(x, 1), (R("b", 4, "m", "n"),)),
    ("ReduceMean", lambda x: F.adaptive_avg_pool3d(x, 1), (R("b", 4, 3, "m", "n"),)),
    # OpenCV has these of floating-point numbers only.
    ("Cast Neg Max", lambda i: i.int().abs(), (I("n"),)),
    ("Sub Cast Clip", lambda i: (i - 2).int().sign(), (I("n"),)),
    ("Abs", lambda x: x.abs(), (R("n"),)),
    # Groups of one channel need no scaling afterwards, and OpenCV normalizes images only.
    ("InstanceNormalization", lambda x, w, b: F.group_norm(x, 4, w, b), (R("b", 4, 5, "n"), R(4), R(4))),
    ("Unsqueeze InstanceNormalization Squeeze", lambda x: F.group_norm(x, 4), (R("b", 4, "n"),)),
    ("Unsqueeze ScatterND", lambda x, i, y: x.index_add(0, i, y), (R(5, "b"), I("n"), R("n", "b"))),
]


@pytest.mark.filterwarnings("ignore:The exported model follows the example")
@pytest.mark.parametrize(("operators", "function", "inputs"), ROWS, ids=[str(number) for number in range(len(ROWS))])
def test_operators(operators: str, function: Function, inputs: tuple[R, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    axes = [{axis: size for axis, size in enumerate(spec.shape) if isinstance(size, str)} for spec in inputs]
    examples = [tuple(spec.make(which, generator) for spec in inputs) for which in range(3)]
    program = exported_and_compared(function, *examples, axes=axes)
    assert " ".join(node.op_type for node in program.model.graph if node.op_type != "Identity") == operators
