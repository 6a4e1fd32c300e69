"""The command line, one module a command. What a command needs is imported when it runs, so that help comes at once."""

from __future__ import annotations

from typing import Annotated

import typer

from onnxport.command_line.compare import compare_command
from onnxport.command_line.convert import convert_command, optimize_command
from onnxport.command_line.doctor import doctor_command
from onnxport.command_line.export import export_command
from onnxport.command_line.generate import generate_command
from onnxport.command_line.inspect import inspect_command
from onnxport.command_line.report import report_command
from onnxport.command_line.run import run_command
from onnxport.command_line.verify import verify_command
from onnxport.versions import VERSION

__all__ = ["app"]

# Plain help, not rich's: tables of rich cut the names of options at 80 columns, and take their time to load.
app = typer.Typer(
    name="onnxport", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onnxport {VERSION}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Export PyTorch models to ONNX, and look at ONNX files.

    A command ends with 0 when all went well, 1 when it refuses what it was given, 2 when it was called in a wrong way,
    and 3 when it compared two things and they differ. With --json it writes one JSON document to standard output and
    nothing else.
    """


app.command("export")(export_command)
app.command("generate")(generate_command)
app.command("inspect")(inspect_command)
app.command("verify")(verify_command)
app.command("run")(run_command)
app.command("compare")(compare_command)
app.command("convert")(convert_command)
app.command("optimize")(optimize_command)
app.command("report")(report_command)
app.command("doctor")(doctor_command)
