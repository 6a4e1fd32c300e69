"""What is replaced in torch during an export, in one table, entered by one context manager, under one lock."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from onnxport.capture.patches.table import PATCHES, Patch

__all__ = ["PATCHES", "Patch", "one_export_at_a_time", "patched_torch"]

# What is replaced belongs to the process, so exports in other threads wait. The same thread may enter again: a hook
# of a model that is being captured may itself export.
_lock = threading.RLock()
_entered = 0


@contextlib.contextmanager
def one_export_at_a_time() -> Iterator[None]:
    """Let no other thread export while the block runs; it waits for one that does."""
    with _lock:
        yield


@contextlib.contextmanager
def patched_torch() -> Iterator[None]:
    """While this is open, torch keeps symbolic sizes through all that the table lists; afterwards it is as before.

    >>> import torch
    >>> from onnxport.capture.patches import patched_torch
    >>> original = torch.linspace
    >>> with patched_torch():
    ...     torch.linspace is original
    False
    >>> torch.linspace is original
    True
    """
    global _entered
    with one_export_at_a_time(), contextlib.ExitStack() as stack:
        if _entered == 0:
            for patch in PATCHES:
                if patch.enter is not None:
                    stack.enter_context(patch.enter())
        _entered += 1
        try:
            yield
        finally:
            _entered -= 1
