"""The zoo of traced and scripted modules: exported at each opset, equal to eager at the traced and at other sizes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch.utils import _pytree
from torchscript_zoo import SCRIPTED, TRACED, Row, model_of

import onnxport
from onnxport.errors import OnnxExporterWarning

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
ROWS = [pytest.param(row, table, id=row.name) for table in (TRACED, SCRIPTED) for row in table]


def _names(row: Row) -> list[str]:
    return [f"in_{position}" for position in range(len(row.examples[0]))]


def _told(row: Row) -> AbstractContextManager[object]:
    return pytest.warns(OnnxExporterWarning, match=row.warns) if row.warns else nullcontext()


def _export(row: Row, model: Any, opset: int) -> onnxport.ONNXProgram:
    options: Any = {"input_names": _names(row), "dynamic_axes": row.dynamic_axes(), "opset_version": opset}
    with _told(row):
        return onnxport.export(model, row.examples[0], dynamo=False, **options)


def _check(row: Row, program: onnxport.ONNXProgram, eager: torch.nn.Module) -> None:
    for example in row.examples:
        found = _pytree.tree_leaves(program(*example))
        with torch.no_grad():
            expected = _pytree.tree_leaves(eager(*(x.clone() for x in example)))
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            theirs = torch.as_tensor(theirs)
            torch.testing.assert_close(ours, theirs, rtol=row.tolerance, atol=row.tolerance, equal_nan=True)


def test_there_are_as_many_as_there_should_be() -> None:
    assert (len(TRACED), len(SCRIPTED)) == (60, 50)


@pytest.mark.parametrize(("row", "table"), ROWS)
def test_torchscript_at_every_opset(row: Row, table: list[Row]) -> None:
    eager, script = model_of(row, table)
    program = _export(row, script, row.opsets[0])
    for opset in row.opsets:
        if opset != row.opsets[0]:
            assert program.exported_program is not None
            with _told(row):
                program = onnxport.export(program.exported_program, opset_version=opset)
        assert program.model.opset_imports[""] == opset
        _check(row, program, eager)


@pytest.mark.parametrize("row", TRACED[::3], ids=lambda row: row.name)
def test_module_by_the_legacy_call(row: Row) -> None:
    eager, _ = model_of(row, TRACED)
    program = _export(row, eager, 17)
    _check(row, program, eager)
