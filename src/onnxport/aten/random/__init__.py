"""Random numbers."""

from onnxport.aten.random import draws

__all__ = ["draws"]
