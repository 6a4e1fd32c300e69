"""The plan of indexing, carried out with torch alone, gives what torch gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from onnxport.aten.indexing.indexing_plan import Entry, inverse_permutation, plan_indexing

X = torch.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
I2 = torch.tensor([1, -1, 0])
I3 = torch.tensor([[1], [0]])
ROWS = torch.tensor([True, False])
TABLE = torch.tensor([[True, False, True, True], [False] * 4, [True, False, False, True]])

INDICES: list[list[Any]] = [
    [I2],
    [None, I2],
    [I2, I2],
    [None, I2, I2],
    [None, None, I2, I2],
    [I2, None, I2],
    [None, I2, None, I2],
    [I3, I2],
    [None, I3, I2],
    [I3, None, I2],
    [torch.tensor(1), None, I3],
    [ROWS],
    [None, TABLE],
    [I2[:1], TABLE],
    [torch.tensor(0), TABLE, I2[:1]],
    [ROWS, None, I2],
    [None, TABLE, I2[:1]],
    [I2, I2, I2, I2],
]


def _read(x: torch.Tensor, indices: list[torch.Tensor | None]) -> torch.Tensor:
    entries = [None if item is None else Entry(item.ndim, item.dtype == torch.bool) for item in indices]
    plan = plan_indexing(x.ndim, entries)
    coordinates = []
    for position, row in plan.sources:
        item = indices[position]
        assert item is not None
        coordinates.append(item.nonzero().T[row] if item.dtype == torch.bool else item)
    return x.permute(plan.order)[tuple(coordinates)].permute(plan.result_order)


@pytest.mark.parametrize("indices", INDICES, ids=range(len(INDICES)))
def test_reads_what_torch_reads(indices: list[torch.Tensor | None]) -> None:
    expected = torch.ops.aten.index.Tensor(X, indices)
    found = _read(X, indices)
    assert found.shape == expected.shape
    assert torch.equal(found, expected)


@pytest.mark.parametrize("permutation", [[0], [1, 0], [2, 0, 1], [3, 1, 0, 2]])
def test_inverse_undoes_a_permutation(permutation: list[int]) -> None:
    x = torch.rand(*range(2, 2 + len(permutation)))
    assert torch.equal(x.permute(permutation).permute(inverse_permutation(permutation)), x)
