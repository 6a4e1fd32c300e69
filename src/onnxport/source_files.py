"""Files of Python code: whose one is (the user's, a library's, torch's, Python's own or this package's), its syntax."""

from __future__ import annotations

import ast
import linecache
import os
import sysconfig
from collections.abc import Iterable
from functools import lru_cache

import torch

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
PACKAGE_FOLDER = os.path.dirname(__file__) + os.sep
# No models live there: what calls it is to blame.
NUMPY_FOLDER = os.path.join(os.sep, "site-packages", "numpy", "")
_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"] + os.sep
# Code without a file: typed at a prompt or in a notebook, or given to exec.
_TYPED = ("<stdin>", "<ipython-input", "<string>")
# Frames that compiled code shows in tracebacks: their files are not where they say, nor do they call torch.
_COMPILED = (".pyx", ".pxd", ".pxi")


@lru_cache(maxsize=1024)
def is_users_file(filename: str | None) -> bool:
    """Whether a file is the user's or a library's other than torch; code without a file is typed by the user.

    >>> import contextlib
    >>> from onnxport.source_files import is_users_file
    >>> is_users_file("model.py"), is_users_file(contextlib.__file__)
    (True, False)
    """
    if filename is None or filename.startswith(_TYPED):
        return True
    if filename.startswith(("<", TORCH_FOLDER, PACKAGE_FOLDER)) or NUMPY_FOLDER in filename:
        return False
    if filename.endswith(_COMPILED):
        return False
    # Installed packages may live below the standard library's folder; the models in them count as the user's code.
    return not filename.startswith(_STANDARD_LIBRARY) or is_librarys_file(filename)


def is_librarys_file(filename: str) -> bool:
    """Whether a file was installed with a library, as opposed to written by the user."""
    return "site-packages" in filename


def nodes_of_file(filename: str) -> Iterable[ast.AST]:
    """The syntax of a file; nothing where what is on disk by now is no Python."""
    source = "".join(linecache.getlines(filename))
    try:
        return ast.walk(ast.parse(source))
    except SyntaxError:
        return ()


def unwrapped(function: object) -> object:
    """The function behind decorators, or the first that is met again where they go round in a circle.

    ``functools.wraps(f)(torch.compile(f))`` makes one: while a model is captured ``torch.compile(f)`` is ``f`` itself.

    >>> import functools
    >>> from onnxport.source_files import unwrapped
    >>> def double(x): return 2 * x
    >>> unwrapped(functools.wraps(double)(double)) is double
    True
    """
    met = {id(function)}
    while (inner := getattr(function, "__wrapped__", None)) is not None and id(inner) not in met:
        met.add(id(inner))
        function = inner
    return function
