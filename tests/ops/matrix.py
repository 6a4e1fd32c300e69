"""One cell of the matrix: a case exported in one way, run at the traced and at other sizes, compared with eager.

``PYTHONPATH=src:tests python tests/ops/matrix.py 11 13 17 20`` prints how many cases pass at these opsets, and which
are refused.
"""

from __future__ import annotations

import collections
import importlib
import pkgutil
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

import onnxport
from cases import SIZES, Case, Wrapped
from onnxport.errors import OnnxExporterError, OpsetError


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


def check(row: Case, dtype: torch.dtype, dynamic: bool, opsets: tuple[int, ...]) -> None:
    """Capture a case once, write it at each opset, and compare it with eager; raises where they differ."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    row = row.with_dtype(dtype)
    module = row.function if isinstance(row.function, torch.nn.Module) else Wrapped(row.function)
    module = module.eval()
    if dtype.is_floating_point and isinstance(row.function, torch.nn.Module):
        module = module.to(dtype)
    inputs = [tuple(spec.make(which, generator) for spec in row.inputs) for which in range(3 if dynamic else 1)]
    program = onnxport.export(
        module,
        tuple(x.clone() for x in inputs[0]),
        dynamic_shapes=_dynamic_shapes(row) if dynamic else None,
        opset_version=opsets[0],
    )
    if dynamic:
        _assert_still_dynamic(program, row)
    expected = []
    for example in inputs:
        with torch.no_grad():
            expected.append(torch.utils._pytree.tree_leaves(module(*(x.clone() for x in example))))
    for opset in opsets:
        if opset != opsets[0]:
            assert program.exported_program is not None
            program = onnxport.export(program.exported_program, opset_version=opset)
        assert program.model.opset_imports[""] == opset
        for example, results in zip(inputs, expected, strict=True):
            found = program(*example)
            assert len(found) == len(results)
            for ours, eager in zip(found, results, strict=True):
                _compare(row, dtype, ours, torch.as_tensor(eager))


def _compare(row: Case, dtype: torch.dtype, ours: torch.Tensor, eager: torch.Tensor) -> None:
    if eager.dtype.is_complex:
        eager = torch.view_as_real(eager.resolve_conj())
    assert ours.dtype == eager.dtype
    assert ours.shape == eager.shape
    if row.exact_values:
        tolerance = max(row.tolerance, {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype, 0.0))
        torch.testing.assert_close(ours, eager, rtol=tolerance, atol=tolerance, equal_nan=True)


def _dynamic_shapes(row: Case) -> Any:
    axes = tuple({axis: size for axis, size in enumerate(spec.shape) if isinstance(size, str)} for spec in row.inputs)
    return axes if isinstance(row.function, torch.nn.Module) else (axes,)


def _assert_still_dynamic(program: onnxport.ONNXProgram, row: Case) -> None:
    for value, spec in zip(program.model.graph.inputs, row.inputs, strict=True):
        assert value.shape is not None
        for axis, size in enumerate(spec.shape):
            if isinstance(size, str):
                assert str(value.shape[axis]) in SIZES, (value.name, axis, value.shape)


def outcome(row: Case, opset: int) -> tuple[str, str]:
    """``passed``, ``refused`` (by name), ``failed`` or ``wrong``, with the message."""
    try:
        check(row, row.dtypes[0], row.is_dynamic, (opset,))
    except OpsetError as error:
        return "refused", str(error)
    except OnnxExporterError as error:
        return "failed", str(error)
    except AssertionError as error:
        return "wrong", str(error)
    except Exception as error:  # noqa: BLE001  (onnxruntime's exceptions have no common base)
        return "does not run", str(error)
    return "passed", ""


def main(opsets: list[int]) -> None:
    """Print the outcomes of all cases at some opsets."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for opset in opsets:
        counts: collections.Counter[str] = collections.Counter()
        for row in rows():
            verdict, detail = outcome(row, opset)
            counts[verdict] += 1
            if verdict != "passed":
                print(f"{opset} {verdict} {identity(row)}: {' '.join(detail.split())[:240]}", flush=True)
        print(f"opset {opset}: {dict(counts)}", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])
