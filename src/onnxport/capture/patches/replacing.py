"""Python kernels of operators and functions of torch's modules, put in place for the length of a capture."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
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


@contextlib.contextmanager
def functions_replaced(functions: Sequence[tuple[Any, str, Kernel]]) -> Iterator[None]:
    """While this is open, modules have these functions by these names; afterwards those they had before."""
    saved = [(place, name, name in vars(place), getattr(place, name)) for place, name, _ in functions]
    try:
        for place, name, function in functions:
            setattr(place, name, function)
        yield
    finally:
        for place, name, own, original in saved:
            if own:
                setattr(place, name, original)
            else:
                delattr(place, name)
