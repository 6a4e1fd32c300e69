"""Reading the expression that asks for a truth: in ``n > 1 and mask is None`` it does not matter if there is a mask."""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
from types import FrameType

_Place = tuple[int, int, int, int]
#: Looking at these runs no code of the model's and changes nothing.
_PLAIN = (ast.Name, ast.Constant, ast.Compare, ast.Is, ast.IsNot, ast.UnaryOp, ast.Not, ast.Load)


def is_outvoted(frame: FrameType) -> bool:
    """Whether what a frame asks right now is part of an ``and`` or ``or`` that comes out the same either way.

    The other parts that follow must be plain: names, constants, ``is None`` and ``not``.
    """
    place = _place(frame)
    for expression in () if place is None else _boolean_expressions(frame.f_code.co_filename):
        # A jump has the place of the part that is asked or, where the value is kept, of the whole; a part that comes
        # before the one that is asked did not settle it.
        if place == _span(expression) or place in map(_span, expression.values):
            settles = isinstance(expression.op, ast.Or)
            return any(_plain_truth(part, frame) is settles for part in expression.values)
    return False


def _place(frame: FrameType) -> _Place | None:
    positions = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    if positions is None:
        return None
    line, last_line, column, last_column = positions
    if line is None or last_line is None or column is None or last_column is None:
        return None
    return line, last_line, column, last_column


@functools.lru_cache(maxsize=64)
def _boolean_expressions(filename: str) -> tuple[ast.BoolOp, ...]:
    """The ``and`` and ``or`` of a file; none where what is on disk by now is no Python."""
    source = "".join(linecache.getlines(filename))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.BoolOp))


def _span(node: ast.expr) -> _Place | None:
    if node.end_lineno is None or node.end_col_offset is None:
        return None
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _plain_truth(part: ast.expr, frame: FrameType) -> bool | None:
    """The truth of a part that is plain and about plain values, else None."""
    if not all(isinstance(node, _PLAIN) for node in ast.walk(part)):
        return None
    known = {**frame.f_globals, **frame.f_locals}
    compared = isinstance(part, ast.Compare | ast.UnaryOp)
    for node in ast.walk(part):
        if isinstance(node, ast.Name) and (node.id not in known or not (compared or _is_plain(known[node.id]))):
            return None
    value = eval(compile(ast.Expression(part), "<part>", "eval"), known)
    return bool(value) if _is_plain(value) else None


def _is_plain(value: object) -> bool:
    return value is None or type(value) in (bool, int, float, str)
