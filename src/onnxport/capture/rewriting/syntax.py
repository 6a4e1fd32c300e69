"""The syntax of rewritten functions: which calls and loops of a source become calls of our own.

::

    for t in range(x.shape[1]):           items = HELPERS.items(HELPERS.open(range)(x.shape[1]))
        h = self.cell(x[:, t], h)         if HELPERS.is_open(items):
        outs.append(h)                        def body(item, h, outs, t):
                                                  t = item
                                                  h = self.cell(x[:, t], h)
                                                  outs.append(h)
                                                  return (h, outs, t)
                                              loop = HELPERS.counted(items, body, ("h", "outs", "t"), ..., locals())
                                              if loop.needs_first and (loop.surely_runs or loop.length > 0):
                                                  loop.take_first()
                                              h, outs, t = loop.run()
                                          else:
                                              for t in items: ...

A loop whose items are plain runs as it did.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import TypeVar

_Made = TypeVar("_Made", bound=ast.AST)
HELPERS = "__onnxport_helpers__"
_ATTRIBUTES = {"unbind", "stack", "cat", "concat", "concatenate", "get", "index"}
_ATTRIBUTES |= {"isqrt", "gcd", "fmod", "isnan", "isinf", "isfinite"}
_ATTRIBUTES |= {"sqrt", "log2", "exp", "log", "log10", "sin", "cos", "tan", "tanh", "atan"}
# What these give depends on the frame that calls them.
_OF_THE_FRAME = {"super", "locals", "globals", "vars", "dir", "eval", "exec", HELPERS}
_CHANGING = {"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "reverse", "sort"}
# What leaves a loop early, or makes its body no function.
_LEAVING = (ast.Break, ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.NamedExpr)
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def rewritten_definition(definition: ast.FunctionDef) -> ast.FunctionDef:
    """A function whose calls and loops keep sizes open; places in the file stay as they are."""
    rewriter = _Rewriter(definition)
    body = [made for statement in copy.deepcopy(definition.body) for made in rewriter.statements(statement)]
    made = ast.FunctionDef(definition.name, definition.args, body, [], definition.returns)
    return ast.copy_location(made, definition)


def with_plain_identities(definition: ast.FunctionDef) -> ast.FunctionDef | None:
    """A function in which ``type(n) is int`` and ``(n > 2) is True`` hold for sizes; None without such a thing."""
    rewriter = _Identities()
    made = rewriter.visit(copy.deepcopy(definition))
    made.decorator_list = []
    return made if rewriter.found else None


class _Identities(ast.NodeTransformer):
    """Makes types and truths of sizes those of plain numbers where they are looked at by identity."""

    def __init__(self) -> None:
        self.found = False

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot):
            return node
        (other,) = node.comparators
        if not isinstance(other, ast.Constant) or not isinstance(other.value, bool | int):
            return node
        self.found = True
        # As a call: Python warns of `is` with a literal wherever it compiles one.
        asked = _helper("is_literal", node.left, other)
        return _at(node, asked if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), asked))

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        self.generic_visit(node)
        patterns = [inner for case in node.cases for inner in ast.walk(case.pattern)]
        if any(isinstance(one, ast.MatchSingleton) and isinstance(one.value, bool) for one in patterns):
            self.found = True
            node.subject = _at(node.subject, _helper("with_truths", node.subject))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1 and not node.keywords:
            self.found = True
            node.func = _at(node, _helper("open", node.func))
        return node


class _Rewriter(_Identities):
    def __init__(self, definition: ast.FunctionDef) -> None:
        super().__init__()
        self._reads = [name for statement in definition.body for name in _reads(statement)]
        self._locals = {argument.arg for argument in ast.walk(definition.args) if isinstance(argument, ast.arg)}
        self._locals |= {name for statement in definition.body for name in _assigned_names(statement)}
        self._count = 0

    def statements(self, statement: ast.stmt) -> list[ast.stmt]:
        made = self.visit(statement)
        return made if isinstance(made, list) else [made]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        named = isinstance(node.func, ast.Name) and node.func.id not in _OF_THE_FRAME and not _makes_class(node)
        if named or (isinstance(node.func, ast.Attribute) and node.func.attr in _ATTRIBUTES):
            node.func = _at(node, _helper("open", node.func))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        made = super().visit_Compare(node)
        if made is not node or len(node.ops) != 1 or not isinstance(node.ops[0], ast.In | ast.NotIn):
            return made
        asked = _helper("contains", node.left, node.comparators[0])
        return _at(node, asked if isinstance(node.ops[0], ast.In) else ast.UnaryOp(ast.Not(), asked))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or isinstance(node.slice, ast.Slice | ast.Tuple | ast.Constant):
            return node
        return _at(node, _helper("item", node.value, node.slice))

    def visit_List(self, node: ast.List) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        if any(isinstance(item, ast.Starred) for item in node.elts):
            parts = [
                item.value if isinstance(item, ast.Starred) else ast.List([item], ast.Load()) for item in node.elts
            ]
            return _at(node, _helper("joined", *parts))
        return node if node.elts else _at(node, _helper("listed", node))

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        if isinstance(node.value, ast.List):
            node.value = _at(node.value, _helper("listed", node.value))
        elif isinstance(node.value, ast.Tuple):
            node.value.elts = [
                _at(item, _helper("listed", item)) if isinstance(item, ast.List) else item for item in node.value.elts
            ]
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        self.generic_visit(node)
        if node.value is not None:
            node.value = _at(node.value, _helper("returned", node.value))
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return self._comprehension(node)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> ast.expr:
        """``[f(t) for t in items]`` collects what a function of an item gives, where the items are not plain."""
        self.generic_visit(node)
        (first, *others) = node.generators
        if others or first.ifs or first.is_async or any(isinstance(inner, _LEAVING) for inner in ast.walk(node)):
            return node
        one = ast.ListComp(
            node.elt, [ast.comprehension(first.target, ast.List([ast.Name("item", ast.Load())], ast.Load()), [], 0)]
        )
        arguments = ast.arguments([], [ast.arg("item")], None, [], [], None, [])
        function = ast.Lambda(arguments, ast.Subscript(one, ast.Constant(0), ast.Load()))
        name = "collected" if isinstance(node, ast.ListComp) else "generated"
        return _at(node, _helper(name, first.iter, function))

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        reads = self._reads_around(node)
        plain = copy.deepcopy(node)
        items, loop = self._fresh("items"), self._fresh("loop")
        plain.iter = ast.Name(items, ast.Load())
        self._visit_parts(plain)
        start = ast.Assign([ast.Name(items, ast.Store())], _helper("items", self.visit(copy.deepcopy(node.iter))))
        if node.orelse or any(isinstance(inner, _LEAVING) for part in node.body for inner in ast.walk(part)):
            reason = _helper("refuse_open", ast.Name(items, ast.Load()), ast.Constant(_text(node)))
            return [_at(node.iter, start), _at(node.iter, ast.Expr(reason)), plain]
        names = self._changed([node.target, *node.body])
        body = self._function(self._fresh("body"), ["item", *names], names, node)
        body.body.insert(0, ast.Assign([node.target], ast.Name("item", ast.Load())))
        made = _helper(
            "counted", ast.Name(items, ast.Load()), *_described(body.name, names, reads, node), _call("locals")
        )
        lines: list[ast.stmt] = [
            body,
            ast.Assign([ast.Name(loop, ast.Store())], made),
            _written(f"if {loop}.needs_first and ({loop}.surely_runs or {loop}.length > 0): {loop}.take_first()"),
            _assigned(names, loop),
        ]
        test = _helper("is_open", ast.Name(items, ast.Load()))
        return [_at(node.iter, start), _at(node.iter, ast.If(test, lines, [plain]))]

    def visit_While(self, node: ast.While) -> ast.stmt | list[ast.stmt]:
        reads = self._reads_around(node)
        plain = copy.deepcopy(node)
        self._visit_parts(plain)
        parts = [node.test, *node.body]
        if node.orelse or any(isinstance(inner, _LEAVING) for part in parts for inner in ast.walk(part)):
            return plain
        loop = self._fresh("loop")
        names = self._changed(node.body)
        body = self._function(self._fresh("body"), names, names, node)
        test = self._function(self._fresh("test"), names, [], node)
        test.body = [ast.Return(_Truths().visit(self.visit(copy.deepcopy(node.test))))]
        described = _described(body.name, names, reads, node)
        made = _helper("repeated", ast.Name(test.name, ast.Load()), *described, _call("locals"))
        return [
            _at(node.test, line)
            for line in (
                test,
                body,
                ast.Assign([ast.Name(loop, ast.Store())], made),
                ast.If(
                    ast.Compare(ast.Name(loop, ast.Load()), [ast.Is()], [ast.Constant(None)]),
                    [plain],
                    [_assigned(names, loop)],
                ),
            )
        ]

    def _visit_parts(self, loop: ast.For | ast.While) -> None:
        loop.body = [made for part in loop.body for made in self.statements(part)]
        loop.orelse = [made for part in loop.orelse for made in self.statements(part)]
        if isinstance(loop, ast.While):
            loop.test = self.visit(loop.test)

    def _function(
        self, name: str, parameters: Sequence[str], results: Sequence[str], loop: ast.For | ast.While
    ) -> ast.FunctionDef:
        """A loop's body as a function of the names that it changes; ``continue`` returns."""
        arguments = ast.arguments([], [ast.arg(one) for one in parameters], None, [], [], None, [])
        leave = ast.Return(_tuple(results, ast.Load()))
        body = [_Continuing(leave).visit(part) for part in copy.deepcopy(loop.body)]
        body = [made for part in body for made in self.statements(part)]
        return ast.FunctionDef(name, arguments, [*body, leave], [])

    def _reads_around(self, loop: ast.For | ast.While) -> list[str]:
        """The names that are read outside of a loop: a variable that is not has no use after it."""
        inside = list(_reads(loop))
        outside = list(self._reads)
        for name in inside:
            if name in outside:
                outside.remove(name)
        return sorted(set(outside))

    def _changed(self, parts: Sequence[ast.AST]) -> list[str]:
        """The variables that code assigns to, or whose containers and tensors it may change."""
        assigned = {name for part in parts for name in _assigned_names(part)}
        return sorted(assigned | (self._locals & set(_receivers(parts)) - {"self"}))

    def _fresh(self, name: str) -> str:
        self._count += 1
        return f"__onnxport_{name}_{self._count}"


