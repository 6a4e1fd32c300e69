"""The syntax of rewritten functions: which calls and loops of a source become calls of our own.

::

    for t in range(x.shape[1]):           items = HELPERS.items(HELPERS.open(range)(x.shape[1]))
        h = self.cell(x[:, t], h)         def body(item, h, outs, t):
        outs.append(h)                        t = item
                                              h = self.cell(x[:, t], h)
                                              outs.append(h)
                                              return (h, outs, t)
                                          loop = HELPERS.counted(items, body, ("h", "outs", "t"), ..., locals())
                                          if loop is None:
                                              for t in items: ...
                                          else:
                                              if loop.needs_first and (loop.surely_runs or loop.length > 0):
                                                  loop.take_first()
                                              h, outs, t = loop.run()

A loop whose items are plain runs as it did. What leaves a loop early sets a flag (``leaving.py``), and an ``if`` in its
body chooses between two functions (``choices.py``)::

    if h.sum() > 9:                       def then(h): ...
        h = h / 2                         def other(h): ...
                                          (h,) = HELPERS.chosen(h.sum() > 9, (then, other), ("h",), ..., locals())
"""

from __future__ import annotations

import ast
import contextlib
import copy
from collections.abc import Container, Sequence
from typing import TypeVar

from onnxport.capture.forks.choice_syntax import asks_joined, is_choice, is_joined_truth
from onnxport.capture.rewriting.generators import with_items_returned
from onnxport.capture.rewriting.leaving import (
    CannotBeFlagged,
    Loop,
    Unflagged,
    is_block,
    is_flagged,
    is_no_function,
    with_flag,
    with_one_end,
)
from onnxport.capture.rewriting.names import may_matter, names_assigned, names_changed, names_of, names_read
from onnxport.capture.rewriting.syntax_parts import (
    HELPERS,
    OWN,
    assigned_by,
    call_of,
    either_opened,
    first_line,
    flag_lowered,
    goes_on,
    helper,
    is_open_attribute,
    looked_up,
    loop_description,
    loop_or_plain,
    makes_class,
    may_be_key,
    may_be_open,
    of_item,
    placed,
    statement_of,
    text_of,
    texts_of,
    tuple_of,
    with_open_indices,
)
from onnxport.capture.rewriting.truth_syntax import Truths, TruthsOfSizes, WithNewNumbers, with_joined_truths

_Loop = TypeVar("_Loop", ast.For, ast.While)
_Asking = TypeVar("_Asking", ast.If, ast.IfExp)
# What these give depends on the frame that calls them.
_OF_THE_FRAME = {"super", "locals", "globals", "vars", "dir", "eval", "exec", HELPERS}
_FUNCTIONS = (ast.FunctionDef, ast.Lambda)


def rewritten_definition(
    definition: ast.FunctionDef, *, opens: bool = False, in_loops: Container[int] = ()
) -> ast.FunctionDef:
    """A function whose calls and loops keep sizes open; places in the file stay as they are.

    With ``opens`` one run may capture both ways of a branch (``opened_branches.py``). ``in_loops`` are the lines on
    which functions begin that loops call: what they decide, the iteration does.
    """
    rewriter = _Rewriter(definition, opens, in_loops)
    body = [made for statement in rewriter.body(definition) for made in rewriter.statements(statement)]
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
        asked = helper("is_literal", node.left, other)
        return placed(node, asked if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), asked))

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        self.generic_visit(node)
        patterns = [inner for case in node.cases for inner in ast.walk(case.pattern)]
        if any(isinstance(one, ast.MatchSingleton) and isinstance(one.value, bool) for one in patterns):
            self.found = True
            node.subject = placed(node.subject, helper("with_truths", node.subject))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1 and not node.keywords:
            self.found = True
            node.func = placed(node, helper("open", node.func))
        return node


