"""The options that a symbolic function writes for, while it runs.

``check_training_mode`` and ``GLOBALS`` of ``torch.onnx.symbolic_helper`` are not told whose call they are used in:
torch keeps opset and mode in globals. Here they are options of an export. A session hands them to the function that
it calls, and they hold for the time of that call.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextvars import ContextVar

from onnxport.options import Options
from onnxport.undoing import undone_after

_OPTIONS: ContextVar[Options | None] = ContextVar("call_options", default=None)


def current_options() -> Options:
    """The options of the call that is under way; the defaults where there is none, as in torch."""
    options = _OPTIONS.get()
    return Options() if options is None else options


def is_call_under_way() -> bool:
    """Whether a symbolic function is being called."""
    return _OPTIONS.get() is not None


@contextlib.contextmanager
def with_call_options(options: Options) -> Iterator[None]:
    """Let options be the current ones for a while."""
    with undone_after(functools.partial(_OPTIONS.set, _OPTIONS.get())):
        _OPTIONS.set(options)
        yield
