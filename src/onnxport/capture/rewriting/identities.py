"""Functions that look at types and values by identity: ``type(n) is int``, ``(n > 2) is True``, ``n is 8``.

No replacement of what sizes do is ever asked there, so these functions are found before the model runs: in
what forward may call, by their bytecode and then by their source. Of installed libraries only the files that define
the model's own modules are searched: all that these may call is thousands of functions, a fifth of a capture's time.
"""

from __future__ import annotations

import dis
import linecache
import re
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType

import torch

from onnxport.source_files import is_librarys_file, is_users_file, unwrapped

_IDENTITY = dis.opmap["IS_OP"]
_OF_TYPE = re.compile(r"\btype\(.*\b(int|float|bool|Number|Integral)\b|\b(int|float|bool|Number|Integral)\b.*\btype\(")
_OF_LITERAL = re.compile(r"\bis\s+(not\s+)?(True|False|-?\d+)\b|\bcase\b.*\b(True|False)\b")


def functions_with_identities(model: object) -> Iterator[FunctionType]:
    """The functions that a model's forward may call and that may look at a size's type or value by identity."""
    if not isinstance(model, torch.nn.Module):
        return
    modules = list(model.modules())
    kinds = {base for kind in {type(one) for one in modules} for base in kind.__mro__ if _is_users(base)}
    files = {getattr(sys.modules[kind.__module__], "__file__", None) for kind in kinds}
    waiting = [function for kind in kinds for function in _plain_functions(vars(kind).get("forward"))]
    waiting += [function for one in modules for value in vars(one).values() for function in _plain_functions(value)]
    seen: set[CodeType] = set()
    while waiting:
        function = waiting.pop()
        code = function.__code__
        if code in seen or (is_librarys_file(code.co_filename) and code.co_filename not in files):
            continue
        seen.add(code)
        if _may_look(code):
            yield function
        waiting += _called(function, kinds)


def _called(function: FunctionType, kinds: Iterable[type]) -> Iterator[FunctionType]:
    """The functions that one may call: by a global name, through a module, or as a method of the model's classes."""
    names = {name for code in _with_inner(function.__code__) for name in code.co_names}
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            for attribute in names & vars(value).keys():
                yield from _plain_functions(vars(value)[attribute])
        elif isinstance(value, type):
            yield from (method for member in vars(value).values() for method in _plain_functions(member))
        else:
            yield from _plain_functions(value)
    for kind in kinds:
        for name in names & vars(kind).keys():
            yield from _plain_functions(vars(kind)[name])


def _plain_functions(value: object) -> Iterator[FunctionType]:
    """The function behind what may be decorated, a property or a method of a class; none of torch's."""
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, staticmethod | classmethod | MethodType):
        value = value.__func__
    if isinstance(value, FunctionType):
        function = unwrapped(value)
        if isinstance(function, FunctionType) and is_users_file(function.__code__.co_filename):
            yield function


def _is_users(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return module is not None and is_users_file(getattr(module, "__file__", None))


def _may_look(code: CodeType) -> bool:
    codes = list(_with_inner(code))
    of_type = any("type" in one.co_names for one in codes)
    of_literal = any(
        _IDENTITY in one.co_code[::2] and any(isinstance(constant, int) for constant in one.co_consts) for one in codes
    )
    if not of_type and not of_literal:
        return False
    last = max(line for one in codes for *_, line in one.co_lines() if line is not None)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : last]
    return any(_OF_TYPE.search(line) or _OF_LITERAL.search(line) for line in lines)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)
