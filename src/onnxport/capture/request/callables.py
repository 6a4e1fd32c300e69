"""Functions, bound methods and other callables as modules: what runs is captured, with the weights it reads."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

import torch


def as_module(model: object) -> Any:
    """A callable as a module that calls it; what is a model already, or none at all, passes as it is.

    A method of a module is the module with that method for its forward, so that the weights keep their names. The
    modules that a function uses, from around it or from among its globals, are modules of the result.

    >>> import torch
    >>> scale = torch.nn.Linear(2, 2)
    >>> dict(as_module(lambda x: scale(x) + 1).named_modules())["scale"] is scale
    True
    """
    known = (torch.nn.Module, torch.export.ExportedProgram, torch.jit.ScriptFunction, type)
    if isinstance(model, known) or not callable(model):
        return model
    owner = getattr(model, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return _with_forward(owner, model)
    name = getattr(model, "__name__", type(model).__name__)
    module = type(name if name.isidentifier() else "Function", (torch.nn.Module,), {})()
    for attribute, used in modules_used(model):
        if not hasattr(module, attribute):
            module.add_module(attribute, used)
    module.forward = _with_signature(model)
    # It has no mode of its own, so it takes that of what it calls.
    module.training = any(child.training for child in module.children())
    return module


def _with_forward(owner: torch.nn.Module, method: Any) -> torch.nn.Module:
    if method.__name__ in ("forward", "__call__", "_call_impl", "_wrapped_call_impl"):
        return owner
    module = copy.copy(owner)
    module.forward = MethodType(method.__func__, module)
    return module


def _with_signature(function: Callable[..., object]) -> Callable[..., object]:
    """The function itself, or where it does not tell its parameters, as one of C++ does not, one that calls it."""
    try:
        inspect.signature(function)
    except ValueError:

        def call(*args: object) -> object:
            return function(*args)

        return call
    return function


def modules_used(function: Any) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules that a function reaches: in its closure and globals, in what a partial or an object holds."""
    if isinstance(function, functools.partial):
        held = {f"argument_{index}": value for index, value in enumerate(function.args)} | function.keywords
        yield from modules_used(function.func)
    elif hasattr(function, "__code__"):
        code = function.__code__
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        named = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
        held = named | dict(zip(code.co_freevars, cells, strict=False))
    else:
        held = dict(getattr(function, "__dict__", {}))
        if (owner := getattr(function, "__self__", None)) is not None:
            held |= getattr(owner, "__dict__", {})
    yield from ((name, value) for name, value in held.items() if isinstance(value, torch.nn.Module))


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
