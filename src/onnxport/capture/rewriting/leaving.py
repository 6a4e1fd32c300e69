"""Loops without ``break``, ``continue`` and ``return``: a flag says what was done, and what follows asks it.

::

    for row in x:                     for row in x:
        if row.sum() > 9:                 flag = 0
            return row                    if row.sum() > 9:
        total = total + row                   result, flag = row, 3
                                          else:
                                              total = total + row
                                      if flag == 3:
                                          return result

The flag is 0 while an iteration goes on, 1 after ``continue``, 2 after ``break`` and 3 after ``return``. A loop with a
flag of 2 or more is not repeated (``open_loops.py``). In a ``while`` it is 4 after ``raise``, and after an ``assert``
that fails: where eager mode raises the loop ends, whatever it leaves there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Loop = ast.For | ast.While
_Kinds = tuple[type[ast.stmt], ...]
_CONTINUED, BROKEN, _RETURNED, _RAISED = 1, 2, 3, 4
# What makes a loop's body no function of its variables, whatever is done with flags.
_NO_FUNCTION = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.NamedExpr)
# What leaves a branch, may not be run on a way that is not taken, or is no value of a variable.
_NO_BLOCK = (
    *(ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Assert, ast.Try, ast.Delete, ast.Import, ast.ImportFrom),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
)
_LEAVING: _Kinds = (ast.Break, ast.Continue, ast.Return)
_LEAVING_WHILE = (*_LEAVING, ast.Raise)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Unflagged:
    """A loop that nothing leaves, and what follows it. ``flag`` is the name of the flag, empty where none is needed.

    ``raised`` is what follows where a loop around it is to end too because this one raised.
    """

    loop: Loop
    after: Sequence[ast.stmt]
    flag: str
    raised: Sequence[ast.stmt] = ()


class CannotBeFlagged(Exception):
    """Something leaves a loop in a way that no flag says, or makes its body no function; the text says what."""


def is_no_function(parts: Sequence[ast.AST]) -> bool:
    """Whether code can't be the body of a function of its variables."""
    return any(isinstance(inner, _NO_FUNCTION) for part in parts for inner in ast.walk(part))


def is_block(branch: ast.If) -> bool:
    """Whether nothing leaves the ways of a branch, and they are functions of their variables."""
    inner = [node for part in (*branch.body, *branch.orelse) for node in ast.walk(part)]
    frames = ("super", "locals", "globals", "vars", "eval", "exec")
    return not is_no_function(inner) and not any(
        isinstance(node, _NO_BLOCK) or (isinstance(node, ast.Name) and node.id in frames) for node in inner
    )


def with_flag(loop: Loop, fresh: Callable[[str], str], ends: bool = False) -> Unflagged:
    """A loop whose body runs to its end in every iteration; ``fresh`` makes names.

    ``ends`` says that it stands in a ``while``, which raising ends.
    """
    ends = ends or isinstance(loop, ast.While)
    parts = [*loop.body, *([loop.test] if isinstance(loop, ast.While) else [])]
    if is_no_function(parts):
        raise CannotBeFlagged("it yields, or assigns by `:=`, `global` or `nonlocal`")
    if any(isinstance(inner, ast.ExceptHandler) for part in parts for inner in ast.walk(part)):
        # What is raised while a body is captured, a handler in it would take for the model's own.
        raise CannotBeFlagged("it has an `except`")
    leaving = _LEAVING_WHILE if ends else _LEAVING
    body = [_Raising().visit(part) for part in loop.body] if ends else loop.body
    body = _Flagging(fresh, "", "", leaving).inner(body)
    if not _leaves(body, leaving) and not loop.orelse:
        loop.body = body
        return Unflagged(loop, [], "")
    flag, result = fresh("flag"), fresh("result")
    inside = [inner for part in body for inner in _statements(part)]
    returns = any(isinstance(inner, ast.Return) for inner in inside)
    raising = next((inner for inner in inside if isinstance(inner, ast.Raise)), None)
    loop.body = [_assigned(flag, ast.Constant(0)), *_Flagging(fresh, flag, result, leaving).statements(body)]
    after: list[ast.stmt] = []
    raised: list[ast.stmt] = []
    if ends and raising is not None:
        raised.append(ast.If(_compared(flag, ast.Eq(), _RAISED), [raising], []))
    if returns:
        returned = _compared(flag, ast.Eq(), _RETURNED)
        after.append(ast.If(returned, [ast.Return(ast.Name(result, ast.Load()))], []))
    if loop.orelse:
        after.append(ast.If(_compared(flag, ast.Lt(), BROKEN), loop.orelse, []))
        loop.orelse = []
    return Unflagged(loop, after, flag, raised)


