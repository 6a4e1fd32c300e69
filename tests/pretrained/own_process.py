"""A call in a process of its own, so that neither a crash nor an endless loop ends those after it."""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Any

#: How many times as long a call may take as it computes.
WAITING = 5


def in_own_process(call: Callable[[], Any], seconds: int) -> Any:
    """What a call returns, in a copy of this process; None if it did not return within so many seconds, or at all.

    The copy is a fork, which has all imports already. Seconds are those that it computes, so that it may take longer
    where others compute beside it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(call(), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    content, end = b"", time.monotonic() + WAITING * seconds
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            read = pipe.read(1 << 16)
            if not read:
                break
            content += read
        else:
            os.kill(child, signal.SIGKILL)
            content = b""
    os.waitpid(child, 0)
    return pickle.loads(content) if content else None
