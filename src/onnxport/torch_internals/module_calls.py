"""Calls of modules while torch.export traces: the tracer keeps a stack of them, and forgets one that an error ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, MutableMapping
from typing import Any

import torch

__all__ = ["ended_by_errors"]


@contextlib.contextmanager
def ended_by_errors() -> Iterator[None]:
    """Where an error leaves the block, calls of modules that it ended are over for the tracer too."""
    stack = _stack()
    before = dict(stack)
    try:
        yield
    except BaseException:
        stack.clear()
        stack.update(before)
        raise


def _stack() -> MutableMapping[str, Any]:
    """The calls that are under way, as the tracer that has replaced ``torch.nn.Module.__call__`` keeps them."""
    call: Any = torch.nn.Module.__call__
    names = getattr(call, "__code__", None)
    cells = dict(zip(names.co_freevars if names else (), getattr(call, "__closure__", None) or (), strict=True))
    tracer = cells["self"].cell_contents if "self" in cells else None
    found: MutableMapping[str, Any] = getattr(tracer, "module_stack", {})
    return found
