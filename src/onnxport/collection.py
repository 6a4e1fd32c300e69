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


#: How many times rarer than usual Python looks for cycles among all objects of the process during an export.
_RARER = 10


@contextlib.contextmanager
def full_collections_rarer() -> Iterator[None]:
    """Let Python look for cycles among new objects as usual, and among all that there are ten times less often.

    An export makes enough objects for a look or two at all that the process has loaded: a tenth of its time.

    >>> import gc
    >>> usual = gc.get_threshold()
    >>> with full_collections_rarer():
    ...     gc.get_threshold()[2] // usual[2]
    10
    >>> gc.get_threshold() == usual
    True
    """
    usual = gc.get_threshold()
    gc.set_threshold(*usual[:2], usual[2] * _RARER)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
