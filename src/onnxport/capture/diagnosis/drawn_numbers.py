"""Numbers that Python or numpy draw while a model is captured: the file has the ones of the capture, at every call."""

from __future__ import annotations

import contextlib
import functools
import random
import sys
from collections.abc import Callable

import numpy as np

from onnxport.capture.diagnosis.user_lines import describe
from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.errors import Problem, listing, warn
from onnxport.events import EventLog
from onnxport.source_files import is_librarys_file, is_users_file

_FUNCTIONS = {
    random: (
        *("random", "uniform", "randint", "randrange", "getrandbits", "choice", "choices", "sample", "shuffle"),
        *("gauss", "normalvariate", "betavariate", "expovariate", "triangular"),
    ),
    np.random: (
        *("random", "random_sample", "rand", "randn", "randint", "uniform", "normal", "standard_normal"),
        *("choice", "permutation", "shuffle", "binomial", "beta", "exponential", "poisson"),
    ),
}


class DrawnNumbers:
    """The lines of a model, and of libraries that it calls, that draw numbers without torch."""

    def __init__(self) -> None:
        # By line and function, whether the line is a library's.
        self._lines: dict[tuple[str, str], bool] = {}

    def noted(self) -> contextlib.AbstractContextManager[None]:
        """While the block runs, whoever draws is noted."""
        from onnxport.torch_internals.exporting import known_numpy_functions

        # Dynamo lists numpy's functions by their id() when it first meets one. Listed inside the block, it would know
        # the replacements, and take whatever Python makes at a freed one's address for a function of numpy.
        known_numpy_functions()
        return attributes_replaced(
            [
                (module, name, self._noting(f"{module.__name__}.{name}", getattr(module, name)))
                for module, names in _FUNCTIONS.items()
                for name in names
            ]
        )

    def _noting(self, called: str, draw: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(draw)
        def noting(*args: object, **kwargs: object) -> object:
            frame = sys._getframe(1)
            filename = frame.f_code.co_filename
            if is_users_file(filename):
                where = describe((filename, frame.f_lineno, frame.f_code.co_name))
                self._lines[where, called] = is_librarys_file(filename)
            return draw(*args, **kwargs)

        return noting

    def report(self, events: EventLog) -> None:
        """Record every line; those of the user's own code are a warning. Libraries draw what they use in training."""
        for where, called in self._lines:
            events.add("assumption", "capture", f"{called} draws what it drew for the example", where=where)
        own = [Problem(called, where) for (where, called), of_library in self._lines.items() if not of_library]
        if own:
            headline = "What is drawn without torch is drawn once, when the model is captured, and the file keeps it:"
            warn(listing(headline, own, "Draw with torch.rand or its like in the model, or make the numbers an input."))
