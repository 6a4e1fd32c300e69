"""``onnxport convert`` and ``onnxport optimize``: an ONNX file of any writer, rewritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxport.command_line.answers import Answer, ExitCode, Json, answering
from onnxport.command_line.options import ExternalData, OnnxFile
from onnxport.command_line.tables import show_table, sizes_text

if TYPE_CHECKING:
    import onnx_ir as ir
    from rich.console import Console

    from onnxport.command_line.comparing import ComparedRun
    from onnxport.inspection import Inspection
    from onnxport.targets import Target

_Verify = Annotated[bool, typer.Option("--verify", help="Run both files in onnxruntime and compare the results.")]
_Output = Annotated[Path, typer.Argument(help="Where to save; it may be the same file.")]


def convert_command(
    file: OnnxFile,
    output: _Output,
    opset: Annotated[int | None, typer.Option(help="The opset; the file's own without it.")] = None,
    ir_version: Annotated[int | None, typer.Option(help="The version of the file format.")] = None,
    target: Annotated[str, typer.Option(help="The reader that the file is for: onnx for any.")] = "onnx",
    external_data: ExternalData = False,
    verify: _Verify = False,
    as_json: Json = False,
) -> None:
    """Rewrite an ONNX file for another opset or reader."""
    with answering(as_json=as_json) as answer:
        from onnxport.command_line.usage import check_known
        from onnxport.conversion import convert_model

        check_known(target, opset=opset, ir_version=ir_version)

        def change(model: ir.Model) -> Target:
            return convert_model(model, opset=opset, ir_version=ir_version, target=target)

        _rewrite(answer, file, output, change, external_data=external_data, verify=verify)


def optimize_command(
    file: OnnxFile,
    output: _Output,
    fold_batch_norm: Annotated[
        bool, typer.Option("--fold-batch-norm", help="Let convolutions absorb the normalisation behind them.")
    ] = False,
    external_data: ExternalData = False,
    verify: _Verify = False,
    as_json: Json = False,
) -> None:
    """Simplify an ONNX file. Constants are folded, what is redundant or unused is taken out."""
    with answering(as_json=as_json) as answer:
        from onnxport.conversion import optimize_model
        from onnxport.targets import find_target

        def change(model: ir.Model) -> Target:
            optimize_model(model, fold_batch_norm=fold_batch_norm)
            return find_target("onnx")

        _rewrite(answer, file, output, change, external_data=external_data, verify=verify)


def _rewrite(
    answer: Answer,
    file: Path,
    output: Path,
    change: Callable[[ir.Model], Target],
    *,
    external_data: bool,
    verify: bool,
) -> None:
    from onnxport.command_line.onnx_files import files_of, read_file
    from onnxport.inspection import inspect_model
    from onnxport.program.summary import bytes_text
    from onnxport.weights.saving import check_destination, save_model
    from onnxport.weights.wire import Selection

    check_destination(output)
    model = read_file(file)
    before, size = inspect_model(model), sum(path.stat().st_size for path in files_of(file, model))
    reader = change(model)
    runs = _runs(file, model) if verify else []
    save_model(
        model, output, selection=Selection(inner_shapes=reader.inner_shapes), external_data=external_data or None
    )
    written = read_file(output)
    after = inspect_model(written)
    new_size = sum(path.stat().st_size for path in files_of(output, written))
    document = {
        "file": str(file),
        "output": str(output),
        "before": _facts(before, size),
        "after": _facts(after, new_size),
        "runs": [run.document() for run in runs],
    }

    def show(console: Console) -> None:
        old, new = _facts(before, size), _facts(after, new_size)
        rows = [(name, old[name], new[name]) for name in ("opset", "ir_version", "nodes")]
        rows.append(("size", bytes_text(size), bytes_text(new_size)))
        show_table(console, f"{output}", ("", "before", "after"), rows)
        for run in runs:
            cells = [value.cells() for value in run.values]
            show_table(console, f"Outputs{sizes_text(run.sizes)}", ("output", "", "largest difference", ""), cells)

    same = all(run.matches for run in runs)
    answer.give(document, show, ExitCode.DONE if same else ExitCode.DIFFERENT)


def _facts(found: Inspection, size: int) -> dict[str, object]:
    return {
        "opset": found.opsets.get("ai.onnx"),
        "ir_version": found.ir_version,
        "nodes": len(found.nodes),
        "operators": found.operators,
        "bytes": size,
    }


def _runs(file: Path, changed: ir.Model) -> list[ComparedRun]:
    """The file as it was and as it will be, on the same inputs."""
    from onnxport.command_line.comparing import compared_outputs
    from onnxport.command_line.feeds import parse_sizes
    from onnxport.command_line.onnx_files import read_file
    from onnxport.program import ONNXProgram

    old = read_file(file)
    sides = [(file, ONNXProgram(model, None)) for model in (old, changed)]
    return [compared_outputs(sides[0], sides[1], (), at, None) for at in parse_sizes((), old)]
