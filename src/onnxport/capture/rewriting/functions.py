"""Functions of the model that run from a rewritten source while it is captured.

``range(x.shape[0])``, ``int(n / 2)`` and ``while x.sum() < 9`` want plain numbers and truths of Python, so a capture
can't but follow the example. Where one does, the function is compiled anew from its source, with calls and loops that
keep sizes open (``syntax.py``), and the model is run again. The function itself stays the one that it is: its code is
replaced, and put back when the capture ends.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import inspect
import linecache
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from types import CodeType, FunctionType, TracebackType
from typing import TypeGuard, TypeVar

from onnxport.capture.forks.choosing import Choosing
from onnxport.capture.forks.expressions import is_within
from onnxport.capture.patches.replacing import code_replaced, items_replaced
from onnxport.capture.rewriting.generators import with_items_returned
from onnxport.capture.rewriting.identities import functions_with_identities
from onnxport.capture.rewriting.opened_branches import OpenedBranches
from onnxport.capture.rewriting.plainer_syntax import in_plainer_words
from onnxport.capture.rewriting.syntax import rewritten_definition, with_plain_identities
from onnxport.capture.rewriting.syntax_parts import HELPERS, OWN, first_line
from onnxport.errors import CaptureError, OnnxExporterError, Problem
from onnxport.source_files import nodes_of_file

_Refusal = TypeVar("_Refusal", bound=OnnxExporterError)
_Captured = TypeVar("_Captured")


@dataclass
class Rewriting:
    """The functions that were rewritten for one export.

    ``helpers`` is what the rewritten code calls, by the name ``HELPERS`` in its globals. ``refusals`` says of loops why
    they could not be captured.
    """

    helpers: object
    #: The numbers that conditions on sizes choose in rewritten code.
    choosing: Choosing
    #: The branches in it that one run captures.
    branches: OpenedBranches
    #: Whether comparisons of sizes ask for their truth at once, because something takes it as a plain bool.
    asks_at_once: bool = False
    #: Whether any function is rewritten.
    in_force: bool = False
    refusals: list[Problem] = field(default_factory=list)
    _tried: set[CodeType] = field(default_factory=set)
    _rewritten: list[CodeType] = field(default_factory=list)
    #: What they were rewritten to.
    _made: set[CodeType] = field(default_factory=set)
    #: The files and first lines of functions that decide by data and that bodies of loops call.
    _in_loops: set[tuple[str, int]] = field(default_factory=set)
    _replaced: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _with_identities: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Rewriting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()
        self._with_identities.close()

    def make_identities_plain(self, model: object) -> None:
        """Let functions around a model that look at types and truths by identity find those of plain numbers."""
        for function in functions_with_identities(model):
            new = _compiled(function.__code__, with_plain_identities)
            if new is not None:
                new = new.replace(
                    co_firstlineno=function.__code__.co_firstlineno, co_qualname=function.__code__.co_qualname
                )
                self._with_identities.enter_context(items_replaced(function.__globals__, {HELPERS: self.helpers}))
                self._with_identities.enter_context(code_replaced(function, new))

    def may_help(self, code: CodeType, *, in_loop: bool = False) -> bool:
        """Whether a function has not been rewritten yet, nor was it in vain."""
        if in_loop:
            # The body of a loop itself has choices for what it decides.
            return not code.co_name.startswith(OWN) and (code.co_filename, code.co_firstlineno) not in self._in_loops
        return code not in self._tried

    def rewrite_in_loop(self, code: CodeType) -> None:
        """Let what a function decides that loops call be part of their bodies."""
        self._in_loops.add((code.co_filename, code.co_firstlineno))
        state = self.state
        # One that is defined in another is rewritten with that.
        is_inner = any(code in _codes_in(new) for new in self._made)
        codes = state.codes if is_inner or code in self._made else (*state.codes, code)
        self.begin_anew(replace(state, codes=codes), opens=self.branches.allowed)

    def rewrite(self, code: CodeType) -> None:
        """Let the functions with this code run from a rewritten source, if there is one; try no more than once."""
        self._tried.add(code)
        lines = {line for filename, line in self._in_loops if filename == code.co_filename}
        rewritten = partial(rewritten_definition, opens=self.branches.allowed, in_loops=lines)
        new = _compiled(code, lambda definition: rewritten(in_plainer_words(with_items_returned(definition))))
        if new is None:
            return
        self._tried.add(new)
        self._made.add(new)
        self._rewritten.append(code)
        for function in _functions_that_run(code):
            self._replaced.enter_context(items_replaced(function.__globals__, {HELPERS: self.helpers}))
            self._replaced.enter_context(code_replaced(function, new))
            self.in_force = True

    def explained(self, error: _Refusal) -> _Refusal:
        """An error about sizes and loops that were made plain, with why the loops could not be captured."""
        places = {problem.where for problem in self.refusals}
        others = [problem for problem in error.problems if problem.where not in places]
        headline = str(error).partition("\n")[0]
        return type(error)(headline, [*self.refusals, *others]) if self.refusals else error

    def undo(self) -> None:
        """Put the code of all functions back; none is rewritten again."""
        self._replaced.close()
        self._rewritten.clear()
        self._made.clear()
        self.in_force = False

    @property
    def state(self) -> RewritingState:
        """What is rewritten, and how."""
        return RewritingState(
            tuple(self._rewritten), frozenset(self.choosing.denied), self.asks_at_once, len(self.refusals)
        )

    def keep(self) -> Callable[[], None]:
        """Note what is rewritten now; what is returned puts it back."""
        before, opens = self.state, self.branches.allowed

        def put_back() -> None:
            if self.state != before:
                self.begin_anew(before, opens=opens)

        return put_back

    def with_branches_opened(self, run: Callable[[], _Captured]) -> _Captured | None:
        """A run with branches of which one captures both ways, where a line decides too often for others.

        None where it can't be captured so either, or was already.
        """
        if self.branches.allowed or self.branches.refused:
            return None
        before = self.state
        self.begin_anew(before, opens=True)
        try:
            return run()
        except CaptureError:
            # What is refused is the run without them, which says why.
            self.begin_anew(before, opens=False)
            return None

    def begin_anew(self, state: RewritingState, *, opens: bool) -> None:
        """Rewrite what was rewritten in a state, with branches of which one run captures both ways or without."""
        self.undo()
        self._tried.clear()
        self.branches.allowed = opens
        self.choosing.denied, self.asks_at_once = set(state.denied), state.asks_at_once
        del self.refusals[state.refusals :]
        for code in state.codes:
            self.rewrite(code)


@dataclass(frozen=True)
class RewritingState:
    """The codes that are rewritten, the lines whose numbers are branches, and how many loops were refused."""

    codes: tuple[CodeType, ...]
    denied: frozenset[tuple[str, int]]
    asks_at_once: bool
    refusals: int


def _functions_that_run(code: CodeType) -> list[FunctionType]:
    """The functions of the process with this code, which the garbage collector finds.

    It does not look among objects that were set aside with ``gc.freeze()``, as servers do before they fork: they are
    let in for the look.
    """
    frozen = gc.get_freeze_count() > 0
    if frozen:
        gc.unfreeze()
    try:
        return [one for one in gc.get_referrers(code) if isinstance(one, FunctionType) and one.__code__ is code]
    finally:
        if frozen:
            gc.collect()
            gc.freeze()


def _compiled(code: CodeType, rewritten: Callable[[ast.FunctionDef], ast.FunctionDef | None]) -> CodeType | None:
    """The code of a function's rewritten source; None where there is no source or it has another shape by now."""
    definition = _definition(code)
    if definition is None:
        return None
    made = rewritten(definition)
    if made is None:
        return None
    module = _enclosed(made, code)
    found = _find(compile(module, code.co_filename, "exec"), lambda one: _is_like(one, code, made.name))
    if found is None or found.co_freevars != code.co_freevars:
        return None
    return found.replace(co_name=code.co_name)


