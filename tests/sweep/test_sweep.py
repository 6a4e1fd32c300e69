"""Two of torch's own samples of every operator; ``make sweep`` runs all of them, in all dtypes.

The first is the operator's first sample with fixed sizes; dtype, number and dynamic sizes of the other follow from the
operator's name. Whatever does not pass is listed in ``sweep_exceptions.py``, with its verdict and the reason; and what
is listed there must not pass: a sample that was not captured and now is has to be taken out of the list.
"""

from __future__ import annotations

import pytest
from opdb import OPERATORS, attempt, picks, run_pick
from sweep_exceptions import NOT_PASSED, RUN_ALTHOUGH_EAGER_REFUSES


@pytest.mark.parametrize("name", OPERATORS)
def test_samples(name: str) -> None:
    outcomes = {str(pick): run_pick(name, pick) for pick in picks(name)}
    failed = {pick: outcome for pick, outcome in outcomes.items() if outcome.verdict != "passed"}
    listed = NOT_PASSED[name].verdicts if name in NOT_PASSED else {}
    details = "\n".join(f"{pick}: {outcome.detail}" for pick, outcome in failed.items())
    assert {pick: outcome.verdict for pick, outcome in failed.items()} == listed, details


def test_only_operators_of_torch_are_listed() -> None:
    assert set(NOT_PASSED) <= set(OPERATORS)


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
