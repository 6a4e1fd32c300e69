"""Kinds: to the model's code sizes are the plain numbers that they are in eager mode.

``isinstance(n, int)``, ``case int():`` and functions chosen by type look at ``__class__`` where the type does not fit.
Asked by the model's code it is int there, for sizes and numbers that only run time knows; torch's own code finds
``torch.SymInt``. Their text is that of a plain number too, so where it is read for more than a message, the number is.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxport.capture.diagnosis.user_lines import asker, frame_of_caller, runs_for_model
from onnxport.capture.forks.expressions import is_for_message
from onnxport.capture.patches.replacing import attributes_replaced, class_replaced
from onnxport.source_files import TORCH_FOLDER
from onnxport.torch_internals.symbolic_sizes import get_proxy_mode

PLAIN_KINDS: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


@contextlib.contextmanager
def sizes_as_plain_numbers() -> Iterator[None]:
    """While the block runs, sizes are instances of int to the model's code."""
    texts = [(own, "__repr__", _written(vars(own)["__repr__"], plain)) for own, plain in PLAIN_KINDS.items()]
    with contextlib.ExitStack() as stack, attributes_replaced(texts):
        for own, plain in PLAIN_KINDS.items():
            stack.enter_context(class_replaced(own, _shown(own, plain)))
        yield


def is_literal(value: object, literal: bool | int) -> bool:
    """``value is literal``, where a size or a condition is the object that Python has for its value."""
    if isinstance(value, torch.SymBool) and isinstance(literal, bool):
        return bool(value) is literal
    if isinstance(value, torch.SymInt) and not isinstance(literal, bool):
        # Of small numbers Python has one object each; of others every size has its own.
        return -5 <= literal <= 256 and bool(value == literal)
    return value is literal


def with_plain_truths(value: Any) -> Any:
    """What is matched with True or False: conditions that run time decides are asked for their truth."""
    if isinstance(value, torch.SymBool):
        return bool(value)
    return type(value)(map(with_plain_truths, value)) if type(value) in (list, tuple) else value


def _written(shown: Callable[[object], str], plain: type) -> Callable[[Any], str]:
    def text(number: object) -> str:
        frame = None if get_proxy_mode() is None or asker() == "torch" else frame_of_caller()
        # What only a message tells may name the symbol.
        return shown(number) if frame is None or is_for_message(frame) else str(plain(number))

    return text


def _shown(own: type, plain: type) -> property:
    def kind(number: object) -> type:
        frame = sys._getframe(1)
        # torch asks tens of thousands of times in a capture, so that it is told apart first.
        if frame.f_code.co_filename.startswith(TORCH_FOLDER):
            return own
        return plain if runs_for_model(frame) else own

    return property(kind)
