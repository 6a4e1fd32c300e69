"""Reading the expression that asks for a truth: in ``n > 1 and mask is None`` it does not matter if there is a mask."""

from __future__ import annotations

import ast
import copy
import functools
import itertools
from collections.abc import Iterable, Mapping
from types import CodeType, FrameType
from typing import TypeGuard

from onnxport.capture.diagnosis.user_lines import STRATEGIES
from onnxport.source_files import nodes_of_file

_Place = tuple[int, int, int, int]
_UNKNOWN = object()
#: Looking at these runs no code of the model's and changes nothing.
_PLAIN = (ast.Name, ast.Constant, ast.Compare, ast.Is, ast.IsNot, ast.UnaryOp, ast.Not, ast.Load)


def is_outvoted(frame: FrameType) -> bool:
    """Whether what a frame asks right now is part of an ``and`` or ``or`` that comes out the same either way.

    The other parts that follow must be plain: names, attributes, constants, ``is None`` and ``not``.
    """
    place = place_of(frame)
    for expression in () if place is None else _boolean_expressions(frame.f_code.co_filename):
        # A jump has the place of the part that is asked or, where the value is kept, of the whole; a part that comes
        # before the one that is asked did not settle it.
        if place == span_of(expression) or place in map(span_of, expression.values):
            settles = isinstance(expression.op, ast.Or)
            values = [_plain_value(part, frame) for part in expression.values]
            if span_of(expression) not in _tests(frame.f_code.co_filename):
                # `n > 4 or 3` is true either way, and another value.
                values = [value for value in values if isinstance(value, bool)]
            return any(value is not _UNKNOWN and bool(value) is settles for value in values)
    return False


def frame_of_source(frame: FrameType, *, outermost: bool = True) -> FrameType:
    """The frame of the function whose source has what a frame runs: a comprehension is part of the one around it.

    So is a function that the one around it made in this call; one that was made before, as a hook is, has its own.
    Where that is not to be the ``outermost``, a function that has a name is looked at alone.
    """
    while True:
        code = frame.f_code
        if not outermost and not code.co_name.startswith("<"):
            return frame
        around = frame.f_back
        while _is_in_call(around) and not _defines(around.f_code, code):
            around = around.f_back
        if _is_in_call(around):
            frame = around
        elif not code.co_name.startswith("<") or code.co_name == "<lambda>" or frame.f_back is None:
            return frame
        else:
            frame = frame.f_back


def _is_in_call(frame: FrameType | None) -> TypeGuard[FrameType]:
    """Whether a frame belongs to the model's run: what called the export may have made the model's functions too."""
    if frame is None or frame.f_code.co_name == "<module>":
        return False
    return frame.f_code.co_filename != STRATEGIES


def _defines(code: CodeType, inner: CodeType) -> bool:
    """Whether running a code makes functions of another, itself or in a class."""
    parts = [part for part in code.co_consts if isinstance(part, CodeType)]
    return inner in parts or any(_defines(part, inner) for part in parts)


def place_of(frame: FrameType) -> _Place | None:
    """Where in its file the instruction stands that a frame runs right now: first and last line and column."""
    positions = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    if positions is None:
        return None
    line, last_line, column, last_column = positions
    if line is None or last_line is None or column is None or last_column is None:
        return None
    return line, last_line, column, last_column


def is_condition_of_while(frame: FrameType) -> bool:
    """Whether what a frame asks right now is the condition of a ``while``, or part of it."""
    place = place_of(frame)
    if place is None:
        return False
    # A jump has the place of the part that is asked or, at the end of an iteration, of the whole loop.
    loops = _loops(frame.f_code.co_filename)
    return any(place == span_of(loop) or is_within(place, loop.test) for loop in loops)


def is_in_counted_loop(frame: FrameType) -> bool:
    """Whether what a frame asks right now stands in the body of a ``while`` or of a ``for`` over a range."""
    place = place_of(frame)
    return place is not None and any(is_within(place, loop) for loop in _counted_loops(frame.f_code.co_filename))


def is_start_of_for(frame: FrameType) -> bool:
    """Whether a frame goes through something right now in a ``for`` or a list of one, as opposed to unpacking it."""
    place = place_of(frame)
    filename = frame.f_code.co_filename
    loops = [(loop, loop.iter) for loop in _iterations(filename)]
    lists = [(made, made.generators[0].iter) for made in _comprehensions(filename)]
    return place is not None and any(place in map(span_of, parts) for parts in (*loops, *lists))


def is_for_message(frame: FrameType) -> bool:
    """Whether what a frame does right now is part of a ``raise``, an ``assert`` or a call whose result is dropped."""
    place = place_of(frame)
    return place is not None and any(is_within(place, part) for part in _messages(frame.f_code.co_filename))


def is_assertion(frame: FrameType) -> bool:
    """Whether what a frame asks right now is the condition of an ``assert``, or part of it."""
    place = place_of(frame)
    return place is not None and any(is_within(place, one.test) for one in _assertions(frame.f_code.co_filename))


def is_for_memory(frame: FrameType) -> bool:
    """Whether what a frame asks right now decides only if tensors are copied: ``x = x.contiguous()``."""
    place = place_of(frame)
    if place is None:
        return False
    return any(is_within(place, statement.test) for statement in _copying(frame.f_code.co_filename))


