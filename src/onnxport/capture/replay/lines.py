"""Where a TorchScript node comes from: the user's lines, in the format of Python's tracebacks."""

from __future__ import annotations

import linecache
import re

from onnxport.torch_graph import Node

# A traced node quotes a stack, innermost first; a scripted one quotes its source, with one line that counts.
_TRACED = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): (?P<function>\S+)$", re.MULTILINE)
_SCRIPTED = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
# What calls forward rather than being called by it.
_CALLERS = re.compile(r"torch[/\\]nn[/\\]modules[/\\]module\.py$")
_TRACER = re.compile(r"(torch[/\\]jit[/\\]_trace|capture[/\\]replay[/\\]tracing)\.py$")


def frames_of(node: Node, function: str) -> list[tuple[str, int, str]]:
    """The file, line and function of each call that led to a node, outermost first; a scripted node has one."""
    text = node.sourceRange()
    if not text:
        return []
    scripted = _SCRIPTED.search(text)
    if scripted:
        return [(scripted["file"], int(scripted["line"]), function)]
    found = []
    for frame in _TRACED.finditer(text):
        if _TRACER.search(frame["file"]):
            break
        if not _CALLERS.search(frame["file"]):
            found.append((frame["file"], int(frame["line"]), frame["function"]))
    return found[::-1]


def quoted_frames(frames: list[tuple[str, int, str]]) -> str:
    """Frames as Python prints them."""
    lines = []
    for file, line, function in frames:
        code = linecache.getline(file, line).strip()
        lines.append(f'  File "{file}", line {line}, in {function}\n' + (f"    {code}\n" if code else ""))
    return "".join(lines)
