"""Pieces of HTML pages that need nothing beside themselves: the page around them, a view of a graph, a flame graph."""

from onnxport.rendering.graph_data import graph_data
from onnxport.rendering.page import graph_view, page, table

__all__ = ["graph_data", "graph_view", "page", "table"]
