"""Marks: what a capture says of a call in the FX graph that its operator does not say.

They stand in ``node.meta["custom"]``, torch's place for such notes: tracing, functionalizing, decomposing and saving a
program keep them, and running it ignores them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.fx.traceback

COUNTED_LOOP = "onnxport.counted_loop"
"""Of a ``scan``: it runs over the numbers of its iterations, 0, 1, 2 and so on, and any number of times, even none."""


@contextlib.contextmanager
def marking(mark: str, on: bool = True) -> Iterator[None]:
    """While the block runs, calls that are captured get a mark, or, if ``on`` is false, not this one.

    It takes effect where metadata of nodes is kept (``torch.fx.traceback.preserve_node_meta``).
    """
    meta = torch.fx.traceback.current_meta
    before = meta.get("custom")
    marks = {key: value for key, value in (before if before is not None else {}).items() if key != mark}
    meta["custom"] = {**marks, mark: True} if on else marks
    try:
        yield
    finally:
        if before is None:
            del meta["custom"]
        else:
            meta["custom"] = before


def is_marked(call: torch.fx.Node | None, mark: str) -> bool:
    """Whether a call has a mark."""
    return call is not None and bool((call.meta.get("custom") or {}).get(mark))
