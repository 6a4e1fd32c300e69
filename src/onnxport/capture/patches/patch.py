"""A row of the table of what is replaced in torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Patch:
    """One thing that is replaced.

    ``replaces`` names it by dotted paths, ``known`` says in which torch it was last seen to be needed (or its issue),
    ``until`` when it can go. ``enter`` puts it in place; ``entered_in`` names the module that does where it takes
    arguments.
    """

    replaces: tuple[str, ...]
    why: str
    known: str
    until: str
    enter: Callable[[], contextlib.AbstractContextManager[None]] | None = None
    entered_in: str = ""
