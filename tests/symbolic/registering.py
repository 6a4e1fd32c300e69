"""Symbolic functions that are registered for the length of a test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import onnxport


@contextlib.contextmanager
def registered(name: str, function: Callable[..., Any], opset: int = 9) -> Iterator[None]:
    onnxport.register_custom_op_symbolic(name, function, opset)
    try:
        yield
    finally:
        onnxport.unregister_custom_op_symbolic(name, opset)
