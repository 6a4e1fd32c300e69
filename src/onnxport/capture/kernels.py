"""Python kernels of operators, put in place for the length of a capture."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

Kernel = Callable[..., Any]
Kernels = Mapping[Any, Kernel]


@contextlib.contextmanager
def replaced(kernels: Mapping[torch._ops.OpOverload, Kernels]) -> Iterator[None]:
    """While this is open, operators have these kernels, by dispatch key; afterwards those they had before."""
    saved = [(operator, dict(operator.py_kernels)) for operator in kernels]
    try:
        for operator, own in kernels.items():
            operator.py_kernels.update(own)
            operator._dispatch_cache.clear()
        yield
    finally:
        for operator, before in saved:
            operator.py_kernels.clear()
            operator.py_kernels.update(before)
            operator._dispatch_cache.clear()
