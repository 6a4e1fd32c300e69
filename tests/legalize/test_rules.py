"""Each operator at the canonical opset against itself at every other: same values, same types, a valid file."""

from __future__ import annotations

import pytest
import rows_images
import rows_indices
import rows_numbers
import rows_reductions
import rows_shapes
from rule_cases import OPSETS, Case, check

ROWS = [*rows_numbers.ROWS, *rows_reductions.ROWS, *rows_shapes.ROWS, *rows_indices.ROWS, *rows_images.ROWS]
# Of each operator the first row, and the first whose sizes only run time knows.
FIRST = {(one.op, one.dynamic): one for one in reversed(ROWS) if one.source == 23}
IN_PLACES = [FIRST[key] for key in sorted(FIRST)]
# onnx infers no shape for what these give, and the outputs of a body need one.
UNSHAPED = ("STFT", "GroupNormalization")


@pytest.mark.parametrize("one", ROWS, ids=str)
def test_rule(one: Case) -> None:
    check(one, OPSETS)


@pytest.mark.parametrize("one", [one for one in IN_PLACES if one.op not in UNSHAPED], ids=str)
@pytest.mark.parametrize("place", ["branch", "loop"])
def test_rule_in_a_body(one: Case, place: str) -> None:
    check(one, (9, 12, 17), place)


@pytest.mark.parametrize("one", IN_PLACES, ids=str)
def test_rule_in_a_function(one: Case) -> None:
    """Kept where the body can be written for all arguments, else put in the place of the call."""
    check(one, (9, 11, 15, 17), "function")