def _makes_class(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) != 1


class _Continuing(ast.NodeTransformer):
    """Makes ``continue`` of a loop's body leave the function that the body has become; inner loops keep theirs."""

    def __init__(self, leave: ast.Return) -> None:
        self._leave = leave

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        return _at(node, copy.deepcopy(self._leave))

    def visit_For(self, node: ast.For) -> ast.stmt:
        return node

    def visit_While(self, node: ast.While) -> ast.stmt:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node


class _Truths(ast.NodeTransformer):
    """Makes ``and``, ``or`` and ``not`` of a loop's condition operations on truths that only run time knows."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        nothing = ast.arguments([], [], None, [], [], None, [])
        parts = [ast.Lambda(nothing, value) for value in node.values]
        return _at(node, _helper("all_of" if isinstance(node.op, ast.And) else "any_of", *parts))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _at(node, _helper("negated", node.operand)) if isinstance(node.op, ast.Not) else node


def _receivers(parts: Sequence[ast.AST]) -> Iterator[str]:
    """The names of containers and tensors that code may change by index or method."""
    for inner in (inner for part in parts for inner in ast.walk(part)):
        changed: ast.expr | None = None
        if isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store | ast.Del):
            changed = inner.value
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            method = inner.func.attr
            in_place = method.endswith("_") and not method.endswith("__")
            changed = inner.func.value if method in _CHANGING or in_place else None
        while isinstance(changed, ast.Subscript | ast.Attribute | ast.Call):
            changed = changed.func if isinstance(changed, ast.Call) else changed.value
        if isinstance(changed, ast.Name):
            yield changed.id


def _reads(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            yield inner.id
        elif isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
            yield inner.target.id


def _assigned_names(node: ast.AST) -> Iterator[str]:
    """The variables that code assigns to in the function it stands in."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif not isinstance(node, _SCOPES):
        for inner in ast.iter_child_nodes(node):
            yield from _assigned_names(inner)


