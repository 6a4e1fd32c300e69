"""The matrix: every case, static and dynamic, in its dtypes, at the default, the oldest and the newest opset."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from matrix import check, identity, rows

from cases import Case

DEFAULT, OLDEST, NEWEST = 20, 18, 26


def _variants() -> list[Any]:
    variants = []
    for row in rows():
        marks = [pytest.mark.xfail(strict=True, reason=row.xfail)] if row.xfail else []
        for dtype in row.dtypes:
            for dynamic in (False, True) if row.is_dynamic else (False,):
                # One capture serves all opsets; the other opsets are tried on the wider of the two forms.
                all_opsets = row.opsets and dtype == row.dtypes[0] and dynamic == row.is_dynamic
                opsets = (DEFAULT, OLDEST, NEWEST) if all_opsets else (DEFAULT,)
                form = "dynamic" if dynamic else "static"
                name = f"{identity(row)}-{str(dtype).removeprefix('torch.')}-{form}"
                variants.append(pytest.param(row, dtype, dynamic, opsets, id=name, marks=marks))
    return variants


@pytest.mark.parametrize(("row", "dtype", "dynamic", "opsets"), _variants())
def test_equals_eager(row: Case, dtype: torch.dtype, dynamic: bool, opsets: tuple[int, ...]) -> None:
    check(row, dtype, dynamic, opsets)
