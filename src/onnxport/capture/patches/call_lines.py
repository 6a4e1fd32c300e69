"""The lines that a call of a captured graph comes from: those of ``forward`` methods, and of what they call."""

from __future__ import annotations

import contextlib
import linecache
import sys
from types import FrameType
from typing import Any

import torch.fx
from torch.fx.experimental.symbolic_shapes import uninteresting_files
from torch.fx.proxy import TracerBase

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.source_files import TORCH_FOLDER, is_users_file

_SIZES = TORCH_FOLDER + "__init__.py"


def lines_of_calls() -> contextlib.AbstractContextManager[None]:
    """While the block runs, calls are noted with the lines of helper functions too, and placeholders with none.

    torch notes the frames of functions named ``forward`` alone. Placeholders, of which a weight has one, are made
    before the model runs, so no line of it has anything to do with them.
    """
    create = TracerBase.create_node

    def create_node(tracer: TracerBase, kind: str, *args: Any, **kwargs: Any) -> torch.fx.Node:
        if not tracer.record_stack_traces:
            return create(tracer, kind, *args, **kwargs)
        tracer.record_stack_traces = False
        try:
            node = create(tracer, kind, *args, **kwargs)
        finally:
            tracer.record_stack_traces = True
        if kind != "placeholder" and not node.stack_trace:
            node.stack_trace = _lines(sys._getframe(1))
        return node

    return attributes_replaced([(TracerBase, "create_node", create_node)])


def _lines(frame: FrameType | None) -> str | None:
    """The frames around a call as a traceback shows them, outermost first; none outside of the model."""
    found: list[str] = []
    in_model = 0
    uninteresting = uninteresting_files()
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        forward = code.co_name == "forward"
        if ((forward or filename == _SIZES) and filename not in uninteresting) or is_users_file(filename):
            found.append(_text(filename, frame.f_lineno, code.co_name))
            if forward:
                in_model = len(found)
        frame = frame.f_back
    return "".join(reversed(found[:in_model])).strip() or None


def _text(filename: str, line: int, function: str) -> str:
    # Not kept from one model to the next: a file may have changed since.
    code = linecache.getline(filename, line).strip()
    return f'  File "{filename}", line {line}, in {function}\n' + (f"    {code}\n" if code else "")
