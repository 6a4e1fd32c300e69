"""Names in code: the variables that it reads, assigns to and may change, seen by its syntax alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_CHANGING = {"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "reverse", "sort"}
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FAILING = (ast.Subscript, ast.FloorDiv, ast.Mod)
_HARMLESS = {"len", "int", "float", "abs", "min", "max", "bool", "isinstance"}


def may_matter(part: ast.expr) -> bool:
    """Whether it may fail or change something where a part of a condition is computed that Python would not."""
    for inner in ast.walk(part):
        if isinstance(inner, _FAILING):
            return True
        if isinstance(inner, ast.Call):
            called = inner.func
            if isinstance(called, ast.Name) and called.id not in _HARMLESS:
                return True
            if isinstance(called, ast.Attribute) and (_changes(called.attr) or _root(called) == "self"):
                return True
    return False


def _changes(method: str) -> bool:
    """Whether a method changes a container or tensor."""
    return method in _CHANGING or (method.endswith("_") and not method.endswith("__"))


def _root(expression: ast.expr) -> str | None:
    """The variable that attributes, items and results are taken of."""
    while isinstance(expression, ast.Subscript | ast.Attribute | ast.Call):
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    return expression.id if isinstance(expression, ast.Name) else None


def names_changed(parts: Sequence[ast.AST]) -> Iterator[str]:
    """The names of containers and tensors that code may change by index or method."""
    for inner in (inner for part in parts for inner in ast.walk(part)):
        changed: ast.expr | None = None
        if isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store | ast.Del):
            changed = inner.value
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            changed = inner.func.value if _changes(inner.func.attr) else None
        name = None if changed is None else _root(changed)
        if name is not None:
            yield name


def names_read(node: ast.AST) -> Iterator[str]:
    """The names that code reads, as often as it does."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            yield inner.id
        elif isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
            yield inner.target.id


def names_assigned(node: ast.AST) -> Iterator[str]:
    """The variables that code assigns to in the function it stands in."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif not isinstance(node, _SCOPES):
        for inner in ast.iter_child_nodes(node):
            yield from names_assigned(inner)


def names_of(function: ast.FunctionDef | ast.Lambda) -> Iterator[str]:
    """The variables of a function inside another."""
    for inner in ast.walk(function.args):
        if isinstance(inner, ast.arg):
            yield inner.arg
    if isinstance(function, ast.FunctionDef):
        shared = {
            name for inner in ast.walk(function) if isinstance(inner, ast.Nonlocal | ast.Global) for name in inner.names
        }
        yield from (name for part in function.body for name in names_assigned(part) if name not in shared)
