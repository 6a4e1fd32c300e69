"""``onnxport export``: from a model on disk or in a Python file to an ONNX file, with one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from onnxport.command_line.answers import ExitCode, Json, Quiet, answering

if TYPE_CHECKING:
    from onnxport.program import ONNXProgram

_MODEL = """A captured program (model.pt2), a TorchScript file (model.pt), or a model in Python as package.module:name
or file.py:name, where the name is of a module, or of a class or function that gives one when called."""
_INPUT = """An example input as [name=]size,size,...[:dtype]. A size written label@size may vary, under that label:
x=batch@2,3,224,224 or ids=batch@1,length@16:int64."""
_BRANCHES = """Branches in the model's Python code by sizes that vary or by data: both sides with an If (export), the
example's (follow), or an error (refuse)."""

_QUANTIZE = """Quantize the weights: int8, int4 or uint4; with options, as in
int4:block_size=64,refine=hqq,exclude=lm_head.*"""


def export_command(
    model: Annotated[str, typer.Argument(help=_MODEL)],
    output: Annotated[Path | None, typer.Argument(help="Where to save; <model>.onnx without it.")] = None,
    inputs: Annotated[list[str] | None, typer.Option("--input", "-i", help=_INPUT)] = None,
    opset: Annotated[int | None, typer.Option(help="The opset of the file; the target's without it.")] = None,
    ir_version: Annotated[int | None, typer.Option(help="The version of the file format, if an older one.")] = None,
    verify: Annotated[bool, typer.Option(help="Compare with the model in onnxruntime.")] = False,
    report: Annotated[bool, typer.Option(help="Write a report beside the file.")] = False,
    external_data: Annotated[bool, typer.Option(help="Save the weights in a file of their own.")] = False,
    optimize: Annotated[bool, typer.Option(help="Clean up the graph.")] = True,
    fold_batch_norm: Annotated[
        bool, typer.Option(help="Let layers take up the batch normalisation behind them.")
    ] = True,
    metadata: Annotated[
        Literal["full", "names", "none"], typer.Option(help="What to say of where nodes come from.")
    ] = "full",
    target: Annotated[str, typer.Option(help="The reader that the file is written for: onnx for any.")] = "onnx",
    branches: Annotated[Literal["export", "follow", "refuse"], typer.Option(help=_BRANCHES)] = "export",
    quantize: Annotated[str | None, typer.Option(help=_QUANTIZE)] = None,
    allow_pickle: Annotated[bool, typer.Option(help="Run the pickles in a .pt2 file that you trust.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Export a model and save it."""
    with answering(as_json=as_json, quiet=quiet) as answer:
        from onnxport.command_line.examples import dynamic_shapes, parse_input
        from onnxport.command_line.models import load_model
        from onnxport.export_call import export

        destination = Path(f"{Path(model.partition(':')[0]).stem}.onnx") if output is None else output
        examples = [parse_input(text) for text in inputs or []]
        named = {example.name: example for example in examples if example.name is not None}
        program = export(
            load_model(model, allow_pickle=allow_pickle),
            tuple(example.tensor() for example in examples if example.name is None),
            kwargs={name: example.tensor() for name, example in named.items()} or None,
            dynamic_shapes=dynamic_shapes(examples),
            opset_version=opset,
            ir_version=ir_version,
            verify=verify,
            branches=branches,
            report=report,
            artifacts_dir=destination.parent,
            optimize=optimize,
            fold_batch_norm=fold_batch_norm,
            metadata=metadata,
            target=target,
            quantize=quantize,
            verbose=False if quiet or as_json else None,
        )
        program.save(destination, external_data=external_data)
        document = _facts(program, destination)
        line = f"{destination}: opset {document['opset']}, {document['nodes']} nodes"
        differs = program.verification is not None and not program.verification.matches
        code = ExitCode.DIFFERENT if differs else ExitCode.DONE
        answer.give(document, lambda console: console.print(line), code)


def _facts(program: ONNXProgram, destination: Path) -> dict[str, object]:
    model = program.model
    return {"file": str(destination), "opset": model.opset_imports[""], "nodes": model.graph.num_nodes()}
