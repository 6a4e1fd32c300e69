"""A few of torch's own samples of every operator; ``make sweep`` runs all of them, in all dtypes.

A sample that torch.export can't capture says nothing about us. Everything else must pass, but for the operators
listed in ``sweep_exceptions.py``, each with its reason; and a *wrong* result is no exception.
"""

from __future__ import annotations

import pytest
import torch
from opdb import OPERATORS, attempt
from sweep_exceptions import EXCEPTIONS, RUN_ALTHOUGH_EAGER_REFUSES

IGNORED = {"passed", "not captured", "eager fails", "no tensors"}


def _check(name: str, key: str, dtype: torch.dtype, dynamic: bool) -> None:
    outcomes = attempt((name, dtype, 1, dynamic, 20))
    failed = [outcome for outcome in outcomes if outcome.verdict not in IGNORED]
    reason = EXCEPTIONS[key].get(name)
    if reason is None:
        assert not failed, "\n".join(f"{outcome.verdict}: {outcome.detail}" for outcome in failed)
    else:
        assert all(outcome.verdict != "wrong" for outcome in failed), failed
        assert failed or not outcomes, f"{name} passes now: take it out of the exceptions ({reason})"


@pytest.mark.parametrize("name", OPERATORS)
def test_float32(name: str) -> None:
    _check(name, "float32", torch.float32, dynamic=False)


# torch.export refuses nearly all erroneous calls itself; these are the operators where some come through to us.
@pytest.mark.parametrize(
    "name",
    [
        "aminmax", "bucketize", "complex", "gather", "index_add", "masked_scatter", "multinomial", "scatter",
        "scatter_add", "uniform",
    ],
)  # fmt: skip
def test_what_eager_refuses_does_not_run(name: str) -> None:
    running = {outcome.sample for outcome in attempt((name,)) if outcome.verdict in ("runs", "crashed")}
    assert running == set(RUN_ALTHOUGH_EAGER_REFUSES.get(name, {}))
