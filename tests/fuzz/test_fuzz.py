"""A bounded run of random programs with fixed seeds; ``make fuzz`` goes on for hours."""

from __future__ import annotations

import pytest

from fuzz.examination import examine
from fuzz.programs import generate


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(8))
def test_random_module(seed: int) -> None:
    examined = examine(generate(seed, 8, 16))
    assert examined.fault is None, f"{examined.fault.detail}\n{examined.program.text()}"
