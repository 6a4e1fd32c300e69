"""The matrix: every case, static and dynamic, in its dtypes, at the oldest, the default and the newest opset."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from matrix import check, identity, rows

from cases import Case

OLDEST, DEFAULT, NEWEST = 18, 20, 26


def _variants() -> list[Any]:
    variants = []
    for row in rows():
        marks = [pytest.mark.xfail(strict=True, reason=row.xfail)] if row.xfail else []
        name = identity(row)
        for dtype in row.dtypes:
            short = str(dtype).removeprefix("torch.")
            variants.append(pytest.param(row, dtype, False, DEFAULT, id=f"{name}-{short}-static", marks=marks))
            if row.is_dynamic:
                variants.append(pytest.param(row, dtype, True, DEFAULT, id=f"{name}-{short}-dynamic", marks=marks))
        if row.opsets:
            for opset in (OLDEST, NEWEST):
                variants.append(
                    pytest.param(row, row.dtypes[0], row.is_dynamic, opset, id=f"{name}-opset{opset}", marks=marks)
                )
    return variants


@pytest.mark.parametrize(("row", "dtype", "dynamic", "opset"), _variants())
def test_equals_eager(row: Case, dtype: torch.dtype, dynamic: bool, opset: int) -> None:
    check(row, dtype, dynamic, opset)
