"""One cell of the matrix: a case exported in one way, run at the traced and at other sizes, compared with eager.

``PYTHONPATH=src:tests python tests/ops/matrix.py 11 13 17 20`` prints how many cases pass at these opsets, and which
are refused.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import pkgutil
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxport
from cases import SIZES, Case, Wrapped
from comparison import assert_close
from onnxport.errors import OnnxExporterError, OnnxExporterWarning, OpsetError


def rows() -> list[Case]:
    """All cases, from the modules beside this one."""
    found: list[Case] = []
    for module in sorted(pkgutil.iter_modules([str(Path(__file__).parent)]), key=lambda m: m.name):
        if module.name.startswith("cases_"):
            found.extend(importlib.import_module(module.name).CASES)
    return found


def identity(row: Case) -> str:
    """What a case is called in test ids and listings."""
    return f"{row.covers[0].removeprefix('aten::')}{'-' + row.name if row.name else ''}"


@dataclass(frozen=True)
class Cell:
    """A captured case, with inputs at the sizes it is run at and what eager makes of them."""

    row: Case
    dtype: torch.dtype
    captured: torch.export.ExportedProgram
    inputs: list[tuple[torch.Tensor, ...]]
    expected: list[list[Any]]

    def check(self, program: onnxport.ONNXProgram) -> None:
        """Compare what came out with eager; raises where they differ."""
        for example, results in zip(self.inputs, self.expected, strict=True):
            found = program(*example)
            assert len(found) == len(results)
            for ours, eager in zip(found, results, strict=True):
                _compare(self.row, self.dtype, ours, torch.as_tensor(eager))

    def check_at(self, opset: int) -> None:
        """Write the captured case at another opset and compare it with eager."""
        with _told(self.row, len(self.inputs) > 1):
            program = onnxport.export(self.captured, opset_version=opset)
        assert program.model.opset_imports[""] == opset
        self.check(program)


def _told(row: Case, dynamic: bool) -> AbstractContextManager[object]:
    """Where a case is warned of, it is: at every opset."""
    return pytest.warns(OnnxExporterWarning, match=row.warns) if dynamic and row.warns else nullcontext()


def captured(row: Case, dtype: torch.dtype, dynamic: bool, opset: int) -> tuple[Cell, onnxport.ONNXProgram]:
    """Export a case at one opset; the cell can write it at others."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    row = row.with_dtype(dtype)
    module = row.function if isinstance(row.function, torch.nn.Module) else Wrapped(row.function)
    module = module.eval()
    if dtype.is_floating_point and isinstance(row.function, torch.nn.Module):
        module = module.to(dtype)
    inputs = [tuple(spec.make(which, generator) for spec in row.inputs) for which in range(3 if dynamic else 1)]
    axes = _dynamic_shapes(row) if dynamic else None
    with _told(row, dynamic):
        program = onnxport.export(module, tuple(x.clone() for x in inputs[0]), dynamic_shapes=axes, opset_version=opset)
    assert program.model.opset_imports[""] == opset
    if dynamic:
        _assert_still_dynamic(program, row)
    expected = []
    for example in inputs:
        with torch.no_grad():
            expected.append(torch.utils._pytree.tree_leaves(module(*(x.clone() for x in example))))
    assert program.exported_program is not None
    return Cell(row, dtype, program.exported_program, inputs, expected), program


def check(row: Case, dtype: torch.dtype, dynamic: bool, opsets: tuple[int, ...]) -> Cell:
    """Capture a case once, write it at each opset, and compare it with eager; raises where they differ."""
    cell, program = captured(row, dtype, dynamic, opsets[0])
    cell.check(program)
    for opset in opsets[1:]:
        cell.check_at(opset)
    return cell


HALF = {torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""What the results of a case in half precision may differ by at least."""


def _compare(row: Case, dtype: torch.dtype, ours: torch.Tensor, eager: torch.Tensor) -> None:
    if row.exact_values:
        least = HALF.get(dtype, 0.0)
        assert_close(ours, eager, rtol=max(row.rtol, least), atol=max(row.atol, least))
        return
    assert (ours.dtype, ours.shape) == (eager.dtype, eager.shape)


def _dynamic_shapes(row: Case) -> Any:
    axes = tuple({axis: size for axis, size in enumerate(spec.shape) if isinstance(size, str)} for spec in row.inputs)
    return axes if isinstance(row.function, torch.nn.Module) else (axes,)


def _assert_still_dynamic(program: onnxport.ONNXProgram, row: Case) -> None:
    for value, spec in zip(program.model.graph.inputs, row.inputs, strict=True):
        assert value.shape is not None
        for axis, size in enumerate(spec.shape):
            if isinstance(size, str):
                assert str(value.shape[axis]) in SIZES, (value.name, axis, value.shape)


Outcome = tuple[str, str]


def outcome(check: Callable[[], object]) -> Outcome:
    """``passed``, ``refused`` (by name), ``failed``, ``wrong`` or ``does not run``, with the message."""
    try:
        check()
    except OpsetError as error:
        return "refused", str(error)
    except OnnxExporterError as error:
        return "failed", str(error)
    except AssertionError as error:
        return "wrong", str(error)
    except Exception as error:  # noqa: BLE001  (onnxruntime's exceptions have no common base)
        return "does not run", str(error)
    return "passed", ""


def outcomes(row: Case, opsets: Sequence[int]) -> dict[int, Outcome]:
    """How a case fares at each opset; it is captured once, at the newest."""
    cells: list[Cell] = []
    newest = max(opsets)

    def first() -> None:
        cell, program = captured(row, row.dtypes[0], row.is_dynamic, newest)
        cells.append(cell)
        cell.check(program)

    found = {newest: outcome(first)}
    if not cells:
        # Not even captured at the newest, which may be for want of a kernel there: each opset for itself.
        return {opset: outcome(partial(check, row, row.dtypes[0], row.is_dynamic, (opset,))) for opset in opsets}
    found.update({opset: outcome(partial(cells[0].check_at, opset)) for opset in opsets if opset != newest})
    return found


def main(opsets: list[int], destination: Path | None) -> None:
    """Print the outcomes of all cases at some opsets, and write them down by operator."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counts: dict[int, collections.Counter[str]] = {opset: collections.Counter() for opset in opsets}
    by_operator: dict[str, dict[int, list[str]]] = {}
    for row in rows():
        for opset, (verdict, detail) in sorted(outcomes(row, opsets).items()):
            counts[opset][verdict] += 1
            for operator in row.covers:
                by_operator.setdefault(operator, {}).setdefault(opset, []).append(verdict)
            if verdict != "passed":
                print(f"{opset} {verdict} {identity(row)}: {' '.join(detail.split())[:240]}", flush=True)
    for opset in opsets:
        print(f"opset {opset}: {dict(counts[opset])}", flush=True)
    if destination is not None:
        destination.write_text(json.dumps(by_operator, indent=1, sort_keys=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("opsets", type=int, nargs="+")
    parser.add_argument("--out", type=Path, help="where to write the outcomes by operator, as JSON")
    arguments = parser.parse_args()
    main(arguments.opsets, arguments.out)
