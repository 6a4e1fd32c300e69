"""Operators that are known not to pass the sweep, by sweep, each with the reason."""

from __future__ import annotations

EXCEPTIONS: dict[str, dict[str, str]] = {
    "float32": {},
    "dynamic": {},
}
