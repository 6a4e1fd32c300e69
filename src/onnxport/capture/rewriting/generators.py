"""Generators that yield once for each item: functions that return the items.

::

    def pieces(x, k):                     def pieces(x, k):
        for i in range(0, len(x), k):         def made(item):
            yield x[i : i + k]                    i = item
                                                  return x[i : i + k]
                                              return HELPERS.yielded(range(0, len(x), k), made)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from onnxport.capture.rewriting.leaving import is_no_function
from onnxport.capture.rewriting.names import names_assigned, names_read
from onnxport.capture.rewriting.syntax_parts import OWN, helper, placed

_PLAIN = (ast.Assign, ast.AnnAssign, ast.Pass)


def with_items_returned(definition: ast.FunctionDef) -> ast.FunctionDef:
    """A generator of this form as the function that returns its items; any other function as it is."""
    *before, loop = definition.body
    yields = [node for node in _own_nodes(definition) if isinstance(node, ast.Yield | ast.YieldFrom | ast.Return)]
    if not isinstance(loop, ast.For) or loop.orelse or len(yields) != 1 or is_no_function([*before, loop.iter]):
        return definition
    *made, last = loop.body
    yielded = last.value if isinstance(last, ast.Expr) and isinstance(last.value, ast.Yield) else None
    if yielded is None or yielded.value is None or not _starts_anew(loop.target, made, yielded.value):
        return definition
    item, name = f"{OWN}item", f"{OWN}made"
    target = ast.Assign([loop.target], ast.Name(item, ast.Load()))
    arguments = ast.arguments([], [ast.arg(item)], None, [], [], None, [])
    function = ast.FunctionDef(name, arguments, [target, *made, ast.Return(yielded.value)], [])
    returned = ast.Return(helper("yielded", loop.iter, ast.Name(name, ast.Load())))
    body = [*before, *(placed(loop.iter, part) for part in (function, returned))]
    made_of = ast.FunctionDef(definition.name, definition.args, body, definition.decorator_list, definition.returns)
    return ast.copy_location(made_of, definition)


def _own_nodes(definition: ast.FunctionDef) -> Iterator[ast.AST]:
    """What a function consists of, without the functions in it."""
    waiting: list[ast.AST] = list(definition.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _starts_anew(target: ast.expr, statements: Sequence[ast.stmt], value: ast.expr) -> bool:
    """Whether an iteration reads nothing that the one before it has assigned, and changes nothing else."""
    known = set(names_assigned(target))
    assigned = {name for statement in statements for name in names_assigned(statement)}
    for statement in statements:
        if not isinstance(statement, _PLAIN) or not known.isdisjoint(names_assigned(statement)):
            return False
        if not (assigned - known).isdisjoint(names_read(statement)) or is_no_function([statement]):
            return False
        known |= set(names_assigned(statement))
    stored = (node for part in statements for node in ast.walk(part) if isinstance(node, ast.Subscript | ast.Attribute))
    return not is_no_function([value]) and all(isinstance(node.ctx, ast.Load) for node in stored)
