"""Ninety programs over packed sequences equal eager, at sizes and lengths other than the example's.

Each row is exported in one way and at one opset, which take turns; ``make packed`` exports every row in every way at
every opset.
"""

from __future__ import annotations

import pytest
from packed_runs import check, exported, ways_of
from packed_zoo import OPSETS, ROWS, Row

pytestmark = pytest.mark.filterwarnings(
    # Said of dropout in a layer without others behind it, of scripts as such, and of what a trace makes of lengths.
    "ignore::UserWarning",
    "ignore::DeprecationWarning",
)


def _turns() -> list[object]:
    turns = []
    for number, row in enumerate(ROWS):
        ways = ways_of(row)
        way, opset = ways[number % len(ways)], OPSETS[number // 3 % len(OPSETS)]
        turns.append(pytest.param(row, way, opset, id=f"{row.name}-{way}-{opset}"))
    return turns


def test_there_are_as_many_as_there_should_be() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) == 90


@pytest.mark.parametrize(("row", "way", "opset"), _turns())
def test_packed_program(row: Row, way: str, opset: int) -> None:
    program = exported(row, way, opset)
    assert program.model.opset_imports[""] == opset
    check(row, program)
