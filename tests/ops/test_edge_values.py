"""Rows at the edges: sizes of 0 and 1 at run time, numbers beyond what float64 holds, numbers that wrap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnxport
from cases import Wrapped

Tensors = tuple[torch.Tensor, ...]
DYNAMIC = torch.export.Dim.DYNAMIC
LARGE = torch.tensor([[2**53 + 1, 2**60 + 3, 7 - 2**61], [2**62 + 1, 2**62 + 1, 2**62 + 5]])

WORDS = torch.tensor([[1, 5, 2331267120, -2331267120, 2**40], [-9, 3 * 10**9, 2**33, 2**63 - 1, -(2**63)]])
"""Numbers whose lower halves are negative as int32 beside others."""


def _extremes(x: torch.Tensor) -> Tensors:
    bounded = (x.clamp(-3, 3), x.clamp(min=-3), x.clamp(max=3), x.relu(), F.relu6(x), x.sign())
    pairs = (torch.maximum(x, x.flip(1)), torch.minimum(x, x.flip(1)))
    return *bounded, *pairs, x.amax(1), x.amin(0, keepdim=True), x.amax(), *x.max(1), *x.aminmax(dim=0)


@dataclass(frozen=True)
class Row:
    """A function, the inputs it is exported with, which of their axes vary, and other inputs to run it with."""

    function: Callable[..., Any]
    example: Tensors
    dynamic: tuple[dict[int, Any], ...] | None = None
    others: tuple[Tensors, ...] = field(default=())


def _pairs(rows: int) -> Tensors:
    return torch.randn(rows, 3), torch.randn(rows, 4), torch.randn(5, 3, 4), torch.randn(5)


def _product(inner: int) -> Tensors:
    return torch.randn(3), torch.randn(2, inner), torch.randn(inner, 3)


def _addmm(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.addmm(bias, a, b, beta=0.5, alpha=2)


def _turned_codes(x: torch.Tensor) -> torch.Tensor:
    coded = F.one_hot(x.nonzero().clamp(0, 3), 4)
    coded.contiguous().transpose_(0, -1)
    return coded


ROWS = {
    "chunk of a size of 1": Row(
        lambda x: x.chunk(2)[0] + 1, (torch.arange(8.0),), ({0: DYNAMIC},), ((torch.arange(1.0),), (torch.arange(5.0),))
    ),
    "chunk into three of a size of 2": Row(
        lambda x: x.chunk(3, 1)[0] + 1, (torch.randn(2, 8),), ({1: DYNAMIC},), ((torch.randn(2, 2),),)
    ),
    "pieces of a computed size": Row(
        lambda x: (*x.chunk(3, 1)[-1].tensor_split(2, 1), *x.tensor_split(3, 1)),
        (torch.randn(2, 8),),
        ({1: DYNAMIC},),
        ((torch.randn(2, 5),), (torch.randn(2, 7),), (torch.randn(2, 12),)),
    ),
    "addmm without inner elements": Row(_addmm, _product(0)),
    "addmm, inner size at run time": Row(_addmm, _product(4), ({}, {1: DYNAMIC}, {0: DYNAMIC}), (_product(0),)),
    "bilinear of an empty batch": Row(F.bilinear, _pairs(0)),
    "bilinear, batch at run time": Row(F.bilinear, _pairs(2), ({0: DYNAMIC}, {0: DYNAMIC}, {}, {}), (_pairs(0),)),
    "sums beyond 2^53": Row(lambda x: (x.sum(), x.sum(1), x.sum(0, keepdim=True)), (LARGE,), ({0: DYNAMIC},)),
    "extremes beyond 2^31": Row(_extremes, (WORDS,), ({0: DYNAMIC},), ((WORDS[1:],), (WORDS.repeat(2, 1).roll(1, 0),))),
    "bounds beyond 2^31": Row(
        lambda x: (x.long().clamp(0, 3 * 10**9), torch.arange(3 * 10**9, 3 * 10**9 + x.shape[0]).clamp(max=5)),
        (torch.tensor([1, -5, 7, 9, -2], dtype=torch.int32),),
        ({0: DYNAMIC},),
        ((torch.arange(-4, 4, dtype=torch.int32),),),
    ),
    "sum of products of small numbers": Row(lambda x: (x * 2**50).sum(1), (torch.arange(12).reshape(3, 4),)),
    "logarithms of small sigmoids": Row(
        lambda x: (
            x.sigmoid().log(),
            (x.sigmoid() + 1e-9).log(),
            (1e-9 + x.sigmoid()).clamp(max=0.9).log(),
            x.sigmoid().clamp(1e-10, 1.0).log(),
            x.sigmoid().sign(),
            x.sigmoid().reciprocal().log(),
            F.binary_cross_entropy(x.sigmoid(), torch.ones_like(x), reduction="none"),
        ),
        (torch.tensor([-2.0, 0.0, 3.0]),),
        ({0: DYNAMIC},),
        ((torch.tensor([-100.0, -60.0, -25.0, -18.0, -17.0, -12.0, 20.0, 200.0]),),),
    ),
    "sought among numbers in float16": Row(
        lambda x: torch.searchsorted((x.half() * 2).sort(-1).values, x.half() * 2),
        (torch.randn(5, 4),),
        ({0: DYNAMIC},),
        ((torch.randn(9, 4),),),
    ),
    "positions coded and turned in place": Row(
        _turned_codes,
        (torch.tensor([[1.0, 0, 0, 2], [0, 3, 0, 0]]),),
        ({0: DYNAMIC},),
        ((torch.eye(4)[:, [2, 3, 1, 0]],),),
    ),
    "roll of an empty axis": Row(
        lambda x: x.roll(1, 0), (torch.randn(4, 2),), ({0: DYNAMIC},), ((torch.randn(0, 2),),)
    ),
    "index_fill wraps": Row(
        lambda x, index: x.index_fill(0, index, -1), (torch.arange(8, dtype=torch.uint8), torch.tensor([1, 2]))
    ),
    "fill wraps": Row(lambda x: x.fill_(-1) + 1, (torch.arange(8, dtype=torch.uint8),)),
}


def _copies(inputs: Tensors) -> Tensors:
    return tuple(x.clone() for x in inputs)


@pytest.mark.filterwarnings("ignore:The exported model follows the example")
@pytest.mark.parametrize("name", ROWS)
def test_equals_eager(name: str) -> None:
    row = ROWS[name]
    program = onnxport.export(
        Wrapped(row.function), _copies(row.example), dynamic_shapes=row.dynamic and (row.dynamic,)
    )
    for inputs in (row.example, *row.others):
        expected = row.function(*_copies(inputs))
        expected = expected if isinstance(expected, tuple) else (expected,)
        torch.testing.assert_close(tuple(program(*_copies(inputs))), expected, rtol=1e-5, atol=1e-5)


def test_sums_of_truth_values_and_short_numbers_stay_one_node() -> None:
    def sums(mask: torch.Tensor, short: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return mask.sum(), (mask * 3).sum(0), short.sum(1), torch.where(mask, 1, 0).sum()

    example = (torch.ones(2, 3, dtype=torch.bool), torch.ones(2, 3, dtype=torch.int32))
    graph = onnxport.export(Wrapped(sums), example).model.graph
    assert not [node for node in graph if node.op_type in ("Mod", "Div")]


def test_extremes_of_positions_and_counts_stay_one_node() -> None:
    def positions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        place = torch.arange(x.shape[1])
        relative = place[None] - place[:, None]
        counted = (x > 0).long().cumsum(-1) - 1
        bounded = (relative.clamp(-4, 4), relative.abs().clamp(max=5), counted.clamp(min=0), (place // 2).clamp(max=3))
        smallest = torch.min(relative, torch.zeros_like(relative))
        return *bounded, smallest, (place + 1).amax(), ((x > 0).sum(1) - 1).relu()

    program = onnxport.export(Wrapped(positions), (torch.randn(2, 6),), dynamic_shapes=(({1: DYNAMIC},),))
    kinds = {node.op_type for node in program.model.graph}
    assert {"Clip", "Min", "Max", "ReduceMax", "Relu"} <= kinds
    assert not kinds & {"Less", "Where", "ArgMax"}
    x = torch.randn(2, 9)
    torch.testing.assert_close(tuple(program(x)), positions(x))
