"""Operators younger than the canonical opset: written where the target has them, by older ones below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxport
from cases import Wrapped
from comparison import assert_agrees
from onnxport.errors import OpsetError


def _fill(cache: torch.Tensor, update: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    start = int(place.item())
    torch._check(start >= 0)
    torch._check(start + update.shape[1] <= cache.shape[1])
    filled = cache.clone()
    filled[:, start : start + update.shape[1]] = update
    return filled


FLOATS = (torch.linspace(-3, 3, 12).reshape(3, 4),)
CACHE = (torch.zeros(2, 8, 3), torch.ones(2, 2, 3), torch.tensor(3))

WORDS = (torch.tensor([0, 1, 8388607, 8388608, 2139095040, 2143289344, -1, -2147483648, -8388608, 1078530011]).int(),)
HALVES = (torch.arange(-32768, 32768, 97, dtype=torch.int16),)
OCTETS = (torch.arange(256, dtype=torch.uint8),)

# function, inputs, opset, operators that must be there, operators that must not
ROWS: list[tuple[str, Callable[..., Any], tuple[torch.Tensor, ...], int, str, str]] = [
    ("silu", torch.nn.functional.silu, FLOATS, 23, "Sigmoid Mul", "Swish"),
    ("silu", torch.nn.functional.silu, FLOATS, 24, "Swish", "Sigmoid Mul"),
    ("silu", torch.nn.functional.silu, FLOATS, 26, "Sigmoid Mul", "Swish"),
    ("cumprod", lambda x: x.cumprod(1), FLOATS, 25, "Scan", "CumProd"),
    ("cumprod", lambda x: x.cumprod(1), FLOATS, 26, "CumProd", "Scan"),
    ("bits", lambda x: x.view(torch.int32), FLOATS, 26, "BitCast", "Cast"),
    ("whole", lambda x: x.view(torch.uint16), (torch.tensor([-1, 2], dtype=torch.int16),), 20, "Cast", "BitCast"),
    ("float", lambda x: x.view(torch.float32), WORDS, 17, "Gather", "BitCast"),
    ("half", lambda x: x.view(torch.float16).float(), HALVES, 17, "Gather", "BitCast"),
    ("bfloat", lambda x: x.view(torch.bfloat16).float(), HALVES, 17, "Gather", "BitCast"),
    ("float8", lambda x: x.view(torch.float8_e4m3fn)[2:].float(), OCTETS, 19, "Gather Slice", "BitCast"),
    ("cache", _fill, CACHE, 20, "Concat", "TensorScatter"),
    ("cache", _fill, CACHE, 24, "TensorScatter", "Concat"),
    ("cache", _fill, CACHE, 26, "TensorScatter", "Concat"),
]


@pytest.mark.parametrize(
    ("function", "inputs", "opset", "there", "absent"),
    [pytest.param(*row[1:], id=f"{row[0]}-{row[3]}") for row in ROWS],
)
def test_newer_operators(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], opset: int, there: str, absent: str
) -> None:
    program = onnxport.export(Wrapped(function), inputs, opset_version=opset)
    found = {node.op_type for node in program.model.graph}
    assert set(there.split()) <= found
    assert found.isdisjoint(absent.split())
    assert_agrees(program, function, inputs)


def test_bits_of_floats_are_refused_where_no_operator_shows_them() -> None:
    with pytest.raises(OpsetError, match=r"BitCast cannot be expressed[\s\S]*lowest opset that works is 26"):
        onnxport.export(Wrapped(lambda x: x.view(torch.int32)), FLOATS, opset_version=20)