def is_within(place: _Place, node: ast.expr | ast.stmt) -> bool:
    """Whether a place is in an expression or statement."""
    span = span_of(node)
    if span is None:
        return False
    line, last_line, column, last_column = place
    return (span[0], span[2]) <= (line, column) and (last_line, last_column) <= (span[1], span[3])


@functools.lru_cache(maxsize=64)
def _assertions(filename: str) -> tuple[ast.Assert, ...]:
    """The ``assert`` statements of a file."""
    return tuple(node for node in nodes_of_file(filename) if isinstance(node, ast.Assert))


@functools.lru_cache(maxsize=64)
def _boolean_expressions(filename: str) -> tuple[ast.BoolOp, ...]:
    """The ``and`` and ``or`` of a file."""
    return tuple(node for node in nodes_of_file(filename) if isinstance(node, ast.BoolOp))


@functools.lru_cache(maxsize=64)
def _tests(filename: str) -> frozenset[_Place | None]:
    """Where the ``and`` and ``or`` of a file stand of which nothing but the truth counts."""
    found: list[ast.BoolOp] = []
    for node in nodes_of_file(filename):
        asked = [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert) else []
        asked += node.ifs if isinstance(node, ast.comprehension) else []
        asked += [node.operand] if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else []
        while asked:
            part = asked.pop()
            if isinstance(part, ast.BoolOp):
                found.append(part)
                asked += part.values
    return frozenset(map(span_of, found))


@functools.lru_cache(maxsize=64)
def _loops(filename: str) -> tuple[ast.While, ...]:
    """The ``while`` loops of a file."""
    return tuple(node for node in nodes_of_file(filename) if isinstance(node, ast.While))


@functools.lru_cache(maxsize=64)
def _iterations(filename: str) -> tuple[ast.For, ...]:
    """The ``for`` loops of a file."""
    return tuple(node for node in nodes_of_file(filename) if isinstance(node, ast.For))


@functools.lru_cache(maxsize=64)
def _comprehensions(filename: str) -> tuple[ast.ListComp | ast.GeneratorExp, ...]:
    return tuple(node for node in nodes_of_file(filename) if isinstance(node, ast.ListComp | ast.GeneratorExp))


def _counted_loops(filename: str) -> Iterable[ast.stmt]:
    """The loops of a file whose iterations have numbers."""
    return (*_loops(filename), *filter(_is_over_range, _iterations(filename)))


def _is_over_range(loop: ast.For) -> bool:
    called = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    return isinstance(called, ast.Name) and called.id == "range"


@functools.lru_cache(maxsize=64)
def _messages(filename: str) -> tuple[ast.stmt, ...]:
    """The statements of a file that only tell something."""
    return tuple(node for node in nodes_of_file(filename) if isinstance(node, ast.Raise | ast.Assert | ast.Expr))


@functools.lru_cache(maxsize=64)
def _copying(filename: str) -> tuple[ast.If, ...]:
    """The ``if`` statements of a file that do no more than to copy tensors."""
    return tuple(
        node
        for node in nodes_of_file(filename)
        if isinstance(node, ast.If) and not node.orelse and all(map(_is_copy, node.body))
    )


def _is_copy(statement: ast.stmt) -> bool:
    made = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr == "contiguous"


def span_of(node: ast.expr | ast.stmt) -> _Place | None:
    """Where in its file an expression or statement stands."""
    if node.end_lineno is None or node.end_col_offset is None:
        return None
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def is_known(part: ast.expr, frame: FrameType) -> bool:
    """Whether part of a condition is plain and about plain values, so that neither sizes nor data tell it."""
    return _plain_value(part, frame) is not _UNKNOWN


def _plain_value(part: ast.expr, frame: FrameType) -> object:
    """The value of a part that is plain and about plain values, else ``_UNKNOWN``."""
    known = {**frame.f_globals, **frame.f_locals}
    if any(isinstance(node, ast.Attribute) for node in ast.walk(part)):
        part = _Attributes(known).visit(copy.deepcopy(part))
    if not all(isinstance(node, _PLAIN) for node in ast.walk(part)):
        return _UNKNOWN
    compared = isinstance(part, ast.Compare | ast.UnaryOp)
    for node in ast.walk(part):
        if isinstance(node, ast.Name) and (node.id not in known or not (compared or _is_plain(known[node.id]))):
            return _UNKNOWN
    value = eval(compile(ast.Expression(part), "<part>", "eval"), known)
    return value if _is_plain(value) else _UNKNOWN


class _Attributes(ast.NodeTransformer):
    """Puts plain values in the place of attributes that objects hold themselves: reading those runs no code."""

    def __init__(self, known: Mapping[str, object]) -> None:
        self.known = known

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        value = self._held(node)
        return ast.copy_location(ast.Constant(value), node) if _is_plain(value) else node

    def _held(self, node: ast.expr) -> object:
        if isinstance(node, ast.Name):
            return self.known.get(node.id, _UNKNOWN)
        owner = self._held(node.value) if isinstance(node, ast.Attribute) else _UNKNOWN
        if not isinstance(node, ast.Attribute) or hasattr(getattr(type(owner), node.attr, None), "__get__"):
            return _UNKNOWN
        return getattr(owner, "__dict__", {}).get(node.attr, _UNKNOWN)


def _is_plain(value: object) -> TypeGuard[bool | int | float | str | None]:
    return value is None or type(value) in (bool, int, float, str)
