"""Progress: a line for each stage, live on a terminal, plain in a log."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from onnxport.events import Event
from onnxport.report import Account

STAGES = {
    "capture": "Capture the model",
    "prepare": "Prepare the graph",
    "translate": "Translate to ONNX",
    "join": "Join the ways of branches",
    "optimize": "Optimize the graph",
    "legalize": "Fit it to the opset",
    "functions": "Make functions of modules",
    "save": "Save",
    "verify": "Verify with onnxruntime",
}
_OF_THE_MODEL = ("translate", "join", "optimize", "legalize", "functions")
_SIGNS = {"stage": ("✅", "ok"), "failure": ("❌", "FAILED")}


@contextlib.contextmanager
def progress(account: Account, verbose: bool | None, stream: TextIO | None = None) -> Iterator[None]:
    """Show the stages of an export while the block runs.

    Args:
        account: The account of the export.
        verbose: True shows them anywhere, with what else is worth knowing; None on a terminal only; False never.
        stream: Where to; standard error unless told otherwise.
    """
    target = sys.stderr if stream is None else stream
    is_terminal = target.isatty()
    if verbose is False or (verbose is None and not is_terminal):
        yield
        return
    lines = _Lines(account, target, live=is_terminal, all_events=verbose is True)
    account.events.on_start.append(lines.begin)
    account.events.listeners.append(lines.end)
    try:
        yield
    finally:
        lines.stop()
        account.events.on_start.remove(lines.begin)
        account.events.listeners.remove(lines.end)


class _Lines:
    def __init__(self, account: Account, stream: TextIO, *, live: bool, all_events: bool) -> None:
        self.account = account
        self.stream = stream
        self.live = live
        self.all_events = all_events
        self._spinner: Any = None

    def begin(self, stage: str) -> None:
        if not self.live:
            return
        # Loading rich takes longer than a small export, so only a terminal pays for it.
        from rich.console import Console

        spinner = "dots" if self._shows("⠋") else "line"
        self._spinner = Console(file=self.stream).status(f"{_words(stage)} ...", spinner=spinner)
        self._spinner.start()

    def end(self, event: Event) -> None:
        if event.kind in _SIGNS:
            self.stop()
            sign, plain = _SIGNS[event.kind]
            facts = [*self._count(event), f"{event.seconds:.2f} s"]
            self._print(f"{sign if self._shows(sign) else plain} {_words(event.stage)}: {', '.join(facts)}")
        elif self.all_events:
            where = f" ({event.where})" if event.where else ""
            self._print(f"   {event.kind}: {event.message}{where}")

    def stop(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None

    def _count(self, event: Event) -> Iterator[str]:
        """What the stage left behind, in numbers."""
        account = self.account
        if event.kind == "failure":
            yield event.message.splitlines()[0].rstrip(":.") if event.message else "stopped"
        elif event.stage == "capture" and account.captured is not None:
            yield f"{len(account.captured.program.graph.nodes)} nodes"
        elif event.stage == "prepare" and account.functional is not None:
            yield f"{len(account.functional.graph.nodes)} nodes"
        elif (
            event.stage in ("translate", "join", "optimize", "legalize", "functions") and account.onnx_model is not None
        ):
            yield f"{account.onnx_model.graph.num_nodes()} ONNX nodes"
        elif event.stage == "verify" and account.verification is not None:
            runs = account.verification.runs
            right = sum(run.matches for run in runs)
            yield f"{right} of {len(runs)} comparisons agree"

    def _print(self, text: str) -> None:
        encoding = getattr(self.stream, "encoding", None)
        shown = text if encoding is None else text.encode(encoding, "backslashreplace").decode(encoding)
        # A live line below would be torn by one printed over it.
        running, self._spinner = self._spinner, None
        if running is not None:
            running.stop()
        print(shown, file=self.stream, flush=True)
        if running is not None:
            running.start()
            self._spinner = running

    def _shows(self, sign: str) -> bool:
        encoding = getattr(self.stream, "encoding", None)
        try:
            sign.encode("utf-8" if encoding is None else encoding)
        except UnicodeEncodeError:
            return False
        return True


def _words(stage: str) -> str:
    return STAGES.get(stage, stage)
