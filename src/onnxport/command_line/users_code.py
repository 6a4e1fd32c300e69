"""The user's Python code, when it fails: its own frames are shown, and none of the package's, torch's or Python's."""

from __future__ import annotations

import contextlib
import os
import sysconfig
import traceback
from collections.abc import Iterator

from onnxport.errors import InputError, OnnxExporterError

_OTHERS = (
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    *{os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")},
)


@contextlib.contextmanager
def users_code(what: str) -> Iterator[None]:
    """Run code of the user's in the block; what it raises becomes an ``InputError`` with the user's frames.

    >>> from onnxport.command_line.users_code import users_code
    >>> with users_code("model.py"):
    ...     1 / 0
    Traceback (most recent call last):
    ...
    onnxport.errors.InputError: model.py raises ZeroDivisionError: division by zero
    """
    try:
        yield
    except OnnxExporterError:
        raise
    except (Exception, SystemExit) as error:
        (*_, last) = traceback.format_exception_only(error)
        raise InputError(f"{what} raises {last.strip()}{''.join(_frames(error))}") from error


def _frames(error: BaseException) -> Iterator[str]:
    for frame in traceback.extract_tb(error.__traceback__):
        written = frame.filename.startswith("<")
        if not written and not os.path.realpath(frame.filename).startswith(_OTHERS):
            code = f": {frame.line}" if frame.line else ""
            yield f"\n    at {_shown(frame.filename)}:{frame.lineno} in {frame.name}{code}"
    if isinstance(error, SyntaxError) and error.filename is not None:
        code = f": {error.text.strip()}" if error.text else ""
        yield f"\n    at {_shown(error.filename)}:{error.lineno}{code}"


def _shown(path: str) -> str:
    """A path as the user would write it: from here, if it is below."""
    here = os.getcwd() + os.sep
    return path.removeprefix(here)
