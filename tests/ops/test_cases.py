"""The matrix: every case, static and dynamic, in its dtypes, at the oldest, the default and the newest opset."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxport
from cases import SIZES, Case, Wrapped

OLDEST, DEFAULT, NEWEST = 18, 20, 26


def _rows() -> list[Case]:
    rows: list[Case] = []
    for module in sorted(pkgutil.iter_modules([str(Path(__file__).parent)]), key=lambda m: m.name):
        if module.name.startswith("cases_"):
            rows.extend(importlib.import_module(module.name).CASES)
    return rows


ROWS = _rows()


def _identity(row: Case) -> str:
    return f"{row.covers[0].removeprefix('aten::')}{'-' + row.name if row.name else ''}"


def _variants() -> list[Any]:
    variants = []
    for row in ROWS:
        marks = [pytest.mark.xfail(strict=True, reason=row.xfail)] if row.xfail else []
        name = _identity(row)
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


def _module(row: Case) -> torch.nn.Module:
    return row.function if isinstance(row.function, torch.nn.Module) else Wrapped(row.function)


def _dynamic_shapes(row: Case) -> Any:
    axes = tuple({axis: size for axis, size in enumerate(spec.shape) if isinstance(size, str)} for spec in row.inputs)
    return axes if isinstance(row.function, torch.nn.Module) else (axes,)


def _tolerance(row: Case, dtype: torch.dtype) -> float:
    return max(row.tolerance, {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype, 0.0))


@pytest.mark.parametrize(("row", "dtype", "dynamic", "opset"), _variants())
def test_equals_eager(row: Case, dtype: torch.dtype, dynamic: bool, opset: int) -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    row = row.with_dtype(dtype)
    module = _module(row).eval()
    if dtype.is_floating_point and isinstance(row.function, torch.nn.Module):
        module = module.to(dtype)
    inputs = [tuple(spec.make(which, generator) for spec in row.inputs) for which in range(3 if dynamic else 1)]
    program = onnxport.export(
        module,
        tuple(x.clone() for x in inputs[0]),
        dynamic_shapes=_dynamic_shapes(row) if dynamic else None,
        opset_version=opset,
    )
    assert program.model.opset_imports[""] == opset
    if dynamic:
        _assert_still_dynamic(program, row)
    for example in inputs:
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(module(*(x.clone() for x in example)))
        found = program(*example)
        assert len(found) == len(expected)
        for ours, eager in zip(found, expected, strict=True):
            eager = torch.as_tensor(eager)
            assert ours.dtype == (eager.real.dtype if eager.dtype.is_complex else eager.dtype)
            if eager.dtype.is_complex:
                eager = torch.view_as_real(eager.resolve_conj())
            assert ours.shape == eager.shape
            if row.exact_values:
                tolerance = _tolerance(row, dtype)
                torch.testing.assert_close(ours, eager, rtol=tolerance, atol=tolerance, equal_nan=True)


def _assert_still_dynamic(program: onnxport.ONNXProgram, row: Case) -> None:
    for value, spec in zip(program.model.graph.inputs, row.inputs, strict=True):
        assert value.shape is not None
        for axis, size in enumerate(spec.shape):
            if isinstance(size, str):
                assert str(value.shape[axis]) in SIZES, (value.name, axis, value.shape)
