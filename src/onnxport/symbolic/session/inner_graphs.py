"""Graphs of a few calls that are made while one call is translated, and translated in its place.

They take the way of a model: made functional, taken apart as far as there is no translation, translated by the engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.events import EventLog
from onnxport.pipeline import functional_body
from onnxport.translate import REGISTRY, Builder, Int, Tensor
from onnxport.translate.engine import Engine


def prepare_inner(owner: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Bring a graph to calls without writes that have built-in translations, as far as they can be had."""
    return functional_body("the call", owner, REGISTRY.find, EventLog())


def translate_inner(op: Builder, owner: torch.fx.GraphModule, arguments: Sequence[Tensor | Int]) -> list[Tensor]:
    """Translate a prepared graph where ``op`` stands, with the built-in translations only."""
    body = op.body
    wanted = [node.meta["val"] for node in owner.graph.find_nodes(op="placeholder")]
    given = [
        op.cast(argument, fake.dtype) if isinstance(argument, Tensor) and isinstance(fake, torch.Tensor) else argument
        for argument, fake in zip(arguments, wanted, strict=True)
    ]
    try:
        return Engine(op, REGISTRY.find, owner, EventLog()).body(op, owner, given)
    finally:
        op.body = body
