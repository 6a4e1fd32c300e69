"""Models in Python code: a name in a file or module, called where it is a class or function, or the only one there."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType

import torch

from onnxport.command_line.usage import UsageError
from onnxport.command_line.users_code import users_code
from onnxport.errors import InputError

# What functions are called that make a model; others in a file may do anything.
_BUILDER = re.compile(r"(build|make|create|get|load|new)(_|$)|(model|net|network)$")


@dataclass(frozen=True)
class Call:
    """A reference taken apart: where, which name, and what it is called with."""

    place: str
    name: str
    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = field(default_factory=dict)


def parse_call(reference: str) -> Call:
    """Take a reference apart.

    >>> from onnxport.command_line.python_models import parse_call
    >>> parse_call("net.py:build(3, width=8)")
    Call(place='net.py', name='build', args=(3,), kwargs={'width': 8})
    """
    head, opened, rest = reference.partition("(")
    place, colon, name = head.rpartition(":")
    if not colon or len(place) < 2:
        # One letter is a drive of Windows.
        return Call(reference, "")
    if not opened:
        return Call(place, name)
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        assert isinstance(call, ast.Call) and all(keyword.arg for keyword in call.keywords)
        args = tuple(ast.literal_eval(argument) for argument in call.args)
        kwargs = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, AssertionError) as error:
        message = f"{reference}: arguments are numbers, texts, lists and the like, as in {head}(3, width=8)."
        raise UsageError(message) from error
    return Call(place, name, args, kwargs)


def load_python(call: Call, reference: str) -> object:
    """What a reference to Python code names, called where it is not a module already."""
    if not call.name:
        module = _of_file(Path(call.place))
        name = _only_model(call.place, module)
    else:
        module = _of_file(Path(call.place)) if call.place.endswith(".py") else _imported(call.place)
        name = call.name
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{call.place} has no {name}{_similar(name, found)}")
        found = getattr(found, part)
    if callable(found) and not isinstance(found, torch.nn.Module):
        return called(reference, found, call)
    if call.args or call.kwargs:
        raise InputError(f"{call.place}:{name} is a module already, and takes no arguments here.")
    return found


def _similar(name: str, owner: object) -> str:
    close = difflib.get_close_matches(name.rpartition(".")[2], [one for one in vars(owner) if not one.startswith("_")])
    return f"; did you mean {close[0]}?" if close else "."


def called(reference: str, make: Callable[..., object], call: Call) -> object:
    """Call the user's function or class."""
    with users_code(reference):
        return make(*call.args, **call.kwargs)


def _only_model(place: str, module: ModuleType) -> str:
    """The name of the one model that stands in a file: a module, a function that makes one, or a class."""
    own = {name: found for name, found in vars(module).items() if not name.startswith("_")}
    modules = [name for name, found in own.items() if isinstance(found, torch.nn.Module)]
    written = {name: found for name, found in own.items() if getattr(found, "__module__", "") == module.__name__}
    functions = [name for name, found in written.items() if isinstance(found, FunctionType) and _BUILDER.match(name)]
    kinds = [name for name, found in written.items() if isinstance(found, type) and issubclass(found, torch.nn.Module)]
    builders, classes = ([name for name in names if _needs_nothing(own[name])] for names in (functions, kinds))
    for names in (modules, builders, classes):
        if len(names) == 1:
            return names[0]
    there = [f"{place}:{name}" for name in (*modules, *builders, *classes)]
    if not there:
        others = "".join(f" Write '{place}:{name}(...)' with its arguments." for name in (*functions, *kinds)[:1])
        raise InputError(f"{place} has no module, and no function or class that makes one without arguments.{others}")
    raise InputError(f"{place} has several models; name one of {', '.join(there)}.")


def _needs_nothing(found: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(found).parameters.values()
    except ValueError:
        return False
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(one.default is not one.empty or one.kind in variable for one in parameters)


def _imported(place: str) -> ModuleType:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        with users_code(place):
            return importlib.import_module(place)
    except InputError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and f"{place}.".startswith(f"{cause.name}."):
            raise InputError(f"There is no Python module {place} ({cause}).") from error
        raise
    finally:
        sys.path.remove(here)


def _of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    # A file may have the name of a module that is loaded already: torch.py.
    name = path.stem if path.stem not in sys.modules else f"onnxport_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look their module up by name; files beside this one are imported by theirs.
    sys.modules[name] = module
    beside = str(path.resolve().parent)
    sys.path.insert(0, beside)
    try:
        with users_code(str(path)):
            spec.loader.exec_module(module)
    finally:
        sys.path.remove(beside)
    return module