def _described(body: str, names: Sequence[str], reads: Sequence[str], loop: ast.For | ast.While) -> list[ast.expr]:
    needed = [name for name in names if name in reads]
    attributes = [
        ast.unparse(inner)
        for part in loop.body
        for inner in ast.walk(part)
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
    ]
    return [
        ast.Name(body, ast.Load()),
        *(ast.Tuple([ast.Constant(text) for text in texts], ast.Load()) for texts in (names, needed, attributes)),
        ast.Constant(_text(loop)),
    ]


def _text(loop: ast.For | ast.While) -> str:
    if isinstance(loop, ast.While):
        return f"while {ast.unparse(loop.test)}"
    return f"for {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}"


def _helper(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(HELPERS, ast.Load()), name, ast.Load()), list(arguments), [])


def _call(name: str) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [], [])


def _tuple(names: Sequence[str], context: ast.expr_context) -> ast.Tuple:
    return ast.Tuple([ast.Name(name, context) for name in names], context)


def _assigned(names: Sequence[str], loop: str) -> ast.stmt:
    return _written(f"({', '.join(names)},) = {loop}.run()" if names else f"{loop}.run()")


def _written(text: str) -> ast.stmt:
    """A statement without a place."""
    (statement,) = ast.parse(text).body
    for inner in ast.walk(statement):
        for attribute in inner._attributes:
            delattr(inner, attribute)
    return statement


def _at(place: ast.stmt | ast.expr, made: _Made) -> _Made:
    """What was made, with the place in the file of what it stands for wherever it has none."""
    for inner in ast.walk(made):
        if "lineno" in inner._attributes and getattr(inner, "lineno", None) is None:
            ast.copy_location(inner, place)
    return made
