"""One row of each operator again inside a branch, a loop and a function."""

from __future__ import annotations

import pytest
import test_rules
import test_rules_edges
import test_rules_more
from rule_cases import Case, check

EVERY = (*test_rules.ROWS, *test_rules_edges.ROWS, *test_rules_more.ROWS)
# Of each operator the first row, and the first whose sizes only run time knows.
FIRST = {(one.op, one.dynamic): one for one in reversed(EVERY) if one.source == 23}
# onnx infers no shape for what these give, and the outputs of a body need one.
UNSHAPED = ("STFT", "GroupNormalization")
ROWS = [FIRST[key] for key in sorted(FIRST)]


@pytest.mark.parametrize("one", [one for one in ROWS if one.op not in UNSHAPED], ids=str)
@pytest.mark.parametrize("place", ["branch", "loop"])
def test_body(one: Case, place: str) -> None:
    check(one, (9, 12, 17), place, lowest=max(one.lowest, 11))


@pytest.mark.parametrize("one", ROWS, ids=str)
def test_function(one: Case) -> None:
    """Kept where the body can be written for all arguments, else put in the place of the call."""
    check(one, (11, 15, 17), "function")
