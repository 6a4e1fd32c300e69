"""Where the time of an export went: a table of functions, and a timeline of the stages."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from onnxport.events import EventLog

if TYPE_CHECKING:
    import cProfile

_ROWS = 60
_MICROSECONDS = 1e6


def profile_text(profiler: cProfile.Profile) -> str:
    """The functions in which an export spent most time, those they call included."""
    import pstats

    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(_ROWS)
    return text.getvalue().strip()


def chrome_trace(events: EventLog) -> str:
    """The stages on a timeline, in the format that speedscope, Perfetto and chrome://tracing open.

    >>> from onnxport.events import EventLog
    >>> log = EventLog()
    >>> with log.stage("capture"):
    ...     log.add("note", "capture", "nothing special")
    >>> [entry["name"] for entry in json.loads(chrome_trace(log))["traceEvents"]]
    ['nothing special', 'capture']
    """
    begin = min((event.at - event.seconds for event in events.events), default=0.0)
    entries: list[dict[str, object]] = []
    for event in events.events:
        common: dict[str, object] = {
            "pid": 1,
            "tid": 1,
            "cat": event.kind,
            "args": {"message": event.message, "where": event.where},
        }
        start = (event.at - event.seconds - begin) * _MICROSECONDS
        if event.kind in ("stage", "failure"):
            entries.append(
                {"name": event.stage, "ph": "X", "ts": start, "dur": event.seconds * _MICROSECONDS, **common}
            )
        else:
            entries.append({"name": event.message, "ph": "i", "s": "t", "ts": start, **common})
    return json.dumps({"traceEvents": entries, "displayTimeUnit": "ms"}, indent=1)
