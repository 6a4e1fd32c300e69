"""Tensors made, joined, taken apart and seen in another shape."""

from onnxport.aten.shapes import create, join, pad, rearrange, view

__all__ = ["create", "join", "pad", "rearrange", "view"]
