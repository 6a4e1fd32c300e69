"""What torch says about a failure that another strategy may mend: the story is told by our error and events."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator

from onnxport.capture.patches.replacing import attributes_replaced

# In torch 2.9 it is "certain side effects happened", with their places.
_OF_ATTRIBUTES = r"The tensor attributes? .* (was|were) assigned during export|.*side effects.*'self'\]"


@contextlib.contextmanager
def torch_kept_quiet() -> Iterator[None]:
    """Keep torch's account of a failure off stderr, unless the user asked for those logs.

    And its warning that a model assigns tensors to attributes: torch's own recurrent layers do, and of others we tell
    where that makes a difference (``diagnosis/kept_values.py``).
    """
    from onnxport.torch_internals.exporting import LOGGERS, export_trace

    loggers = [logging.getLogger(name) for name in LOGGERS]
    silenced = [logger for logger in loggers if not logger.disabled and logger.getEffectiveLevel() >= logging.WARNING]
    # On a data-dependent failure torch prints the partial graph; shadowing its print leaves the user's own alone.
    shadow = (export_trace, "print", lambda *_, **__: None)
    disabled = [(logger, "disabled", True) for logger in silenced]
    with attributes_replaced([shadow, *disabled]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", _OF_ATTRIBUTES)
        # Arrays of NumPy are tensors for the bytecode tracer; where the user's are, eager says so.
        warnings.filterwarnings("ignore", "To copy construct from a tensor")
        # It meets functions that this package puts in the place of others. What is refused is said by our error.
        warnings.filterwarnings("ignore", "Dynamo does not know how to trace")
        yield
