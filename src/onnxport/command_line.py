"""``onnxport export``: from a model on disk or in a Python file to an ONNX file, with one command."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import torch
import typer

from onnxport.errors import InputError, OnnxExporterError
from onnxport.export import export
from onnxport.options import Branches
from onnxport.weights.metadata import Metadata

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

_MODEL = """A captured program (model.pt2), a TorchScript file (model.pt), or a model in Python as package.module:name
or file.py:name, where the name is of a module, or of a class or function that gives one when called."""
_INPUT = """An example input as [name=]size,size,...[:dtype]. A size written label@size may vary, under that label:
x=batch@2,3,224,224 or ids=batch@1,length@16:int64."""
_BRANCHES = """Branches in the model's Python code by sizes that vary or by data: both sides with an If (export), the
example's (follow), or an error (refuse)."""


@dataclass(frozen=True)
class Example:
    """An input as the command line describes it."""

    name: str | None
    sizes: tuple[int, ...]
    labels: dict[int, str]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        """Random values of that shape; whole numbers are 0 or 1, which most models can look up."""
        if self.dtype.is_floating_point or self.dtype.is_complex:
            return torch.randn(self.sizes, dtype=self.dtype)
        return torch.randint(0, 2, self.sizes).to(self.dtype)


def parse_input(text: str) -> Example:
    """Read one ``--input``.

    >>> from onnxport.command_line import parse_input
    >>> parse_input("ids=batch@1,length@16:int64")
    Example(name='ids', sizes=(1, 16), labels={0: 'batch', 1: 'length'}, dtype=torch.int64)
    >>> parse_input("3,224").dtype
    torch.float32
    """
    name, equals, rest = text.rpartition("=")
    shape, colon, dtype_name = rest.partition(":")
    dtype = getattr(torch, dtype_name, None) if colon else torch.float32
    if not isinstance(dtype, torch.dtype):
        raise InputError(f"--input {text}: torch has no dtype {dtype_name!r}; write float32, int64, bool ...")
    sizes: list[int] = []
    labels: dict[int, str] = {}
    for axis, part in enumerate(part for part in shape.split(",") if part):
        label, at, size = part.rpartition("@")
        if not size.isdecimal() or (at and not label.isidentifier()):
            raise InputError(f"--input {text}: {part!r} is no size; write a number, or label@number where it may vary.")
        sizes.append(int(size))
        if at:
            labels[axis] = label
    return Example(name if equals else None, tuple(sizes), labels, dtype)


def load_model(reference: str, *, allow_pickle: bool = False) -> Any:
    """Return the module, TorchScript module or captured program that a reference names.

    Code in a ``.pt2`` file (pickles, compiled libraries) is run only with ``allow_pickle``; without it such a file is
    refused.

    >>> from onnxport.command_line import load_model
    >>> load_model("torch.nn:Identity")
    Identity()
    """
    path = Path(reference)
    if path.suffix == ".pt2" and path.exists():
        return _load_program(path, allow_pickle=allow_pickle)
    if path.exists():
        return _load_script(path)
    place, colon, name = reference.rpartition(":")
    if not colon:
        raise InputError(f"There is no file {reference}. {' '.join(_MODEL.split())}")
    found: Any = _load_module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{place} has no {name}.")
        found = getattr(found, part)
    made = callable(found) and not isinstance(found, torch.nn.Module)
    model = found() if made else found
    if not isinstance(model, torch.nn.Module | torch.export.ExportedProgram):
        raise InputError(f"{reference} is a {type(model).__name__}, not a torch.nn.Module.")
    return model.eval() if isinstance(model, torch.nn.Module) else model


def _load_program(path: Path, *, allow_pickle: bool) -> torch.export.ExportedProgram:
    # What reads these files takes long to import, and other models don't need it.
    from onnxport.torch_internals.archives import CodeInFileError, load_program

    try:
        return load_program(path, run_code=allow_pickle)
    except CodeInFileError as error:
        raise InputError(
            f"{path} is not loaded, since that would run code from the file: {error}. Pass --allow-pickle if you "
            "trust where it comes from."
        ) from error
    except Exception as error:
        # torch raises anything that a wrong file makes it stumble over.
        reason = next(iter(str(error).splitlines()), "")
        raise InputError(
            f"{path} can't be read as a captured program ({type(error).__name__}: {reason}). Write it with "
            "torch.export.save, in this version of torch."
        ) from error


def _load_script(path: Path) -> torch.jit.ScriptModule:
    try:
        module: torch.jit.ScriptModule = torch.jit.load(str(path), map_location="cpu").eval()
        return module
    except (RuntimeError, ValueError, OSError) as error:
        raise InputError(
            f"{path} is not a TorchScript file. Weights alone are no model: name the Python function that builds it "
            "and loads them, as file.py:name."
        ) from error


def _load_module(place: str) -> object:
    if not place.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise InputError(f"There is no Python module {place} ({error}).") from error
        finally:
            sys.path.remove(str(Path.cwd()))
    path = Path(place)
    if not path.exists():
        raise InputError(f"There is no file {place}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look their module up by name.
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


@app.callback()
def main() -> None:
    """Export PyTorch models to ONNX."""


@app.command("export")
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
    metadata: Annotated[str, typer.Option(help="What to say of where nodes come from: full, names or none.")] = "full",
    target: Annotated[str, typer.Option(help="The reader that the file is written for: onnx for any.")] = "onnx",
    branches: Annotated[Branches, typer.Option(help=_BRANCHES)] = "export",
    allow_pickle: Annotated[bool, typer.Option(help="Run the pickles in a .pt2 file that you trust.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Export a model and save it."""
    destination = Path(f"{Path(model.partition(':')[0]).stem}.onnx") if output is None else output
    try:
        examples = [parse_input(text) for text in inputs or []]
        named = {example.name: example for example in examples if example.name is not None}
        program = export(
            load_model(model, allow_pickle=allow_pickle),
            tuple(example.tensor() for example in examples if example.name is None),
            kwargs={name: example.tensor() for name, example in named.items()} or None,
            dynamic_shapes=_dynamic_shapes(examples),
            opset_version=opset,
            ir_version=ir_version,
            verify=verify,
            branches=branches,
            report=report,
            artifacts_dir=destination.parent,
            optimize=optimize,
            metadata=cast(Metadata, metadata),
            target=target,
            verbose=False if quiet else None,
        )
        program.save(destination, external_data=external_data)
    except OnnxExporterError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    if not quiet:
        nodes = sum(1 for _ in program.model.graph)
        typer.echo(f"{destination}: opset {program.model.opset_imports['']}, {nodes} nodes")


def _dynamic_shapes(examples: list[Example]) -> dict[str, object] | tuple[object, ...] | None:
    if not any(example.labels for example in examples):
        return None
    if all(example.name is not None for example in examples):
        return {str(example.name): example.labels for example in examples}
    if any(example.name is not None for example in examples):
        raise InputError("Name all inputs or none of them: the axes that vary are declared by name, or in order.")
    return tuple(example.labels for example in examples)
