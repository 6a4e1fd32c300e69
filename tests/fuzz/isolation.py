"""Comparisons in a process of their own: a runtime that takes its process down is a finding too."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from fuzz.outcomes import Outcome, outcome
from fuzz.programs import Program

SECONDS = 120
COMPARISONS = 200
"""A process makes so many: what torch and sympy remember makes each of them faster, but it grows."""
COMPARISONS_BETWEEN_COLLECTIONS = 10
Judge = Callable[[Program], Outcome]
_FORK = multiprocessing.get_context("fork")


class Isolated:
    """Judges programs in a fork, which is replaced when it ends, hangs or has done its number."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._made = 0

    def __call__(self, program: Program) -> Outcome:
        """The outcome; what ends the process otherwise is a crash."""
        if self._process is None or self._made >= COMPARISONS:
            self._begin()
        assert self._process is not None
        self._made += 1
        try:
            self._told.send(program)
            if self._told.poll(SECONDS):
                found = self._told.recv()
                assert isinstance(found, Outcome)
                return found
            return self._crash(f"no outcome after {SECONDS} s")
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return self._crash("the process ended")

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _begin(self) -> None:
        self.end()
        self._told, theirs = _FORK.Pipe()
        self._process = _FORK.Process(target=_serve, args=(theirs, self._told), daemon=True)
        self._process.start()
        theirs.close()
        self._made = 0

    def _crash(self, what: str) -> Outcome:
        assert self._process is not None
        self._process.join(1)
        code = self._process.exitcode
        by = f" by {signal.Signals(-code).name}" if code is not None and code < 0 else ""
        self.end()
        return Outcome("crash", f"all opsets: {what}{by}")


def _serve(told: Connection, of_the_parent: Connection) -> None:
    of_the_parent.close()
    # Nearly all that a comparison makes is kept until its end: looking for cycles meanwhile is a sixth of its time.
    gc.freeze()
    gc.disable()
    for made in itertools.count(1):
        if made % COMPARISONS_BETWEEN_COLLECTIONS == 0:
            gc.collect()
        try:
            program = told.recv()
        except EOFError:
            return
        told.send(outcome(program))
