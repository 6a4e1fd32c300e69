"""``onnxport verify``: an ONNX file against the model that it was made from, down to the first node that departs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from onnxport.command_line.answers import ExitCode, Json, answering
from onnxport.command_line.options import AllowPickle, Inputs, OnnxFile, OpenSizes, Tolerance
from onnxport.command_line.tables import show_table, sizes_text

if TYPE_CHECKING:
    from rich.console import Console

    from onnxport.command_line.comparing import ComparedRun
    from onnxport.command_line.first_departure import Departure


def verify_command(
    file: OnnxFile,
    against: Annotated[str, typer.Option(help="The model, as export takes it: model.py:build, model.pt2 ...")],
    inputs: Inputs = None,
    size: OpenSizes = None,
    tolerance: Tolerance = None,
    allow_pickle: AllowPickle = False,
    as_json: Json = False,
) -> None:
    """Compare an ONNX file with its model in torch. Both are run at several sizes."""
    with answering(as_json=as_json) as answer:
        from onnxport.command_line.examples import read_examples
        from onnxport.command_line.feeds import parse_sizes
        from onnxport.command_line.first_departure import first_departure
        from onnxport.command_line.models import load_model
        from onnxport.command_line.onnx_files import read_file
        from onnxport.command_line.reference import verified_run
        from onnxport.program import ONNXProgram

        onnx_model = read_file(file)
        model = load_model(against, allow_pickle=allow_pickle)
        program = ONNXProgram(onnx_model, None)
        examples = read_examples(inputs or ())
        runs = [
            verified_run((file, program), (against, model), examples, at, tolerance)
            for at in parse_sizes(size or (), onnx_model, examples)
        ]
        wrong = next((run for run in runs if not run.matches), None)
        departure = None if wrong is None else first_departure(onnx_model, model, wrong.feeds)
        document = {
            "file": str(file),
            "against": against,
            "matches": wrong is None,
            "runs": [run.document() for run in runs],
            "first_wrong_node": None if departure is None else departure.document(),
        }
        code = ExitCode.DONE if wrong is None else ExitCode.DIFFERENT
        answer.give(document, lambda console: _show(console, runs, departure), code)


def _show(console: Console, runs: Sequence[ComparedRun], departure: Departure | None) -> None:
    for run in runs:
        rows = [value.cells() for value in run.values]
        if run.missing:
            rows.append((run.missing, "differs", "", ""))
        title = f"Outputs{sizes_text(run.sizes)}"
        show_table(console, title, ("output", "", "largest difference", ""), rows)
    if departure is not None:
        console.print(f"\n{departure.text()}")
