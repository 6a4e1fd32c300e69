"""Checks that operators make of sizes in a ``try`` of the model's: where one fails, the code of ``except`` runs.

``try: y = x.view(2, -1)`` asks no truth, and still decides by a size. So a check of an operator there is a decision,
which is noted when the operator is done or has raised: while it runs nothing is recorded.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch

from onnxport.capture.diagnosis.guards import Followed
from onnxport.capture.diagnosis.user_lines import (
    Asker,
    asker_of,
    frames_of_callers,
    is_asked_by_broadcast,
    line_of_caller,
)
from onnxport.capture.forks.expressions import nodes_of_file
from onnxport.torch_internals.symbolic_sizes import free_unbacked_symbols, truth_in_range

# What operators raise where sizes don't fit, by the names that handlers have for it.
_CAUGHT = "elsewhere the shapes don't fit, and what is raised then is caught"
_OF_OPERATORS = {"RuntimeError", "ValueError", "IndexError", "LookupError", "Exception", "BaseException"}


class CaughtChecks:
    """``decide`` notes a decision, of which condition and whose; ``follow`` notes what the example decides."""

    def __init__(self, decide: Callable[[torch.SymBool, Asker], bool], follow: Callable[[Followed], None]) -> None:
        self._decide, self._follow = decide, follow
        self._asked: list[torch.SymBool] | None = None

    def noted_after(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """An operation of the model's code that has what it checks in a ``try`` noted behind it."""

        def run(*args: object, **kwargs: object) -> Any:
            before, self._asked = self._asked, []
            try:
                return function(*args, **kwargs)
            finally:
                asked, self._asked = self._asked, before
                for condition in asked:
                    self._decide(condition, _asker())

        return run

    def replacements(self) -> Iterator[tuple[object, str, object]]:
        """What operators check sizes with: owner, name, function."""
        from torch.fx.experimental.sym_node import SymNode

        expect_true = SymNode.expect_true

        def expecting(node: Any, file: str, line: int) -> bool:
            if self._asked is None or node.expr.is_number or free_unbacked_symbols(node.expr):
                return expect_true(node, file, line)
            if truth_in_range(node) is not None or _try_around() is None:
                return expect_true(node, file, line)
            if is_asked_by_broadcast():
                # A size of 1 fits as well, which is no part of what is checked.
                self._follow(Followed(node.expr, True, _asker(), line_of_caller(), _CAUGHT))
                return expect_true(node, file, line)
            self._asked.append(torch.SymBool(node))
            return bool(node.hint)

        yield SymNode, "expect_true", expecting


def _asker() -> Asker:
    frame = _try_around()
    return "user" if frame is None else asker_of(frame)


def _try_around() -> FrameType | None:
    """The frame of the model's that catches what operators raise right now, if there is one."""
    for frame in frames_of_callers():
        if any(first <= frame.f_lineno <= last for first, last in _caught_lines(frame.f_code.co_filename)):
            return frame
    return None


@functools.lru_cache(maxsize=64)
def _caught_lines(filename: str) -> tuple[tuple[int, int], ...]:
    """From which to which line ``except`` catches what operators raise, and goes on."""
    found = [
        node for node in nodes_of_file(filename) if isinstance(node, ast.Try) and any(map(_catches, node.handlers))
    ]
    return tuple((node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno) for node in found)


def _catches(handler: ast.ExceptHandler) -> bool:
    if isinstance(handler.body[-1], ast.Raise):
        return False
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in _OF_OPERATORS) for kind in kinds)
