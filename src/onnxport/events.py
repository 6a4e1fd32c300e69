"""The event log: what each stage did, append-only, and the source of progress, profile and report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["stage", "warning", "assumption", "cast", "failure", "note"]


@dataclass(frozen=True)
class Event:
    """One entry: a stage that ended (with its seconds) or something worth knowing about it.

    ``at`` is when it was added, on the clock of ``time.perf_counter``.
    """

    kind: Kind
    stage: str
    message: str = ""
    seconds: float = 0.0
    where: str = ""
    at: float = field(default=0.0, compare=False)


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

    def add(self, kind: Kind, stage: str, message: str = "", *, seconds: float = 0.0, where: str = "") -> None:
        """Append an event and tell the listeners."""
        event = Event(kind, stage, message, seconds, where, time.perf_counter())
        self.events.append(event)
        for listener in self.listeners:
            listener(event)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; one that raises is recorded as a failure with its error."""
        for listener in self.on_start:
            listener(name)
        start = time.perf_counter()
        try:
            yield
        except Exception as error:
            self.add("failure", name, str(error), seconds=time.perf_counter() - start)
            raise
        self.add("stage", name, seconds=time.perf_counter() - start)

    def seconds(self, stage: str) -> float:
        """Total seconds of a stage."""
        return sum(event.seconds for event in self.events if event.kind == "stage" and event.stage == stage)

    def of(self, kind: Kind) -> list[Event]:
        """All events of one kind, in order."""
        return [event for event in self.events if event.kind == kind]
