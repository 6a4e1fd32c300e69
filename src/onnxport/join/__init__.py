"""Joining the ways through a model whose code decides in Python: one graph, with an If at each decision."""

from __future__ import annotations

from onnxport.join.joining import Condition, Side, join

__all__ = ["Condition", "Side", "join"]