def _definition(code: CodeType) -> ast.FunctionDef | None:
    """The statement that defines a function, at its place in the file; for a lambda one that says the same."""
    if code.co_name == "<lambda>":
        return _lambda_as_definition(code)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    try:
        block = inspect.getblock(lines)
        # A statement that is indented stands in another.
        nested = block[0][:1].isspace() if block else False
        tree = ast.parse("".join(["if True:\n", *block] if nested else block))
    except (SyntaxError, IndentationError, tokenize.TokenError):
        return None
    ast.increment_lineno(tree, code.co_firstlineno - (2 if nested else 1))
    return next((node for node in ast.walk(tree) if _defines(node, code)), None)


def _lambda_as_definition(code: CodeType) -> ast.FunctionDef | None:
    """The function that a lambda is, found by where its instructions stand in the file."""
    places = [place for place in code.co_positions() if place[0] is not None and place[2] != place[3]]
    found = [
        node
        for node in nodes_of_file(code.co_filename)
        if isinstance(node, ast.Lambda) and _arguments(node.args) == list(code.co_varnames[: code.co_argcount])
        if all(_is_in(place, node.body) for place in places)
    ]
    if not found:
        return None
    # Of those that stand in one another, the innermost.
    node = found[-1]
    body = ast.copy_location(ast.Return(node.body), node.body)
    return ast.copy_location(ast.FunctionDef(f"{OWN}lambda", node.args, [body], []), node)


def _arguments(arguments: ast.arguments) -> list[str]:
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]


def _is_in(place: tuple[int | None, ...], node: ast.expr) -> bool:
    line, last_line, column, last_column = (0 if number is None else number for number in place)
    return is_within((line, last_line, column, last_column), node)


def _defines(node: ast.AST, code: CodeType) -> TypeGuard[ast.FunctionDef]:
    if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
        return False
    return first_line(node) == code.co_firstlineno


def _enclosed(definition: ast.FunctionDef, code: CodeType) -> ast.Module:
    """A module in which a function sees the variables around it, and the class whose method it is."""
    body: list[ast.stmt] = [definition]
    owner = code.co_qualname.rpartition(".")[0].rpartition(".")[2]
    if owner.isidentifier():
        body = [ast.ClassDef(owner, [], [], body, [])]
        if owner not in code.co_freevars:
            # What the function says of its class by name is no variable around it.
            body.insert(0, ast.Global([owner]))
    around = [ast.arg(name) for name in code.co_freevars if name != "__class__"]
    arguments = ast.arguments([], around, None, [], [], None, [])
    outer = ast.FunctionDef("__around__", arguments, body, [])
    return ast.fix_missing_locations(ast.Module([outer], []))


def _is_like(one: CodeType, code: CodeType, name: str) -> bool:
    return one.co_name == name and one.co_varnames[: code.co_argcount] == code.co_varnames[: code.co_argcount]


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """The codes of functions that a function defines."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_in(constant)


def _find(code: CodeType, wanted: Callable[[CodeType], bool]) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found = constant if wanted(constant) else _find(constant, wanted)
            if found is not None:
                return found
    return None
