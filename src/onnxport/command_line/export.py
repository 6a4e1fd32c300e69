"""``onnxport export``: from a model on disk or in a Python file to an ONNX file, with one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from onnxport.command_line.answers import ExitCode, Json, Quiet, answering
from onnxport.command_line.checkpoints import CheckpointRequest, export_checkpoint
from onnxport.command_line.config import Config
from onnxport.command_line.options import AllowPickle, ExternalData
from onnxport.command_line.tables import port_rows, show_table

if TYPE_CHECKING:
    from rich.console import Console

    from onnxport.program import ONNXProgram

_MODEL = """A captured program (model.pt2), a TorchScript file (model.pt), one of a library (timm:name,
torchvision:name), or a model in Python: file.py:name or package.module:name, where the name is of a module, or of a
class or function that gives one when called; arguments are written behind it, as in 'file.py:build(3, width=8)'.
file.py alone will do where one model stands in it. With --arch, a file of weights. Or the directory of a checkpoint of
transformers, which becomes a folder."""
_INPUT = """An example input as [name=]size,size,...[:dtype], or as [name=]FILE (.npy, .npz, .pt, .safetensors). A size
written label@size may vary, under that label: x=batch@2,3,224,224 or ids=batch@1,length@16:int64."""
_DYNAMIC = "An axis that may vary of an input from a file, as [name:]axis=label: x:0=batch."
_KWARGS = "Other arguments of the model, which become part of the graph, as JSON: '{\"use_cache\": false}'."
_BRANCHES = """Branches in the model's Python code by sizes that vary or by data: both sides with an If (export), the
example's (follow), or an error (refuse)."""
_BRANCH_LIMIT = "How many ways through the model branches may lead to; each takes as long as a capture."
_QUANTIZE = """Quantize the weights: int8, int4 or uint4; with options, as in
int4:block_size=64,refine=hqq,exclude=lm_head.*"""
_VERIFY = "Compare with the model in onnxruntime; the default for checkpoints."
_WEIGHTS = """Where the weights of a checkpoint are: in a file of their own (copy), or in the checkpoint's safetensors
files as they are (reference)."""
_LAST_LOGITS = "Of a checkpoint that generates: logits of the last position alone."
# What is said of one kind of model alone.
_OF_MODELS = (
    *("inputs", "dynamic", "kwargs", "arch", "ir_version", "branches", "branch_limit", "strict", "report", "optimize"),
    *("fold_batch_norm", "metadata", "allow_pickle"),
)
_OF_CHECKPOINTS = ("task", "weights", "last_logits")
_STRICT = "Refuse what would be a warning: sizes or branches that were taken from the example."


