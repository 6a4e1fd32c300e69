"""Checks that operators make of sizes in a ``try`` of the model's: where one fails, the code of ``except`` runs.

``try: y = x.view(2, -1)`` asks no truth, and still decides by a size. So a check of an operator there is a decision,
which is noted when the operator is done or has raised: while it runs nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxport.capture.diagnosis.caught_errors import OF_DIVISIONS, catching_frame
from onnxport.capture.diagnosis.guards import Followed
from onnxport.capture.diagnosis.user_lines import (
    Asker,
    asker,
    asker_of,
    is_asked_by_broadcast,
    line_of_caller,
)
from onnxport.torch_internals.symbolic_sizes import free_unbacked_symbols, get_proxy_mode, recorded_size, truth_in_range
from onnxport.torch_internals.sympy_functions import PythonReferenceAnalysis, sympy_interp

_CAUGHT = "elsewhere the shapes don't fit, and what is raised then is caught"


class CaughtChecks:
    """``decide`` notes a decision, of which condition and whose; ``follow`` notes what the example decides."""

    def __init__(self, decide: Callable[[torch.SymBool, Asker], bool], follow: Callable[[Followed], None]) -> None:
        self._decide, self._follow = decide, follow
        self._asked: list[torch.SymBool] | None = None
        #: Whether the operation that is running stands in a ``try``; None as long as that was not looked for.
        self._is_caught: bool | None = None

    def noted_after(self, function: Callable[..., object]) -> Callable[..., object]:
        """An operation of the model's code that has what it checks in a ``try`` noted behind it."""

        def run(*args: object, **kwargs: object) -> object:
            before, self._asked = self._asked, []
            self._is_caught = None
            try:
                return function(*args, **kwargs)
            finally:
                asked, self._asked, self._is_caught = self._asked, before, None
                for condition in asked:
                    self._decide(_recorded(condition), _asker())

        return run

    def _catches(self) -> bool:
        if self._is_caught is None:
            self._is_caught = catching_frame() is not None
        return self._is_caught

    def replacements(self) -> Iterator[tuple[object, str, object]]:
        """What operators check sizes with: owner, name, function."""
        from torch.fx.experimental.sym_node import SymNode

        expect_true = SymNode.expect_true

        def expecting(node: Any, file: str, line: int) -> bool:
            if self._asked is None or node.expr.is_number or not self._catches():
                return expect_true(node, file, line)
            if free_unbacked_symbols(node.expr) or truth_in_range(node) is not None:
                return expect_true(node, file, line)
            if is_asked_by_broadcast():
                # A size of 1 fits as well, which is no part of what is checked.
                self._follow(Followed(node.expr, True, _asker(), line_of_caller(), _CAUGHT))
                return expect_true(node, file, line)
            self._asked.append(torch.SymBool(node))
            return bool(node.hint)

        yield SymNode, "expect_true", expecting


def division_checked(divide: Callable[..., object], *, reflected: bool = False) -> Callable[..., object]:
    """A division of sizes that asks, in a ``try`` that catches what is raised then, whether it is one by 0."""

    def divided(one: torch.SymInt, other: object) -> object:
        divisor = one if reflected else other
        asked = isinstance(divisor, torch.SymInt) and get_proxy_mode() is not None and asker() != "torch"
        # The comparison is a decision like those that the code asks for itself.
        if asked and catching_frame(OF_DIVISIONS) is not None and divisor == 0:
            raise ZeroDivisionError("division by zero")
        return divide(one, other)

    return divided


def _asker() -> Asker:
    frame = catching_frame()
    return "user" if frame is None else asker_of(frame)


def _recorded(condition: torch.SymBool) -> torch.SymBool:
    """A condition that was made while nothing was recorded, of the sizes that the graph has.

    torch would have the smallest of sizes in the graph as a function of its own, which no program may call.
    """
    expression = condition.node.expr
    sizes = {symbol: recorded_size(symbol) for symbol in expression.free_symbols}
    if None in sizes.values():
        return condition
    made = sympy_interp(PythonReferenceAnalysis, sizes, expression)
    return made if isinstance(made, torch.SymBool) else condition
