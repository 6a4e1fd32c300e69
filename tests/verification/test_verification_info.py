"""How two tensors compare: figures, histograms, and when they count as the same."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch

from onnxport.verification import VerificationInfo

INF, NAN = math.inf, math.nan


def t(*values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


@pytest.mark.parametrize(
    ("expected", "actual", "matches", "largest"),
    [
        pytest.param(t(1, 2), t(1, 2), True, 0, id="equal"),
        pytest.param(t(1, 2), t(1, 2.00001), True, 1e-5, id="rounding"),
        pytest.param(t(1, 2), t(1, 2.1), False, 0.1, id="wrong"),
        pytest.param(t(0, 1000), t(1e-2, 1000), True, 1e-2, id="small beside the others"),
        pytest.param(t(0, 0), t(0, 1e-2), False, 1e-2, id="not zero"),
        pytest.param(t(NAN, INF, -INF), t(NAN, INF, -INF), True, 0, id="nan and infinities"),
        pytest.param(t(NAN, 1), t(0, 1), False, INF, id="nan expected"),
        pytest.param(t(1, 1), t(NAN, 1), False, INF, id="nan found"),
        pytest.param(t(INF), t(-INF), False, INF, id="other infinity"),
        pytest.param(t(1, 2, dtype=torch.int64), t(1, 3, dtype=torch.int64), False, 1, id="integers are exact"),
        pytest.param(t(True, False, dtype=torch.bool), t(True, True, dtype=torch.bool), False, 1, id="bool"),
        pytest.param(t(1, 2), t(1, 2, dtype=torch.float64), False, 0, id="other type"),
        pytest.param(t(1, 2), t(1, 2, 3), False, INF, id="other shape"),
        pytest.param(t(), t(), True, 0, id="empty"),
        pytest.param(t(1 + 2j, dtype=torch.complex64), t([1, 2]), True, 0, id="complex as pairs"),
        pytest.param(2.5, t(2.5)[0], True, 0, id="number"),
        pytest.param(t(1, dtype=torch.float16), t(1.005, dtype=torch.float16), True, 0.0049, id="half"),
        pytest.param(t(1, dtype=torch.float64), t(1.0001, dtype=torch.float64), False, 1e-4, id="double"),
    ],
)
def test_comparison(expected: Any, actual: Any, matches: bool, largest: float) -> None:
    info = VerificationInfo.from_tensors("y", expected, actual)
    assert info.matches is matches
    assert info.max_abs_diff == pytest.approx(largest, rel=0.01)
    assert info.mean_abs_diff <= info.max_abs_diff
    counted = max(torch.as_tensor(actual).numel(), 1) if info.expected_shape == info.actual_shape else 1
    assert info.abs_diff_hist.hist.sum() == (0 if info.expected_shape == (0,) else counted)


def test_histograms_have_the_edges_of_the_report_and_count_the_worst() -> None:
    info = VerificationInfo.from_tensors("y", t(0, 0, 1, 1), t(0, 5e-4, 1.5, 1e9))
    assert info.abs_diff_hist.hist.tolist() == [1, 0, 0, 1, 0, 0, 1, 0, 1]
    assert info.abs_diff_hist.bin_edges.tolist() == pytest.approx([0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 1e6])
    assert info.rel_diff_hist.hist.tolist() == [1, 0, 0, 0, 0, 0, 1, 0, 2]


def test_random_values_are_compared_by_shape_and_type() -> None:
    assert VerificationInfo.from_tensors("y", t(1, 2), t(3, 4), is_random=True).matches
    assert not VerificationInfo.from_tensors("y", t(1, 2), t(3), is_random=True).matches


def test_as_plain_values() -> None:
    plain = VerificationInfo.from_tensors("y", t(1, 2), t(1, 2)).asdict()
    assert json.loads(json.dumps(plain))["abs_diff_hist"][0] == [2, 0, 0, 0, 0, 0, 0, 0, 0]
    assert plain["expected_dtype"] == "torch.float32"


@pytest.mark.parametrize(
    ("actual", "text"),
    [
        (t(1, 2.5), "y: the largest difference is 0.5 absolute, 0.25 relative (on average 0.25 and 0.125)"),
        (t(1), "y: the shape is [1], expected [2]"),
        (t(1, 2, dtype=torch.float64), "y: the type is torch.float64, expected torch.float32"),
    ],
)
def test_in_words(actual: torch.Tensor, text: str) -> None:
    assert str(VerificationInfo.from_tensors("y", t(1, 2), actual)) == text
