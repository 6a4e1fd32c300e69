"""The matrix: every case, static and dynamic, in its dtypes, at the default, the oldest and the newest opset."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from matrix import check, identity, rows

from cases import Case
from onnxport.errors import OpsetError


def _newest() -> int:
    """The newest opset that is written, or that the installed onnx and onnxruntime take."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for opset in range(min(26, onnx.defs.onnx_opset_version()), 20, -1):
        x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
        y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
        graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "negated", [x], [y])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
        with contextlib.suppress(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument):
            onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
            return opset
    return 20


DEFAULT, NEWEST = 20, _newest()
# Every case can be written at the first of these, and at the second too unless its row says what the error is.
OLDER, OLDEST = 18, 9


def _variants() -> list[Any]:
    variants = []
    for number, row in enumerate(rows()):
        marks = [pytest.mark.xfail(strict=True, reason=row.xfail)] if row.xfail else []
        for dtype in row.dtypes:
            # Of rows whose axes vary, every other is tried with fixed sizes as well.
            forms = (False, True) if number % 2 else (True,)
            for dynamic in forms if row.is_dynamic else (False,):
                # One capture serves all opsets; the others are tried on the wider of the two forms, those beside the
                # default in turns, which `make sweep` tries all of.
                all_opsets = row.opsets and dtype == row.dtypes[0] and dynamic == row.is_dynamic
                opsets = (DEFAULT, (OLDER, NEWEST)[number // 2 % 2]) if all_opsets else (DEFAULT,)
                form = "dynamic" if dynamic else "static"
                name = f"{identity(row)}-{str(dtype).removeprefix('torch.')}-{form}"
                oldest = OLDEST if all_opsets else None
                variants.append(pytest.param(row, dtype, dynamic, opsets, oldest, id=name, marks=marks))
    return variants


@pytest.mark.parametrize(("row", "dtype", "dynamic", "opsets", "oldest"), _variants())
def test_equals_eager(
    row: Case, dtype: torch.dtype, dynamic: bool, opsets: tuple[int, ...], oldest: int | None
) -> None:
    cell = check(row, dtype, dynamic, opsets)
    if oldest is None:
        return
    if not row.refused:
        cell.check_at(oldest)
        return
    with pytest.raises(OpsetError, match=re.escape(row.refused)) as caught:
        cell.check_at(oldest)
    cell.check_at(max(map(int, re.findall(r"The lowest opset that works is (\d+)", str(caught.value)))))