def export_command(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help=_MODEL)],
    output: Annotated[Path | None, typer.Argument(help="Where to save; <model>.onnx without it.")] = None,
    inputs: Annotated[list[str] | None, typer.Option("--input", "-i", help=_INPUT)] = None,
    dynamic: Annotated[list[str] | None, typer.Option("--dynamic", help=_DYNAMIC)] = None,
    kwargs: Annotated[str | None, typer.Option(help=_KWARGS)] = None,
    arch: Annotated[str | None, typer.Option(help="The model that a file of weights is of: model.py:build.")] = None,
    dtype: Annotated[str | None, typer.Option(help="The element type of the weights and of inputs by shape.")] = None,
    opset: Annotated[int | None, typer.Option(help="The opset of the file; the target's without it.")] = None,
    ir_version: Annotated[int | None, typer.Option(help="The version of the file format, if an older one.")] = None,
    target: Annotated[str, typer.Option(help="The reader that the file is written for: onnx for any.")] = "onnx",
    branches: Annotated[Literal["export", "follow", "refuse"], typer.Option(help=_BRANCHES)] = "export",
    branch_limit: Annotated[int | None, typer.Option(min=1, help=_BRANCH_LIMIT)] = None,
    strict: Annotated[bool, typer.Option("--strict", help=_STRICT)] = False,
    quantize: Annotated[str | None, typer.Option(help=_QUANTIZE)] = None,
    verify: Annotated[bool | None, typer.Option("--verify/--no-verify", help=_VERIFY)] = None,
    task: Annotated[str | None, typer.Option(help="What a checkpoint is used for, if not what it says.")] = None,
    weights: Annotated[Literal["copy", "reference"], typer.Option(help=_WEIGHTS)] = "copy",
    last_logits: Annotated[bool, typer.Option("--last-logits", help=_LAST_LOGITS)] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The same as OUTPUT.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Write a report beside the file.")] = False,
    external_data: ExternalData = False,
    optimize: Annotated[bool, typer.Option(help="Clean up the graph.")] = True,
    fold_batch_norm: Annotated[
        bool, typer.Option(help="Let layers take up the batch normalisation behind them.")
    ] = True,
    metadata: Annotated[
        Literal["full", "names", "none"], typer.Option(help="What to say of where nodes come from.")
    ] = "full",
    allow_pickle: AllowPickle = False,
    config: Config = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Export a model and save it."""
    output = out if output is None else output
    with answering(as_json=as_json, quiet=quiet) as answer:
        from onnxport.command_line.usage import check_known, refuse_given

        check_known(target, quantize, opset)
        is_checkpoint = Path(model).is_dir()
        if is_checkpoint:
            refuse_given(context, _OF_MODELS, f"is not for the directory of a checkpoint, which {model} is")
        else:
            refuse_given(context, _OF_CHECKPOINTS, f"is for the directory of a checkpoint, which {model} is not")
        if is_checkpoint:
            checked = verify is not False
            asked = CheckpointRequest(
                model, output, task, dtype, quantize, target, opset, checked, weights, last_logits
            )
            export_checkpoint(asked, answer)
            return
        from onnxport.command_line.call import example_call
        from onnxport.command_line.models import check_there, load_model
        from onnxport.export_call import export
        from onnxport.weights.saving import check_destination

        check_there(model)
        destination = Path(f"{Path(model.partition(':')[0]).stem}.onnx") if output is None else output
        check_destination(destination)
        loaded = load_model(model, allow_pickle=allow_pickle, arch=arch)
        call = example_call(loaded, model, inputs or (), dynamic or (), kwargs, dtype)
        program = export(
            call.model,
            call.args,
            kwargs=call.kwargs or None,
            dynamic_shapes=call.dynamic_shapes,
            opset_version=opset,
            ir_version=ir_version,
            verify=bool(verify),
            branches=branches,
            branch_limit=branch_limit,
            report=report,
            artifacts_dir=destination.parent,
            optimize=optimize,
            fold_batch_norm=fold_batch_norm,
            metadata=metadata,
            target=target,
            quantize=quantize,
            verbose=False if quiet or as_json else None,
        )
        if strict:
            answer.refuse_warnings()
        program.save(destination, external_data=external_data)
        document = _facts(program, destination)
        differs = program.verification is not None and not program.verification.matches
        code = ExitCode.DIFFERENT if differs else ExitCode.DONE
        answer.give(document, lambda console: _show(console, program, destination), code)


def _facts(program: ONNXProgram, destination: Path) -> dict[str, object]:
    from dataclasses import asdict

    from onnxport.command_line.onnx_files import files_of, read_file
    from onnxport.inspection import inspect_model

    found, summary, verified = inspect_model(program.model), program.summary(), program.verification
    files = files_of(destination, read_file(destination))
    return {
        "file": str(destination),
        "bytes": {str(path): path.stat().st_size for path in files},
        "opset": found.opsets["ai.onnx"],
        "ir_version": found.ir_version,
        "nodes": len(found.nodes),
        "parameters": summary.parameters,
        "inputs": [asdict(port) for port in found.inputs],
        "outputs": [asdict(port) for port in found.outputs],
        "seconds": dict(summary.seconds),
        "verified": None
        if verified is None
        else {
            "matches": verified.matches,
            "largest_difference": max((info.max_abs_diff for run in verified.runs for info in run.infos), default=None),
            "verdict": verified.verdict,
        },
    }


def _show(console: Console, program: ONNXProgram, destination: Path) -> None:
    from onnxport.command_line.onnx_files import files_of, read_file
    from onnxport.inspection import inspect_model
    from onnxport.program.summary import bytes_text

    found, summary = inspect_model(program.model), program.summary()
    sizes = [path.stat().st_size for path in files_of(destination, read_file(destination))]
    rows = [
        ("file", f"{destination}, {bytes_text(sum(sizes))}"),
        ("opset", f"{found.opsets['ai.onnx']} (IR version {found.ir_version})"),
        ("nodes", f"{len(found.nodes):,}"),
        ("parameters", f"{summary.parameters:,}"),
        ("seconds", ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in summary.seconds.items())),
        *([("verified", summary.verified)] if summary.verified else []),
    ]
    show_table(console, "Exported", ("", ""), rows)
    show_table(console, "Inputs and outputs", ("", "name", "type", "shape"), port_rows(found.inputs, found.outputs))
