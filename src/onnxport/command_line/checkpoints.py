"""``onnxport export`` of a checkpoint's directory: a folder that runs its task."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from onnxport.command_line.answers import Answer, ExitCode
from onnxport.command_line.tables import shape_text, show_table

if TYPE_CHECKING:
    from rich.console import Console

    from onnxport.pretrained import PretrainedFolder


@dataclass(frozen=True)
class CheckpointRequest:
    """What the command line asks of a checkpoint's export."""

    checkpoint: str
    output: Path | None
    task: str | None
    dtype: str | None
    quantize: str | None
    target: str
    opset: int | None
    verify: bool
    weights: Literal["copy", "reference"]
    last_logits: bool


def export_checkpoint(asked: CheckpointRequest, answer: Answer) -> None:
    """Write the folder; where it does not do what the model does, that is the answer."""
    from onnxport.command_line.examples import parse_dtype
    from onnxport.errors import DifferenceError
    from onnxport.pretrained import export_pretrained

    out = Path(f"{Path(asked.checkpoint).resolve().name}-onnx") if asked.output is None else asked.output
    dtype = None if asked.dtype is None else parse_dtype(asked.dtype, f"--dtype {asked.dtype}")
    try:
        folder = export_pretrained(
            asked.checkpoint,
            out,
            task=asked.task,
            dtype=dtype,
            quantize=asked.quantize,
            target=asked.target,
            opset_version=asked.opset,
            verify=asked.verify,
            weights=asked.weights,
            last_logits=asked.last_logits,
        )
    except DifferenceError as error:
        print(f"error: {error}", file=sys.stderr)
        problems = [problem.what for problem in error.problems]
        answer.give({"folder": str(out), "differences": problems}, lambda console: None, ExitCode.DIFFERENT)
        return
    models = {file: _model_facts(folder.path / file, folder.parameters[file]) for file in folder.files}
    document: dict[str, object] = {
        "folder": str(folder.path),
        "task": folder.task,
        "files": list(folder.files),
        "models": models,
        "seconds": dict(folder.seconds),
        "verified": folder.verified,
        "largest_difference": folder.largest_difference,
    }
    answer.give(document, lambda console: _show(console, folder, models))


def _model_facts(path: Path, parameters: int) -> dict[str, Any]:
    from onnxport.command_line.onnx_files import files_of, read_file
    from onnxport.inspection import inspect_model

    model = read_file(path)
    found = inspect_model(model)
    return {
        "bytes": {str(file): file.stat().st_size for file in files_of(path, model)},
        "opset": found.opsets["ai.onnx"],
        "ir_version": found.ir_version,
        "nodes": len(found.nodes),
        "parameters": parameters,
        "inputs": [asdict(port) for port in found.inputs],
        "outputs": [asdict(port) for port in found.outputs],
    }


def _show(console: Console, folder: PretrainedFolder, models: Mapping[str, Mapping[str, Any]]) -> None:
    from onnxport.program.summary import bytes_text

    rows = [("folder", str(folder.path)), ("task", folder.task)]
    for file, facts in models.items():
        size, opset = bytes_text(sum(facts["bytes"].values())), f"{facts['opset']} (IR version {facts['ir_version']})"
        rows.append((file, f"{size}, opset {opset}, {facts['nodes']:,} nodes, {facts['parameters']:,} parameters"))
    rows.append(("seconds", ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in folder.seconds.items())))
    if folder.verified:
        rows.append(("verified", f"largest difference {folder.largest_difference:.2g}"))
    show_table(console, "Exported", ("", ""), rows)
    for file, facts in models.items():
        ports = [(side, port) for side in ("input", "output") for port in facts[f"{side}s"]]
        told = [(side, port["name"], port["type"], shape_text(port["shape"])) for side, port in ports]
        show_table(console, f"Inputs and outputs of {file}", ("", "name", "type", "shape"), told)
