"""The log of the exporter, which can be switched on: what each stage did, and what symbolic functions write to it."""

from __future__ import annotations

import sys
from typing import TextIO

from onnxport.events import Event, EventLog

_enabled = False
_stream = "stdout"


def is_onnx_log_enabled() -> bool:
    """Tell whether the log is on.

    >>> import onnxport
    >>> onnxport.is_onnx_log_enabled()
    False
    """
    return _enabled


def enable_log() -> None:
    """Switch the log on.

    >>> import onnxport
    >>> onnxport.enable_log()
    >>> onnxport.log("seen: ", 3)
    seen: 3
    >>> onnxport.disable_log()
    >>> onnxport.log("not seen")
    """
    global _enabled
    _enabled = True


def disable_log() -> None:
    """Switch the log off."""
    global _enabled
    _enabled = False


def set_log_stream(stream_name: str = "stdout") -> None:
    """Choose where the log goes: ``"stdout"`` or ``"stderr"``.

    >>> import onnxport
    >>> onnxport.set_log_stream("stdout")
    """
    global _stream
    if stream_name not in ("stdout", "stderr"):
        raise ValueError(f'The log goes to "stdout" or "stderr", not to {stream_name!r}.')
    _stream = stream_name


def log(*args: object) -> None:
    """Write a line to the log if it is on: the arguments as text, one behind the other."""
    if _enabled:
        stream: TextIO = getattr(sys, _stream)
        print(*args, sep="", file=stream)


def log_events(events: EventLog) -> None:
    """Write the events of an export to the log, if it is on."""
    if _enabled:
        events.listeners.append(_write)


def _write(event: Event) -> None:
    took = f" ({event.seconds:.2f} s)" if event.seconds else ""
    where = f" at {event.where}" if event.where else ""
    log(event.stage, ": ", event.kind, f" {event.message}" if event.message else "", where, took)
