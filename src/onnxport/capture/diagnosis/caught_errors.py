"""Where the model's code catches what operators raise when sizes don't fit: at other sizes it goes on otherwise."""

from __future__ import annotations

import ast
import functools
from types import FrameType

from onnxport.capture.diagnosis.user_lines import frames_of_callers
from onnxport.source_files import is_users_file, nodes_of_file
from onnxport.torch_internals.symbolic_sizes import TracingContext

# What operators raise where sizes don't fit, by the names that handlers have for it.
_OF_OPERATORS = frozenset({"RuntimeError", "ValueError", "IndexError", "LookupError", "Exception", "BaseException"})
OF_DIVISIONS = frozenset({"ZeroDivisionError", "ArithmeticError", "Exception", "BaseException"})
"""What a division by 0 raises."""
OF_ASSERTIONS = frozenset({"AssertionError", "Exception", "BaseException"})
"""What an ``assert`` raises."""


def catching_frame(kinds: frozenset[str] = _OF_OPERATORS) -> FrameType | None:
    """The frame of the model's that catches what operators, or others, raise right now, if there is one."""
    # Most code has nothing that handles errors, which is told without reading it.
    handling = (frame for frame in frames_of_callers() if frame.f_code.co_exceptiontable)
    return next((frame for frame in handling if _catches_at(frame.f_code.co_filename, frame.f_lineno, kinds)), None)


def is_caught() -> bool:
    """Whether the model's code catches what operators raise right now, also where its bytecode is traced."""
    if catching_frame() is not None:
        return True
    traced = (frame for frame in TracingContext.extract_stack() if is_users_file(frame.filename))
    return any(frame.lineno is not None and _catches_at(frame.filename, frame.lineno) for frame in traced)


def _catches_at(filename: str, line: int, kinds: frozenset[str] = _OF_OPERATORS) -> bool:
    return any(first <= line <= last for first, last in _caught_lines(filename, kinds))


@functools.lru_cache(maxsize=64)
def _caught_lines(filename: str, kinds: frozenset[str]) -> tuple[tuple[int, int], ...]:
    """From which to which line ``except``, or ``suppress``, catches one of these kinds, and goes on."""
    blocks = [node for node in nodes_of_file(filename) if isinstance(node, ast.Try | ast.With)]
    found = [node for node in blocks if _goes_on(node, kinds)]
    return tuple((node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno) for node in found)


def _goes_on(block: ast.Try | ast.With, kinds: frozenset[str]) -> bool:
    if isinstance(block, ast.Try):
        return any(_catches(handler, kinds) for handler in block.handlers)
    calls = [item.context_expr for item in block.items if isinstance(item.context_expr, ast.Call)]
    return any(_name(call.func) == "suppress" and any(_name(each) in kinds for each in call.args) for call in calls)


def _catches(handler: ast.ExceptHandler, kinds: frozenset[str]) -> bool:
    if isinstance(handler.body[-1], ast.Raise):
        return False
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or _name(kind) in kinds for kind in caught)


def _name(expression: ast.expr) -> str:
    return expression.attr if isinstance(expression, ast.Attribute) else getattr(expression, "id", "")