def with_one_end(body: Sequence[ast.stmt], fresh: Callable[[str], str]) -> list[ast.stmt]:
    """The body of a function that returns at its end only, for one that the body of a loop calls."""
    if is_no_function(body) or any(isinstance(inner, ast.ExceptHandler) for part in body for inner in ast.walk(part)):
        raise CannotBeFlagged("it yields, has an `except`, or assigns by `:=`, `global` or `nonlocal`")
    made = _Flagging(fresh, "", "", _LEAVING).inner(body)
    if not _leaves(made[:-1], (ast.Return,)) and not isinstance(made[-1], ast.If | ast.With):
        return made
    if not _surely_leaves(made, (ast.Return,)):
        made.append(ast.copy_location(ast.Return(ast.Constant(None)), made[-1]))
    flag, result = fresh("flag"), fresh("result")
    made = _Flagging(fresh, flag, result, (ast.Return,)).statements(made)
    start, end = _assigned(flag, ast.Constant(0)), ast.Return(ast.Name(result, ast.Load()))
    return [ast.copy_location(start, body[0]), *made, ast.copy_location(end, body[-1])]


def is_flagged(loop: Loop) -> str:
    """The name of the flag of a loop inside another, empty where it has none."""
    return str(getattr(loop, "flag", ""))


class _Flagging:
    """Takes what leaves a loop out of its body."""

    def __init__(self, fresh: Callable[[str], str], flag: str, result: str, leaving: _Kinds) -> None:
        self._fresh, self._flag, self._result, self._leaving = fresh, flag, result, leaving

    def inner(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """A body whose inner loops nothing leaves; what returned from one is a statement after it."""
        made: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, Loop):
                found = with_flag(statement, self._fresh, self._leaving is _LEAVING_WHILE)
                found.loop.flag = found.flag  # type: ignore[union-attr]
                if found.flag:
                    made.append(ast.copy_location(_assigned(found.flag, ast.Constant(0)), statement))
                after = self.inner([*found.raised, *found.after])
                made += [found.loop, *(ast.copy_location(one, statement) for one in after)]
                continue
            for field in ("body", "orelse", "finalbody"):
                if not isinstance(statement, _SCOPES) and getattr(statement, field, None):
                    setattr(statement, field, self.inner(getattr(statement, field)))
            made.append(statement)
        return made

    def statements(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements that set the flag where they left the loop, and skip what follows."""
        made: list[ast.stmt] = []
        for place, statement in enumerate(body):
            if not _leaves([statement], self._leaving):
                made.append(statement)
                continue
            if not isinstance(statement, ast.If):
                return made + self._leave(statement)
            rest = list(body[place + 1 :])
            first, second = statement.body, statement.orelse
            if _surely_leaves(first, self._leaving) or not rest:
                statement.body, statement.orelse = self.statements(first), self.statements([*second, *rest])
                return [*made, statement]
            if _surely_leaves(second, self._leaving):
                statement.body, statement.orelse = self.statements([*first, *rest]), self.statements(second)
                return [*made, statement]
            statement.body, statement.orelse = self.statements(first), self.statements(second)
            going = ast.copy_location(ast.If(_compared(self._flag, ast.Eq(), 0), self.statements(rest), []), rest[0])
            return [*made, statement, going]
        return made if made else [ast.Pass()]

    def _leave(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.Return):
            value = ast.Constant(None) if statement.value is None else statement.value
            made = [_assigned(self._result, value), _assigned(self._flag, ast.Constant(_RETURNED))]
        elif isinstance(statement, ast.Break | ast.Continue):
            number = BROKEN if isinstance(statement, ast.Break) else _CONTINUED
            made = [_assigned(self._flag, ast.Constant(number))]
        elif isinstance(statement, ast.Raise):
            made = [_assigned(self._flag, ast.Constant(_RAISED))]
        else:
            raise CannotBeFlagged("it may be left before its end")
        return [ast.copy_location(one, statement) for one in made]


class _Raising(ast.NodeTransformer):
    """Makes ``if not test: raise AssertionError`` of ``assert test``."""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        fails = ast.UnaryOp(ast.Not(), node.test)
        raised = ast.Raise(ast.Name("AssertionError", ast.Load()), None)
        return ast.fix_missing_locations(ast.copy_location(ast.If(fails, [raised], []), node))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node


def _leaves(body: Sequence[ast.stmt], leaving: _Kinds) -> bool:
    """Whether something in a body leaves the loop that it is the body of."""
    return any(isinstance(inner, leaving) for part in body for inner in _statements(part))


def _statements(statement: ast.AST) -> list[ast.AST]:
    """What stands in a statement and is about the same loop; inner loops have nothing that leaves them any more."""
    found: list[ast.AST] = [statement]
    if not isinstance(statement, _SCOPES):
        for inner in ast.iter_child_nodes(statement):
            found += _statements(inner)
    return found


def _surely_leaves(body: Sequence[ast.stmt], leaving: _Kinds) -> bool:
    """Whether every way through a body ends with leaving the loop."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return _surely_leaves(last.body, leaving) and _surely_leaves(last.orelse, leaving)
    return isinstance(last, leaving)


def _assigned(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _compared(name: str, operator: ast.cmpop, number: int) -> ast.Compare:
    return ast.Compare(ast.Name(name, ast.Load()), [operator], [ast.Constant(number)])
