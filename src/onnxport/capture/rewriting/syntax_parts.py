"""Pieces that the syntax of rewritten functions is made of: calls of our helpers, statements without a place."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import TypeVar

from onnxport.capture.rewriting.leaving import BROKEN, Unflagged

_Made = TypeVar("_Made", bound=ast.AST)
# Two underscores would make another name of it in the methods of a class.
OWN = "_onnxport_"
_ATTRIBUTES = {"unbind", "split", "pad_sequence", "stack", "cat", "concat", "concatenate", "get", "index", "numel"}
_ATTRIBUTES |= {"setdefault", "reduce", "accumulate", "pairwise", "product", "chain", "islice"}
_ATTRIBUTES |= {"tensor", "as_tensor", "combinations", "isqrt", "gcd", "fmod", "isnan", "isinf", "isfinite"}
_ATTRIBUTES |= {"sqrt", "log2", "exp", "log", "log10", "sin", "cos", "tan", "tanh", "atan"}
# What models call numpy.
_ARRAYS = ("np", "numpy", "onp")
HELPERS = "__onnxport_helpers__"


def helper(name: str, *arguments: ast.expr) -> ast.Call:
    """A call of one of our helpers."""
    return ast.Call(ast.Attribute(ast.Name(HELPERS, ast.Load()), name, ast.Load()), list(arguments), [])


def looked_up(owner: ast.expr, key: ast.expr) -> ast.Call:
    """``owner[key]``; of ``owner[f"layer_{number}"]`` the name is a function of the number, which may be of data."""
    values = key.values if isinstance(key, ast.JoinedStr) else []
    numbers = [value for value in values if isinstance(value, ast.FormattedValue)]
    if len(numbers) != 1 or numbers[0].conversion != -1 or numbers[0].format_spec is not None:
        return helper("item", owner, key)
    (number,) = numbers
    shown = ast.FormattedValue(ast.Name("number", ast.Load()), -1)
    name = ast.JoinedStr([shown if value is number else value for value in values])
    return helper("named_item", owner, ast.Lambda(_one_argument("number"), name), number.value)


def _one_argument(name: str) -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[ast.arg(name)], kwonlyargs=[], kw_defaults=[], defaults=[])


def of_item(target: ast.expr, value: ast.expr, item: str) -> ast.Lambda:
    """What a comprehension makes of an item, as a function of it."""
    given = ast.List([ast.Name(item, ast.Load())], ast.Load())
    one = ast.ListComp(value, [ast.comprehension(copy.deepcopy(target), given, [], 0)])
    return ast.Lambda(_one_argument(item), ast.Subscript(one, ast.Constant(0), ast.Load()))


def either_opened(node: ast.IfExp, opens: bool) -> ast.expr:
    """A ternary of which one run captures both sides, where only run time knows which is taken, if it ``opens`` any."""
    nothing = ast.arguments([], [], None, [], [], None, [])
    sides = [ast.Lambda(nothing, copy.deepcopy(side)) for side in (node.body, node.orelse)]
    if not opens or any(isinstance(inner, ast.NamedExpr | ast.Await | ast.Yield) for inner in ast.walk(node)):
        return node
    plain = ast.IfExp(ast.Name(f"{OWN}asked", ast.Load()), node.body, node.orelse)
    return placed(node, helper("either_opened", node.test, *sides, ast.Lambda(_one_argument(f"{OWN}asked"), plain)))


def call_of(name: str) -> ast.Call:
    """A call of a function without arguments."""
    return ast.Call(ast.Name(name, ast.Load()), [], [])


def tuple_of(names: Sequence[str], context: ast.expr_context) -> ast.Tuple:
    """A tuple of variables, read or assigned to."""
    return ast.Tuple([ast.Name(name, context) for name in names], context)


def texts_of(*lists: Sequence[str]) -> list[ast.expr]:
    """Tuples of texts."""
    return [ast.Tuple([ast.Constant(text) for text in texts], ast.Load()) for texts in lists]


def statement_of(text: str) -> ast.stmt:
    """A statement without a place."""
    (statement,) = ast.parse(text).body
    for inner in ast.walk(statement):
        for attribute in inner._attributes:
            delattr(inner, attribute)
    return statement


def placed(place: ast.stmt | ast.expr, made: _Made) -> _Made:
    """What was made, with the place in the file of what it stands for wherever it has none."""
    for inner in ast.walk(made):
        if "lineno" in inner._attributes and getattr(inner, "lineno", None) is None:
            ast.copy_location(inner, place)
    return made


def first_line(definition: ast.FunctionDef) -> int:
    """The line on which a function begins, with what decorates it."""
    return min([definition.lineno, *(decorator.lineno for decorator in definition.decorator_list)])


def goes_on(flag: str) -> ast.Compare:
    """Whether a loop was not left."""
    return ast.Compare(ast.Name(flag, ast.Load()), [ast.Lt()], [ast.Constant(BROKEN)])


def loop_or_plain(loop: str, made: ast.expr, run: Sequence[ast.stmt], plain: ast.stmt) -> list[ast.stmt]:
    """What runs a loop that is captured, or the plain one where there is none."""
    is_plain = ast.Compare(ast.Name(loop, ast.Load()), [ast.Is()], [ast.Constant(None)])
    return [ast.Assign([ast.Name(loop, ast.Store())], made), ast.If(is_plain, [plain], list(run))]


def text_of(loop: ast.For | ast.While) -> str:
    """The head of a loop."""
    if isinstance(loop, ast.While):
        return f"while {ast.unparse(loop.test)}"
    return f"for {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}"


def assigned_by(names: Sequence[str], loop: str) -> ast.stmt:
    """What assigns to variables what a loop that is captured leaves of them."""
    return statement_of(f"({', '.join(names)},) = {loop}.run()" if names else f"{loop}.run()")


def is_open_attribute(function: ast.expr) -> bool:
    """Whether an attribute may be a function that keeps sizes open, as all of numpy's may."""
    if isinstance(function, ast.Attribute) and function.attr in _ATTRIBUTES:
        return True
    owner = function
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id in _ARRAYS


