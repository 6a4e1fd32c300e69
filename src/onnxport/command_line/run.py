"""``onnxport run``: an ONNX file in onnxruntime, on inputs that are given or made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxport.command_line.answers import Json, answering
from onnxport.command_line.options import Inputs, OnnxFile, OpenSizes
from onnxport.command_line.tables import shape_text, show_table, sizes_text

if TYPE_CHECKING:
    import torch

    from onnxport.program.runtime import Output


def run_command(
    file: OnnxFile,
    inputs: Inputs = None,
    size: OpenSizes = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Save the outputs: an .npz or .pt file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run an ONNX file and show what comes out."""
    with answering(as_json=as_json) as answer:
        from onnxport.command_line.examples import read_examples
        from onnxport.command_line.feeds import feeds_for, in_onnxruntime, parse_sizes
        from onnxport.command_line.onnx_files import read_file, save_tensors
        from onnxport.program import ONNXProgram

        model = read_file(file)
        examples = read_examples(inputs or ())
        at = parse_sizes(size or (), model, examples)[0]
        feeds = feeds_for(model, examples, at)
        with in_onnxruntime(file):
            results = ONNXProgram(model, None)(**feeds)
        found: dict[str, Output] = {str(v.name): r for v, r in zip(model.graph.outputs, results, strict=True)}
        if output is not None:
            save_tensors(output, found)
        given = [_outline(name, tensor) for name, tensor in feeds.items()]
        made = [_outline(name, item) for whole, result in found.items() for name, item in _items(whole, result)]
        document = {
            "file": str(file),
            "sizes": at,
            "inputs": [asdict(outline) for outline in given],
            "outputs": [asdict(outline) for outline in made],
            "saved": None if output is None else str(output),
        }
        columns = ("", "name", "type", "shape", "least", "mean", "greatest")
        rows = [("input", *outline.cells()) for outline in given]
        rows += [("output", *outline.cells()) for outline in made]
        answer.give(document, lambda console: show_table(console, f"{file}{sizes_text(at)}", columns, rows))


@dataclass(frozen=True)
class Outline:
    """A tensor in a few figures."""

    name: str
    type: str
    shape: list[int]
    least: float | None
    mean: float | None
    greatest: float | None

    def cells(self) -> tuple[str, ...]:
        """As cells of a table."""
        figures = ["" if figure is None else f"{figure:.4g}" for figure in (self.least, self.mean, self.greatest)]
        return (self.name, self.type, shape_text(self.shape), *figures)


def _items(name: str, result: Output) -> list[tuple[str, torch.Tensor]]:
    if result is None:
        return []
    return [(f"{name}[{n}]", item) for n, item in enumerate(result)] if isinstance(result, list) else [(name, result)]


def _outline(name: str, tensor: torch.Tensor) -> Outline:
    kind, shape = str(tensor.dtype).removeprefix("torch."), list(tensor.shape)
    if tensor.numel() == 0:
        return Outline(name, kind, shape, None, None, None)
    numbers = tensor.double()
    return Outline(name, kind, shape, float(numbers.min()), float(numbers.mean()), float(numbers.max()))
