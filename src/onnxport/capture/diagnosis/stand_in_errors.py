"""Errors that the model's code raises only while it is captured, where other classes stand for Python's own.

A size is no int then, and a list of rows no list: what these lack fails in code that is right. Such an error says
nothing of the inputs that the model takes.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence

import torch

from onnxport.capture.preserved import attributes_preserved, buffers_preserved
from onnxport.capture.request.eager_calls import called_eagerly

_PACKAGE = __name__.partition(".")[0]
_CAPTURE = __name__.rpartition(".diagnosis")[0]
_OF_TORCH = frozenset({"SymInt", "SymFloat", "SymBool"})
# What NumPy makes of a size is an array of objects, which nothing that takes numbers takes.
_WORDS = re.compile(r"'(\w+)'|\b(Sym\w+)\b|numpy\.(object_)")


def is_by_stand_in(error: BaseException) -> bool:
    """Whether an error is one of the package's own, or speaks of a class that stands for one of Python's.

    >>> is_by_stand_in(TypeError("unsupported operand type(s) for +: 'SymInt' and 'list'"))
    True
    >>> is_by_stand_in(TypeError("unsupported operand type(s) for +: 'int' and 'list'"))
    False
    """
    if type(error).__module__.partition(".")[0] == _PACKAGE:
        return True
    if not isinstance(error, TypeError | AttributeError):
        return False
    named = {word for match in _WORDS.finditer(str(error)) for word in match.groups() if word}
    return bool(named) and ("object_" in named or not named.isdisjoint(_OF_TORCH | _own_classes()))


def _own_classes() -> set[str]:
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(_CAPTURE)]
    values = [value for module in modules for value in vars(module).values()]
    return {value.__name__ for value in values if isinstance(value, type) and value.__module__.startswith(_CAPTURE)}


def eager_raises(model: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Whether the model raises in eager mode with these arguments; it is left as it was."""
    with attributes_preserved(model), buffers_preserved(model), contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        try:
            called_eagerly(model, args, kwargs)
        except Exception:  # noqa: BLE001 - it is the model's, which may raise anything
            return True
    return False
