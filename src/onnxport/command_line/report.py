"""``onnxport report``: a page of HTML about an ONNX file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from onnxport.command_line.answers import Json, answering
from onnxport.command_line.options import OnnxFile


def report_command(
    file: OnnxFile,
    output: Annotated[Path | None, typer.Argument(help="Where to save; beside the file without it.")] = None,
    as_json: Json = False,
) -> None:
    """Write a page about an ONNX file. It shows the graph, operators, modules and weights."""
    with answering(as_json=as_json) as answer:
        from onnxport.command_line.onnx_files import files_of, read_file
        from onnxport.errors import SaveError
        from onnxport.report.file_page import file_page

        model = read_file(file)
        destination = file.with_suffix(".html") if output is None else output
        text = file_page(model, {path.name: path.stat().st_size for path in files_of(file, model)})
        temporary = destination.with_name(f".{destination.name}.{os.getpid()}")
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(destination)
        except OSError as error:
            raise SaveError(f"{destination} can't be written: {error.strerror}") from error
        finally:
            temporary.unlink(missing_ok=True)
        answer.give({"file": str(file), "report": str(destination)}, lambda console: console.print(f"{destination}"))
