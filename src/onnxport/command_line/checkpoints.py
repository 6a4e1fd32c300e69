"""``onnxport export`` of a checkpoint's directory: a folder that runs its task."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onnxport.command_line.answers import Answer, ExitCode


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
    document: dict[str, object] = {
        "folder": str(folder.path),
        "task": folder.task,
        "files": list(folder.files),
        "verified": folder.verified,
    }
    line = f"{folder.path}: {', '.join(folder.files)} for {folder.task}{', verified' if folder.verified else ''}"
    answer.give(document, lambda console: console.print(line))
