"""What rewritten code calls: functions that keep sizes open, and loops that are captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxport.capture.diagnosis.user_lines import line_of_caller
from onnxport.capture.forks.decisions import is_of_data
from onnxport.capture.forks.kinds import plain_truth
from onnxport.capture.rewriting.open_loops import CountedLoop, LoopRefused, RepeatedLoop
from onnxport.capture.rewriting.open_numbers import OpenItems, as_tensor, items_of, open_function
from onnxport.errors import Problem

_LEAVES = (
    "Let every iteration run to its end: choose with torch.where what it leaves, or write torch.while_loop with the "
    "condition to go on."
)


class Helpers:
    """Called by the code of rewritten functions only; ``syntax.py`` shows how."""

    open = staticmethod(open_function)
    items = staticmethod(items_of)
    truth = staticmethod(plain_truth)
    counted = CountedLoop

    @staticmethod
    def is_open(items: Any) -> bool:
        """Whether only run time knows how many items there are."""
        return isinstance(items, OpenItems)

    @staticmethod
    def refuse_open(items: Any, text: str) -> None:
        """Refuse a loop that may end early where only run time knows how many items there are."""
        if isinstance(items, OpenItems):
            what = f"How often `{text}` runs only run time knows, and it may be left before its end."
            raise LoopRefused("A loop can't be captured:", [Problem(what, line_of_caller(), _LEAVES)])

    @staticmethod
    def collected(iterable: Any, function: Callable[[Any], Any]) -> Any:
        """What a function gives for each item, as a list."""
        items = items_of(iterable)
        if not isinstance(items, OpenItems):
            return [function(item) for item in items]

        def body(item: Any, found: list[Any]) -> tuple[list[Any]]:
            found.append(function(item))
            return (found,)

        text = "for ... in a comprehension"
        loop = CountedLoop(items, body, ("found",), ("found",), (), text, {"found": []})
        if loop.unlike is not None:
            raise loop.refused(loop.unlike)
        (found,) = loop.run()
        return found

    @staticmethod
    def generated(iterable: Any, function: Callable[[Any], Any]) -> Any:
        """What a function gives for each item, one after another where their number is plain."""
        items = items_of(iterable)
        if isinstance(items, OpenItems):
            return Helpers.collected(items, function)
        return (function(item) for item in items)

    @staticmethod
    def repeated(test: Callable[..., Any], *described: Any) -> RepeatedLoop | None:
        """A ``while`` on data, or None for one on what Python knows."""
        *_, names, _, _, _, around = described
        from onnxport.capture.rewriting.variables import UNDEFINED

        asked = test(*(around.get(name, UNDEFINED) for name in names))
        open_truth = isinstance(asked, torch.Tensor) or (
            isinstance(asked, torch.SymBool | torch.SymInt | torch.SymFloat) and is_of_data(asked.node.expr)
        )
        return RepeatedLoop(test, *described) if open_truth else None

    @staticmethod
    def all_of(*parts: Callable[[], Any]) -> Any:
        """``and`` of truths, some of which only run time knows."""
        return _together(parts, torch.logical_and, True)

    @staticmethod
    def any_of(*parts: Callable[[], Any]) -> Any:
        """``or`` of truths, some of which only run time knows."""
        return _together(parts, torch.logical_or, False)

    @staticmethod
    def negated(part: Any) -> Any:
        """``not`` of a truth that only run time may know."""
        return torch.logical_not(as_tensor(part)) if _is_open_truth(part) else not part


def _is_open_truth(value: Any) -> bool:
    return isinstance(value, torch.Tensor | torch.SymBool | torch.SymInt | torch.SymFloat)


def _together(parts: tuple[Callable[[], Any], ...], join: Callable[..., torch.Tensor], neutral: bool) -> Any:
    found: Any = neutral
    for part in parts:
        value = part()
        if not _is_open_truth(value):
            if bool(value) is not neutral:
                return value
            continue
        found = value if found is neutral else join(as_tensor(found), as_tensor(value))
    return found
