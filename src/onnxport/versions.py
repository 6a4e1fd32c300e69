"""The package's version, the oldest ones that it works with, as pyproject.toml has them, and a refusal that says so."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterable

VERSION = "0.1.0"

#: The oldest version of each package, by the name that it is imported by.
OLDEST = {"torch": "2.9", "onnx": "1.19", "onnx_ir": "1.0", "onnxruntime": "1.20"}


def require(names: Iterable[str]) -> None:
    """Refuse packages that are older than the oldest known to work.

    Raises:
        ImportError: One of them is; the sentence names it, its version, and what to install.

    >>> require(["torch"])
    """
    for name in names:
        found = _installed(name)
        if found and is_older(found, OLDEST[name]):
            raise ImportError(
                f"onnxport works with {name} {OLDEST[name]} and later, but {found} is installed. "
                f"Install a newer one: pip install --upgrade '{name}>={OLDEST[name]}'",
                name=name,
            )


def _installed(name: str) -> str:
    """The version of a package without loading it; empty where it is not known, or the package is not there."""
    if name in sys.modules:
        return str(sys.modules[name].__version__)
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def is_older(version: str, than: str) -> bool:
    """Whether a release comes before another.

    >>> is_older("2.9.1+cpu", "2.10")
    True
    """
    return _release(version) < _release(than)


def _release(version: str) -> tuple[int, ...]:
    """``2.10`` of ``2.10.0a0+git1234``, which can be compared."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
