"""How a command ends: what it writes for people or for programs, what it says when it can't, and its exit code."""

from __future__ import annotations

import contextlib
import enum
import json
import math
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TextIO, TypeAlias

import typer

if TYPE_CHECKING:
    from rich.console import Console

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Write one JSON document to standard output.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]

# What is not on a terminal has no width: nothing is wrapped or cut where a program or a file reads it.
_ENDLESS = 10_000


class ExitCode(enum.IntEnum):
    """What a command's exit code means; typer ends with 2 as well, where it does not know an option."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    DIFFERENT = 3


@dataclass
class Answer:
    """What a command has found out: the document for programs, how it is shown to people, and how it ends."""

    document: Mapping[str, object] = field(default_factory=dict)
    show: Callable[[Console], None] | None = None
    code: ExitCode = ExitCode.DONE
    warned: list[str] = field(default_factory=list)

    def refuse_warnings(self) -> None:
        """Raise if the exporter has warned of anything."""
        from onnxport.errors import OnnxExporterError, Problem

        if self.warned:
            problems = [Problem(message) for message in self.warned]
            raise OnnxExporterError("Nothing was written, since there are warnings (--strict):", problems)

    def give(
        self, document: Mapping[str, object], show: Callable[[Console], None], code: ExitCode = ExitCode.DONE
    ) -> None:
        """Set all three."""
        self.document, self.show, self.code = document, show, code


@contextlib.contextmanager
def answering(*, as_json: bool, quiet: bool = False) -> Iterator[Answer]:
    """Run a command in the block and write its answer, or the sentence of its error, at the end.

    Raises:
        typer.Exit: With the exit code, if it is not 0.
    """
    # Here and not above: every command imports this module, and help is to come at once.
    from onnxport.command_line.usage import UsageError
    from onnxport.errors import OnnxExporterError

    answer = Answer()
    told: list[str] = []
    stdout = sys.stdout
    try:
        # Standard output is the answer's alone, whatever a model's code prints.
        with contextlib.redirect_stdout(sys.stderr), _warnings_told(told, answer.warned, quiet=quiet):
            yield answer
    except OnnxExporterError as error:
        problems = [
            {"what": problem.what, "where": problem.where, "remedy": problem.remedy, "count": problem.count}
            for problem in error.problems
        ]
        code = ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.REFUSED
        _fail(type(error).__name__, str(error), problems, told, stdout, code=code, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - a fault of ours: shown whole, and a document all the same
        traceback.print_exc()
        message = f"internal error: {error}"
        _fail(type(error).__name__, message, [], told, stdout, code=ExitCode.REFUSED, as_json=as_json)
    if as_json:
        _write_json({**answer.document, "warnings": told}, stdout)
    elif answer.show is not None and not quiet:
        answer.show(_console(stdout))
    if answer.code is not ExitCode.DONE:
        raise typer.Exit(answer.code)


def _fail(
    kind: str,
    message: str,
    problems: list[dict[str, object]],
    told: list[str],
    stdout: TextIO,
    *,
    code: ExitCode,
    as_json: bool,
) -> None:
    print(f"error: {message}", file=sys.stderr)
    if as_json:
        error = {"kind": kind, "message": message, "problems": problems}
        _write_json({"error": error, "warnings": told}, stdout)
    raise typer.Exit(code)


def _write_json(document: Mapping[str, object], stdout: TextIO) -> None:
    json.dump(_finite(document), stdout, indent=2, allow_nan=False)
    stdout.write("\n")


def _finite(value: object) -> object:
    """A document with texts for the numbers that JSON has not: ``inf``, ``nan``."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def _warnings_told(told: list[str], ours: list[str], *, quiet: bool) -> Iterator[None]:
    """Say each warning once and in its own words, without the line of Python's that gave it."""

    from onnxport.errors import OnnxExporterWarning

    def tell(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        text = str(message)
        if text not in told:
            told.append(text)
            if issubclass(category, OnnxExporterWarning):
                ours.append(text)
            if not quiet:
                print(f"warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = tell
        # Said once here; whatever else the process asks for, a warning of ours is no error.
        warnings.simplefilter("always", OnnxExporterWarning)
        yield


def _console(stream: TextIO) -> Console:
    # rich takes as long to load as the rest of the command line; only what is shown needs it.
    from rich.console import Console

    return Console(
        file=stream, width=None if stream.isatty() else _ENDLESS, highlight=False, markup=False, soft_wrap=True
    )
