"""Reading and writing at a place that is a tensor without axes, a number or a truth, which only run time knows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxport
from cases import Wrapped
from comparison import assert_agrees

Body = Callable[[Tensor, Tensor, Tensor], Tensor]


def _written(index: Callable[[Tensor], object], value: Callable[[Tensor], Tensor | float] = lambda row: row) -> Body:
    def body(x: Tensor, place: Tensor, row: Tensor) -> Tensor:
        y = x * 2
        y[index(place)] = value(row)
        return y

    return body


def _changed_if(number: Tensor, condition: Tensor) -> Tensor:
    number[condition] *= 2
    return number


ROWS: dict[str, Body] = {
    "row": _written(lambda k: k),
    "row of one row": _written(lambda k: k, lambda row: row[None]),
    "column": _written(lambda k: (slice(None), k), lambda row: row[:1]),
    "part of a row": _written(lambda k: (k, slice(1, None)), lambda row: row[1:]),
    "element": _written(lambda k: (k, k), lambda row: 3.0),
    "after all other axes": _written(lambda k: (..., k), lambda row: 1.0),
    "number read first": _written(lambda k: (slice(None), k.item()), lambda row: 1.0),
    "new axis": _written(lambda k: (k, None)),
    "beside positions": _written(lambda k: (k, torch.tensor([0, 2])), lambda row: row[:2]),
    "beside a mask": _written(lambda k: (k, torch.tensor([True, False, True, False])), lambda row: 7.0),
    "from there on": _written(lambda k: (slice(k, None), 0), lambda row: 1.0),
    "all or nothing": _written(lambda k: k > 0),
    "all or nothing, a number": _written(lambda k: k > 0, lambda row: 5.0),
    "changed if": lambda x, k, row: _changed_if(x.sum() * 0 + 3, k > 0),
    "read if": lambda x, k, row: x[k > 0].sum(0) + row,
}


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("body", ROWS.values(), ids=ROWS.keys())
def test_places_follow_the_input(body: Body, dynamo: bool) -> None:
    model = Wrapped(body)
    program = onnxport.export(model, (torch.randn(3, 4), torch.tensor(2), torch.randn(4)), dynamo=dynamo)
    assert not program.events.of("warning")
    for place in (0, 2, -1):
        assert_agrees(program, model, (torch.randn(3, 4), torch.tensor(place), torch.randn(4)))


def _last_chosen(x: Tensor, rows: Tensor) -> Tensor:
    chosen = torch.relu(rows)[x > 0]
    return chosen.view(x.size(0), -1, rows.size(-1))[:, -1, :]


def test_the_last_of_what_a_mask_chose_in_each_row() -> None:
    # Nothing but its strides tells that data decided how many there were.
    def made(batch: int, length: int, places: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        x = -torch.ones(batch, length)
        x[:, list(places)] = 1.0
        return x, torch.randn(batch, length, 8)

    model = Wrapped(_last_chosen)
    axes = {0: "batch", 1: "length"}
    program = onnxport.export(model, made(3, 7, (5,)), dynamic_shapes=(axes, axes))
    for sizes in ((1, 4, (1,)), (2, 9, (0, 7)), (5, 6, (2, 3, 4))):
        assert_agrees(program, model, made(*sizes))
