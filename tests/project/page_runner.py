"""Runs the code of a page: what it prints must be what the page shows.

A block marked ``python`` is run as a file of its own, under its title if it has one; blocks of a page share names. One
marked ``text`` shows what was printed since the last one, with ``...`` for what differs from run to run. In one marked
``console`` each line after ``$`` is a command, ``onnxport`` or ``python``, and below it is its output.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import os
import re
import runpy
import shlex
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from onnxport.command_line import app
from onnxport.errors import OnnxExporterWarning

_FENCE = re.compile(r'^```(?P<kind>python|text|console)(?: title="(?P<title>[^"]+)")?\n(?P<code>.*?)^```$', re.M | re.S)
_MATCHES = doctest.OutputChecker().check_output
_BUILD = re.compile(r"(2\.\d+\.\d+)\+\w+")
# Figures that rounding, random weights or the load of a machine decide: differences in comparisons, seconds, sizes.
_FIGURES = re.compile(
    r"\S+ +\S+(?= +(?:agrees|differs)$)|(?<=agrees)\s+\S+$|(?<=largest difference )\S+|(?<=largest difference is ).*"
    r"|(?<= )\d+\.\d+(?= ?s?(?:,|$))",
    re.M,
)


def agree(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed, but for figures of measurements; ``...`` stands for anything."""
    masked = [_FIGURES.sub("#", text.rstrip() + "\n") for text in (shown, printed)]
    return _MATCHES(masked[0], masked[1], doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


class PageRunner:
    """Runs the blocks of one page, in a folder that is the working directory meanwhile."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.text = page.read_text(encoding="utf-8")
        self.folder = folder
        # A module of its own, as a script has one: ONNX Script looks names up there.
        self.module = types.ModuleType(f"page_{page.stem}")
        self.printed = io.StringIO()

    def blocks(self) -> Iterator[tuple[re.Match[str], str]]:
        """Run block after block; yield each that shows output, with what the output was."""
        for number, match in enumerate(_FENCE.finditer(self.text)):
            if match["kind"] == "python":
                self._run(match["code"], match["title"] or f"block_{number}.py")
            elif match["kind"] == "text":
                # The build of torch (2.13.0+cpu) differs from machine to machine.
                yield match, _BUILD.sub(r"\1", self.printed.getvalue())
                self.printed = io.StringIO()
            else:
                yield match, self._session(match["code"])

    def _run(self, code: str, name: str) -> None:
        (self.folder / name).write_text(code, encoding="utf-8")
        linecache.checkcache(name)
        with contextlib.redirect_stdout(self.printed):
            exec(compile(code, name, "exec"), vars(self.module))

    def _session(self, code: str) -> str:
        """What a terminal would show: the commands, each with its output."""
        lines = []
        for line in code.splitlines():
            if line.startswith("$ "):
                lines += [line, *self._command(shlex.split(line[2:])).splitlines()]
        return "\n".join(lines) + "\n"

    def _command(self, words: list[str]) -> str:
        program, *arguments = words
        if program == "onnxport":
            result = CliRunner().invoke(app, arguments)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            return result.output
        assert program == "python", f"{program} is not run here"
        printed = io.StringIO()
        held = sys.argv
        sys.argv = arguments
        try:
            with contextlib.redirect_stdout(printed):
                runpy.run_path(arguments[0], run_name="__main__")
        finally:
            sys.argv = held
        return printed.getvalue()


def differences(page: Path, folder: Path, *, update: bool = False) -> list[str]:
    """What a page shows otherwise than it is; with ``update`` the page is put right instead."""
    runner = PageRunner(page, folder)
    found, text, moved = [], runner.text, 0
    here = Path.cwd()
    os.chdir(folder)
    sys.modules[runner.module.__name__] = runner.module
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OnnxExporterWarning)
            # What torch says of its own ways to quantize.
            warnings.filterwarnings("ignore", "torch.ao.quantization is deprecated", DeprecationWarning)
            warnings.filterwarnings("ignore", module="torch.ao")
            for match, printed in runner.blocks():
                if agree(match["code"], printed):
                    continue
                found.append(f"{page.name} shows\n{match['code']}\nbut it is\n{printed}")
                start, end = match.span("code")
                text = text[: start + moved] + printed + text[end + moved :]
                moved += len(printed) - (end - start)
    finally:
        os.chdir(here)
        del sys.modules[runner.module.__name__]
    if update and found:
        page.write_text(text, encoding="utf-8")
        return []
    return found