def may_be_key(index: ast.expr) -> bool:
    """Whether an index may be the key of a dict that only run time knows."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return not all(isinstance(part, ast.Constant) for part in parts) and not any(
        isinstance(part, ast.Slice | ast.Starred) for part in parts
    )


def with_open_indices(node: ast.Subscript) -> ast.Subscript:
    """``x[:, places]``, where ``places`` may be a list of numbers that only run time counts."""
    if isinstance(node.slice, ast.Tuple):
        parts = node.slice.elts
        node.slice.elts = [placed(one, helper("index", one)) if isinstance(one, ast.Name) else one for one in parts]
    return node


def may_be_open(part: ast.Slice) -> bool:
    """Whether only run time may know where a slice begins or ends."""
    bounds = [one.operand if isinstance(one, ast.UnaryOp) else one for one in (part.lower, part.upper)]
    return any(bound is not None and not isinstance(bound, ast.Constant) for bound in bounds)


def makes_class(node: ast.Call) -> bool:
    """Whether a call of ``type`` makes a class."""
    return isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) != 1


def loop_description(
    body: str, names: Sequence[str], reads: Sequence[str], loop: ast.For | ast.While, flag: str
) -> list[ast.expr]:
    """What a loop that is captured is told of itself."""
    # A flag, and what a loop returns, are asked for behind it.
    needed = [name for name in names if name in reads or name.startswith(OWN)]
    attributes = [
        ast.unparse(inner)
        for part in loop.body
        for inner in ast.walk(part)
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
    ]
    texts = texts_of(names, needed, attributes)
    return [ast.Name(body, ast.Load()), *texts, ast.Constant(text_of(loop)), ast.Constant(flag)]


def flag_lowered(found: Unflagged) -> list[ast.stmt]:
    """What begins a loop that nothing has left yet."""
    return [ast.Assign([ast.Name(found.flag, ast.Store())], ast.Constant(0))] if found.flag else []
