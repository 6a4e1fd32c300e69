"""A flame graph of an export: which calls of which calls its time went to."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from html import escape
from types import FrameType

from onnxport.rendering.page import flame_view, page

# Seconds between two looks at the stack.
_INTERVAL = 0.002
_KINDS = {
    "onnxport": "this package",
    "torch": "torch",
    "sympy": "sympy",
    "runtime": "onnxruntime, onnx",
    "users": "other",
}
_ROOT = "run_export"

Stack = tuple[str, ...]
Call = list[object]
"""A call as the view takes it: its name, how many samples it was seen in, its kind, and the calls in it."""


class Sampler:
    """Looks at the stack of one thread every two milliseconds, from another thread."""

    def __init__(self) -> None:
        self.stacks: Counter[Stack] = Counter()
        self._watched = threading.get_ident()
        self._names: dict[object, str] = {}
        self._done = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Sample the thread that runs the block."""
        switch = sys.getswitchinterval()
        # A thread gets its turn after this at the earliest.
        sys.setswitchinterval(_INTERVAL / 4)
        thread = threading.Thread(target=self._sample, name="onnxport sampler", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()
            sys.setswitchinterval(switch)

    def _sample(self) -> None:
        while not self._done.wait(_INTERVAL):
            frame = sys._current_frames().get(self._watched)
            if frame is not None:
                self.stacks[self._stack(frame)] += 1

    def _stack(self, frame: FrameType | None) -> Stack:
        calls = []
        while frame is not None and frame.f_code.co_name != _ROOT:
            code, frame = frame.f_code, frame.f_back
            name = self._names.get(code)
            if name is None:
                name = self._names[code] = f"{code.co_qualname} ({_shortened(code.co_filename)})"
            # Five frames for each import say nothing that the module's own does not.
            if "<frozen importlib" not in name:
                calls.append(name)
        return tuple(reversed(calls))


def call_tree(stacks: Counter[Stack]) -> Call:
    """Stacks with how often each was seen, as a tree of calls.

    >>> call_tree(Counter({("a (x.py)", "b (x.py)"): 2, ("a (x.py)",): 1}))
    ['export', 3, 'onnxport', [['a (x.py)', 3, 'users', [['b (x.py)', 2, 'users', []]]]]]
    """
    root: Call = ["export", sum(stacks.values()), "onnxport", []]
    index: dict[Stack, Call] = {(): root}
    for stack, count in sorted(stacks.items()):
        for depth in range(1, len(stack) + 1):
            way = stack[:depth]
            call = index.get(way)
            if call is None:
                call = index[way] = [way[-1], 0, _kind(way[-1]), []]
                inner = index[way[:-1]][3]
                assert isinstance(inner, list)
                inner.append(call)
            seen = call[1]
            assert isinstance(seen, int)
            call[1] = seen + count
    return root


def flame_page(model_name: str, stacks: Counter[Stack]) -> str:
    """The flame graph as a page of its own."""
    key = "".join(f'<span class="call key {kind}"></span>{words}' for kind, words in _KINDS.items())
    return page(
        f"{model_name}: where the time went",
        [
            f"<h1>{escape(model_name)}: where the time of the export went</h1>",
            f'<p class="quiet">{sum(stacks.values())} samples, one each {_INTERVAL * 1000:g} ms, the outermost call on '
            "top. A profiler that counts calls ran beside, which makes small Python functions look larger than they "
            f"are. Click a call to give it the whole width.</p><p>{key}</p>",
            flame_view(call_tree(stacks)),
        ],
    )


def _shortened(filename: str) -> str:
    for marker in ("site-packages" + os.sep, os.sep + "src" + os.sep):
        if marker in filename:
            return filename.rsplit(marker, 1)[1]
    return filename if filename.startswith("<") else os.sep.join(filename.split(os.sep)[-2:])


def _kind(name: str) -> str:
    place = name.rpartition("(")[2]
    for kind in ("onnxport", "torch", "sympy"):
        if place.startswith(f"{kind}{os.sep}"):
            return kind
    return "runtime" if place.startswith("onnx") else "users"
