"""Each comparison in a process of its own: a runtime that takes its process down is a finding too."""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Callable
from typing import NoReturn

from fuzz.outcomes import Outcome, outcome
from fuzz.programs import Program

SECONDS = 120
Judge = Callable[[Program, int], Outcome]


def isolated(program: Program, opset: int) -> Outcome:
    """The outcome, found in a fork, which ends after a time; what ends it otherwise is a crash."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _tell(program, opset, reading, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Outcome("crash", f"opset {opset}: {signal.Signals(os.WTERMSIG(status)).name}: the process ended")
    return pickle.loads(told) if told else Outcome("crash", f"opset {opset}: no outcome")


def _tell(program: Program, opset: int, reading: int, writing: int) -> NoReturn:
    try:
        os.close(reading)
        signal.alarm(SECONDS)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(outcome(program, opset), pipe)
    except BaseException:  # noqa: BLE001  it must not leave this function in the fork
        traceback.print_exc()
    finally:
        os._exit(0)
