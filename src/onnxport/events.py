"""The event log: what each stage did, append-only, and the source of progress, profile and report."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

try:
    import resource
except ImportError:  # Windows has no such figures.
    resource = None  # type: ignore[assignment]

# getrusage counts in kilobytes, on macOS in bytes.
_UNIT = 1 if sys.platform == "darwin" else 1024

Kind = Literal["stage", "warning", "assumption", "cast", "failure", "note"]


def most_memory() -> int:
    """The most memory that the process has held so far, in bytes; 0 where the system does not say."""
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


@dataclass(frozen=True)
class Event:
    """One entry: a stage that ended (with its seconds) or something worth knowing about it.

    ``at`` is when it was added, on the clock of ``time.perf_counter``. ``peak`` is the most memory that the process had
    held until a stage ended, and ``peak_grown`` how much of it came with that stage, in bytes; 0 where the system does
    not say.
    """

    kind: Kind
    stage: str
    message: str = ""
    seconds: float = 0.0
    where: str = ""
    at: float = field(default=0.0, compare=False)
    peak: int = field(default=0, compare=False)
    peak_grown: int = field(default=0, compare=False)


@dataclass
class EventLog:
    """An append-only list of events, with listeners for live progress: to events, and to stages that begin.

    >>> from onnxport.events import EventLog
    >>> log = EventLog()
    >>> with log.stage("capture"):
    ...     log.add("warning", "capture", "the batch axis is fixed")
    >>> [event.kind for event in log.events]
    ['warning', 'stage']
    """

    events: list[Event] = field(default_factory=list)
    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    on_start: list[Callable[[str], None]] = field(default_factory=list)

    def add(
        self, kind: Kind, stage: str, message: str = "", *, seconds: float = 0.0, where: str = "", before: int = 0
    ) -> None:
        """Append an event and tell the listeners. ``before`` is the most memory that was held when a stage began."""
        peak = most_memory() if before else 0
        event = Event(kind, stage, message, seconds, where, time.perf_counter(), peak, max(peak - before, 0))
        self.events.append(event)
        for listener in self.listeners:
            listener(event)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; one that raises is recorded as a failure with its error."""
        for listener in self.on_start:
            listener(name)
        before, start = most_memory(), time.perf_counter()
        try:
            yield
        except Exception as error:
            self.add("failure", name, str(error), seconds=time.perf_counter() - start, before=before)
            raise
        self.add("stage", name, seconds=time.perf_counter() - start, before=before)

    def seconds(self, stage: str) -> float:
        """Total seconds of a stage."""
        return sum(event.seconds for event in self.events if event.kind == "stage" and event.stage == stage)

    def of(self, kind: Kind) -> list[Event]:
        """All events of one kind, in order."""
        return [event for event in self.events if event.kind == kind]
