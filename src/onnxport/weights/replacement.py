"""Replacing the file of a model, or the pair of model and data file, so that at no moment a model has another's data.

A model says by name where its data is, and that name is to be ``model.onnx.data`` each time. Where such a pair is
replaced, the new data first stands under a second name, and a model that refers to that name takes the old one's place:
one rename, which is all or nothing. Then the data gets its usual name beside the second one, a model that refers to it
takes the place of the first, and the second name goes. A process may end between any two of these steps.
"""

from __future__ import annotations

import contextlib
import mmap
import re
import secrets
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from onnxport.weights.disk import Disk, hold, stays_open
from onnxport.weights.wire import external_locations

Chunks = Iterable[bytes | memoryview]

_BUFFER_BYTES = 1 << 20
# Waiting for the device at the end only would let it rest while weights are copied and turned.
_BEGUN_BYTES = 1 << 24
_TEMPORARY = re.compile(r"(?:\.data)?\.[0-9a-f]{8}\.tmp")


@dataclass(frozen=True)
class FileContents:
    """What is to be written: the model for each name its data may have, and the data."""

    model: Callable[[str], Chunks]
    data: Chunks | None = None


def data_name(path: Path) -> str:
    """The name of the data file of a model: ``model.onnx.data``."""
    return f"{path.name}.data"


def replace_files(path: Path, contents: FileContents, disk: Disk) -> None:
    """Write a model, and its data file if it has one, in the place of what stands there."""
    with contextlib.ExitStack() as cleanup:
        with disk.folder_locked(path.parent):
            _remove_litter(path, disk)
            model = _Temporary(path, disk, cleanup)
            data = None if contents.data is None else _Temporary(path.with_name(data_name(path)), disk, cleanup)
        if data is not None and contents.data is not None:
            data.write(contents.data)
        model.write(contents.model(data_name(path)))
        with disk.folder_locked(path.parent):
            _Replacement(path, contents, disk, cleanup).run(model, data)


class _Temporary:
    """A file that is written beside the one whose place it takes; a save that finds it left behind removes it."""

    def __init__(self, final: Path, disk: Disk, cleanup: contextlib.ExitStack) -> None:
        self.final = final
        self.path = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
        self._disk = disk
        cleanup.callback(disk.remove, self.path)
        self._file: IO[bytes] = cleanup.enter_context(self.path.open("xb", buffering=_BUFFER_BYTES))
        hold(self._file)

    def write(self, chunks: Chunks) -> None:
        begun = written = 0
        for chunk in chunks:
            self._disk.write(self._file, chunk)
            written += len(chunk)
            if written - begun >= _BEGUN_BYTES:
                self._disk.begin(self._file, begun, written - begun)
                begun = written
        self._disk.finish(self._file)
        if not stays_open():
            self._file.close()
        if self.final.exists():
            shutil.copymode(self.final, self.path)

    def move(self, target: Path | None = None) -> None:
        self._disk.rename(self.path, self.final if target is None else target)


class _Replacement:
    """The steps that put complete files in their place; the folder is locked meanwhile."""

    def __init__(self, path: Path, contents: FileContents, disk: Disk, cleanup: contextlib.ExitStack) -> None:
        self._path = path
        self._contents = contents
        self._disk = disk
        self._cleanup = cleanup
        self._usual = path.with_name(data_name(path))
        self._second = _second_name(path)
        self._owned = _owned(path)

    def run(self, model: _Temporary, data: _Temporary | None) -> None:
        if data is None:
            self._move_model(model)
            self._remove_owned(keep=None)
        elif self._second in self._owned or not (self._path.exists() or self._usual.exists()):
            self._move_data(data, self._usual)
            self._move_model(model, undo=self._usual)
            self._remove_owned(keep=self._usual)
        else:
            self._replace_pair(model, data)

    def _replace_pair(self, model: _Temporary, data: _Temporary) -> None:
        first = _Temporary(self._path, self._disk, self._cleanup)
        first.write(self._contents.model(self._second.name))
        self._move_data(data, self._second)
        self._move_model(first, undo=self._second)
        # From here on the new pair stands, and what follows is about its name.
        linked = self._usual.with_name(f".{self._usual.name}.{secrets.token_hex(4)}.tmp")
        self._cleanup.callback(self._disk.remove, linked)
        try:
            self._disk.link(self._second, linked)
            self._disk.rename(linked, self._usual)
            self._disk.finish_folder(self._path.parent)
            model.move()
        except OSError:
            # A file system without second names, or a reader that has the old data open and lets nobody replace it.
            with contextlib.suppress(OSError):
                self._disk.remove(self._usual)
            return
        self._disk.finish_folder(self._path.parent)
        self._disk.remove(self._second)

    def _move_data(self, data: _Temporary, target: Path) -> None:
        data.move(target)
        self._disk.finish_folder(self._path.parent)

    def _move_model(self, model: _Temporary, undo: Path | None = None) -> None:
        try:
            model.move()
        except BaseException:
            if undo is not None:
                self._disk.remove(undo)
            raise
        self._disk.finish_folder(self._path.parent)

    def _remove_owned(self, keep: Path | None) -> None:
        for path in self._owned:
            if path != keep:
                self._disk.remove(path)


def _second_name(path: Path) -> Path:
    return path.with_name(f"{data_name(path)}.onnxport")


def _owned(path: Path) -> set[Path]:
    """The data files that the model at a path refers to and that bear its name."""
    named = {candidate for candidate in (path.with_name(data_name(path)), _second_name(path)) if candidate.is_file()}
    if not named or not path.is_file() or path.stat().st_size == 0:
        return set()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        locations = external_locations(content)
    # While a model refers to the second name, a file of the usual one is what the same save put there.
    return named if _second_name(path).name in locations else {file for file in named if file.name in locations}


def _remove_litter(path: Path, disk: Disk) -> None:
    """Remove what saves to this path have left that were killed: files of ours that no process has open."""
    start = f".{path.name}"
    for candidate in path.parent.iterdir():
        if candidate.name.startswith(start) and _TEMPORARY.fullmatch(candidate.name, len(start)):
            # A file that is gone, or not ours to open, is none that we could remove.
            with contextlib.suppress(OSError), candidate.open("rb") as file:
                if hold(file):
                    disk.remove(candidate)
    second = _second_name(path)
    if second.is_file() and second not in _owned(path):
        disk.remove(second)
