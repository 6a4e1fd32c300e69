"""The garbage collector, out of the way where nearly all that is made is kept."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Keep Python from looking for cycles meanwhile.

    A graph is cyclic and all of it stays, so each look finds nothing, and there is one for every few hundred objects:
    a quarter of the time from prepare to legalize. What is garbage is found once, afterwards.

    >>> import gc
    >>> with collection_paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
