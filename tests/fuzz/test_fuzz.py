"""A bounded run of random programs with fixed seeds; ``make fuzz`` goes on for hours."""

from __future__ import annotations

import pytest

from fuzz.outcomes import outcome
from fuzz.programs import generate

KNOWN = {
    5: "onnxruntime's ReduceMean gives 0 for an axis that is empty at run time, where torch gives NaN",
    7: "a slice of at most one element is taken to have one, and an empty axis has none",
}
SEEDS = [pytest.param(n, marks=pytest.mark.xfail(reason=KNOWN[n])) if n in KNOWN else n for n in range(8)]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", SEEDS)
def test_random_module(seed: int) -> None:
    program = generate(seed, 8, 16)
    found = outcome(program)
    assert not found.is_fault, f"{found.detail}\n{program.text()}"
