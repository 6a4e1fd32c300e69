"""What an export leaves behind beside the model: report, profile, exported program; and what it shows on the way."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from onnxport.errors import OnnxExporterError, warn
from onnxport.events import EventLog
from onnxport.progress import progress
from onnxport.report import Account, Sampler, chrome_trace, flame_page, html_page, markdown, profile_text
from onnxport.translate.registry import Lookup

Writer = Callable[[Path], None]


@dataclass(frozen=True)
class Artifacts:
    """What the user asked for, and where to put it."""

    directory: str | os.PathLike[str] = "."
    report: bool = False
    profile: bool = False
    exported_program: bool = False
    verbose: bool | None = None

    @property
    def any_file(self) -> bool:
        """Whether anything is to be written."""
        return self.report or self.profile or self.exported_program


@contextlib.contextmanager
def accounted(artifacts: Artifacts, model: object, find: Lookup, events: EventLog) -> Iterator[Account]:
    """Keep the account of the export that runs in the block, and write what was asked for, however it ends."""
    account = Account(events, find, type(model).__name__)
    stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
    stem = Path(artifacts.directory) / f"onnx_export_{stamp}"
    if artifacts.any_file:
        _make(stem.parent)
    with progress(account, artifacts.verbose):
        try:
            with _profiled(artifacts, account):
                yield account
        except Exception as error:
            account.error = error
            written = _write(artifacts, account, stem)
            if written:
                _mention(error, written)
            raise
        for path in _write(artifacts, account, stem):
            events.add("note", "artifacts", f"Written: {path}")


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OnnxExporterError(f"The folder {directory} (artifacts_dir) cannot be made: {error.strerror}.") from error


@contextlib.contextmanager
def _profiled(artifacts: Artifacts, account: Account) -> Iterator[None]:
    if not artifacts.profile:
        yield
        return
    import cProfile

    profiler, sampler = cProfile.Profile(), Sampler()
    try:
        with sampler.running():
            profiler.enable()
            try:
                yield
            finally:
                profiler.disable()
    finally:
        account.profile = profile_text(profiler)
        account.samples = sampler.stacks


def _write(artifacts: Artifacts, account: Account, stem: Path) -> list[Path]:
    """Write the files; one that cannot be written costs a warning, not the export."""
    written: list[Path] = []
    for path, write in _files(artifacts, account, stem):
        try:
            write(path)
        except Exception as error:  # noqa: BLE001 - the program is worth more than what is said about it
            message = f"{path} could not be written: {type(error).__name__}: {error}"
            account.events.add("warning", "artifacts", message)
            warn(message)
        else:
            written.append(path)
    return written


def _files(artifacts: Artifacts, account: Account, stem: Path) -> Iterator[tuple[Path, Writer]]:
    if artifacts.exported_program and account.captured is not None:
        program = account.captured.program
        yield Path(f"{stem}.pt2"), lambda path: torch.export.save(program, path)
    if artifacts.profile:
        yield Path(f"{stem}_profile.txt"), _text(lambda: account.profile)
        yield Path(f"{stem}_flame.html"), _text(lambda: flame_page(account.model_name, account.samples))
        yield Path(f"{stem}_trace.json"), _text(lambda: chrome_trace(account.events))
    if artifacts.report:
        report = Path(f"{stem}_{account.outcome()}.md")
        yield report, _text(lambda: markdown(account))
        yield report.with_suffix(".html"), _text(lambda: html_page(account))


def _text(content: Callable[[], str]) -> Writer:
    def write(path: Path) -> None:
        path.write_text(content(), encoding="utf-8")

    return write


def _mention(error: Exception, written: list[Path]) -> None:
    """Put the paths in the message of an error of ours, or below that of another."""
    message = f"See {', '.join(str(path) for path in written)}."
    if isinstance(error, OnnxExporterError) and len(error.args) == 1:
        error.args = (f"{error.args[0]}\n{message}",)
    else:
        error.add_note(message)
