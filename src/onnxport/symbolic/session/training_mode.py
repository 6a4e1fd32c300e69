"""The training mode that a symbolic function writes for, while it runs.

``check_training_mode`` of ``torch.onnx.symbolic_helper`` is not told whose call it is made in: torch keeps the mode in
a global. Here the mode is one of the options of an export. A session hands it to the function that it calls, and it
holds for the time of that call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from onnxport.export_types import TrainingMode

_MODE: ContextVar[TrainingMode] = ContextVar("training_mode", default=TrainingMode.EVAL)


def current_training_mode() -> TrainingMode:
    """The mode of the call that is under way; EVAL where there is none, as in torch."""
    return _MODE.get()


@contextlib.contextmanager
def in_training_mode(mode: TrainingMode) -> Iterator[None]:
    """Let a mode be the current one for a while."""
    token = _MODE.set(mode)
    try:
        yield
    finally:
        _MODE.reset(token)
