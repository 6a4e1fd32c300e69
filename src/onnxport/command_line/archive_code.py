"""What the code of a TorchScript archive does while the archive is loaded: ``__setstate__``, and what that calls.

It is looked at, not run: a loop need not end, and calls of calls may be as many as one likes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

_RUN_AT_LOADING = "__setstate__"
_MOST_CALLS = 10_000
_LOOPS = (ast.While, ast.For, ast.ListComp, ast.DictComp)
# Weights packed for a quantized layer, and what the choice between two ways to pack them asks.
_OPERATORS = re.compile(
    r"ops\.quantized\.\w+|torch\.(?:eq|ne|lt|gt|le|ge|len|format|add|sub|mul|__\w+__)|annotate|unchecked_cast"
    r"|uninitialized|ops\.prim\.\w+|int|float|bool|str|getattr|isinstance"
)
_Functions = Mapping[str, list[ast.FunctionDef]]


class _UnfitError(Exception):
    """Says what code does beside putting a state back."""


def run_at_loading(sources: Mapping[str, bytes]) -> str | None:
    """What the code in these files does while it is loaded that may take any time; None where it puts states back."""
    if not any(_RUN_AT_LOADING.encode() in source for source in sources.values()):
        return None
    functions: dict[str, list[ast.FunctionDef]] = {}
    for name, source in sources.items():
        try:
            # As text: Python would read bytes in the encoding that they name.
            nodes = ast.walk(ast.parse(source.decode("latin-1")))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return f"{name} is no code that can be read"
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append(node)
    try:
        _calls(_RUN_AT_LOADING, functions, {}, ())
    except _UnfitError as unfit:
        return str(unfit)
    return None


def _calls(name: str, functions: _Functions, known: dict[str, int], callers: tuple[str, ...]) -> int:
    """How many functions run where those of a name do."""
    if name in callers:
        raise _UnfitError(f"{name} calls itself")
    if name not in known:
        known[name] = 1 + sum(
            _calls(called, functions, known, (*callers, name))
            for function in functions.get(name, ())
            for called in _called(function, functions)
        )
    if known[name] > _MOST_CALLS:
        raise _UnfitError(f"{name} makes more than {_MOST_CALLS} calls")
    return known[name]


def _called(function: ast.FunctionDef, functions: _Functions) -> list[str]:
    found = []
    for node in ast.walk(function):
        if isinstance(node, _LOOPS):
            raise _UnfitError(f"{function.name} has a loop")
        if isinstance(node, ast.Call):
            path = ast.unparse(node.func)
            name = path.rpartition(".")[2]
            is_operator = path.startswith(("torch.", "ops.")) or isinstance(node.func, ast.Name)
            if name in functions:
                found.append(name)
            elif is_operator and not _OPERATORS.fullmatch(path):
                raise _UnfitError(f"{function.name} calls {path}")
    return found
