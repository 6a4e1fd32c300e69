"""What is replaced in torch during an export, in one table, entered by one context manager, under one lock."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec, TypeVar

from onnxport.capture.patches.patch import Patch
from onnxport.capture.patches.table import PATCHES
from onnxport.torch_internals.tracing_state import state_of_tracing
from onnxport.undoing import close_entered, noted_so_far, undo_down_to, undone_after

__all__ = ["PATCHES", "Patch", "one_export_at_a_time", "patched_torch"]

# What is replaced belongs to the process, so exports in other threads wait. The same thread may enter again: a hook
# of a model that is being captured may itself export.
_lock = threading.RLock()
_entered = 0
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def one_export_at_a_time(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Make a function wait for those like it in other threads, and leave torch as it was, whatever ends it.

    What is undone at the end is written where an interrupt can't come between: Python looks for one after each call.
    """

    @functools.wraps(function)
    def alone(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        with _lock:
            noted, restores = noted_so_far(), state_of_tracing()
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                close_entered(error)
                raise
            finally:
                try:
                    _put_back(noted, restores)
                except BaseException:
                    # An interrupt in the midst of it; what is put back may be put back again.
                    _put_back(noted, restores)
                    raise

    return alone


def _put_back(noted: int, restores: Sequence[Callable[[], object]]) -> None:
    undo_down_to(noted)
    for restore in restores:
        restore()


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
    with _lock, contextlib.ExitStack() as stack:
        stack.enter_context(undone_after(functools.partial(_set_entered, _entered)))
        if _entered == 0:
            for patch in PATCHES:
                if patch.enter is not None:
                    stack.enter_context(patch.enter())
        _set_entered(_entered + 1)
        yield


def _set_entered(count: int) -> None:
    global _entered
    _entered = count
