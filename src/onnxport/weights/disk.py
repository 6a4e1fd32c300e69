"""The system calls that put files in their place, each a method, so that a test can end the process at any of them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows has no such locks: nothing is serialized there, and what a killed save left stays.
    fcntl = None  # type: ignore[assignment]


class Disk:
    """The file system, as far as saving needs it.

    ``sync=False`` leaves it to the system when it writes what it holds in memory: faster, and after a loss of power a
    file may be there without its content.
    """

    def __init__(self, *, sync: bool = True) -> None:
        self._sync = sync

    def write(self, file: IO[bytes], chunk: bytes | memoryview) -> None:
        """Append to an open file."""
        file.write(chunk)

    def begin(self, file: IO[bytes], start: int, length: int) -> None:
        """Let the system begin to bring a part of what was written to the device, where it can be asked for that."""
        if self._sync and hasattr(os, "posix_fadvise"):
            file.flush()
            # Linux writes pages that are said to be needed no more; as they are not clean yet, it keeps them as well.
            os.posix_fadvise(file.fileno(), start, length, os.POSIX_FADV_DONTNEED)

    def finish(self, file: IO[bytes]) -> None:
        """Bring all that was written to the device."""
        file.flush()
        if self._sync:
            os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Give a file the name of another, which is gone then."""
        os.replace(source, target)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        os.link(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def finish_folder(self, folder: Path) -> None:
        """Bring the names in a folder to the device, on systems where a folder can be asked for that."""
        if self._sync and fcntl is not None:
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            except OSError as error:
                if not _is_unsupported(error):
                    raise
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def folder_locked(self, folder: Path) -> Iterator[None]:
        """Wait for other saves to this folder, in this process or another; a process that ends lets go of it."""
        if fcntl is None:
            yield
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # Some network file systems lock no folders.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def hold(file: IO[bytes]) -> bool:
    """Mark an open file as in use as long as it is open; false if another has marked it, or it can't be told."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def stays_open() -> bool:
    """Whether an open file can be renamed, so that its mark lasts until it is in its place."""
    return fcntl is not None


def _is_unsupported(error: OSError) -> bool:
    return error.errno in (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
