"""Syntax that says the same in plainer words, before a function is rewritten: ``match`` as ``if``, sets as calls.

::

    match ops[t]:                   subject = ops[t]
        case 0: x = x + 1           if subject == 0: x = x + 1
        case 1 | 2 if t > 3: ...    elif (subject == 1 or subject == 2) and t > 3: ...
        case n: x = x * n           else: n = subject; x = x * n
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from onnxport.capture.rewriting.syntax_parts import OWN, helper, placed


class _Unplain(Exception):
    """A pattern that is no comparison."""


def in_plainer_words(definition: ast.FunctionDef) -> ast.FunctionDef:
    """A function without ``match`` where its patterns only compare, and with sets as calls of a helper."""
    made: ast.FunctionDef = _Plainer().visit(copy.deepcopy(definition))
    return made


class _Plainer(ast.NodeTransformer):
    def __init__(self) -> None:
        self._count = 0

    def visit_Match(self, node: ast.Match) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        subject = f"{OWN}subject_{self._count}"
        try:
            made = _as_branches(node.cases, subject)
        except _Unplain:
            return node
        self._count += 1
        begin = ast.Assign([ast.Name(subject, ast.Store())], node.subject)
        return [placed(node.subject, line) for line in (begin, *made)]

    def visit_Set(self, node: ast.Set) -> ast.expr:
        self.generic_visit(node)
        if all(isinstance(item, ast.Constant) for item in node.elts):
            return node
        return placed(node, helper("distinct", ast.Tuple(node.elts, ast.Load())))

    def visit_SetComp(self, node: ast.SetComp) -> ast.expr:
        self.generic_visit(node)
        return placed(node, helper("distinct", placed(node, ast.GeneratorExp(node.elt, node.generators))))


def _as_branches(cases: Sequence[ast.match_case], subject: str) -> list[ast.stmt]:
    if not cases:
        return []
    case, *others = cases
    name = case.pattern.name if isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None else None
    tests = [*_tests(case.pattern, subject), *([case.guard] if case.guard is not None else [])]
    begin: list[ast.stmt] = []
    if name is not None:
        # It is bound before the guard asks, and stays so where that fails.
        begin.append(ast.Assign([ast.Name(name, ast.Store())], ast.Name(subject, ast.Load())))
    if not tests:
        return [*begin, *case.body]
    test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
    branch = ast.If(test, case.body, _as_branches(others, subject))
    return [*begin, ast.copy_location(branch, case.body[0])]


def _tests(pattern: ast.pattern, subject: str) -> list[ast.expr]:
    """What a subject is asked for a pattern: nothing where any fits."""
    value = ast.Name(subject, ast.Load())
    if isinstance(pattern, ast.MatchValue):
        return [ast.Compare(value, [ast.Eq()], [pattern.value])]
    if isinstance(pattern, ast.MatchSingleton):
        return [ast.Compare(value, [ast.Is()], [ast.Constant(pattern.value)])]
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
        return []
    if isinstance(pattern, ast.MatchOr):
        found = [_tests(part, subject) for part in pattern.patterns]
        if all(found):
            return [ast.BoolOp(ast.Or(), [test for (test,) in found])]
    raise _Unplain
