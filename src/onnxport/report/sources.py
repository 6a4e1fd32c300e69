"""The user's code around a line that something is said about."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from html import escape

from onnxport.capture.diagnosis.user_lines import line_of_error
from onnxport.errors import OnnxExporterError

_AROUND = 4
# As `provenance.source_line` and `user_lines.describe` write a place.
_PLACE = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d+) in (?P<function>[^\s:]+)")


def excerpts(error: BaseException) -> Iterator[str]:
    """The code around each line that an error names, once each, as HTML."""
    problems = error.problems if isinstance(error, OnnxExporterError) else ()
    places = [problem.where for problem in problems if problem.where]
    shown: set[tuple[str, int]] = set()
    for text in places or [line_of_error(error)]:
        match = _PLACE.match(text)
        if match is None:
            continue
        place = (match["file"], int(match["line"]))
        if place not in shown and (code := source_around(*place)):
            shown.add(place)
            yield f"<h3><code>{escape(match['file'])}:{match['line']}</code></h3>{code}"


def source_around(filename: str, line: int) -> str:
    """Lines of a file around one of them, which is marked; empty where the file can't be read.

    >>> source_around("/no/such/file.py", 3)
    ''
    """
    if not linecache.getline(filename, line):
        return ""
    rows = []
    for number in range(max(line - _AROUND, 1), line + _AROUND + 1):
        code = linecache.getline(filename, number)
        if code:
            kind = ' class="here"' if number == line else ""
            rows.append(f"<span{kind}><i>{number:>5}</i>  {escape(code.rstrip())}</span>")
    return f'<pre class="source">{"".join(rows)}</pre>'
