"""Exports of the zoo over packed sequences, compared with eager on all of a row's examples.

``python tests/packed/packed_runs.py`` exports every row in every way at every opset, which takes minutes, and prints
what is not right; with ``--reference`` torch.onnx's TorchScript exporter too, and the rows where it alone is right.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from packed_zoo import OPSETS, ROWS, Row

import onnxport
from comparison import assert_close, eager_result

# The plain call, scripts and traces by the legacy one, and the module itself by the legacy one.
ALL_WAYS = ("module", "trace", "script", "legacy")


def ways_of(row: Row) -> tuple[str, ...]:
    """The ways in which a row can be exported."""
    return (*row.ways, "legacy")


def exported(row: Row, way: str, opset: int) -> onnxport.ONNXProgram:
    """A row exported with the axes that it says vary."""
    model, example = row.model(), row.examples[0]
    if way == "module":
        return onnxport.export(model, example, dynamic_shapes=row.shapes(), opset_version=opset)
    return onnxport.export(
        given_as(row, way, model),
        example,
        dynamo=False,
        input_names=row.names(),
        dynamic_axes=row.dynamic_axes(),
        opset_version=opset,
    )


def given_as(row: Row, way: str, model: torch.nn.Module) -> Any:
    """The module as a trace, as a script, or as it is."""
    if way == "trace":
        return torch.jit.trace(model, row.examples[0])
    return torch.jit.script(model) if way == "script" else model


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a result; what a packed sequence leaves out is not one."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def check(row: Row, program: onnxport.ONNXProgram) -> None:
    """Fail unless a program gives what eager gives, at the example's sizes and lengths and at others."""
    model = row.model()
    for example in row.examples:
        assert_close(list(tensors(list(program(*example)))), list(tensors(eager_result(model, example))))


Captures = dict[tuple[str, str], torch.export.ExportedProgram]


def _outcome(row: Row, way: str, opset: int, captures: Captures) -> str:
    try:
        captured = captures.get((row.name, way))
        program = exported(row, way, opset) if captured is None else onnxport.export(captured, opset_version=opset)
        if program.exported_program is not None:
            captures[row.name, way] = program.exported_program
    except Exception as error:  # noqa: BLE001 (whatever it is, it is the outcome)
        return f"not exported: {type(error).__name__}: {str(error)[:200]}"
    try:
        check(row, program)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is the outcome)
        return f"wrong: {type(error).__name__}: {str(error)[:200]}"
    return "right"


def _reference_outcome(row: Row, way: str, opset: int) -> str:
    model = row.model()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                torch.onnx.export(  # noqa: TID251 (what is compared with)
                    given_as(row, way, model),
                    row.examples[0],
                    str(path),
                    dynamo=False,
                    input_names=row.names(),
                    dynamic_axes=row.dynamic_axes(),
                    opset_version=opset,
                )
            session = onnxruntime.InferenceSession(path)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is the outcome)
            return f"not exported: {type(error).__name__}"
    try:
        for example in row.examples:
            feeds = dict(
                zip((i.name for i in session.get_inputs()), (x.numpy() for x in tensors(example)), strict=True)
            )
            found = [torch.from_numpy(np.asarray(x)) for x in session.run(None, feeds)]
            assert_close(found, list(tensors(eager_result(model, example))))
    except Exception as error:  # noqa: BLE001 (whatever it is, it is the outcome)
        return f"wrong: {type(error).__name__}"
    return "right"


def main() -> None:
    """Run all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", action="store_true", help="run torch.onnx's TorchScript exporter beside ours")
    parser.add_argument("--rows", default="", help="only rows whose names contain this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    ours: Counter[str] = Counter()
    theirs: Counter[str] = Counter()
    alone = []
    for row in ROWS:
        captures: Captures = {}
        for way in ways_of(row) if options.rows in row.name else ():
            for opset in OPSETS:
                outcome = _outcome(row, way, opset, captures)
                ours[outcome.partition(":")[0]] += 1
                if outcome != "right":
                    print(f"{row.name} {way} {opset}: {outcome}", flush=True)
                if options.reference and way in ("script", "legacy"):
                    reference = _reference_outcome(row, way, opset)
                    theirs[reference.partition(":")[0]] += 1
                    if reference == "right" != outcome:
                        alone.append(f"{row.name} {way} {opset}")
    print(f"onnxport: {dict(ours)}")
    if options.reference:
        print(f"torch.onnx, dynamo=False, scripts and modules: {dict(theirs)}")
        print(f"right by torch.onnx alone: {len(alone)} {alone}")


if __name__ == "__main__":
    main()
