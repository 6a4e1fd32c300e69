"""The package's version, the oldest ones that it works with, as pyproject.toml has them, and a refusal that says so."""

from __future__ import annotations

import importlib
import re
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
        found = str(importlib.import_module(name).__version__)
        if _release(found) < _release(OLDEST[name]):
            raise ImportError(
                f"onnxport works with {name} {OLDEST[name]} and later, but {found} is installed. "
                f"Install a newer one: pip install --upgrade '{name}>={OLDEST[name]}'",
                name=name,
            )


def _release(version: str) -> tuple[int, ...]:
    """``2.10`` of ``2.10.0a0+git1234``, which can be compared."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
