"""Placeholders of a captured graph are made before the model runs, so no line of it has anything to do with them."""

from __future__ import annotations

import contextlib
from typing import Any

import torch.fx
from torch.fx.proxy import TracerBase

from onnxport.capture.patches.replacing import attributes_replaced


def placeholders_without_lines() -> contextlib.AbstractContextManager[None]:
    """While the block runs, torch does not look through the stack at each placeholder, of which a weight has one."""
    create = TracerBase.create_node

    def create_node(tracer: TracerBase, kind: str, *args: Any, **kwargs: Any) -> torch.fx.Node:
        if kind != "placeholder" or not tracer.record_stack_traces:
            return create(tracer, kind, *args, **kwargs)
        tracer.record_stack_traces = False
        try:
            return create(tracer, kind, *args, **kwargs)
        finally:
            tracer.record_stack_traces = True

    return attributes_replaced([(TracerBase, "create_node", create_node)])
