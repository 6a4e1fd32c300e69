"""Fusions: what one reader runs faster in another form, written late and only for a target that asks for it by name."""

from onnxport.fusions.table import FUSIONS, Fusion, fuse

__all__ = ["FUSIONS", "Fusion", "fuse"]
