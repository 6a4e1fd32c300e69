"""Reading what a condition on sizes is asked for: ``if n % 2 == 0: pad = 1`` and ``else: pad = 2`` choose a number.

``if n % 4 or m % 4`` asks for two truths in the place of one, and ``padded = n % 4 > 0 or m % 4 > 0`` before there is a
branch. Both stay one condition, so that there are two ways and not three.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, TypeAlias

import torch

from onnxport.capture.forks.expressions import is_known, is_within, place_of, span_of
from onnxport.source_files import nodes_of_file

_NUMBERS = (int, float, torch.SymInt, torch.SymFloat)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
#: Functions that make numbers of numbers.
_FUNCTIONS = {"max", "min", "int", "float", "abs", "round", "len", "ceil", "floor"}

Choice: TypeAlias = "ast.If | ast.IfExp"


def is_choice(node: Choice) -> bool:
    """Whether both sides of a condition do no more than to compute something, with no more than arithmetic."""
    if not _is_condition(node.test):
        return False
    if isinstance(node, ast.IfExp):
        return _is_pure(node.body) and _is_pure(node.orelse)
    return any(not isinstance(part, ast.Pass) for part in node.body) and all(
        map(_is_binding, [*node.body, *node.orelse])
    )


def _is_binding(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return is_choice(statement)
    if isinstance(statement, ast.Assign):
        return len(statement.targets) == 1 and _is_target(statement.targets[0]) and _is_pure(statement.value)
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.target, ast.Name) and _is_pure(statement.value)
    return isinstance(statement, ast.Pass)


def _is_target(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return all(map(_is_target, target.elts))
    return isinstance(target, ast.Name)


def _is_condition(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return all(map(_is_condition, test.values))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_condition(test.operand)
    return _is_pure(test)


def _is_pure(node: ast.expr) -> bool:
    """Whether computing it runs no code of the model's and changes nothing."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _ARITHMETIC) and _is_pure(node.left) and _is_pure(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_pure(node.operand)
    if isinstance(node, ast.Call):
        return _is_function(node.func) and not node.keywords and all(map(_is_pure, node.args))
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and _is_pure(node.left) and _is_pure(node.comparators[0])
    if isinstance(node, ast.IfExp):
        return is_choice(node)
    if isinstance(node, ast.Tuple | ast.List):
        return all(map(_is_pure, node.elts))
    if isinstance(node, ast.Subscript):
        return _is_pure(node.value) and _is_pure(node.slice)
    if isinstance(node, ast.Attribute):
        return _is_pure(node.value)
    return isinstance(node, ast.Name | ast.Constant)


def asks_joined(node: Choice) -> bool:
    """Whether a branch asks for ``and`` or ``or`` of what runs no code of the model's.

    One that raises is none: there each part is a limit of its own.
    """
    raises = isinstance(node, ast.If) and any(isinstance(part, ast.Raise) for part in (*node.body, *node.orelse))
    return not raises and _is_joined_test(node.test)


def _is_joined_test(test: ast.expr) -> bool:
    operand = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
    return isinstance(operand, ast.BoolOp) and _is_condition(operand)


def is_joined_truth(value: ast.expr) -> bool:
    """Whether a value is ``and`` or ``or`` of truths, and so a truth itself."""
    return _is_joined_test(value) and all(map(_is_truth, _truths_in(value)))


def _truths_in(value: ast.expr) -> Sequence[ast.expr]:
    if isinstance(value, ast.BoolOp):
        return [inner for part in value.values for inner in _truths_in(part)]
    return [value]


def _is_truth(value: ast.expr) -> bool:
    return isinstance(value, ast.Compare) or (isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not))


def is_joined(frame: FrameType) -> bool:
    """Whether what a frame asks right now is part of a condition that may be one, asked by a branch or kept.

    Where all other parts are plain, as in ``self.merges and n > 64``, it is one as it stands.
    """
    place = place_of(frame)
    around = [] if place is None else [one for one in _joined(frame.f_code.co_filename) if is_within(place, one)]
    return any(sum(not is_known(part, frame) for part in _parts(one)) > 1 for one in around)


def _parts(test: ast.expr) -> Sequence[ast.expr]:
    """What ``and``, ``or`` and ``not`` make a condition of."""
    return _truths_in(test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test)


@functools.lru_cache(maxsize=64)
def _joined(filename: str) -> Sequence[ast.expr]:
    nodes = list(nodes_of_file(filename))
    tests = [node.test for node in nodes if isinstance(node, ast.If | ast.IfExp) and asks_joined(node)]
    values = [node.value for node in nodes if isinstance(node, ast.Assign) and is_joined_truth(node.value)]
    return [*tests, *values]


def _is_function(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.value.id == "math" and function.attr in _FUNCTIONS
    return isinstance(function, ast.Name) and function.id in _FUNCTIONS


def is_choice_of_numbers(frame: FrameType) -> bool:
    """Whether what a frame asks right now chooses between numbers, or is asked by ``max`` or ``min``."""
    place = place_of(frame)
    if place is None:
        return False
    choices, extremes = _choices(frame.f_code.co_filename)
    if any(place == span_of(call) for call in extremes):
        return True
    # A jump has the place of what is asked or, where that is a name, of the whole statement.
    found = [one for one in choices if is_within(place, one.test) or place == span_of(one)]
    values = {**frame.f_globals, **frame.f_locals}
    return any(_Values(values).are_numbers(choice) for choice in found)


@functools.lru_cache(maxsize=64)
def _choices(filename: str) -> tuple[Sequence[Choice], Sequence[ast.Call]]:
    nodes = list(nodes_of_file(filename))
    choices = [node for node in nodes if isinstance(node, ast.If | ast.IfExp) and is_choice(node)]
    calls = (node for node in nodes if isinstance(node, ast.Call) and len(node.args) > 1 and not node.keywords)
    return choices, [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("max", "min")]


class _Values:
    """Whether expressions are numbers, with the values that names have."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self._bound: set[str] = set()

    def are_numbers(self, choice: Choice) -> bool:
        """Whether both sides of a choice bind numbers only."""
        if isinstance(choice, ast.IfExp):
            return self._is_number(choice.body) and self._is_number(choice.orelse)
        return all(map(self._binds_numbers, [*choice.body, *choice.orelse]))

    def _binds_numbers(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.If):
            return self.are_numbers(statement)
        if isinstance(statement, ast.Assign | ast.AugAssign):
            names = [part.id for part in ast.walk(statement) if isinstance(part, ast.Name)]
            changed = statement.target if isinstance(statement, ast.AugAssign) else statement.value
            found = self._is_number(statement.value) and self._is_number(changed)
            self._bound.update(names if found else ())
            return found
        return True

    def _is_number(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return True
        if isinstance(node, ast.IfExp):
            return self.are_numbers(node)
        if isinstance(node, ast.Tuple | ast.List):
            return all(map(self._is_number, node.elts))
        if isinstance(node, ast.BinOp):
            return self._is_number(node.left) and self._is_number(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._is_number(node.operand)
        if isinstance(node, ast.Compare) or (isinstance(node, ast.Name) and node.id in self._bound):
            return True
        try:
            value = eval(compile(ast.fix_missing_locations(ast.Expression(node)), "<part>", "eval"), self._values)
        except Exception:  # noqa: BLE001 - it raises in the model too, once it is asked there
            return False
        return all(isinstance(one, _NUMBERS) for one in (value if isinstance(value, tuple | list) else [value]))
