"""Saying that an export is under way, to models that ask."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from onnxport.capture.patches.replacing import attributes_replaced, items_replaced
from onnxport.undoing import pushed

_exports: list[None] = []


def is_in_onnx_export() -> bool:
    """Tell whether an export to ONNX is capturing the model right now.

    >>> import onnxport.capture
    >>> onnxport.capture.is_in_onnx_export()
    False
    """
    return bool(_exports)


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Make :func:`is_in_onnx_export`, and torch's own, true."""
    from onnxport.torch_internals.exporting import (
        onnx_flags,
        tracing_state_functions,
    )

    # Bytecode tracing answers torch.onnx.is_in_onnx_export() from a table of constants, not by calling it.
    constants = items_replaced(tracing_state_functions(), {torch.onnx.is_in_onnx_export: True})
    flag = attributes_replaced([(onnx_flags, "_is_onnx_exporting", True)])
    with flag, constants, pushed(_exports, None):
        yield
