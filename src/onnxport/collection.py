"""The garbage collector, out of the way where nearly all that is made is kept."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Iterator

from onnxport.undoing import undone_after


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
    with undone_after(gc.enable if gc.isenabled() else gc.disable):
        gc.disable()
        yield


#: How many times rarer than usual Python looks for cycles among all objects of the process during an export.
_RARER = 10
# What this module has set: an export within an export finds it and leaves it.
_SET: set[tuple[int, int, int]] = set()


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
    if usual in _SET:
        yield
        return
    rarer = (*usual[:2], usual[2] * _RARER)
    _SET.add(rarer)
    with undone_after(functools.partial(gc.set_threshold, *usual)):
        gc.set_threshold(*rarer)
        yield
