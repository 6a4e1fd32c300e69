"""What convolutions and pools demand of sizes: eager raises where no window fits into the image."""

from __future__ import annotations

from collections.abc import Iterator

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.capture.diagnosis.zero_sizes import zero_allowed

_WINDOWED = tuple(
    getattr(torch.ops.aten, name).default
    for name in (
        *(f"conv{axes}d" for axes in (1, 2, 3)),
        *(f"max_pool{axes}d" for axes in (1, 2, 3)),
        *(f"avg_pool{axes}d" for axes in (1, 2, 3)),
    )
)


def sizes_of_windows(graph: torch.fx.Graph) -> Iterator[sympy.Basic]:
    """That there is a window at least, for each axis over which a graph has one move, as far as sizes decide it."""
    seen: set[sympy.Basic] = set()
    for node in graph.nodes:
        if node.op != "call_function" or node.target not in _WINDOWED:
            continue
        for size in node.meta["val"].shape[2:]:
            if isinstance(size, torch.SymInt) and size.node.expr not in seen:
                seen.add(size.node.expr)
                yield sympy.Ge(zero_allowed(size), 1)
