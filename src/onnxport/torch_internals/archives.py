"""Captured programs read from ``.pt2`` files without running what is in them.

``torch.export.load`` unpickles what its careful reader refuses, loads compiled libraries, evaluates the expressions
of sizes as Python, and finds operators by any path of attributes from ``torch`` on.
"""

from __future__ import annotations

import ast
import contextlib
import logging
import operator
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import sympy  # type: ignore[import-untyped]
import torch
from torch._export.serde import serialize
from torch._ops import HigherOrderOperator, OpOverload
from torch.export.pt2_archive import _package
from torch.utils._sympy import functions as sympy_functions

__all__ = ["CodeInFileError", "load_program"]


class CodeInFileError(Exception):
    """A file holds something that can only be read by running it."""


_PLAIN_SYNTAX = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.Call,
    ast.keyword,
    ast.Name,
    ast.Constant,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)
# Numbers, and the names of symbols.
_PLAIN_CONSTANT = re.compile(r"\w+|-?\d*\.?\d*(?:e[+-]?\d+)?")
# What torch.export itself writes into graphs beside operators.
_FUNCTIONS = frozenset({torch._C._set_grad_enabled, torch.sym_not, torch.sym_max, torch.sym_min, torch.sym_ite})
_MAKERS_OF_CALLS = frozenset({"call", "methodcaller", "attrgetter", "itemgetter"})


def load_program(path: Path, *, run_code: bool) -> torch.export.ExportedProgram:
    """Read a captured program; without ``run_code``, raise ``CodeInFileError`` where code of the file would run."""
    with _failures_unlogged():
        return torch.export.load(path) if run_code else _load_without_running(path)


def _load_without_running(path: Path) -> torch.export.ExportedProgram:
    # torch puts errors of its own in the place of ours, or goes on with an older form of the file after one.
    refusals: list[CodeInFileError] = []
    try:
        with _nothing_run(refusals):
            return torch.export.load(path)
    except Exception as error:
        if refusals:
            raise refusals[0] from error
        raise


@contextlib.contextmanager
def _failures_unlogged() -> Iterator[None]:
    """torch logs the traceback of one failure, then reads the file in an older form and raises what fails there."""
    log = logging.getLogger("torch.export")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


@contextlib.contextmanager
def _nothing_run(refusals: list[CodeInFileError]) -> Iterator[None]:
    load = torch.load
    deserializer = serialize.GraphModuleDeserializer
    find, parse = deserializer.deserialize_operator, deserializer._parse_sym_expr

    def refuse(reason: str) -> NoReturn:
        refusals.append(CodeInFileError(reason))
        raise refusals[-1]

    def refusal(reason: str) -> Callable[..., NoReturn]:
        return lambda *args, **kwargs: refuse(reason)

    def load_weights(file: object, *args: object, **kwargs: object) -> object:
        try:
            return load(file, weights_only=True)  # type: ignore[arg-type]
        except pickle.UnpicklingError:
            refuse("it holds a pickle of more than tensors")

    def known_operator(self: serialize.GraphModuleDeserializer, name: str) -> object:
        found: object = find(self, name)
        if not _is_operator(name, found):
            refuse(f"its graph calls {name}, which is not an operator")
        return found

    def plain_expression(self: serialize.GraphModuleDeserializer, text: object, hint: object = None) -> object:
        if not _is_plain(text):
            refuse(f"the size {str(text)[:80]!r} in it is not an expression of sizes")
        return parse(self, text, hint)  # type: ignore[arg-type]

    replaced: list[tuple[object, str, object]] = [
        (torch, "load", load_weights),
        (_package, "pickle", SimpleNamespace(loads=refusal("it holds a pickled object"))),
        (_package, "_load_aoti", refusal("it holds a compiled library")),
        (torch._C, "_pickle_load_obj", refusal("it holds a pickled object")),
        (deserializer, "deserialize_operator", known_operator),
        (deserializer, "_parse_sym_expr", plain_expression),
    ]
    with contextlib.ExitStack() as undo:
        for owner, name, new in replaced:
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, new)
        yield


def _is_operator(name: str, found: object) -> bool:
    if isinstance(found, str | OpOverload | HigherOrderOperator) or found in _FUNCTIONS:
        return True
    parts = name.split(".")
    if parts[0] == "_operator":
        return len(parts) == 2 and parts[1] not in _MAKERS_OF_CALLS and hasattr(operator, parts[1])
    return len(parts) == 2 and (parts[0] == "math" or parts[1].startswith(("sym_", "_sym_")))


def _is_plain(text: object) -> bool:
    """Whether evaluating an expression can do no more than arithmetic."""
    if not isinstance(text, str):
        return isinstance(text, sympy.Basic | int | float)
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(
        isinstance(node, _PLAIN_SYNTAX)
        and not (isinstance(node, ast.Constant) and not _PLAIN_CONSTANT.fullmatch(str(node.value)))
        and not (isinstance(node, ast.Name) and node.id.startswith("_"))
        and not (isinstance(node, ast.Call) and not _is_function_of_sizes(node.func))
        for node in nodes
    )


def _is_function_of_sizes(function: ast.expr) -> bool:
    if not isinstance(function, ast.Name):
        return False
    found = getattr(sympy, function.id, getattr(sympy_functions, function.id, None))
    return isinstance(found, type) and issubclass(found, sympy.Basic)