class _Rewriter(_Identities):
    def __init__(self, definition: ast.FunctionDef, opens: bool, in_loops: Container[int] = ()) -> None:
        super().__init__()
        self._opens, self._in_loops = opens, in_loops
        self._reads = [name for statement in definition.body for name in names_read(statement)]
        self._locals = {argument.arg for argument in ast.walk(definition.args) if isinstance(argument, ast.arg)}
        self._locals |= {name for statement in definition.body for name in names_assigned(statement)}
        self._count = 0
        #: Whether what is visited stands in the body of a loop.
        self._in_body = False
        #: Whether what is raised there may be caught in the function.
        self._is_caught = False
        self._functions = [
            inner for part in definition.body for inner in ast.walk(part) if isinstance(inner, _FUNCTIONS)
        ]

    def body(self, definition: ast.FunctionDef) -> list[ast.stmt]:
        """The statements of the function, which is part of a loop's body if one calls it."""
        body = copy.deepcopy(definition.body)
        if first_line(definition) not in self._in_loops:
            return body
        with contextlib.suppress(CannotBeFlagged):
            body = with_one_end(body, self._fresh)
            self._in_body = True
        return body

    def statements(self, statement: ast.stmt) -> list[ast.stmt]:
        made = self.visit(statement)
        return made if isinstance(made, list) else [made]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        with_joined_truths(node)
        is_fresh = bool(node.args) and isinstance(node.args[0], ast.GeneratorExp)
        self.generic_visit(node)
        if self._in_body and isinstance(node.func, ast.Name) and node.func.id == "bool" and len(node.args) == 1:
            return placed(node, helper("truth_kept", node.func, *node.args))
        if self._in_body and isinstance(node.func, ast.Attribute) and node.func.attr in ("equal", "allclose"):
            node.func = placed(node, helper("compared", node.func.value, ast.Constant(node.func.attr)))
            return node
        if isinstance(node.func, ast.Name) and node.func.id == "next" and is_fresh:
            node.func = placed(node, helper("first_of", node.func))
            return node
        named = isinstance(node.func, ast.Name) and node.func.id not in _OF_THE_FRAME and not makes_class(node)
        if named or is_open_attribute(node.func):
            node.func = placed(node, helper("open", node.func))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        made = super().visit_Compare(node)
        if made is not node or len(node.ops) != 1 or not isinstance(node.ops[0], ast.In | ast.NotIn):
            return made
        asked = helper("contains", node.left, node.comparators[0])
        return placed(node, asked if isinstance(node.ops[0], ast.In) else ast.UnaryOp(ast.Not(), asked))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        if isinstance(node.slice, ast.Slice) and may_be_open(node.slice):
            bounds = (node.slice.lower, node.slice.upper, node.slice.step)
            return placed(node, helper("part", node.value, *(one or ast.Constant(None) for one in bounds)))
        if not may_be_key(node.slice):
            return with_open_indices(node)
        return placed(node, looked_up(node.value, node.slice))

    def visit_List(self, node: ast.List) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        if any(isinstance(item, ast.Starred) for item in node.elts):
            parts = [
                item.value if isinstance(item, ast.Starred) else ast.List([item], ast.Load()) for item in node.elts
            ]
            return placed(node, helper("joined", *parts))
        return node if node.elts else placed(node, helper("listed", node))

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Subscript) and may_be_key(target.slice):
            parts = [self.visit(part) for part in (node.value, target.value, target.slice)]
            return placed(node, ast.Expr(helper("put", *parts)))
        joined = self._joined(node.value) if not self._in_body and is_joined_truth(node.value) else None
        self.generic_visit(node)
        node.value = node.value if joined is None else joined
        if isinstance(node.value, ast.List):
            node.value = placed(node.value, helper("listed", node.value))
        elif isinstance(node.value, ast.Tuple):
            node.value.elts = [
                placed(item, helper("listed", item)) if isinstance(item, ast.List) else item for item in node.value.elts
            ]
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        self.generic_visit(node)
        if node.value is not None:
            node.value = placed(node.value, helper("returned", node.value))
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return self._comprehension(node)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> ast.expr:
        """``[f(t) for t in items]`` collects what a function of an item gives, where the items are not plain."""
        (first, *others) = node.generators
        if others or first.is_async or is_no_function([node]):
            self.generic_visit(node)
            return node
        is_harmless = not may_matter(node.elt)
        # Of items that only run time counts, what is made of one is part of a loop's body.
        in_loop = self._in_a_body(node.elt)
        tests = [self._truth(ast.BoolOp(ast.And(), first.ifs) if first.ifs[1:] else first.ifs[0])] if first.ifs else []
        first.ifs = []
        self.generic_visit(node)
        lazy = isinstance(node, ast.GeneratorExp)
        functions = [of_item(first.target, value, self._fresh("item")) for value in (node.elt, in_loop)]
        if not tests:
            return placed(node, helper("generated" if lazy else "collected", first.iter, *functions))
        made = helper("selected", first.iter, of_item(first.target, tests[0], self._fresh("item")), *functions)
        made.keywords = [
            ast.keyword("is_harmless", ast.Constant(is_harmless)),
            ast.keyword("lazy", ast.Constant(lazy)),
        ]
        return placed(node, made)

    def _in_a_body(self, value: ast.expr) -> ast.expr:
        was_in_body, self._in_body = self._in_body, True
        made: ast.expr = self.visit(copy.deepcopy(value))
        self._in_body = was_in_body
        return made

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        if first_line(node) in self._in_loops:
            made = rewritten_definition(node, opens=self._opens, in_loops=self._in_loops)
            made.decorator_list = node.decorator_list
            return made
        in_body, self._in_body = self._in_body, False
        node = with_items_returned(node)
        self.generic_visit(node)
        self._in_body = in_body
        return node

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        reads = self._reads_around(node)
        items, item, loop = self._fresh("items"), self._fresh("item"), self._fresh("loop")
        start = ast.Assign([ast.Name(items, ast.Store())], helper("items", self.visit(copy.deepcopy(node.iter))))
        plain = self._plain(node, reads)
        plain.iter = ast.Name(items, ast.Load())
        found = self._unflagged(node)
        if isinstance(found, CannotBeFlagged):
            reason = helper("refuse_open", ast.Name(items, ast.Load()), *map(ast.Constant, (text_of(node), str(found))))
            return [placed(node.iter, start), placed(node.iter, ast.Expr(reason)), plain]
        names = self._changed([node.target, *found.loop.body])
        body = self._function("body", names, found.loop.body, first=item)
        body.body.insert(0, ast.Assign([node.target], ast.Name(item, ast.Load())))
        told = loop_description(body.name, names, reads, node, found.flag)
        made = helper("counted", ast.Name(items, ast.Load()), *told, call_of("locals"))
        run: list[ast.stmt] = [
            statement_of(f"if {loop}.needs_first and ({loop}.surely_runs or {loop}.length > 0): {loop}.take_first()"),
            assigned_by(names, loop),
            *(part for one in found.after for part in self.statements(one)),
        ]
        return [
            placed(node.iter, line)
            for line in (start, *flag_lowered(found), body, *loop_or_plain(loop, made, run, plain))
        ]

    def visit_While(self, node: ast.While) -> ast.stmt | list[ast.stmt]:
        reads = self._reads_around(node)
        plain = self._plain(node, reads)
        found = self._unflagged(node)
        if isinstance(found, CannotBeFlagged):
            return plain
        loop = self._fresh("loop")
        names = self._changed(found.loop.body)
        body = self._function("body", names, found.loop.body)
        test = self._function("test", names, [])
        # Once the loop was left its condition is not asked, and may be one that fails: `while x[i] > 0`.
        asked = ast.BoolOp(ast.And(), [goes_on(found.flag), node.test]) if found.flag else node.test
        test.body = [ast.Return(self._in_a_body(Truths().visit(copy.deepcopy(placed(node.test, asked)))))]
        told = loop_description(body.name, names, reads, node, found.flag)
        made = helper("repeated", ast.Name(test.name, ast.Load()), *told, call_of("locals"))
        after = [part for one in found.after for part in self.statements(one)]
        lines = loop_or_plain(loop, made, [assigned_by(names, loop), *after], plain)
        return [placed(node.test, line) for line in (*flag_lowered(found), test, body, *lines)]

    def _plain(self, node: _Loop, reads: Sequence[str]) -> _Loop:
        """A loop as it is, for when Python knows how often it runs."""
        plain = copy.deepcopy(node)
        flag = is_flagged(plain) if self._in_body else ""
        if flag:
            going = goes_on(flag)
            if isinstance(plain, ast.While):
                plain.test = placed(plain.test, ast.BoolOp(ast.And(), [going, plain.test]))
            else:
                if set(names_assigned(plain.target)) & set(reads):
                    # What the target holds is that of the iteration that left the loop.
                    item = self._fresh("item")
                    plain.body.insert(0, ast.Assign([plain.target], ast.Name(item, ast.Load())))
                    plain.target = placed(plain.target, ast.Name(item, ast.Store()))
                plain.body = [placed(plain.iter, ast.If(going, plain.body, []))]
        plain.body = [made for part in plain.body for made in self.statements(part)]
        plain.orelse = [made for part in plain.orelse for made in self.statements(part)]
        if isinstance(plain, ast.While):
            plain.test = self.visit(plain.test)
        return plain

    def _unflagged(self, node: Loop) -> Unflagged | CannotBeFlagged:
        """A loop that nothing leaves before its end, or why it can't be that."""
        if self._in_body:
            return Unflagged(node, [], is_flagged(node))
        raises = any(isinstance(inner, ast.Raise | ast.Assert) for inner in ast.walk(node))
        if raises and self._is_caught:
            return CannotBeFlagged("what it raises may be caught")
        if read := self._read_by_others(node):
            return CannotBeFlagged(f"a function made before it reads `{read[0]}`, which it changes")
        try:
            return with_flag(copy.deepcopy(node), self._fresh)
        except CannotBeFlagged as error:
            return error

    def _read_by_others(self, loop: Loop | ast.If) -> list[str]:
        """What a loop or branch changes and functions made before it read: they would see what there was before."""
        before = [function for function in self._functions if function.lineno < loop.lineno]
        read = {name for function in before for name in set(names_read(function)) - set(names_of(function))}
        return [name for name in self._changed([loop]) if name in read]

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        is_caught, self._is_caught = self._is_caught, self._is_caught or bool(node.handlers)
        self.generic_visit(node)
        self._is_caught = is_caught
        return node

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        if not self._in_body and is_choice(node):
            return self._choice(node)
        if not self._in_body:
            return self._opened(node) if self._may_open(node) else self._with_joined_test(node)
        reads = self._reads_around(node)
        names = self._changed([*node.body, *node.orelse])
        ways = [self._function("way", names, body) for body in (node.body, node.orelse)]
        raises = [bool(body) and isinstance(body[-1], ast.Raise) for body in (node.body, node.orelse)]
        made = helper(
            "chosen",
            self._truth(node.test),
            ast.Tuple([ast.Name(way.name, ast.Load()) for way in ways], ast.Load()),
            ast.Tuple([ast.Constant(one) for one in raises], ast.Load()),
            *texts_of(names, [name for name in names if name in reads or name.startswith(OWN)]),
            call_of("locals"),
        )
        taken = ast.Assign([tuple_of(names, ast.Store())], made) if names else ast.Expr(made)
        return [placed(node.test, line) for line in (*ways, taken)]

    def _may_open(self, node: ast.If) -> bool:
        """Whether the ways of a branch are functions of the variables that they change."""
        return self._opens and not self._is_caught and is_block(node) and not self._read_by_others(node)

    def _opened(self, node: ast.If) -> list[ast.stmt]:
        """A branch of which one run captures both ways, where only run time knows which is taken."""
        reads = self._reads_around(node)
        names = self._changed([*node.body, *node.orelse])
        ways = [self._function("way", names, body, in_body=False) for body in (node.body, node.orelse)]
        functions = ast.Tuple([ast.Name(way.name, ast.Load()) for way in ways], ast.Load())
        asked, chosen = self._fresh("asked"), self._fresh("chosen")
        plain = self._with_joined_test(copy.deepcopy(node))
        test = ast.Assign([ast.Name(asked, ast.Store())], plain.test)
        plain.test = placed(node.test, ast.Name(asked, ast.Load()))
        needed = [name for name in names if name in reads or name.startswith(OWN)]
        made = helper(
            "branch_taken", ast.Name(asked, ast.Load()), functions, *texts_of(names, needed), call_of("locals")
        )
        taken: list[ast.stmt] = (
            [ast.Assign([tuple_of(names, ast.Store())], ast.Name(chosen, ast.Load()))] if names else [ast.Pass()]
        )
        return [placed(node.test, line) for line in (test, *ways, *loop_or_plain(chosen, made, taken, plain))]

    def _choice(self, node: ast.If) -> list[ast.stmt]:
        """An ``if`` between numbers: one number where a condition on sizes chooses."""
        names = self._changed([*node.body, *node.orelse])
        bodies = [[WithNewNumbers().visit(copy.deepcopy(part)) for part in body] for body in (node.body, node.orelse)]
        ways = [self._function("way", names, body, in_body=False) for body in bodies]
        functions = ast.Tuple([ast.Name(way.name, ast.Load()) for way in ways], ast.Load())
        chosen = self._fresh("chosen")
        made = helper("number_chosen", self._on_sizes(node.test), functions, *texts_of(names), call_of("locals"))
        plain = copy.deepcopy(node)
        self.generic_visit(plain)
        taken = ast.Assign([tuple_of(names, ast.Store())], ast.Name(chosen, ast.Load()))
        return [placed(node.test, line) for line in (*ways, *loop_or_plain(chosen, made, [taken], plain))]

    def _on_sizes(self, test: ast.expr) -> ast.Lambda:
        """A function for a condition whose ``and``, ``or`` and ``not`` are operations on truths that sizes tell."""
        nothing = ast.arguments([], [], None, [], [], None, [])
        return ast.Lambda(nothing, self.visit(TruthsOfSizes().visit(copy.deepcopy(test))))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if not self._in_body and is_choice(node):
            nothing = ast.arguments([], [], None, [], [], None, [])
            sides = [ast.Lambda(nothing, self.visit(copy.deepcopy(value))) for value in (node.body, node.orelse)]
            plain = copy.deepcopy(node)
            self.generic_visit(plain)
            test = self._on_sizes(node.test)
            return placed(node, helper("number_either", test, *sides, ast.Lambda(nothing, plain)))
        if not self._in_body:
            return either_opened(self._with_joined_test(node), self._opens and not self._is_caught)
        nothing = ast.arguments([], [], None, [], [], None, [])
        ways = [ast.Lambda(nothing, self.visit(value)) for value in (node.body, node.orelse)]
        return placed(node, helper("either", self._truth(node.test), *ways))

    def _with_joined_test(self, node: _Asking) -> _Asking:
        """A branch whose ``and`` and ``or`` of sizes are one condition."""
        joined = self._joined(node.test) if asks_joined(node) else None
        self.generic_visit(node)
        if joined is not None:
            node.test = joined
        return node

    def _joined(self, test: ast.expr) -> ast.expr:
        nothing = ast.arguments([], [], None, [], [], None, [])
        plain = ast.Lambda(nothing, self.visit(copy.deepcopy(test)))
        return placed(test, helper("joined_truths", self._on_sizes(test), plain))

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        self.generic_visit(node)
        if self._in_body:
            node.test = placed(node.test, helper("holds", node.test))
        return node

    def _truth(self, test: ast.expr) -> ast.expr:
        """A condition whose ``and``, ``or`` and ``not`` are operations on truths that only run time knows."""
        truth: ast.expr = self.visit(Truths().visit(copy.deepcopy(test)))
        return truth

    def _function(
        self, name: str, names: Sequence[str], body: Sequence[ast.stmt], first: str | None = None, in_body: bool = True
    ) -> ast.FunctionDef:
        """Statements, mostly of a loop's body, as a function of the names that they change."""
        parameters = [*([] if first is None else [first]), *names]
        arguments = ast.arguments([], [ast.arg(one) for one in parameters], None, [], [], None, [])
        was_in_body, self._in_body = self._in_body, in_body
        made = [one for part in copy.deepcopy(list(body)) for one in self.statements(part)]
        self._in_body = was_in_body
        return ast.FunctionDef(self._fresh(name), arguments, [*made, ast.Return(tuple_of(names, ast.Load()))], [])

    def _reads_around(self, loop: Loop | ast.If) -> list[str]:
        """The names that are read outside of a block: a variable that is not has no use after it."""
        inside = list(names_read(loop))
        outside = list(self._reads)
        for name in inside:
            if name in outside:
                outside.remove(name)
        return sorted(set(outside))

    def _changed(self, parts: Sequence[ast.AST]) -> list[str]:
        """The variables that code assigns to, or whose containers and tensors it may change."""
        assigned = {name for part in parts for name in names_assigned(part)}
        return sorted(assigned | (self._locals & set(names_changed(parts)) - {"self"}))

    def _fresh(self, name: str) -> str:
        self._count += 1
        return f"{OWN}{name}_{self._count}"
