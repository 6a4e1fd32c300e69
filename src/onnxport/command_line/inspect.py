"""``onnxport inspect``: what is in an ONNX file."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from onnxport.command_line.answers import Json, answering
from onnxport.command_line.options import OnnxFile
from onnxport.command_line.tables import port_rows, shape_text, show_table

if TYPE_CHECKING:
    from rich.console import Console

    from onnxport.inspection import Inspection, ModuleShare


def inspect_command(
    file: OnnxFile,
    depth: Annotated[int, typer.Option(help="How deep the tree of modules is shown.")] = 2,
    top: Annotated[int, typer.Option(help="How many of the largest tensors are shown.")] = 5,
    nodes: Annotated[bool, typer.Option("--nodes", help="Show each node, and where it comes from.")] = False,
    as_json: Json = False,
) -> None:
    """Show what is in an ONNX file. Inputs, outputs, operators, weights, modules, and where nodes come from."""
    with answering(as_json=as_json) as answer:
        from onnxport.command_line.onnx_files import files_of, read_file
        from onnxport.inspection import inspect_model

        model = read_file(file)
        found = inspect_model(model)
        sizes = {str(path): path.stat().st_size for path in files_of(file, model)}
        document = {"file": str(file), "bytes": sizes, "parameters": found.parameters, **asdict(found)}
        answer.give(document, lambda console: _show(console, found, sizes, depth, top, nodes))


def _show(console: Console, found: Inspection, sizes: dict[str, int], depth: int, top: int, nodes: bool) -> None:
    from onnxport.program.summary import bytes_text

    for path, size in sizes.items():
        console.print(f"{path}: {bytes_text(size)}")
    opsets = ", ".join(f"{domain} {version}" for domain, version in found.opsets.items())
    console.print(f"opset {opsets}; IR version {found.ir_version}; by {found.producer or 'an unnamed writer'}")
    console.print(f"{len(found.nodes):,} nodes, {found.parameters:,} parameters")
    show_table(console, "Inputs and outputs", ("", "name", "type", "shape"), port_rows(found.inputs, found.outputs))
    show_table(console, "Operators", ("operator", "count"), found.operators.items())
    show_table(console, "Functions", ("function", "nodes"), found.functions.items())
    largest = [
        (weight.name, weight.type, shape_text(weight.shape), bytes_text(weight.bytes)) for weight in found.weights[:top]
    ]
    show_table(console, "Largest tensors", ("name", "type", "shape", "size"), largest)
    tree = [_branch(share) for share in found.modules if share.path.count(".") < depth]
    show_table(console, "Modules", ("module", "class", "nodes", "parameters"), tree)
    if nodes:
        rows = [(node.operator, node.name, node.module, node.line) for node in found.nodes]
        show_table(console, "Nodes", ("operator", "name", "module", "line"), rows)


def _branch(share: ModuleShare) -> tuple[str, str, int, int]:
    outer, _, name = share.path.rpartition(".")
    indent = "  " * (outer.count(".") + 1) if outer else ""
    return f"{indent}{name}", share.kind, share.nodes, share.parameters
