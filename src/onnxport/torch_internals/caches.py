"""What torch keeps for the rest of the process with everything that is captured, and how much of it is let be."""

from __future__ import annotations

import collections
import contextlib
import linecache
from collections.abc import Iterator

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import graph_module
from torch.fx.experimental.symbolic_shapes import ShapeEnv

__all__ = ["MOST_SOURCES", "caches_bounded", "sources"]

MOST_SOURCES = 64
MOST_FAKE_CALLS = 20_000

_sources: collections.deque[str] = collections.deque()


def sources() -> list[str]:
    """The names of the sources that exports left for tracebacks, the oldest first."""
    return list(_sources)


@contextlib.contextmanager
def caches_bounded() -> Iterator[None]:
    """Forget, when the block ends, what blocks long before it left in torch's caches.

    Every ``GraphModule`` leaves its source, for tracebacks, every kind of call on fake tensors its result, and a
    capture of sizes that vary the answers to questions about them. The last few sources stay: programs that someone may
    look at have them.
    """
    before = set(graph_module._loader.eval_cache)
    try:
        yield
    finally:
        _sources.extend(key for key in graph_module._loader.eval_cache if key not in before)
        while len(_sources) > MOST_SOURCES:
            key = _sources.popleft()
            graph_module._loader.eval_cache.pop(key, None)
            linecache.cache.pop(key, None)
        if len(FakeTensorMode.cache) > MOST_FAKE_CALLS:
            FakeTensorMode.cache_clear()
        for method in vars(ShapeEnv).values():
            if hasattr(method, "cache_clear"):
                method.cache_clear()
