"""The comparison that the tests share refuses what is wrong, and to compare where nothing could be found wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import tensor

from comparison import assert_close, exported_and_compared

NAN, INF = float("nan"), float("inf")

ALIKE: list[tuple[Any, Any, dict[str, float]]] = [
    (tensor([1.0, -2.0]), tensor([1.0, -2.000001]), {}),
    (tensor([NAN, INF]), tensor([NAN, INF]), {}),
    (tensor([0.0, -0.0]), tensor([0.0, 0.0]), {}),
    (tensor([1e-9]), tensor([0.0]), {}),
    (torch.empty(0, 3), torch.empty(0, 3), {}),
    (tensor([7, 200], dtype=torch.uint8), tensor([8, 199], dtype=torch.uint8), {"atol": 1.0}),
    (tensor([[1.0, 2.0]]), tensor([1 + 2j]), {}),
    (tensor([[1.0, -2.0]]), tensor([1 + 2j]).conj(), {}),
    ([tensor([1.0]), tensor(3)], {"a": tensor([1.0]), "b": 3}, {}),
    (tensor([1e-9]), tensor([1e-9]), {"atol": 0.0}),
    (tensor([False]), tensor([False]), {}),
]

UNLIKE: list[tuple[Any, Any, dict[str, float]]] = [
    (tensor([1.0]), tensor([1.001]), {}),
    (tensor([1.0]), tensor([-1.0]), {}),
    (tensor([0.0]), tensor([NAN]), {}),
    (tensor([1.0]), tensor([1]), {}),
    (tensor([1.0]), tensor([[1.0]]), {}),
    ([tensor([1.0])], [tensor([1.0]), tensor([1.0])], {}),
    # An index is right or wrong, however large it is.
    (tensor([10_000_001]), tensor([10_000_000]), {"rtol": 1e-3}),
    (tensor([10, 200], dtype=torch.uint8), tensor([8, 199], dtype=torch.uint8), {"atol": 1.0}),
]

TOO_WIDE: list[tuple[Any, dict[str, float]]] = [
    (tensor([0.5, -1.0]), {"rtol": 1.0}),
    (tensor([0.5, -1.0]), {"atol": 1.0}),
    (tensor([3e-3], dtype=torch.float16), {"atol": 4e-3}),
    (tensor([1e-7, 0.0]), {}),
    (tensor([1, 0], dtype=torch.uint8), {"atol": 1.0}),
    (tensor([1e-6 + 1e-6j]), {}),
]


@pytest.mark.parametrize(("found", "expected", "tolerances"), ALIKE)
def test_alike(found: Any, expected: Any, tolerances: dict[str, float]) -> None:
    assert_close(found, expected, **tolerances)


@pytest.mark.parametrize(("found", "expected", "tolerances"), UNLIKE)
def test_unlike(found: Any, expected: Any, tolerances: dict[str, float]) -> None:
    with pytest.raises(AssertionError):
        assert_close(found, expected, **tolerances)


@pytest.mark.parametrize(("same", "tolerances"), TOO_WIDE)
def test_a_tolerance_that_zeros_pass(same: torch.Tensor, tolerances: dict[str, float]) -> None:
    with pytest.raises(AssertionError, match="a result of zeros passes too"):
        assert_close(same, same, **tolerances)


def test_an_axis_that_did_not_stay_open() -> None:
    x = torch.ones(2, 3)
    exported_and_compared(lambda x: x.sin(), (x,), (torch.ones(5, 3),), axes=[{0: "n"}])
    with pytest.raises(AssertionError):
        exported_and_compared(lambda x: x.sin(), (x,), axes=[{0: torch.export.Dim.AUTO}])  # type: ignore[dict-item]


def test_a_function_that_writes_to_its_input_is_given_a_copy() -> None:
    x = torch.ones(2)
    exported_and_compared(lambda x: x.add_(1), (x,))
    assert x.tolist() == [1.0, 1.0]
