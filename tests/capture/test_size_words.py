"""Conditions on sizes are said as the sizes at which they hold."""

from __future__ import annotations

import pytest
import sympy  # type: ignore[import-untyped]

from onnxport.capture.diagnosis.size_words import condition_in_words
from onnxport.torch_internals.sympy_functions import FloatTrueDiv, FloorDiv, Max, Mod, ToFloat, TruncToInt

N, M = sympy.symbols("n m", integer=True, positive=True)

ROWS = [
    (sympy.Eq(8, N + Mod(8 - Mod(N, 8), 8)), "n is at most 8"),
    (sympy.Eq(4 * N, 12), "n equals 3"),
    (sympy.Ne(32 * N, 32), "n differs from 1"),
    (2 * N + 1 > 8, "n is at least 4"),
    (sympy.And(N > 3, N < 9), "n is from 4 to 8"),
    (sympy.Eq(Mod(N, 7), 0), "n is a multiple of 7"),
    (sympy.Eq(Mod(N, 2), 0), "n is even"),
    (sympy.Ne(Mod(N, 2), 0), "n is odd"),
    (sympy.Eq(Mod(N, 7), 3), "n is 3 more than a multiple of 7"),
    (sympy.Ne(Mod(N, 7), 0), "n is no multiple of 7"),
    # What has no pattern, holds at every size that is tried, or ties two sizes, is said as it is.
    (sympy.Eq(Mod(N * N, 7), 2), "n**2 % 7 equals 2"),
    (3 * N < 300000, "3*n is less than 300000"),
    (sympy.Eq(N, M + 1), "n equals m + 1"),
    # At 1 there is nothing to divide by.
    (sympy.Eq(FloorDiv(N, FloorDiv(N, 2)), 2), "(n//((n//2))) equals 2"),
    (N < 64, "n is less than 64"),
    (
        sympy.Eq(TruncToInt(FloatTrueDiv(ToFloat(N), ToFloat(M + 1))), Max(N, sympy.Integer(3))),
        "int(n / (m + 1)) equals max(3, n)",
    ),
    (sympy.Eq(Mod(M + N, 4) * M, N), "m*((m + n) % 4) equals n"),
    # What nobody would read to its end is not said.
    (
        sympy.Eq(sum((TruncToInt(FloatTrueDiv(ToFloat(N * k), ToFloat(M))) for k in range(2, 9)), N), M),
        "the condition on m and n comes out as for the example",
    ),
]


@pytest.mark.parametrize(("condition", "words"), ROWS, ids=[words for _, words in ROWS])
def test_conditions(condition: sympy.Basic, words: str) -> None:
    assert condition_in_words(condition) == words


def test_what_nobody_reads_is_not_solved() -> None:
    assert condition_in_words(sympy.Eq(4 * N, 12), solve=False) == "4*n equals 12"
